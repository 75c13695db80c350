"""The builder's own words in each language, and what a translation of a chapter must keep.

A chapter in `chapters/` is English, the original; `chapters/ja/02_name.md` is its Japanese translation, and becomes
`notebooks/ja/02_name.ipynb`. Prose, comments and texts in the code are translated; the code is the same. Another
language is one more entry of WORDS and a folder.

What the library says stays English in every language: what `check` and `solved` answer, the explorers' labels, lines
and alternative texts, the maps of the doors, and error messages. A translation explains them in its prose.
"""

import ast
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

ORIGINAL = "en"


@dataclass(frozen=True)
class Words:
    """The builder's words in one language."""

    exercise: str  # with {id}
    minute: str  # one minute
    minutes: str  # several, with {number}
    difficulty: str  # with {circles}
    point: str  # one point
    points: str  # none or several, with {number}
    solution: str
    own_words: str  # above a question to be answered in words, with {id}
    answer: str  # the model answer's fold
    references: str  # the heading of a chapter's list of literature
    # Patterns of how prose names things; each has one group, the number or numbers. None of them names a paper's.
    chapter: str
    section: str
    named_exercise: str
    equation: str


LIST = r"\d+{part}(?:(?:,| and| or| to|, and|–|、|と|から)\s*\d+{part})*"
WHOLE, PARTS = LIST.format(part=r"(?![.]?\d)"), LIST.format(part=r"\.\d+")

WORDS = {
    "en": Words(
        exercise="Exercise {id}",
        minute="about 1 minute",
        minutes="about {number} minutes",
        difficulty="difficulty {circles}",
        point="1 point",
        points="{number} points",
        solution="A solution",
        own_words="In your own words {id}",
        answer="An answer",
        references="References",
        chapter=rf"\b[Cc]hapters?\s+({WHOLE})",
        section=rf"\b[Ss]ections?\s+({PARTS})",
        named_exercise=rf"\b[Ee]xercises?\s+({PARTS})",
        equation=r"\b[Ee]quations?\s+\((\d+(?:\.\d+)?)\)",
    ),
    "ja": Words(
        exercise="演習 {id}",
        minute="約 1 分",
        minutes="約 {number} 分",
        difficulty="難易度 {circles}",
        point="1 点",
        points="{number} 点",
        solution="解答例",
        own_words="自分の言葉で {id}",
        answer="答えの例",
        references="参考文献",
        chapter=rf"第\s*({WHOLE})\s*章",
        section=rf"(?:第\s*)?(?<![\d.])({PARTS})\s*節",
        named_exercise=rf"(?:演習|問題)\s*({PARTS})",
        equation=r"式\s*[(（](\d+(?:\.\d+)?)[)）]",
    ),
}


def language_of(file):
    """Of a chapter's file or name, such as chapters/ja/02_name.md or ja/02_name: its folder; English without one."""
    folders = [part for part in PurePosixPath(file).parts[:-1] if part != "chapters"]
    return "/".join(folders) or ORIGINAL


def words(language):
    """The builder's words in this language.

    Raises: `ValueError` if builder/language.py has none; it says which are wanted.
    """
    if language not in WORDS:
        wanted = ", ".join(field.name for field in fields(Words))
        raise ValueError(
            f"the builder has no words for the language '{language}', only for {', '.join(WORDS)}. Add an entry "
            f"'{language}' to WORDS in builder/language.py with these: {wanted}."
        )
    return WORDS[language]


def words_for(cell):
    """The words for the language of the chapter that this cell stands in."""
    return words(language_of(cell.file))


def length(number, words):
    """Such as "about 8 minutes"."""
    return words.minute if number == 1 else words.minutes.format(number=number)


def worth(number, words):
    """Such as "2 points"."""
    return words.point if number == 1 else words.points.format(number=number)


def what_runs(source):
    """The code of a cell without what may be translated, to be compared: comments, and texts but for those that
    `check` is called with, which name an exercise. Code that Python cannot read, such as `%magic`, stays as it is."""
    try:
        return ast.dump(WithoutTexts().visit(ast.parse(source)))
    except SyntaxError:
        return source


class WithoutTexts(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "check":
            kept = [each for each in node.args if isinstance(each, ast.Constant)]
            node.args = [each if each in kept else self.visit(each) for each in node.args]
            return node
        return self.generic_visit(node)

    def visit_JoinedStr(self, node):
        # Another language has another order of words: what is filled in counts, not where.
        filled = [ast.dump(self.visit(part)) for part in node.values if isinstance(part, ast.FormattedValue)]
        return ast.Constant(" ".join(sorted(filled)))

    def visit_FormattedValue(self, node):
        node.value = self.visit(node.value)  # the format is no text: {loss:.3f}
        return node


def differences(original, translation):
    """A line for each way in which a translation's code or exercises are not the original's; both are cells of a
    chapter as `read_chapter` gives them."""
    old, new = ([cell for cell in cells if cell.type == "code"] for cells in (original, translation))
    result = [
        f"{mine.place()}: this cell differs from {theirs.place()} by more than its comments and texts."
        for theirs, mine in zip(old, new, strict=False)
        if what_runs(theirs.source) != what_runs(mine.source)
    ]
    result += [
        f"{mine.place()}: this cell's metadata is {mine.metadata}, that of {theirs.place()} is {theirs.metadata}."
        for theirs, mine in zip(old, new, strict=False)
        if theirs.metadata != mine.metadata
    ]
    essays, translated = ([cell for cell in cells if "essay" in cell.metadata] for cells in (original, translation))
    if [cell.metadata for cell in essays] != [cell.metadata for cell in translated]:
        named = [", ".join(str(cell.metadata["essay"]) for cell in cells) or "none" for cells in (essays, translated)]
        result.append(f"{translation[0].file}: the questions to answer in words are {named[1]}; expected {named[0]}.")
    for cell in old[len(new) :]:
        result.append(f"{cell.place()}: the translation has no such code cell.")
    for cell in new[len(old) :]:
        result.append(f"{cell.place()}: the original has no such code cell.")
    return result
