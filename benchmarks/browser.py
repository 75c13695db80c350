"""Key press to new picture in a real JupyterLab in Chromium, for every slider of every explorer and for `interact`.

Measured in the page: from the `keydown` event to the frame after the new picture stands in the document; a PNG must
have been decoded by then, as SVG has to be for its frame.
"""
from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import median_and_spread, print_table, ratios, take_turns
from benchmarks.usual_way import sliders
from posenc_lib import explorers
from tests.jupyter_browser import CURRENT, ROOT, LiveExplorer, Notebook, jupyterlab

PAUSE = 300         # milliseconds before a press, so that the page has done with the one before
ROUNDS = 15
START = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from benchmarks.usual_way import usual_way
from posenc_lib import explorers

%matplotlib inline
"""
# Called with the output and what holds its picture; the answer is milliseconds from the next key to its picture.
WATCH = """
(output, selector) => {
    const picture = () => {
        const found = [...output.querySelectorAll(selector)];
        return found.map(element => element.src || element.innerHTML).join();
    };
    const before = picture();
    let began;
    output.addEventListener("keydown", () => { began = performance.now(); }, {capture: true, once: true});
    window.milliseconds = null;
    const observer = new MutationObserver(async () => {
        if (began === undefined || picture() === "" || picture() === before) return;
        observer.disconnect();
        await Promise.all([...output.querySelectorAll(selector)].map(element => element.decode && element.decode()));
        requestAnimationFrame(() => { window.milliseconds = performance.now() - began; });
    });
    observer.observe(output, {subtree: true, childList: true, attributes: true, attributeFilter: ["src"]});
}
"""


def run() -> None:
    with tempfile.TemporaryDirectory() as folder, jupyterlab(Path(folder)) as lab:
        notebook = lab.open("02_sinusoidal_by_hand")
        notebook.run(START)
        rows = [row for name in explorers.__all__ for row in explorer_rows(notebook, name)]
        if notebook.errors:
            raise RuntimeError(f"JavaScript errors: {notebook.errors}")
    print_table("From key press to new picture, in the page",
                ["explorer", "slider", "explorer", "interact", "times faster"], rows)


def explorer_rows(notebook: Notebook, name: str) -> list[list[str]]:
    show_ours, show_usual = f"explorers.{name}()", f"_ = usual_way(explorers.{name})"
    notebook.run(show_ours)
    notebook.run(show_usual)
    ours = notebook.explorer(show_ours)
    usual = LiveExplorer(notebook.cell(show_usual).locator(".jp-OutputArea-output").first)
    usual.output.locator("img").wait_for()
    rows = []
    for slider, keys in walks(name).items():
        results = take_turns({
            "ours": lambda number, slider=slider, keys=keys: press(ours, slider, keys[number + 1], "svg[role=img]"),
            "usual": lambda number, slider=slider, keys=keys: press(usual, slider, keys[number + 1], "img"),
        }, ROUNDS)
        rows.append([name.removesuffix("_explorer"), slider, median_and_spread(results["ours"], "ms"),
                     median_and_spread(results["usual"], "ms"),
                     median_and_spread(ratios(results["usual"], results["ours"]))])
    return rows


def walks(name: str) -> dict[str, list[str]]:
    """For each slider the keys that take it, step by step, from its start upwards and back."""
    walks = {}
    for control in sliders(getattr(explorers, name)()).values():
        choice = hasattr(control, "options")
        room = len(control.options) - 1 - control.index if choice else control.max - control.value
        there, back = ("ArrowRight", "ArrowLeft") if room else ("ArrowLeft", "ArrowRight")
        walks[control.description] = [back if number // max(room, 1) % 2 else there for number in range(ROUNDS + 1)]
    return walks


def press(explorer: LiveExplorer, slider: str, key: str, selector: str) -> float:
    """Milliseconds from the key press to the new picture."""
    page = explorer.output.page
    page.wait_for_timeout(PAUSE)
    explorer.output.evaluate(WATCH, selector)
    explorer.press(slider, key)
    page.wait_for_function("window.milliseconds !== null")
    page.wait_for_function(f"{CURRENT}.sessionContext.session.kernel.status === 'idle'")
    return page.evaluate("window.milliseconds")
