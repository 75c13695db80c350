"""Finds the numbers of a chapter's prose that no output of its notebook confirms.

Meant are numbers of three or more significant digits, in sentences, tables, mathematics and inline code alike, but not
those that name a section ("section 2.10"). Each must occur, rounded to the digits written, in an output of the
notebook, or be a year of the chapter's References, or stand with a reference in chapters/numbers.toml:

    [02_sinusoidal_by_hand]
    "27.3" = "Vaswani et al. 2017, table 2, the base model"

A translation has the entries of its original, and may have more of its own, below ["ja/02_sinusoidal_by_hand"].
"""

import html
import re
from decimal import Decimal
from typing import NamedTuple

import nbformat

from builder.chapter import ChapterError, book_root, chapter_name, notebook_path, read_chapter, read_toml
from builder.language import language_of, words

FENCED_CODE = re.compile(r"^ *(```+|~~~+).*?^ *\1[`~]* *$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"https?://[^\s)>\]]+|(?<=\]\()[^)\s]*")
ATTRIBUTE = r"""\s+[A-Za-z][\w:-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?"""
HTML_TAG = re.compile(rf"<!--.*?-->|</?[A-Za-z][A-Za-z0-9-]*(?:{ATTRIBUTE})*\s*/?>", re.DOTALL)
LABEL = r"^#+ \d+(?:\.\d+)+|\b(?:chapter|exercise|section)s?\s+\d+(?:\.\d+)+"  # and what the language has for it
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# A minus is a sign unless something stands right before it that could be subtracted from. Letters or digits right
# before or after make it a name (float32, 1a2b3c), further points a version (2.13.0); neither is a number.
NUMBER = re.compile(
    r"""
    (?P<sign>(?<![A-Za-z0-9_)\]}])-)?
    (?<![A-Za-z0-9_])(?<!\d\.)
    (?P<digits>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\.)\.\d+)
    (?:[eE](?P<e>[-+]?\d+)|\s*[×·]\s*10\s*\^\s*\{?\s*(?P<power>-?\d+)\s*\}?)?
    (?![A-Za-z0-9_]|\.\d)
    """,
    re.VERBOSE | re.ASCII,
)


class Number(NamedTuple):
    written: str
    value: Decimal
    step: Decimal  # what one unit of the last digit written is worth
    significant_digits: int
    is_integer: bool
    line: int

    def same_as(self, other):
        return (self.value, self.step, self.is_integer) == (other.value, other.step, other.is_integer)

    def confirmed_by(self, output):
        """An integer is confirmed by itself; others by an output, of as many decimals, that rounds to them."""
        if self.is_integer:
            return output.is_integer and output.value == self.value
        return output.step <= self.step and abs(output.value - self.value) <= self.step / 2


def find_numbers(text):
    """All numbers of a text, in plain notation, Python's or LaTeX's."""
    text = text.replace("−", "-")
    text = re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda found: "^" + unraised(found[0]), text)
    text = re.sub(r"(?<=\d)(?:\\,|\{,\}|_|\u2009|\u202f)(?=\d)", "", text)  # between groups of digits
    text = re.sub(r"\\(times|cdot)(?![A-Za-z])", "×", text)
    text = re.sub(r"\\[A-Za-z]+", " ", text)  # other commands of LaTeX, so that they do not touch digits
    return [as_number(found, text.count("\n", 0, found.start()) + 1) for found in NUMBER.finditer(text)]


def unraised(digits):
    return digits.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))


def as_number(found, line):
    digits = found["digits"].replace(",", "")
    whole, point, decimals = digits.partition(".")
    exponent = int(found["e"] or found["power"] or 0)
    significant = (whole + decimals).lstrip("0") if point else whole.strip("0")
    return Number(
        written=found[0],
        value=Decimal((found["sign"] or "") + digits).scaleb(exponent),
        step=Decimal(1).scaleb(exponent - len(decimals)),
        significant_digits=len(significant),
        is_integer=not point and not found["e"] and not found["power"],
        line=line,
    )


def emptied(found):
    """For re.sub: nothing but the line ends, so that what follows stays on its line."""
    return " " + "\n" * found[0].count("\n")


def prose_of(path):
    """The chapter's prose and its References, every line of the prose being on its line of the chapter's file."""
    lines = []
    for cell in read_chapter(path)[1]:
        if cell.type == "markdown":
            lines += [""] * (cell.lines[0] - 1 - len(lines)) + cell.source.split("\n")
    text = "\n".join(lines)
    for pattern in (FENCED_CODE, ADDRESS, HTML_TAG):
        text = pattern.sub(emptied, text)
    own = words(language_of(chapter_name(path)))
    list_of_references = re.compile(rf"^## {own.references} *$.*?(?=^##? |\Z)", re.MULTILINE | re.DOTALL)
    labels = re.compile(f"{LABEL}|{own.section}|{own.named_exercise}", re.MULTILINE | re.IGNORECASE)
    references = "\n".join(found[0] for found in list_of_references.finditer(text))
    return labels.sub(emptied, list_of_references.sub(emptied, text)), references


def output_text(path):
    """What the cells of the chapter's notebook print and show as text."""
    if not notebook_path(path).is_file():
        raise ChapterError(f"{notebook_path(path)} does not exist: run `make notebooks`.")
    notebook = nbformat.reads(notebook_path(path).read_text(encoding="utf-8"), as_version=4)
    texts = []
    for output in [output for cell in notebook.cells for output in cell.get("outputs", [])]:
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        data = output.get("data", {})
        texts += [data.get("text/plain", ""), html.unescape(HTML_TAG.sub(" ", data.get("text/html", "")))]
    return ANSI_COLOUR.sub("", "\n".join(texts))


def listed_numbers(root):
    """Of numbers.toml: for each chapter's name the numbers and where they are from."""
    file = root / "chapters" / "numbers.toml"
    return read_toml(file) if file.is_file() else {}


def problems(path):
    """A line for each number that nothing confirms, and for each entry of numbers.toml that is of no use."""
    prose, references = prose_of(path)
    outputs = find_numbers(output_text(path))
    years = [number.value for number in find_numbers(references) if number.is_integer and 1900 <= number.value < 2100]
    unconfirmed = [
        number
        for number in find_numbers(prose)
        if number.significant_digits >= 3
        and not any(number.confirmed_by(output) for output in outputs)
        and not (number.is_integer and number.value in years)
    ]
    result = []
    lists, name = listed_numbers(book_root(path)), chapter_name(path)
    listed = lists.get(name, {})
    if "/" in name:  # a translation: the entries of its original hold too, and need not all be used
        known = [number for written in lists.get(path.stem, {}) for number in find_numbers(written)[:1]]
        unconfirmed = [number for number in unconfirmed if not any(number.same_as(other) for other in known)]
    for written, reference in listed.items():
        number = (find_numbers(written) or [None])[0]
        if number is None or number.written != written.replace("−", "-") or not str(reference).strip():
            result.append(f'chapters/numbers.toml: "{written}" must be one number with a reference as its text.')
        elif not any(number.same_as(other) for other in unconfirmed):
            result.append(f'chapters/numbers.toml: "{written}" is not needed by {chapter_name(path)}: remove it.')
        unconfirmed = [other for other in unconfirmed if number is None or not number.same_as(other)]
    return result + [
        f"chapters/{chapter_name(path)}.md:{number.line}: {number.written} is in no output of the notebook "
        "(rounded to these digits), and not in chapters/numbers.toml."
        for number in unconfirmed
    ]
