"""Photograph the sinusoid explorer for the README: `.venv/bin/python tools/readme_picture.py` writes docs/explorer.png.

It is what a reader sees: chapter 02 in JupyterLab, run, with two sliders moved.
"""
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.jupyter_browser import eventually, jupyterlab  # noqa: E402

PICTURE = ROOT / "docs" / "explorer.png"
SETTING = {"position": 11, "dimension": 5}        # a hand at about two o'clock, its cosine in orange
WIDTH = 1080                                      # of the page: the explorer fills it
LARGEST = 250_000                                 # bytes


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page_options = {"device_scale_factor": 2, "viewport": {"width": WIDTH, "height": 900}}
        with jupyterlab(Path(folder), **page_options) as lab:
            notebook = lab.open("02_sinusoidal_by_hand")
            notebook.run_all()
            explorer = notebook.explorer("sinusoid_explorer(")
            for name, value in SETTING.items():
                for _ in range(value - int(explorer.readouts()[name])):
                    explorer.press(name, "ArrowRight")

            def settled() -> None:
                assert "PE({position}, {dimension}) =".format(**SETTING) in explorer.values()

            eventually(settled)
            notebook.page.evaluate("document.activeElement.blur()")
            PICTURE.parent.mkdir(exist_ok=True)
            explorer.output.locator(".widget-vbox").screenshot(path=PICTURE)
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size / 1000:.0f} kB")
    if size > LARGEST:
        sys.exit(f"That is more than {LARGEST / 1000:.0f} kB: choose a smaller WIDTH.")


if __name__ == "__main__":
    main()
