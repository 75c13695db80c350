"""Does in an empty folder exactly what README.md tells a new reader, and looks at what comes of it.

    python3 tools/fresh_machine.py             clone, `make lab`, `make test`; then the lines without make
    python3 tools/fresh_machine.py --quick     the same without `make test`

The lines are taken from README.md, so that the two cannot drift apart. What is cloned is the last commit of this clone.
Of JupyterLab is asked what a reader would see: the address it prints opens chapter 0, and all of its cells run.
Needs git, make, a Chromium or Chrome, and for the first lines the network. Only the standard library is used.
"""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+/\S*token=\w+")
SECONDS = 1200
# Run by the environment the reader has just made: opens the address, runs all cells by the menu, prints what is wrong.
READER = '''
import os, sys
from playwright.sync_api import sync_playwright

flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=sys.argv[2], args=flags)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(60_000)
    page.goto(sys.argv[1])
    page.get_by_role("tab", name="00_start_here.ipynb").first.wait_for()
    idle = page.get_by_text("Python 3 (ipykernel) | Idle")
    idle.wait_for()
    title = page.locator(".jp-Notebook h1").first.inner_text()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    for _ in range(60):             # until the explorer, which is somewhere on the page, is live: what is out of sight
        for height in range(0, 6_000, 400):                                     # JupyterLab does not draw
            page.evaluate("y => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = y; }", height)
            page.wait_for_timeout(100)
            if page.locator(".noUi-handle").count():
                break
        else:
            continue
        break
    else:
        sys.exit("the explorer of chapter 0 has no slider")
    idle.wait_for()
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
    page.get_by_text("Exercise 0.1").first.wait_for(state="attached")
    failed = page.locator('[data-mime-type="application/vnd.jupyter.error"]').count()
    browser.close()
if failed:
    sys.exit(f"{failed} cells of chapter 0 fail")
print(title.strip("\u00b6 "))
'''


def main():
    quick = "--quick" in sys.argv[1:]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with_make, without = lines_of(readme, "## Two commands")[:2]
    with tempfile.TemporaryDirectory(prefix="an empty folder ") as folder:
        book = pathlib.Path(folder) / "the book"
        run(["git", "clone", "--quiet", str(ROOT), str(book)], folder)
        for line in with_make:
            if line == "make lab":
                look(line, book)
            elif not quick:
                step(line)
                run(["sh", "-c", line], book)
        run(["rm", "-rf", ".venv"], book)
        for line in map(on_this_system, without):
            if "jupyterlab" in line:
                look(line + (" --allow-root" if os.geteuid() == 0 else "") + " --no-browser", book)
            else:
                step(line)
                run(["sh", "-c", line], book)
        left = subprocess.check_output(["git", "status", "--short"], cwd=book, text=True)
        if left:
            sys.exit(f"The book's own files have changed, or are not ignored:\n{left}")
    print("A new reader gets what README.md promises.")


def lines_of(readme, heading):
    """The commands of each fenced block of a section, without their comments."""
    section = readme[readme.index(heading):].split("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [[line.partition("  #")[0].strip() for line in block.splitlines()] for block in blocks]


def on_this_system(line):
    """README.md gives these lines for Windows, and says how they read elsewhere."""
    python = shlex.quote(sys.executable)
    return line.replace("py -3.11 -m", f"{python} -m").replace(".venv\\Scripts\\python", ".venv/bin/python")


def step(line):
    print(f"== {line}", flush=True)


def run(command, folder):
    status = subprocess.call(command, cwd=folder, stdin=subprocess.DEVNULL)
    if status:
        sys.exit(f"{' '.join(command)} ended with status {status}")


def look(line, book):
    """Starts JupyterLab as the line says, and reads chapter 0 in a browser at the address it prints."""
    step(line)
    began = time.monotonic()
    with served(line, book) as address:
        python = str(book / ".venv" / "bin" / "python")
        chromium = subprocess.check_output([python, str(book / "tools" / "environment.py"), "browser"], text=True)
        title = subprocess.run([python, "-c", READER, address, chromium.strip()], capture_output=True, text=True)
    if title.returncode:
        sys.exit(f"{line}: chapter 0 does not open and run at {address.partition('?')[0]}:\n{title.stderr[-3000:]}")
    print(f"   chapter 0 opens and runs: {title.stdout.strip()!r}, after {time.monotonic() - began:.0f} s", flush=True)


@contextlib.contextmanager
def served(line, book):
    """The address that a line prints which starts JupyterLab; it is stopped at the end."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    own = book.parent / f"jupyter, {line.split()[0].replace('/', ' ')}"         # a new reader has no settings yet
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
        environment[name] = str(own / name.lower())
    log = book.parent / "lab.log"
    with log.open("w") as output:
        lab = subprocess.Popen(["sh", "-c", line], cwd=book, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                               env=environment, start_new_session=True)
    try:
        for _ in range(SECONDS):
            found = ADDRESS.search(log.read_text())
            if found:
                break
            if lab.poll() is not None:
                sys.exit(f"{line} ended with status {lab.returncode}:\n{log.read_text()[-3000:]}")
            time.sleep(1)
        else:
            sys.exit(f"{line} prints no address within {SECONDS} s:\n{log.read_text()[-3000:]}")
        # A browser that JupyterLab opens itself goes to the notebook in the line; the address it prints may not.
        yield found[0].replace("/lab?", "/lab/tree/00_start_here.ipynb?")
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait()


if __name__ == "__main__":
    main()
