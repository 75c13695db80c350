"""Makes the four pictures of docs/classroom.md, from a real assignment, a small class, and nbgrader's own pages.

    .venv/bin/python tools/classroom_pictures.py

Needs .venv-classroom (make classroom), bubblewrap, and a Chromium, which `tools/environment.py browser` finds.
"""

import contextlib
import html
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.jupyter_browser import QUIET  # noqa: E402

DOCS = ROOT / "docs"
PYTHON = ROOT / ".venv-classroom" / "bin" / "python"
CHAPTER = "02_sinusoidal_by_hand"
STUDENTS = ("right-numpy", "partly-right", "infinite-loop", "lost-metadata", "moved-cells", "empty-file")
TOKEN = "pictures"
MAKE_CLASS = """
import sys
from pathlib import Path
from builder.chapter import chapter_paths, exercises
from tests.classroom.a_class import make_class
solutions = {each.id: each.solved for path in chapter_paths(Path.cwd()) for each in exercises(path)}
make_class(Path(sys.argv[1]), solutions, Path(sys.argv[2]))
"""


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        course, everyone, handed = (Path(folder) / name for name in ("course", "everyone", "handed-in"))
        classroom("assign", course, "week-1", "02")
        run([PYTHON, "-c", MAKE_CLASS, course / "release" / "week-1", everyone])
        for student in STUDENTS:
            shutil.copytree(everyone / student, handed / student)
        said = classroom("grade", course, "week-1", handed).replace(str(Path(folder)), "~")
        chromium = run([sys.executable, ROOT / "tools" / "environment.py", "browser"]).strip()
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        page = browser.new_page(viewport={"width": 1100, "height": 620}, device_scale_factor=1.5)
        page.set_default_timeout(60_000)
        shoot_terminal(page, said)
        page.goto((course / "feedback" / "partly-right" / "week-1" / f"{CHAPTER}.html").as_uri())
        page.get_by_text("def entry").first.scroll_into_view_if_needed()
        page.mouse.wheel(0, 250)
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "classroom-feedback.png")
        with formgrader(course) as address:
            shoot_release(page, address)
            shoot_formgrader(page, address)
        browser.close()


def run(command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def classroom(*arguments):
    return run([PYTHON, "-m", "classroom", *arguments])


def shoot_terminal(page, said):
    style = "background:#1b1b1b;color:#eee;font:15px/1.45 'DejaVu Sans Mono',monospace;padding:18px;margin:0"
    line = "$ python -m classroom grade ~/course week-1 ~/handed-in"
    page.set_content(f"<pre id=t style=\"{style};display:inline-block\">{html.escape(line)}\n{html.escape(said)}</pre>")
    page.locator("#t").screenshot(path=DOCS / "classroom-grade.png")


def shoot_release(page, address):
    page.goto(f"{address}/doc/tree/release/week-1/{CHAPTER}.ipynb?token={TOKEN}")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.evaluate("""() => {
        const notebook = window.jupyterapp.shell.currentWidget.content;
        const cells = [...notebook.model.cells].map(cell => cell.sharedModel.getSource());
        notebook.scrollToItem(cells.findIndex(text => text.startsWith("def entry(")) + 2, "center");
    }""")
    page.wait_for_timeout(1500)
    page.wait_for_timeout(800)
    page.screenshot(path=DOCS / "classroom-release.png")


def shoot_formgrader(page, address):
    page.goto(f"{address}/formgrader/gradebook/week-1/{CHAPTER}?token={TOKEN}")
    page.get_by_role("link", name="Submission #1", exact=False).first.click()
    field = page.locator("textarea.comment").last
    field.wait_for(state="attached")
    field.evaluate("field => field.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(1500)
    page.screenshot(path=DOCS / "classroom-formgrader.png")


@contextlib.contextmanager
def formgrader(course):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "classroom", "formgrader", course, "--", "--no-browser", f"--port={port}",
               f"--IdentityProvider.token={TOKEN}", "--expose-app-in-browser", "--LabApp.news_url=None"]
    server = subprocess.Popen([str(part) for part in command], cwd=ROOT, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=os.environ | {"JUPYTER_PREFER_ENV_PATH": "1"})
    try:
        for _ in range(60):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2).close()
                break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
