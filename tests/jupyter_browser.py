"""The book as a reader sees it: a notebook in a real JupyterLab in a headless Chromium, driven by the keyboard.

    with jupyterlab(folder) as lab:                            # `folder` gets a copy of the book
        notebook = lab.open("02_sinusoidal_by_hand")           # a fresh copy of that notebook, with its own kernel;
                                                               # or in Notebook 7: lab.open(name, "Notebook")
        notebook.run_all()
        explorer = notebook.explorer("sinusoid_explorer(")     # of the cell whose last statement begins so
        explorer.press("position", "ArrowRight")

Nothing waits for a fixed time: `eventually` repeats a check until it holds.
"""
from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = os.environ.get("CHROMIUM") or "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
SECONDS = 10                                          # how long anything may take before it counts as broken,
SECONDS_TO_START, SECONDS_TO_RUN = 60, 300            # JupyterLab's start and a whole notebook apart
CURRENT = "window.jupyterapp.shell.currentWidget"     # the open notebook, in JupyterLab's own terms
PAGES = {"JupyterLab": "doc/tree", "Notebook": "notebooks"}     # where the one server shows a notebook in each of them


def eventually(check: Callable[[], object], seconds: float = SECONDS) -> object:
    """What `check` returns once it raises no AssertionError any more; if that never happens, the last of them."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.02)


@contextmanager
def jupyterlab(folder: Path, **page_options: object) -> Iterator[Lab]:
    """A JupyterLab over a copy of the book in `folder`, and a Chromium; `page_options` are those of its pages."""
    chromium = shutil.which(CHROMIUM)
    if chromium is None:
        raise FileNotFoundError(f"There is no Chromium at {CHROMIUM}: install it (Debian: apt-get install chromium), "
                                "or set the environment variable CHROMIUM to the path of one.")
    for part in ("notebooks", "posenc_lib"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    with _server(folder) as (address, token), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield Lab(folder, address, token, browser, page_options)
        browser.close()


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    own = folder / "jupyter"                          # nobody's own settings reach the server, and it leaves none
    own.mkdir()
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
              "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
    environment = os.environ | {place: str(own / place.lower()) for place in places} | {"JUPYTER_PREFER_ENV_PATH": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
               "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}",
               f"--IdentityProvider.token={token}", "--LabApp.news_url=None",
               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
               "--JupyterNotebookApp.expose_app_in_browser=True"]
    log = own / "server.log"
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server:
        def answers() -> None:
            assert server.poll() is None, f"JupyterLab ended at once:\n{log.read_text()[-2000:]}"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2).close()
            except OSError as error:
                raise AssertionError(f"JupyterLab does not answer ({error}):\n{log.read_text()[-2000:]}") from error

        try:
            eventually(answers, SECONDS_TO_START)
            yield f"http://127.0.0.1:{port}", token
        finally:
            server.terminate()


@dataclass
class Lab:
    """A running JupyterLab and its browser."""

    folder: Path
    address: str
    token: str
    browser: Browser
    page_options: dict[str, object]

    def open(self, name: str, front_end: str = "JupyterLab") -> Notebook:
        """Opens a copy of the notebook `name`, not run; a copy, so that each opening has a kernel of its own."""
        copy = f"{name}_{secrets.token_hex(4)}.ipynb"
        shutil.copy(self.folder / "notebooks" / f"{name}.ipynb", self.folder / "notebooks" / copy)
        page = self.browser.new_page(**{"viewport": {"width": 1280, "height": 1000}, **self.page_options})
        page.set_default_timeout(1000 * SECONDS)
        notebook = Notebook(page, front_end)
        address = f"{self.address}/{PAGES[front_end]}/notebooks/{copy}?reset&token={self.token}"
        page.goto(address, timeout=1000 * SECONDS_TO_START)
        notebook.wait_until_open()
        return notebook


@dataclass
class Notebook:
    """An open notebook; `errors` are the JavaScript errors of its page so far."""

    page: Page
    front_end: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heed)

    def _heed(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location['url']})")

    def wait_until_open(self) -> None:
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=1000 * SECONDS_TO_START)
        self.wait_for(f"{CURRENT}.sessionContext.ready", SECONDS_TO_START)

    def reload(self) -> None:
        """Loads the page again, as the browser's own button does."""
        self.page.reload(timeout=1000 * SECONDS_TO_START)
        self.wait_until_open()

    def run_all(self) -> None:
        """Runs all cells, and returns when the last one has ended."""
        self.start_all()
        self.wait_for_end()

    def start_all(self) -> None:
        """Begins to run all cells; other notebooks may run until `wait_for_end`."""
        self._begin("window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def wait_for_end(self) -> None:
        self._end(SECONDS_TO_RUN)

    def run(self, source: str) -> None:
        """Runs `source` in a new cell at the end."""
        self.page.evaluate("""source => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const end = notebook.model.cells.length;
            notebook.model.sharedModel.insertCell(end, {cell_type: "code", source});
            notebook.activeCellIndex = end;
            notebook.deselectAll();
        }""", source)
        self.wait_for("window.jupyterapp.commands.execute('notebook:run-cell')", SECONDS_TO_RUN)

    def wear(self, theme: str) -> None:
        """Sets the page's theme, "Light" or "Dark"."""
        name = f"JupyterLab {theme}"
        self.wait_for(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}})", SECONDS)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def resize(self, width: int, height: int) -> None:
        """Makes the window so large, in CSS pixels, and returns when the notebook fits it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_function("""width => {
            const {left, right} = document.querySelector(".jp-Notebook").getBoundingClientRect();
            return window.innerWidth === width && left >= 0 && right <= width && right - left > width / 2;
        }""", arg=width)

    def trust(self) -> None:
        """Lets the stored outputs show all they hold, as in a notebook that the reader has run and saved before."""
        self.page.evaluate(f"for (const cell of {CURRENT}.content.model.cells) cell.trusted = true")

    def wait_for(self, promise: str, seconds: float) -> None:
        """Waits for a promise, given as JavaScript; Playwright's own `evaluate` would wait without end."""
        self._begin(promise)
        self._end(seconds)

    def _begin(self, promise: str) -> None:
        self.page.evaluate(f"() => {{ window.kept = false; {promise}.then(() => {{ window.kept = true; }}); }}")

    def _end(self, seconds: float) -> None:
        self.page.wait_for_function("window.kept", timeout=1000 * seconds)

    def cells(self) -> list[dict[str, object]]:
        """The cells as they would be saved now."""
        return self.page.evaluate(f"{CURRENT}.content.model.toJSON().cells")

    def _sources(self) -> list[tuple[str, str]]:
        """Each cell's kind and source, without the outputs, which are long."""
        return self.page.evaluate(f"[...{CURRENT}.content.model.cells].map(c => [c.type, c.sharedModel.getSource()])")

    def cell(self, beginning: str) -> Locator:
        """The one code cell whose last statement begins so."""
        found = [index for index, (kind, source) in enumerate(self._sources())
                 if kind == "code" and _last_statement(source).startswith(beginning)]
        assert len(found) == 1, f"{len(found)} code cells have a last statement that begins with {beginning}, not one"
        return self.scrolled_to(found[0])

    def text_cell(self, heading: str) -> Locator:
        """The one text cell with `heading` in its first line."""
        found = [index for index, (kind, source) in enumerate(self._sources())
                 if kind == "markdown" and heading in source.split("\n")[0]]
        assert len(found) == 1, f"{len(found)} text cells have {heading} in their first line, not one"
        return self.scrolled_to(found[0])

    def scrolled_to(self, index: int) -> Locator:
        """The cell of this number, brought into view."""
        self.page.evaluate(f"{CURRENT}.content.scrollToItem({index})")
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    def verdict(self, beginning: str) -> Locator:
        """The verdict below the cell whose last statement begins so."""
        return self.cell(beginning).get_by_role("status")

    def run_by_keyboard(self, beginning: str) -> None:
        """Selects the cell whose last statement begins so, and runs it."""
        self.cell(beginning).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Shift+Enter")

    def answer(self, exercise: str, line: str) -> None:
        """Types `line` in place of the second line of the exercise's cell, which is the stub's, and runs the cell."""
        cell, keyboard = self.cell(f'check("{exercise}"'), self.page.keyboard
        cell.locator(".jp-InputPrompt").click()
        keyboard.press("Enter")
        cell.locator(".cm-focused").wait_for()
        for key in ("Control+Home", "ArrowDown", "End", "Shift+Home"):
            keyboard.press(key)
        keyboard.type(line)
        keyboard.press("Shift+Enter")

    def explorer(self, beginning: str) -> LiveExplorer:
        """The live explorer below the cell whose last statement begins so."""
        cell = self.cell(beginning)
        for part in (".noUi-handle", "svg", "pre"):
            cell.locator(part).first.wait_for(state="attached")
        return LiveExplorer(cell.locator(".jp-OutputArea-output").filter(has=self.page.locator("svg")))


def _last_statement(source: str) -> str:
    """Its first line and what follows: from the last line on that is not indented."""
    return re.split(r"^(?=\S)", source, flags=re.MULTILINE)[-1]


@dataclass
class LiveExplorer:
    """An explorer on the page."""

    output: Locator

    def names(self) -> list[str]:
        """The labels of its sliders and tick boxes."""
        return self.output.locator(".widget-slider .widget-label, .widget-checkbox span").all_text_contents()

    def handle(self, name: str) -> Locator:
        """What takes the keys: of a slider its handle, of a tick box the box."""
        return self._slider(name).get_by_role("slider").or_(self._box(name))

    def has_focus(self, name: str) -> bool:
        return self.handle(name).evaluate("handle => handle === document.activeElement")

    def press(self, name: str, key: str) -> None:
        """Presses a key on the slider or tick box labelled `name`."""
        self.handle(name).focus()
        self.output.page.keyboard.press(key)

    def readouts(self) -> dict[str, str]:
        """What each slider's readout says; of a tick box, whether it is on or off."""
        return {name: self._readout(name) for name in self.names()}

    def _readout(self, name: str) -> str:
        if self._box(name).count():
            return "on" if self._box(name).is_checked() else "off"
        return self._slider(name).locator(".widget-readout").text_content()

    def picture(self) -> str:
        """All that is drawn as SVG, without the sentence that stands for it."""
        return self.output.locator("svg").evaluate_all("all => all.map(svg => svg.innerHTML).join('\\n')")

    def background(self) -> str:
        """The still picture under it."""
        return self.output.locator("img").get_attribute("src")

    def values(self) -> str:
        """The text of the exact values."""
        return self.output.locator("pre").text_content()

    def alert(self) -> Locator:
        """The text that tells of an exception, if there is one."""
        return self.output.get_by_role("alert")

    def _slider(self, name: str) -> Locator:
        label = self.output.page.locator(".widget-label").get_by_text(name, exact=True)
        return self.output.locator(".widget-slider").filter(has=label)

    def _box(self, name: str) -> Locator:
        return self.output.get_by_role("checkbox", name=name, exact=True)
