"""A clock face and its hand: a pair of dimensions as a point on the unit circle, cosine to the right, sine upwards."""
from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from posenc_lib.figures import BLUE, GREY
from posenc_lib.marks import Arrow, Line

LIMIT = 1.18


def face(ax: Axes, title: str, *, labels: bool = True) -> None:
    """Draws the unit circle with its axes into `ax`."""
    turn = np.linspace(0, 2 * np.pi, 181)
    ax.plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=1)
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect="equal", title=title)
    if labels:
        ax.set(xlabel="cosine", ylabel="sine", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    else:
        ax.set_axis_off()


def hand(angle: float, *, panel: int, color: str = BLUE, length: float = 1.0, width: float = 2.5) -> Arrow:
    """The hand of a pair that has turned by `angle` radians."""
    return Arrow((0, 0), (length * math.cos(angle), length * math.sin(angle)), width, panel=panel, color=color)


def arc(start: float, turn: float, *, panel: int, color: str, radius: float = 0.45) -> Line:
    """The way of a hand from angle `start` through `turn` radians; more than a full turn is a spiral."""
    turned = np.linspace(0, turn, max(2, math.ceil(abs(turn) * 5)))
    reach = radius + 0.08 * np.maximum(np.abs(turned) - 2 * math.pi, 0) / (2 * math.pi)
    return Line(reach * np.cos(start + turned), reach * np.sin(start + turned), panel=panel, color=color)
