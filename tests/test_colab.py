"""Every chapter in a kernel with Colab's versions: it runs, says the same, and its explorers move.

Only the kernel is Colab's. It is driven from the book's own environment: the client of that age loses messages.
"""
import inspect
import json
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from nbclient import NotebookClient

from builder.build import WIDGET_VIEW
from builder.chapter import chapter_paths, notebook_path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
NOTEBOOKS = [notebook_path(chapter) for chapter in chapter_paths(ROOT)]
KERNEL = "posenc-colab"
PINS = dict(line.split("==") for line in (ROOT / "requirements-colab.txt").read_text().split() if "==" in line)


def installed_versions(names):
    """Runs in the kernel."""
    from importlib.metadata import version

    return {name: version(name).split("+")[0] for name in names}          # 2.13.0+cpu is torch 2.13.0


def move_explorers(outputs):
    """Runs in the kernel: moves each control of each explorer among the outputs, and tells what came of it."""
    import re

    from posenc_lib.explorer import Explorer

    def picture_and_values(explorer):
        svg, _, values = explorer.moving.value.rpartition("</svg>")
        return re.sub('aria-label="[^"]*"', "", explorer.under.value + svg), values

    explorers = []
    for explorer in outputs:
        if not isinstance(explorer, Explorer):
            continue
        moves = []
        for name, control in explorer.controls.items():
            # Each is a change, and the last leaves much to see.
            if getattr(control, "options", None):
                values = [*(each for each in control.options if each != control.value), control.value]
            elif isinstance(control.value, str):
                values = ("dog bites man", "one two three four", "the cat sat down")
            elif isinstance(control.value, bool):
                values = (True, False, True)
            else:
                ends = (control.min, control.max) if control.value != control.min else (control.max, control.min)
                values = (*ends, control.max - control.step)
            for value in values:
                before = picture_and_values(explorer)
                control.value = value
                after = picture_and_values(explorer)
                moves.append({"move": f"{name} = {value}", "picture_changed": before[0] != after[0],
                              "values_changed": before[1] != after[1], "alert": "alert" in after[1]})
        sent = {widget.model_id: widget.value for widget in (explorer.under, explorer.moving)}
        explorers.append({"controls": list(explorer.controls), "moves": moves, "sent": sent})
    return explorers


@dataclass
class Executed:
    cells: list            # as executed here
    stored: list           # as built
    versions: dict
    explorers: list        # what move_explorers found
    widget_state: dict     # what the kernel has sent of its widgets

    def pairs(self):
        """Each code cell as executed and as built."""
        return [(new, old) for new, old in zip(self.cells, self.stored, strict=True) if new.cell_type == "code"]

    def explorer_outputs(self):
        return [output for cell, _ in self.pairs() for output in cell.outputs
                if output.get("data", {}).get("text/plain", "").startswith("Explorer with")]


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT / "notebooks")))
def chapter(request):
    require_kernel()
    notebook, stored = (nbformat.read(request.param, as_version=4) for _ in range(2))
    asked = [asking(installed_versions, list(PINS)), asking(move_explorers, "list(Out.values())")]
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in asked]
    client = NotebookClient(
        notebook, kernel_name=KERNEL, timeout=120, allow_errors=True, shutdown_kernel="immediate",
        extra_arguments=["--log-level=ERROR"], resources={"metadata": {"path": str(request.param.parent)}})
    client.execute()
    *cells, versions, explorers = notebook.cells
    return Executed(cells, stored.cells, answer(versions), answer(explorers), client.widget_state)


def require_kernel():
    try:
        python = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
    except NoSuchKernel:
        python = ""
    if not Path(python).is_file():
        pytest.fail(f"There is no kernel {KERNEL} in this environment: run `python3 tools/environment.py colab` first.")


def asking(function, argument):
    """The source of a cell that calls a function of this file in the kernel and prints its answer."""
    return f"import json\n\n{inspect.getsource(function)}\nprint(json.dumps({function.__name__}({argument})))"


def answer(cell):
    assert {output.output_type for output in cell.outputs} == {"stream"}, cell.outputs
    return json.loads("".join(output.text for output in cell.outputs))


def texts(cell):
    streams = {name: "".join(output.text for output in cell.outputs if output.get("name") == name)
               for name in ("stdout", "stderr")}
    return streams, [output.data["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {})]


def test_the_kernel_has_colabs_versions(chapter):
    assert {"ipywidgets", "ipython", "ipykernel", "numpy", "matplotlib"} < set(PINS)
    assert chapter.versions == PINS


def test_no_cell_fails(chapter):
    assert [output for cell, _ in chapter.pairs() for output in cell.outputs if output.output_type == "error"] == []


def test_texts_are_those_of_the_built_notebook(chapter):
    for new, old in chapter.pairs():
        assert texts(new) == texts(old), new.source


def test_each_explorer_shows_text_picture_and_live_view(chapter):
    outputs = chapter.explorer_outputs()
    assert len(outputs) == len(chapter.explorers)
    for output in outputs:
        assert set(output.data) == {"text/plain", "image/png", WIDGET_VIEW}
        assert output.data[WIDGET_VIEW]["model_id"] in chapter.widget_state


def test_explorers_move(chapter):
    for explorer in chapter.explorers:
        assert explorer["controls"] and len(explorer["moves"]) >= 3 * len(explorer["controls"])
        for move in explorer["moves"]:
            assert move["picture_changed"] and move["values_changed"] and not move["alert"], move
        for model, value in explorer["sent"].items():
            assert chapter.widget_state[model]["value"] == value


def test_the_chapters_have_explorers_to_try():
    pictured = [output for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells
                for output in cell.get("outputs", []) if "Explorer with" in str(output.get("data"))]
    assert len(pictured) >= 4
