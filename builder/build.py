"""Executes a chapter's notebook and stores it, so that a rebuild of the same text gives the same bytes."""

import os
import re
import sys
import time
from copy import deepcopy

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from tqdm import tqdm

from builder.chapter import ChapterError, chapter_name, notebook_path, reader_cells, reader_notebook
from builder.files import write_if_changed

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What Python writes to stderr: /tmp/ipykernel_1/2.py:3: UserWarning: the text
WARNING = re.compile(r"^(?:.*ipykernel_.*:(?P<line>\d+): |.*?)(?P<text>\b\w*Warning\b.*)$", re.MULTILINE)


def build_all(paths, force=False, output=None, timeout=120):
    """Builds every chapter, prints a line for each, and returns whether all of them succeeded."""
    succeeded = True
    for path in paths:
        try:
            print(f"{chapter_name(path)}: {build(path, force, output, timeout)}", flush=True)
        except ChapterError as error:
            print(error, file=sys.stderr, flush=True)
            succeeded = False
    return succeeded


def build(path, force=False, output=None, timeout=120):
    """Builds one chapter into `output`, or the book's notebooks/, and says in a few words what was done."""
    started = time.perf_counter()
    target = output / f"{chapter_name(path)}.ipynb" if output else notebook_path(path)
    notebook = reader_notebook(path)
    if not force and is_current(target, notebook):
        return "is current, skipped (--force builds it anyway)"
    run(notebook, reader_cells(path), notebook_path(path).parent, chapter_name(path), timeout)
    changed = write_if_changed(target, nbformat.writes(notebook) + "\n")
    outcome = "written" if changed else "the same bytes as before"
    return f"{len(notebook.cells)} cells in {time.perf_counter() - started:.1f} s, {outcome}: {target}"


def is_current(target, notebook):
    """Whether the stored notebook has this fingerprint and these cells, each code cell with its count."""
    if not target.is_file():
        return False
    try:
        stored = nbformat.reads(target.read_text(encoding="utf-8"), as_version=4)
    except (ValueError, AttributeError, TypeError, nbformat.ValidationError):  # no notebook, as after a merge
        return False
    expected = deepcopy(notebook)
    number_cells(expected)
    for cell in stored.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    return stored == expected


def run(notebook, cells, folder, title, timeout):
    """Executes the notebook in place; `cells` are the same cells with their places in the chapter."""
    # The kernel of this environment, not one of the same name in the user's folder; sets print in one order.
    os.environ.update(JUPYTER_PREFER_ENV_PATH="1", PYTHONHASHSEED="0")
    folder.mkdir(parents=True, exist_ok=True)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=timeout,
        record_timing=False,
        force_raise_errors=True,
        extra_arguments=["--log-level=ERROR"],  # else each kernel says on the terminal that it talks over TCP
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    with client.setup_kernel():
        progress = tqdm(cells, desc=title, unit="cell", leave=False, disable=None)
        for index, cell in enumerate(progress):
            node = notebook.cells[index]
            try:
                client.execute_cell(node, index)
            except CellExecutionError as error:
                message = f"{error.ename}: {error.evalue}".removesuffix(": ")
                raise failure(cell, message, failing_line(error.traceback, node)) from None
            except CellTimeoutError:
                raise failure(cell, f"the cell ran for more than {timeout} s.") from None
            except DeadKernelError:
                raise failure(cell, "the kernel died in this cell.") from None
            if cell.type == "code":
                node.outputs = cleaned(node.outputs)
                refuse_warnings(cell, node)
    number_cells(notebook)


def failing_line(traceback, node):
    """The line of this cell that its traceback names last, counted from 1; its first line if none is named."""
    named = re.findall(r"Cell In\[(\d+)\], line (\d+)", ANSI_COLOUR.sub("", traceback))
    return ([1] + [int(line) for count, line in named if int(count) == node.execution_count])[-1]


def failure(cell, message, line=1):
    source = cell.source.split("\n")
    return cell.error(f"{message}\n    {source[min(line, len(source)) - 1].strip()}", line - 1)


def refuse_warnings(cell, node):
    for output in node.outputs:
        if output.output_type == "stream" and output.name == "stderr" and (found := WARNING.search(output.text)):
            raise failure(cell, found["text"], int(found["line"] or 1))


def cleaned(outputs):
    """Joins what was printed in pieces; drops the live views of widgets, which nobody can open from a file, and
    outputs that were nothing else, such as a progress bar."""
    result = []
    for output in outputs:
        last = result[-1] if result else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
            continue
        if "data" in output:
            if output.data.pop(WIDGET_VIEW, None) is not None and not output.data:
                continue
        result.append(output)
    return result


def number_cells(notebook):
    """Execution counts from 1, also for cells without code that runs: nbval compares nothing in a cell without one."""
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code_cells, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
