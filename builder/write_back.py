"""Carries cells that were edited in a notebook back into the chapter's text, or refuses and writes nothing.

Sources and order go back. Outputs and metadata of cells do not: metadata is edited in the chapter.
"""

import difflib
import itertools

import nbformat

from builder import exercise
from builder.chapter import (
    Cell,
    ChapterError,
    book_root,
    cell_ids,
    chapter_name,
    fingerprint,
    read_chapter,
    reader_cells,
    text_of,
)
from builder.files import write_if_changed


def write_back(notebook_file):
    """Writes the chapter of this notebook anew if cells were edited; returns a line for each change."""
    path = chapter_of(notebook_file)
    try:
        stored = nbformat.reads(notebook_file.read_text(encoding="utf-8"), as_version=4)
    except ValueError as error:
        raise ChapterError(f"{notebook_file} cannot be read as a notebook: {error}") from None
    built_from = stored.metadata.get("book", {}).get("fingerprint", fingerprint(path))
    if built_from.split("-")[0] != fingerprint(path).split("-")[0]:
        raise ChapterError(
            f"{notebook_file}: the text of the chapter was changed after this notebook was built, so going back would "
            "undo that change. Take your edits over by hand."
        )
    front_matter, cells = read_chapter(path)
    made = reader_cells(path)
    origins = match(stored.cells, made, cell_ids(chapter_name(path), made))

    kept, changes, refusals = [], [], missing_generated(made, origins)
    for node, origin in zip(stored.cells, origins, strict=True):
        try:
            found, change = carried(node, origin, cells, f"chapters/{chapter_name(path)}.md")
        except ChapterError as error:
            refusals.append(str(error))
        else:
            kept += found
            changes += change
    if refusals:
        raise ChapterError("\n".join([*refusals, "Nothing was written."]))
    changes += removed_or_moved(cells, kept)
    if changes:
        text = text_of(front_matter, kept)
        check_reading(path, text, kept)
        write_if_changed(path, text)
    return changes


def chapter_of(notebook_file):
    root = book_root(notebook_file)
    try:
        name = notebook_file.resolve().relative_to(root / "notebooks").with_suffix(".md")
    except ValueError:
        raise ChapterError(f"{notebook_file} is not one of the notebooks in {root / 'notebooks'}.") from None
    path = root / "chapters" / name
    for needed in (path, notebook_file):
        if not needed.is_file():
            raise ChapterError(f"{needed} does not exist.")
    return path


def match(nodes, made, ids):
    """For each cell of the notebook the reader's cell it was, or None: by id, else the same, else a similar one."""
    unclaimed = dict(zip(ids, made, strict=True))
    origins = [unclaimed.pop(node.get("id"), None) for node in nodes]
    for likeness in (1.0, 0.6):
        for number in [number for number, origin in enumerate(origins) if origin is None]:
            sources = {cell.source: id for id, cell in unclaimed.items() if cell.type == nodes[number].cell_type}
            for similar in difflib.get_close_matches(nodes[number].source, sources, n=1, cutoff=likeness):
                origins[number] = unclaimed.pop(sources[similar])
    return origins


def carried(node, origin, cells, file):
    """What stands in the chapter for one cell of the notebook, and what to say about it: lists of one or nothing."""
    source = node.source.strip("\n").rstrip()
    title = f"{node.cell_type} cell '{source[:50].splitlines()[0] if source else ''}'"
    if node.get("attachments"):
        raise ChapterError(f"{title}: a picture that was pasted in cannot go into the chapter's text.")
    if origin is None:
        if node.metadata.keys() & {"exercise", "essay", "book"}:
            raise ChapterError(
                f"{title}: a copy of a cell the builder makes; exercises and questions are written in {file}."
            )
        return ([Cell(file, [0], node.cell_type, source, {})], [f"new: {title}"]) if source else ([], [])
    if (source, node.cell_type) == (origin.source.strip("\n").rstrip(), origin.type):
        return ([] if origin.generated else [cells[origin.origin]], [])
    if origin.generated:
        raise ChapterError(f"{title}: {where_to_edit(origin)}")
    cell = cells[origin.origin]
    if "exercise" in cell.metadata:
        source = solved(node, origin, cell)
    elif not source:
        return [], []  # an emptied cell is a removed one
    edited = Cell(file, cell.lines, node.cell_type, source, cell.metadata, cell.origin)
    return [edited], [f"changed: {cell.place()}, {title}"]


def where_to_edit(origin):
    if origin.origin is None and origin.type == "markdown":
        return "the badge is made by builder/publish.py from book.toml; edit it there."
    if origin.origin is None:
        return "the first code cell is made from builder/first_cell.py and book.toml; edit it there."
    return f"this cell is made from the exercise at {origin.place()}; edit it there."


def solved(node, stub, cell):
    """The solved cell with the edits that were made to its stub around the placeholders."""
    refusal = cell.error(
        f"exercise {cell.metadata['exercise']['id']} was answered in the notebook, or edited right beside the line "
        f"'{exercise.PLACEHOLDER}'. The solution and the lines next to it are edited here, in the chapter."
    )
    (before, marks), (after, marks_now) = around_placeholders(stub.source), around_placeholders(node.source)
    if node.cell_type != "code" or marks != marks_now:
        raise refusal
    for number in range(len(marks)):
        if last_line(before[number]) != last_line(after[number]):
            raise refusal
        if first_line(before[number + 1]) != first_line(after[number + 1]):
            raise refusal
    lines = cell.source.split("\n")
    blocks = [[lines[number] for number in part] for part in exercise.split_at_marks(cell)[1::2]]
    parts = [part for pair in zip(after, [*blocks, []], strict=True) for part in pair]
    return "\n".join(line for part in parts for line in part).rstrip()


def around_placeholders(source):
    """The lines before, between and after the placeholders, and the placeholders as they stand there."""
    parts, placeholders = [[]], []
    for line in source.split("\n"):
        if line.strip() == exercise.PLACEHOLDER:
            placeholders.append(line)
            parts.append([])
        else:
            parts[-1].append(line)
    return parts, placeholders


def first_line(lines):
    return next((line for line in lines if line.strip()), None)


def last_line(lines):
    return first_line(reversed(lines))


def missing_generated(made, origins):
    """A refusal for each cell of the builder's that was deleted from the notebook without its exercise."""
    deleted = [cell for cell in made if not any(cell is origin for origin in origins)]
    deleted_exercises = [cell.origin for cell in deleted if not cell.generated]
    return [
        f"a deleted cell: {where_to_edit(cell)}"
        for cell in deleted
        if cell.generated and cell.origin not in deleted_exercises
    ]


def removed_or_moved(cells, kept):
    order = [cell.origin for cell in kept if cell.origin is not None]
    blocks = difflib.SequenceMatcher(None, sorted(order), order, autojunk=False).get_matching_blocks()
    in_place = [origin for block in blocks for origin in order[block.b : block.b + block.size]]
    removed = [f"removed: {cell.place()}" for cell in cells if cell.origin not in order]
    return removed + [f"moved: {cells[origin].place()}" for origin in order if origin not in in_place]


def check_reading(path, text, kept):
    """Refuses what the chapter's format cannot hold, such as a line of +++ within a cell, before it is mangled."""
    _, found = read_chapter(path, text)
    for cell, again in itertools.zip_longest(kept, found):
        if cell is None or again is None or (cell.type, cell.source) != (again.type, again.source):
            wrong = cell or again
            raise ChapterError(
                f"the {wrong.type} cell that begins '{wrong.source[:50]}' cannot stand in a chapter as it is: a line "
                "+++ or a fence in it would be read as the start of another cell. Nothing was written."
            )
    reader_cells(path, text)
