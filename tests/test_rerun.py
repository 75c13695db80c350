"""A reader runs cells again, in any order: each must then show what it showed the first time."""
import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

from builder.chapter import chapter_paths, notebook_path

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = [notebook_path(chapter) for chapter in chapter_paths(ROOT)]


def shown(cell):
    """What a cell prints and shows as text; the kernel may send what is printed in pieces."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", "")
             for output in cell.outputs]
    return "".join(texts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT / "notebooks")))
def test_every_cell_can_be_run_again_after_the_last(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", extra_arguments=["--log-level=ERROR"],
                            resources={"metadata": {"path": path.parent}})
    with client.setup_kernel():
        for index in cells:
            client.execute_cell(notebook.cells[index], index)
        first = {index: shown(notebook.cells[index]) for index in cells}
        for index in reversed(cells):
            client.execute_cell(notebook.cells[index], index)
            if "nbval-ignore-output" not in notebook.cells[index].metadata.get("tags", []):
                assert shown(notebook.cells[index]) == first[index], notebook.cells[index].source


def test_there_are_notebooks():
    assert NOTEBOOKS
