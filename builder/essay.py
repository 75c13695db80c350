"""A question to be answered in one's own words. In the chapter it is two cells of text:

    metadata   essay: {id: "2.a", minutes: 5, points: 3}
    source     the question

    <details><summary>An answer</summary> … </details>     a model answer

The reader gets a heading, the question, and the answer folded away. A class gets a cell to write in instead of the
answer (classroom/assign.py), and the answer is for whoever marks it.
"""

import re
from dataclasses import replace

from builder import language
from builder.exercise import GENERATED, require_keys

KEYS = {"id": str, "minutes": int, "points": int}


def validated(cell, chapter_number):
    """The cell's essay metadata, refused with a place in the chapter when something is wrong with it."""
    data = cell.metadata["essay"]
    if cell.type != "markdown":
        raise cell.error("a question to answer in words is text, not a code cell.")
    require_keys(cell, "essay", KEYS, "a question")
    if not re.fullmatch(rf"{chapter_number}\.[a-z]", data["id"]):
        raise cell.error(
            f"the question's `id` is '{data['id']}'; expected chapter, point, a letter, such as '{chapter_number}.a'."
        )
    return data


def for_reader(cell, following, chapter_number):
    """Heading and question; `following` is the cell after it, its answer, which stays as it is."""
    data = validated(cell, chapter_number)
    if following is None or not is_answer(following):
        raise cell.error(f"the cell after question {data['id']} must be its answer: it begins with {summary(cell)}")
    answer(following)
    title = heading(data, language.words_for(cell))
    return [replace(cell, source=title, metadata=GENERATED, lines=cell.lines[:1]), cell]


def summary(cell):
    """How the answer begins in the language of this cell's chapter."""
    return f"<details><summary>{language.words_for(cell).answer}</summary>"


def is_answer(cell):
    return cell.type == "markdown" and cell.source.startswith(summary(cell))


def answer(cell):
    """The text of the answer without its fold."""
    begins, ends = f"{summary(cell)}\n\n", "\n\n</details>"
    whole = cell.source.startswith(begins) and cell.source.endswith(ends)
    text = cell.source.removeprefix(begins).removesuffix(ends).strip()
    if not whole or not text or "details>" in text:
        raise cell.error("an answer is one fold, with an empty line after its <summary> and one before </details>.")
    return text


def heading(data, words):
    title = words.own_words.format(id=data["id"])
    return f"**{title}** · {language.length(data['minutes'], words)} · {language.worth(data['points'], words)}"
