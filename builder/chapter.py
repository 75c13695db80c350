"""A chapter: its text as cells, and the notebook that a reader gets from it, not yet executed."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml
from jupytext.myst import MystMetadataParsingError, myst_to_notebook, notebook_to_myst

from builder import essay, exercise, language, publish

# What GitHub and nbval need to know; no version, which would differ between machines.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FIRST_CELL = Path(__file__).with_name("first_cell.py")


class ChapterError(Exception):
    """What is wrong, where, and what to do, for a contributor to read."""


@dataclass
class Cell:
    file: str  # such as chapters/02_sinusoidal_by_hand.md
    lines: list[int]  # for each line of the source, its line in that file
    type: str
    source: str
    metadata: dict
    origin: int | None = None  # in a reader's notebook: the number of the chapter's cell it was made from

    def place(self, line=0):
        return f"{self.file}:{self.lines[min(line, len(self.lines) - 1)]}"

    def error(self, message, line=0):
        return ChapterError(f"{self.place(line)}: {message}")

    @property
    def generated(self):
        return self.metadata.get("book") == {"generated": True}


def book_root(path):
    """The folder of the book that a path lies in."""
    for folder in [path.resolve(), *path.resolve().parents]:
        if (folder / "book.toml").is_file():
            return folder
    raise ChapterError(f"{path.resolve()} is not inside the book: neither it nor a folder above it holds book.toml.")


def files_below(folder, pattern):
    """Sorted, without what JupyterLab keeps in hidden folders such as .ipynb_checkpoints."""
    found = sorted(folder.rglob(pattern))
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def chapter_paths(root):
    return files_below(root / "chapters", "*.md")


def chapter_name(path):
    """Such as 02_sinusoidal_by_hand, or ja/02_sinusoidal_by_hand for a translation."""
    return path.resolve().relative_to(book_root(path) / "chapters").with_suffix("").as_posix()


def notebook_path(path):
    return book_root(path) / "notebooks" / f"{chapter_name(path)}.ipynb"


def read_chapter(path, text=None):
    """The front matter of a chapter and its cells; `text` stands in for the file's."""
    file = f"chapters/{chapter_name(path)}.md"
    if not re.fullmatch(r"\d\d_\w+", path.stem):
        raise ChapterError(f"{file}: a chapter's name is two digits, an underline and a name.")
    try:
        language.words(language.language_of(file))
    except ValueError as error:
        raise ChapterError(f"{file}: {error}") from None
    text = path.read_text(encoding="utf-8") if text is None else text
    try:
        notebook = myst_to_notebook(text, add_source_map=True)
    except (MystMetadataParsingError, yaml.YAMLError) as error:
        raise ChapterError(f"{file}: {error}") from None
    starts = notebook.metadata.pop("source_map")
    notebook.metadata.pop("jupyter", None)  # jupytext's note of the language, which text_of gives it again
    if notebook.metadata.get("jupytext", {}).get("text_representation", {}).get("format_name") != "myst":
        raise ChapterError(f"{file}:1: the front matter must say format_name: myst, as the other chapters do.")
    text_lines, cells = text.split("\n"), []
    for node, start in zip(notebook.cells, starts, strict=True):
        # Between where jupytext says a cell starts and its source there may be metadata or blank lines.
        source = node.source.split("\n")
        first = next((n for n in range(start, len(text_lines)) if text_lines[n : n + len(source)] == source), start)
        lines = list(range(first + 1, first + 1 + len(source)))
        cells.append(Cell(file, lines, node.cell_type, node.source, dict(node.metadata), origin=len(cells)))
    return notebook.metadata, cells


def text_of(front_matter, cells):
    """The canonical text of a chapter."""
    notebook = nbformat.v4.new_notebook(metadata=front_matter, cells=[as_node(cell) for cell in cells])
    return notebook_to_myst(notebook, default_lexer="ipython3")


def read_toml(path):
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ChapterError(f"{path}: {error}") from None


def address(root):
    try:
        return publish.address_of(read_toml(root / "book.toml"))
    except ValueError as error:
        raise ChapterError(f"book.toml: {error}") from None


def first_cell(root):
    book, source = address(root), FIRST_CELL.read_text(encoding="utf-8").rstrip("\n")
    for key, value in (("REPOSITORY", book.repository), ("TAG", book.tag)):
        source = source.replace(f'\n{key} = ""\n', f"\n{key} = {json.dumps(value)}\n")
    lines = list(range(1, source.count("\n") + 2))
    folded = {"jupyter": {"source_hidden": True}}  # JupyterLab shows its first line; a click opens it
    return Cell("builder/first_cell.py", lines, "code", source, exercise.GENERATED | folded)


def badge(path):
    """The cell that opens the chapter in Colab, in a list; none while the book stands where Colab cannot open it."""
    root = book_root(path)
    text = publish.badge_text(address(root), chapter_name(path), [chapter_name(other) for other in chapter_paths(root)])
    return [] if text is None else [Cell("book.toml", [1], "markdown", text, exercise.GENERATED)]


def reader_cells(path, text=None):
    """The cells a reader gets: the chapter's, the first cell added, each exercise as heading, stub and solution.

    A question to answer in words gets a heading too; its answer is the chapter's own folded cell.
    """
    _, cells = read_chapter(path, text)
    number, found, result, solution = int(path.stem[:2]), set(), badge(path), []
    for cell, before, following in zip(cells, [None, *cells], [*cells[1:], None], strict=False):
        if cell.type == "code" and not any(made.type == "code" for made in result):
            result.append(first_cell(book_root(path)))
        if "essay" in cell.metadata:
            result += [*solution, *essay.for_reader(cell, following, number)]
            solution = []
            if cell.metadata["essay"]["id"] in found:
                raise cell.error(f"there are two questions {cell.metadata['essay']['id']} in this chapter.")
            found.add(cell.metadata["essay"]["id"])
        elif essay.is_answer(cell) and (before is None or "essay" not in before.metadata):
            raise cell.error("an answer stands right after its question, a cell of text with `essay` metadata.")
        elif "exercise" in cell.metadata:
            *given, answer = exercise.for_reader(cell, number)
            result += [*solution, *given]
            solution = [answer]
            if cell.metadata["exercise"]["id"] in found:
                raise cell.error(f"there are two exercises {cell.metadata['exercise']['id']} in this chapter.")
            found.add(cell.metadata["exercise"]["id"])
        elif cell.type == "code" and exercise.has_marks(cell.source):
            raise cell.error("a cell with a marked solution needs `exercise` metadata, or readers see the solution.")
        elif cell.type == "markdown" and cell.source.startswith("<details>"):   # hints stand before the solution
            result += [cell, *solution]
            solution = []
        else:
            result += [*solution, cell]
            solution = []
    return [*result, *solution]


def exercises(path):
    """The chapter's exercises, solved and as stubs."""
    _, cells = read_chapter(path)
    stubs = {made.origin: made.source for made in reader_cells(path) if "exercise" in made.metadata}
    return [
        exercise.Exercise(data["id"], data, cell.source, stubs[index], cell.lines[0])
        for index, cell in enumerate(cells)
        if (data := cell.metadata.get("exercise"))
    ]


def as_node(cell, **identity):
    make = getattr(nbformat.v4, f"new_{cell.type}_cell")  # code, markdown or raw
    return make(cell.source, metadata=nbformat.from_dict(cell.metadata), **identity)


def cell_ids(name, cells):
    """Made from the content, so that a rebuild keeps them; the counter tells cells with the same content apart."""
    contents = [(name, cell.type, cell.source) for cell in cells]
    counted = [(*content, contents[:index].count(content)) for index, content in enumerate(contents)]
    return [sha256(json.dumps(content))[:12] for content in counted]


def reader_notebook(path):
    cells = reader_cells(path)
    ids = cell_ids(chapter_name(path), cells)
    nodes = [as_node(cell, id=id) for cell, id in zip(cells, ids, strict=True)]
    metadata = nbformat.from_dict(METADATA | {"book": {"fingerprint": fingerprint(path)}})
    return nbformat.from_dict({"cells": nodes, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def fingerprint(path):
    """What a notebook's pictures depend on: a hash of the chapter's text, one of the first cell and the library.

    Not the address and tag, which are stamped into a notebook without executing it.
    """
    root = book_root(path)
    library = [FIRST_CELL.read_text(encoding="utf-8")]
    for file in files_below(root / "posenc_lib", "*.py"):
        library += [file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")]
    return f"{sha256(path.read_text(encoding='utf-8'))[:16]}-{sha256(json.dumps(library))[:16]}"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()
