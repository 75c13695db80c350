"""The notebooks as they are saved, without a kernel: valid, small, with a picture of each explorer.

nbconvert's page of each is opened from its file in a Chromium without a network, as JupyterLab's export is.
"""
import ast
import base64
import io
import itertools
import json
import shutil
from pathlib import Path

import nbformat
import pytest
from matplotlib import image
from nbconvert import HTMLExporter
from playwright.sync_api import sync_playwright

from tests.jupyter_browser import CHROMIUM, QUIET, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
NOTEBOOKS = [path for path in NOTEBOOKS if ".ipynb_checkpoints" not in path.parts]
BROKEN = ("model not found", "error displaying widget", "error creating widget", "traceback (most recent call last)")
pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT / "notebooks")))


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def makes_an_explorer(cell: nbformat.NotebookNode) -> bool:
    """Whether its last statement is a call of `Explorer` or of an `..._explorer`."""
    last = ast.parse(cell.source).body[-1:]
    if not last or not isinstance(last[0], ast.Expr) or not isinstance(last[0].value, ast.Call):
        return False
    called = ast.unparse(last[0].value.func).split(".")[-1]
    return called == "Explorer" or called.endswith("_explorer")


def explorers(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in code_cells(path) if makes_an_explorer(cell)]


def described(path: Path) -> list[str]:
    """What each picture shows, in words, from the output after it."""
    said = []
    for cell in code_cells(path):
        for output, after in itertools.pairwise([*cell.outputs, None]):
            if "image/png" in output.get("data", {}):
                alt = output.metadata["image/png"]["alt"]
                assert after is not None and after.data["text/plain"].removeprefix("At first: ") == alt, cell.source
                said.append(after.data["text/plain"])
    return said


def test_github_can_read_it(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert notebook["nbformat"] == 4
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert "widgets" not in notebook["metadata"]            # their state without their views is what GitHub refuses
    assert path.stat().st_size < 1_500_000


def test_nothing_in_it_waits_for_a_kernel(path):
    text = path.read_text(encoding="utf-8").lower()
    assert "widget-view" not in text and "widget-state" not in text
    assert [said for said in BROKEN if said in text] == []


def test_each_explorer_is_a_picture(path):
    for cell in explorers(path):
        pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(pictures) == 1, cell.source
        data = pictures[0].data
        assert data["text/plain"].startswith("Explorer with ")
        assert data["text/plain"].endswith(": run this cell to move it.")
        assert image.imread(io.BytesIO(base64.b64decode(data["image/png"]))).shape[1] > 1000


def test_each_picture_is_followed_by_its_words(path):
    assert all(len(words) > 20 for words in described(path))


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(CHROMIUM) or CHROMIUM, args=QUIET)
        yield browser
        browser.close()


def test_nbconverts_page_shows_it_all_without_a_network(path, browser, tmp_path):
    saved = tmp_path / f"{path.stem}.html"
    saved.write_text(HTMLExporter().from_filename(path)[0], encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    asked = []

    def refuse(route):
        asked.append(route.request.resource_type)
        route.abort()

    page.route(lambda address: not address.startswith(("file:", "data:")), refuse)
    page.goto(saved.as_uri(), wait_until="load")
    assert set(asked) <= {"script"}                         # for MathJax and require.js, never for a picture

    cells = page.locator(".jp-CodeCell")
    assert cells.count() == len(code_cells(path))
    for number, cell in enumerate(code_cells(path)):
        if makes_an_explorer(cell):
            width = cells.nth(number).locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)")
            assert width > 1000, cell.source
    assert page.locator("img").evaluate_all("all => all.every(image => image.complete && image.naturalWidth > 0)")
    text = page.locator("body").text_content()
    assert [said for said in BROKEN if said in text.lower()] == []
    assert [words for words in described(path) if words not in text] == []
    title = page.locator("h1").first
    assert title.is_visible() and title.text_content().strip("¶")
    page.close()
