"""One exercise. In the chapter it is one solved code cell:

    metadata   exercise: {id: "2.1", minutes: 8, difficulty: 1 to 3, points: 2}
    source     what the reader is given, the solution between two marks, and mostly a last line check("2.1", answer)

The reader gets a heading, the stub, which is the cell with `...` in place of the solution, and the solution folded
away. Hints are text: a cell right after the exercise that begins with <details>, one fold a hint.
"""

from dataclasses import replace
from typing import NamedTuple

from jupytext.cell_to_text import three_backticks_or_more

from builder import language

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
PLACEHOLDER = "...  # your code here"
KEYS = {"id": str, "minutes": int, "difficulty": int, "points": int}
GENERATED = {"book": {"generated": True}}


class Exercise(NamedTuple):
    id: str
    metadata: dict  # what stands below `exercise`
    solved: str  # the source with marks and solution
    stub: str
    line: int  # of the chapter's file


def has_marks(source):
    return any(line.strip() in (BEGIN, END) for line in source.split("\n"))


def split_at_marks(cell):
    """Line numbers of the cell's source in turn outside and inside of the marks: [outside, block, outside, ...]."""
    parts = [[]]
    for number, line in enumerate(cell.source.split("\n")):
        inside = len(parts) % 2 == 0
        if line.strip() == (BEGIN if inside else END):
            raise cell.error(f"this mark does not fit: '{BEGIN}' and '{END}' take turns.", number)
        if line.strip() == BEGIN:
            parts.append([])
        parts[-1].append(number)
        if line.strip() == END:
            parts.append([])
    if len(parts) == 1:
        raise cell.error(f"the exercise has no solution between '{BEGIN}' and '{END}'.")
    if len(parts) % 2 == 0:
        raise cell.error(f"this '{BEGIN}' has no '{END}'.", parts[-1][0])
    return parts


def validated(cell, chapter_number):
    """The cell's exercise metadata, refused with a place in the chapter when something is wrong with it."""
    data = cell.metadata["exercise"]
    if cell.type != "code":
        raise cell.error("an exercise is a code cell, not text.")
    require_keys(cell, "exercise", KEYS, "an exercise")
    if not data["id"].startswith(f"{chapter_number}."):
        raise cell.error(f"exercise {data['id']} stands in chapter {chapter_number}: its id must begin with it.")
    if data["difficulty"] not in (1, 2, 3):
        raise cell.error(f"the exercise's `difficulty` is {data['difficulty']}; expected 1, 2 or 3.")
    return data


def require_keys(cell, entry, keys, one):
    """Refuses metadata that has not just these keys, with values of their types; `one` is such as "an exercise"."""
    data, the = cell.metadata[entry], f"the {one.split()[-1]}"
    if not isinstance(data, dict):
        raise cell.error(f"`{entry}` holds {data!r}; expected the keys {', '.join(keys)}.")
    for key in keys:
        if key not in data:
            raise cell.error(f"{the} has no `{key}`.")
    for key, value in data.items():
        if key not in keys:
            raise cell.error(f"{one} has no key `{key}`; it may have {', '.join(keys)}.")
        if type(value) is not keys[key]:
            raise cell.error(f"{the}'s `{key}` is {value!r}; expected {keys[key].__name__}.")
    if data["minutes"] < 1 or data["points"] < 0:
        raise cell.error(f"{the}'s `minutes` must be at least 1, its `points` at least 0.")


def for_reader(cell, chapter_number):
    """Heading, stub, and the folded solution."""
    data, words = validated(cell, chapter_number), language.words_for(cell)
    return [
        replace(cell, type="markdown", source=heading(data, words), metadata=GENERATED, lines=cell.lines[:1]),
        stub(cell),
        replace(cell, type="markdown", source=folded(cell, words), metadata=GENERATED, lines=cell.lines[:1]),
    ]


def heading(data, words):
    title = words.exercise.format(id=data["id"])
    difficulty = words.difficulty.format(circles="●" * data["difficulty"] + "○" * (3 - data["difficulty"]))
    minutes, points = language.length(data["minutes"], words), language.worth(data["points"], words)
    return f"**{title}** · {minutes} · {difficulty} · {points}"


def stub(cell):
    """The cell with each marked block replaced by one line; every line still knows its place in the chapter."""
    source, lines = [], []
    for index, part in enumerate(split_at_marks(cell)):
        inside = index % 2 == 1
        for number in part[:1] if inside else part:
            text = cell.source.split("\n")[number]
            source.append(text.replace(BEGIN, PLACEHOLDER).rstrip() if inside else text)
            lines.append(cell.lines[number])
    return replace(cell, source="\n".join(source), lines=lines)


def folded(cell, words):
    # The blank lines make Markdown inside of the HTML render.
    code = [line for line in cell.source.split("\n") if line.strip() not in (BEGIN, END)]
    code = "\n".join(line for line in code if not line.startswith("check(")).strip("\n").split("\n")
    fence = three_backticks_or_more(code)
    solution = "\n".join([f"{fence}python", *code, fence])
    return f"<details><summary>{words.solution}</summary>\n\n{solution}\n\n</details>"
