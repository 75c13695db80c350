"""The Layouts explorer: one vector turned in the two layouts of RoPE, and in a mixture of them that is no rotation."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from posenc_lib.explorer import Explorer, View, minus, slider
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, blank, book_style
from posenc_lib.marks import Line, Mark, Points
from posenc_lib.rotary import HALF, INTERLEAVED, apply_rotary
from posenc_lib.sinusoidal import frequencies

if TYPE_CHECKING:
    from jaxtyping import Float, Real

X = torch.tensor([2.0, 1.0, -1.5, 0.5, 1.0, 1.5, 0.5, -1.0], dtype=torch.float64)
KEY = torch.tensor([1.0, -0.5, 1.0, 1.5, 2.0, 0.5, -1.0, 1.0], dtype=torch.float64)
D_HEAD = len(X)
PAIRS = D_HEAD // 2
LAST, REACH = 60, 20
POSITIONS = torch.arange(LAST + 1)
MIXED = "mixed"
LAYOUTS = {INTERLEAVED: SKY, HALF: GREY, MIXED: RED}        # and the colours of their scores
PAIR_COLORS = (BLUE, ORANGE, GREEN, PURPLE)
SCORE = len(LAYOUTS)                                        # the panel after those of the layouts
ENTRY_LIMIT, SCORE_LIMIT = 2.5, 11.0
EQUAL = 1e-9


def mixed(x: Float[Tensor, "seq d_head"], position: Real[Tensor, " seq"]) -> Float[Tensor, "seq d_head"]:
    """The mistake, to be looked at and not used: pairs as in the half layout, angles as in the interleaved one.

    The partners (i, i + d_head/2) are turned by different angles. That is no rotation: it keeps neither norms nor the
    law that a score depends on n − m alone, and yet it raises no error and gives scores that look like others.
    """
    angle = position.double()[:, None] * frequencies(x.shape[-1])
    angle = angle.repeat_interleave(2, -1)                  # ω_0 ω_0 ω_1 ω_1 …; the half layout wants ω_0 ω_1 … twice
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()


def turned(x: Float[Tensor, " d_head"], position: Real[Tensor, " seq"], layout: str) -> Float[Tensor, "seq d_head"]:
    """`x` at each of the positions."""
    rows = x.expand(len(position), -1)
    if layout == MIXED:
        return mixed(rows, position)
    return apply_rotary(rows[None, None], position, layout=layout)[0, 0]


@functools.cache
def scores(layout: str, k: int) -> Float[np.ndarray, " positions"]:
    """Query x at p, key at p + k, their product for p = 0 … 60."""
    return (turned(X, POSITIONS, layout) * turned(KEY, POSITIONS + k, layout)).sum(-1).numpy()


def pair_and_frequency(layout: str) -> tuple[list[int], list[int]]:
    """For each column, the number of the pair that it is in, and the number i of the ω_i that turns it."""
    neighbours, halves = [i // 2 for i in range(D_HEAD)], [i % PAIRS for i in range(D_HEAD)]
    return (neighbours if layout == INTERLEAVED else halves), (halves if layout == HALF else neighbours)


@book_style()
def background() -> Figure:
    figure = blank(height=5.0, width=9.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1.2, 1))
    titles = "interleaved: neighbours turn together", "half: i and i + 4 turn together", "mixed: partners turn apart"
    for layout, ax, title in zip(LAYOUTS, above.subplots(1, len(LAYOUTS), sharey=True), titles, strict=True):
        pairs, omegas = pair_and_frequency(layout)
        ax.set_xticks(range(D_HEAD), [f"{column}\nω{'₀₁₂₃'[omega]}" for column, omega in enumerate(omegas)])
        ax.set(xlim=(-0.6, D_HEAD - 0.4), ylim=(-ENTRY_LIMIT, ENTRY_LIMIT + 1.7), title=title)
        ax.set(xlabel="column, and the ω it is turned with", yticks=range(-2, 3))
        ax.axhline(0, color=GREY, linewidth=0.5)
        for pair, color in enumerate(PAIR_COLORS):
            columns = [column for column in range(D_HEAD) if pairs[column] == pair]
            ax.plot(columns, [ENTRY_LIMIT + 1.3 - 0.35 * pair] * 2, "-|", color=color)
            ax.plot(columns, X[columns], "o", color=color, markersize=8, markerfacecolor="none")
        if layout == INTERLEAVED:
            ax.set_ylabel("ring: x, dot: turned x")
    score = below.subplots()
    score.set(xlim=(0, LAST), ylim=(-SCORE_LIMIT, SCORE_LIMIT), ylabel="query · key")
    score.set_xlabel("position p of the query (words); the key is at p + k")
    score.set_title("The score at one offset k: flat in either layout, waving when they are mixed")
    for layout, color in LAYOUTS.items():
        score.plot([], [], color=color, linestyle="--" if layout == HALF else "-", label=layout)
    score.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure


@functools.lru_cache(maxsize=64)
def curves(k: int) -> tuple[Mark, ...]:
    """The scores along p: they stay while p moves."""
    return tuple(Line(POSITIONS, scores(layout, k), panel=SCORE, color=color, dashed=layout == HALF)
                 for layout, color in LAYOUTS.items())


def layouts_view(p: int, k: int) -> View:
    """x turned to position `p` in each layout, and its score with the key at `p + k`."""
    here = {layout: turned(X, torch.tensor([p]), layout)[0] for layout in LAYOUTS}
    at_k = {layout: scores(layout, k) for layout in LAYOUTS}
    marks: list[Mark] = [Line([p, p], [-SCORE_LIMIT, SCORE_LIMIT], panel=SCORE, color="black", width=1, dashed=True)]
    for panel, (layout, color) in enumerate(LAYOUTS.items()):
        pairs, _ = pair_and_frequency(layout)
        marks += [Points([column], [entry], panel=panel, color=PAIR_COLORS[pair], size=8)
                  for column, (entry, pair) in enumerate(zip(here[layout].tolist(), pairs, strict=True))]
        marks.append(Points([p], [at_k[layout][p]], panel=SCORE, color=color, size=10))
    spread = {layout: np.ptp(at_k[layout]) for layout in LAYOUTS}
    lines = [f"{'x':11} = {_row(X)}   norm {X.norm():.4f}",
             *(f"{layout:11} = {_row(vector)}   norm {vector.norm():.4f}{_norm_note(vector)}"
               for layout, vector in here.items()),
             f"score, query at {p}, key at {p + k}:   {_each(at_k, p)}",
             f"largest − smallest over p = 0 … {LAST}:   " + "   ".join(f"{a} {b:.4f}" for a, b in spread.items()),
             _verdict(here)]
    norms = ", ".join(f"{layout} {vector.norm():.3f}" for layout, vector in here.items())
    alt = (f"x turned to position {p}. Norms: x {X.norm():.3f}, {norms}. Along p the score of offset {k} is flat in "
           f"either layout and varies by {spread[MIXED]:.2f} when they are mixed.")
    return View(marks, [minus(line) for line in lines], minus(alt), curves(k))


def _norm_note(vector: Tensor) -> str:
    return ", kept" if abs(vector.norm() - X.norm()) < EQUAL else ", NOT kept"


def _verdict(here: dict[str, Tensor]) -> str:
    if (here[INTERLEAVED] - here[HALF]).abs().max() < EQUAL:
        return "at p = 0 x is not turned: all three are x, and the mistake does not show in them"
    return "the two right layouts give different numbers: use the checkpoint's. Each keeps norm and law of offsets"


def _each(at_k: dict[str, np.ndarray], p: int) -> str:
    return "   ".join(f"{layout} {score[p]:.4f}" for layout, score in at_k.items())


def _row(entries: Tensor) -> str:
    return "[" + " ".join(f"{entry:7.4f}" for entry in entries.tolist()) + "]"


def layouts_explorer() -> Explorer:
    return Explorer(background, layouts_view, p=slider(0, LAST, 7, label="position p"),
                    k=slider(-REACH, REACH, 3, label="offset k"))
