"""Stamps the address and tag of book.toml into notebooks and README.md: a fork is one edit there and this.

Nothing is executed, and every stored output stays.
"""

import nbformat

from builder.build import number_cells
from builder.chapter import ChapterError, address, chapter_name, chapter_paths, notebook_path, reader_notebook
from builder.exercise import GENERATED
from builder.files import write_if_changed
from builder.publish import BADGE_BEGINS, stamped_readme


def stamp(root):
    """Writes all that is out of date and returns a line for each file; refuses, and writes nothing, if one is stale."""
    made, refusals = {}, []
    paths = chapter_paths(root)
    for path in paths:
        notebook = notebook_path(path)
        try:
            stored = nbformat.reads(notebook.read_text(encoding="utf-8"), as_version=4)
            made[notebook] = nbformat.writes(stamped(stored, reader_notebook(path))) + "\n"
        except (OSError, ValueError) as error:
            refusals.append(f"{notebook.relative_to(root)}: {error}")
    try:
        readme = (root / "README.md").read_text(encoding="utf-8")
        made[root / "README.md"] = stamped_readme(readme, address(root), [chapter_name(path) for path in paths])
    except (OSError, ValueError) as error:
        refusals.append(f"README.md: {error}")
    if refusals:
        raise ChapterError("\n".join([*refusals, "Nothing was stamped."]))
    return [f"stamped: {file.relative_to(root)}" for file, text in made.items() if write_if_changed(file, text)]


def stamped(stored, expected):
    """The expected notebook with the stored outputs; `ValueError` if more than first cell and badge has changed."""
    kept, wanted = ([cell for cell in notebook.cells if not is_stamped(cell)] for notebook in (stored, expected))
    if [(cell.cell_type, cell.source) for cell in kept] != [(cell.cell_type, cell.source) for cell in wanted]:
        raise ValueError("its cells are not the chapter's: run `make notebooks` first.")
    if stored.metadata.get("book") != expected.metadata.book:
        raise ValueError("it was built from another text or library: run `make notebooks` first.")
    for old, new in zip(kept, wanted, strict=True):
        if new.cell_type == "code":
            new.outputs = old.outputs
    number_cells(expected)
    return expected


def is_stamped(cell):
    is_first_cell_or_badge = cell.cell_type == "code" or cell.source.startswith(BADGE_BEGINS)
    return cell.metadata.get("book") == GENERATED["book"] and is_first_cell_or_badge
