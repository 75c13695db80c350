"""The maps of the book: the three doors of an attention layer, and the encoder layer around it."""
from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_lib.figures import BLUE, GREEN, GREY, RED, panels

BOXES = {                                            # where its middle is, and how wide
    "words": (1.4, 3, 2.2),
    "embeddings\n$E + P$": (5.2, 3, 2.6),
    "queries": (9, 3.8, 2.6),
    "keys": (9, 2.7, 2.6),
    "values": (9, 1.6, 2.6),
    "scores\nquery · key": (13.2, 3.25, 2.6),
    "softmax": (16, 3.25, 1.6),
    "weighted\nsum": (18.5, 2.3, 2.2),
}
ARROWS = [
    ((2.5, 3), (3.9, 3)), ((6.5, 3), (7.7, 3.8)), ((6.5, 3), (7.7, 2.7)), ((6.5, 3), (7.7, 1.6)),
    ((10.3, 3.8), (11.9, 3.4)), ((10.3, 2.7), (11.9, 3.1)), ((14.5, 3.25), (15.2, 3.25)),
    ((16.8, 3.25), (17.4, 2.6)), ((10.3, 1.6), (17.4, 2)),
]
DOORS = [                                            # name, its schemes, colour, where the name stands and the door is
    ("door 1: the input", "sinusoidal, learned", BLUE, 4.6, (5.2, 3.55)),
    ("door 2: queries and keys", "rotary (RoPE)", GREEN, 10.2, (9.6, 4.5)),
    ("door 3: the scores", "Shaw, T5 bias, ALiBi", RED, 15.6, (13.6, 3.8)),
]


def map_of_doors() -> Figure:
    """Draws the way of the words through an attention layer, left to right, with each door where it opens."""
    figure, (ax,) = panels(height=3.3)
    ax.set(xlim=(0, 20), ylim=(0.4, 6.6), title="Three doors through which order can enter a Transformer")
    ax.set_axis_off()
    ax.fill_between([7.1, 19.9], 0.6, 5, color=GREY, alpha=0.1, linewidth=0)
    ax.text(19.7, 0.8, "in every attention layer", ha="right", fontsize=9, color=GREY)
    for text, (x, y, width) in BOXES.items():
        _box(ax, x, y, width, 1.0 if "\n" in text else 0.75, edgecolor=GREY, facecolor="white")
        ax.text(x, y, text, ha="center", va="center")
    for start, end in ARROWS:
        ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": GREY})
    _box(ax, 9, 3.25, 3.0, 2.3, edgecolor=GREEN, facecolor="none")          # door 2 opens on both
    for name, schemes, color, x, door in DOORS:
        ax.text(x, 6.05, name, ha="center", va="center", color=color, weight="bold")
        ax.text(x, 5.6, schemes, ha="center", va="center", color=color)
        ax.annotate("", door, (x, 5.3), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2.2})
    return figure


def _box(ax: Axes, x: float, y: float, width: float, height: float, **colors: str) -> None:
    left, right, bottom, top = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    ax.fill([left, right, right, left], [bottom, bottom, top, top], linewidth=1.2, **colors)


def map_of_layer() -> Figure:
    """Draws a pre-norm encoder layer, left to right, with the shape of what runs along every arrow."""
    figure, (ax,) = panels(height=2.8)
    ax.set(xlim=(0, 24), ylim=(-0.6, 4.6), title="An encoder layer (pre-norm): the shape stays, so layers stack")
    ax.set_axis_off()
    for x, text, color in ((4.4, "norm", GREY), (7.8, "attention\nmixes positions", GREEN), (14.2, "norm", GREY),
                           (18.2, "feed-forward network\neach position by itself", BLUE)):
        width = 1.6 if text == "norm" else 3.4 if color == GREEN else 4.4
        _box(ax, x, 1.2, width, 1.3, edgecolor=color, facecolor="white")
        ax.text(x, 1.2, text, ha="center", va="center", fontsize=9)
    for start, plus in ((2.2, 10.9), (12.2, 21.9)):                       # the residual path, and where it is added
        ax.plot([start, start, plus, plus], [1.2, 3.6, 3.6, 1.65], color=RED, linewidth=2)
        ax.annotate("", (plus, 1.5), (plus, 2.2), arrowprops={"arrowstyle": "-|>", "color": RED, "linewidth": 2})
        ax.text((start + plus) / 2, 3.95, "residual path", ha="center", color=RED)
        ax.plot(plus, 1.2, "o", markersize=16, markerfacecolor="white", markeredgecolor=GREY)
        ax.text(plus, 1.17, "+", ha="center", va="center")
    for start, end in ((0.2, 3.6), (5.2, 6.1), (9.5, 10.5), (11.3, 13.4), (15, 16), (20.4, 21.5), (22.3, 23.9)):
        ax.annotate("", (end, 1.2), (start, 1.2), arrowprops={"arrowstyle": "->", "color": GREY})
    for x in (1.1, 5.65, 10, 12.3, 15.5, 20.95, 23.1):
        ax.annotate("[batch, seq, d]", (x, 1.1), (x, -0.3), ha="center", fontsize=7.5, color=GREY,
                    arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkB": 2})
    ax.text(18.2, 2.1, "inside: [batch, seq, d_ff]", ha="center", fontsize=7.5, color=BLUE)
    ax.text(7.8, 2.1, "inside: [batch, heads, seq, d / heads]", ha="center", fontsize=7.5, color=GREEN)
    return figure
