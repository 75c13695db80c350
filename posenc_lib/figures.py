"""How every figure of the book looks: size, font, colours, and how it is shown with a text alternative."""
from __future__ import annotations

import base64
import functools
import html
import io
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.style
import numpy as np
from IPython.display import display
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_lib.fonts import letters_for

if TYPE_CHECKING:
    from jaxtyping import Float

# Okabe and Ito's palette: told apart with every common kind of colour blindness.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#6B6B6B",
)
RED_TEXT = "#B54F00"            # words in red: they need more contrast to white than lines do
DIVERGING = "RdBu_r"            # for values on both sides of 0: white is 0
SEQUENTIAL = "Blues"            # for values on one side
DPI = 100                       # figure pixels an inch; pictures are stored at twice that
OUT_OF_SIGHT = "display:block;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
STYLE = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY]),
    "lines.linewidth": 1.8,
}
# As a context or, called, as a decorator. From matplotlib's defaults, whatever a reader has set for other figures.
book_style = functools.partial(mpl.style.context, ["default", STYLE])


def blank(height: float = 3.2, width: float = 9.2) -> Figure:
    """An empty figure in the book's style, sizes in inches."""
    return Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")


def panels(*widths: float, height: float = 3.2, width: float = 9.2) -> tuple[Figure, list[Axes]]:
    """A figure with one panel per entry of `widths` (relative widths; none means one panel), sizes in inches."""
    figure = blank(height, width)
    with book_style():
        axes = figure.subplots(1, len(widths) or 1, width_ratios=widths or (1,), squeeze=False)[0]
    return figure, list(axes)


def heat_map(ax: Axes, values: Float[np.ndarray, "rows columns"], low: float = -1.0, high: float = 1.0,
             colors: str = DIVERGING) -> None:
    """Draws `values` as cells centred on whole numbers, row 0 on top, coloured from `low` to `high`, with a bar."""
    cells = ax.imshow(np.asarray(values), cmap=colors, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(cells, ax=ax, pad=0.02)


def png(figure: Figure) -> bytes:
    """The figure as a PNG at twice its own resolution, without a date or a version in it."""
    buffer = io.BytesIO()
    with book_style(), letters_for(figure):
        figure.savefig(buffer, format="png", dpi=2 * figure.dpi, metadata={"Software": None})
    return buffer.getvalue()


def pixels_png(pixels: np.ndarray) -> bytes:
    """An array of pixels `[rows, columns, 3 or 4]` as a PNG."""
    buffer = io.BytesIO()
    image.imsave(buffer, np.ascontiguousarray(pixels), format="png", metadata={"Software": None})
    return buffer.getvalue()


def data_url(png: bytes) -> str:
    """A PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def show(figure: Figure, alt: str) -> None:
    """Shows `figure` with `alt`, the sentence that stands for it where it cannot be seen."""
    if not alt.strip():
        raise ValueError("alt must say in a sentence what the figure shows, got an empty text")
    width, height = (round(side * figure.dpi) for side in figure.get_size_inches())
    picture = {"text/plain": "figure", "image/png": png(figure)}
    display(picture, raw=True, metadata={"image/png": {"alt": alt, "width": width, "height": height}})
    describe(alt)


def describe(alt: str) -> None:
    """Says `alt` after the picture just shown, hidden from sight only: JupyterLab and nbconvert drop an image's own."""
    display({"text/plain": alt, "text/html": f'<span style="{OUT_OF_SIGHT}">{html.escape(alt)}</span>'}, raw=True)
