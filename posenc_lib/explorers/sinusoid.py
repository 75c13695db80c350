"""The Sinusoid explorer: one entry of the table, seen as a cell, on a curve, on a clock, and computed by hand."""
from __future__ import annotations

import functools
import math

import numpy as np
from matplotlib.figure import Figure

from posenc_lib.explorer import Explorer, View, choice, slider
from posenc_lib.explorers import clock
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, panels
from posenc_lib.marks import Cells, Line, Mark, Points, Text, frame
from posenc_lib.sinusoidal import sinusoidal_table

LENGTH = 32
MAP, ROW, CLOCK = 0, 1, 2


def background() -> Figure:
    figure, (table, row, hand) = panels(3.2, 3, 2.6, height=3.3, width=9.4)
    table.set(xlim=(0, 1), ylim=(LENGTH - 0.5, -0.5), xticks=[], title="Table: red +1, white 0, blue −1")
    table.set(ylabel="position p", xlabel="\ndimension")
    row.set(xlim=(-0.03, 1.03), ylim=(-1.15, 1.15), xticks=[], title="The chosen row: ● sines, ○ cosines")
    row.set(xlabel="\ndimension", ylabel="PE(p, dimension)")
    row.axhline(0, color=GREY, linewidth=0.5)
    clock.face(hand, "The pair's clock hand")
    return figure


def sinusoid_view(position: int, dimension: int, d_model: int, base: int) -> View:
    """Entry `dimension` of `PE(position)`; dimensions are spread over the panels' width, whatever `d_model` is."""
    table, across, under = _table(d_model, base)
    pair = dimension // 2
    angle = position * base ** (-2 * pair / d_model)
    value = math.cos(angle) if dimension % 2 else math.sin(angle)
    here, left, right = across[dimension], dimension / d_model, (dimension + 1) / d_model
    above, below = position - 0.5, position + 0.5

    marks = [
        frame(0, 1, above, below, panel=MAP, color="black", width=1.5),
        frame(left, right, -0.5, LENGTH - 0.5, panel=MAP, color="black", width=1.5),
        Line(across[0::2], table[position, 0::2], panel=ROW, color=BLUE, width=1.2),
        Points(across[0::2], table[position, 0::2], panel=ROW, color=BLUE, size=5),
        Line(across[1::2], table[position, 1::2], panel=ROW, color=GREEN, width=1.2, dashed=True),
        Points(across[1::2], table[position, 1::2], panel=ROW, color=GREEN, size=6, hollow=True),
        Line([here, here], [0, value], panel=ROW, color=ORANGE, width=2.5),
        Points([here], [value], panel=ROW, color=ORANGE, size=11),
        clock.hand(angle, panel=CLOCK),
        clock.arc(0, angle, panel=CLOCK, color=GREY, radius=0.3),
        *_shadow(angle, dimension),
    ]
    return View(marks, _by_hand(position, dimension, d_model, base), (
        f"Position {position}, dimension {dimension} of {d_model}, base {base:g}: the clock hand of pair {pair} has "
        f"turned by {angle:.4g} radians and the entry is {value:.4f}."), under)


@functools.lru_cache(maxsize=32)
def _table(d_model: int, base: int) -> tuple[np.ndarray, np.ndarray, tuple[Mark, ...]]:
    """The table, where its dimensions stand between 0 and 1, and what position and dimension leave alone."""
    table = sinusoidal_table(LENGTH, d_model, base=base).numpy()
    across = (np.arange(d_model) + 0.5) / d_model
    under = (Cells(table, extent=(0, 1, LENGTH - 0.5, -0.5), panel=MAP),
             *_ticks(across, panel=MAP, bottom=LENGTH - 0.5), *_ticks(across, panel=ROW, bottom=-1.15))
    return table, across, under


def _by_hand(position: int, dimension: int, d_model: int, base: int) -> list[str]:
    """The entry computed as one would on paper, one step a line."""
    pair, odd = divmod(dimension, 2)
    name, long_name, rest = ("cos", "cosine", " + 1") if odd else ("sin", "sine", "")
    exponent = -2 * pair / d_model
    frequency = base**exponent
    angle = position * frequency
    value = math.cos(angle) if odd else math.sin(angle)
    return [
        f"dimension {dimension} = 2·{pair}{rest}: the {long_name} of pair i = {pair}",
        f"ω_{{{pair}}} = {base:g}^{{−2·{pair}/{d_model}}} = {base:g}^{{{exponent:.4g}}} = {frequency:.6g}"
        .replace("{-", "{−"),
        f"angle = p·ω_{{{pair}}} = {position} · {frequency:.6g} = {angle:.6g} radians",
        f"PE({position}, {dimension}) = {name}({angle:.6g}) = {value:.6f}".replace("= -", "= −"),
    ]


def _shadow(angle: float, dimension: int) -> list[Line]:
    """The hand's cosine or sine: its shadow on the axis that the dimension reads."""
    x, y = math.cos(angle), math.sin(angle)
    shadow = ([0, x], [0, 0]) if dimension % 2 else ([0, 0], [0, y])
    drop = ([x, x], [0, y]) if dimension % 2 else ([0, x], [y, y])
    return [Line(*drop, panel=CLOCK, color=ORANGE, width=1, dashed=True),
            Line(*shadow, panel=CLOCK, color=ORANGE, width=5)]


def _ticks(across: np.ndarray, *, panel: int, bottom: float) -> list[Text]:
    """At most nine numbers under a panel whose dimensions stand at `across`."""
    step = next(step for step in (1, 2, 4, 8, 16) if len(across) <= 9 * step)
    return [Text(across[number], bottom, str(number), panel=panel, shift=(0, 10), color="black")
            for number in range(0, len(across), step)]


def sinusoid_explorer() -> Explorer:
    return Explorer(
        background, sinusoid_view, limits={"dimension": lambda d_model, **_: d_model - 1},
        position=slider(0, LENGTH - 1, 3), dimension=slider(0, 15, 4),
        d_model=slider(1, 64, 16, label="d_model"), base=choice([10, 100, 1_000, 10_000, 100_000], 10_000))
