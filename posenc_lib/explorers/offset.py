"""The Offset explorer: going from p to p + k turns every pair by its own kω, wherever p is."""
from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from posenc_lib.explorer import Explorer, View, minus, slider
from posenc_lib.explorers import clock
from posenc_lib.explorers.clock import LIMIT
from posenc_lib.figures import BLUE, GREY, ORANGE, RED_TEXT, blank, book_style
from posenc_lib.marks import Line, Points, Text
from posenc_lib.sinusoidal import frequencies, shift_matrix, sinusoidal_table

D_MODEL, REACH, LAST = 8, 30, 60
PAIRS = D_MODEL // 2
ENTRIES, SIMILARITY = PAIRS, PAIRS + 1      # the panels after the clocks


@book_style()
def background() -> Figure:
    figure = blank(height=4.6, width=9.4)
    clocks, below = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    for pair, ax in enumerate(clocks.subplots(1, PAIRS)):
        clock.face(ax, f"pair {pair}", labels=False)
        ax.text(0, -LIMIT, " ", va="top")                                   # room for the angle below the clock
    entries, similarity = below.subplots(1, 2)
    entries.set(xlim=(-0.6, D_MODEL - 0.4), ylim=(-1.25, 1.25), xlabel="dimension", ylabel="entry",
                title="PE(p + k): dots; $M_k$ PE(p): rings")
    entries.axhline(0, color=GREY, linewidth=0.5)
    similarity.set(xlim=(-REACH, REACH), ylim=(-0.4, PAIRS + 0.4), xlabel="offset k", ylabel="PE(p) · PE(p + k)",
                   title="The dot product: one curve for every p")
    return figure


def offset_view(p: int, k: int) -> View:
    """`PE(p)`, turned by `M_k`, beside `PE(p + k)`, and the dot product of the two for every offset in reach."""
    turn = frequencies(D_MODEL).numpy()
    near = sinusoidal_table(2 * REACH + 1, D_MODEL, start=p - REACH, dtype=torch.float64)      # around position p
    here, there = near[REACH], near[REACH + k]
    moved = shift_matrix(k, D_MODEL) @ here
    products = near @ here
    error = float((moved - there).abs().max())

    marks = []
    for pair, frequency in enumerate(turn):
        marks += [clock.arc(p * frequency, k * frequency, panel=pair, color=ORANGE),
                  clock.hand(p * frequency, panel=pair, color=GREY, width=2),
                  clock.hand((p + k) * frequency, panel=pair, color=BLUE),
                  Text(0, -LIMIT, minus(f"kω = {k * frequency:.3f}"), panel=pair, shift=(0, 8), color=RED_TEXT)]
    offsets = np.arange(-REACH, REACH + 1)
    marks += [Points(np.arange(D_MODEL), there, panel=ENTRIES, color=BLUE, size=7),
              Points(np.arange(D_MODEL), moved, panel=ENTRIES, color=ORANGE, size=14, hollow=True),
              Line([k, k], [-0.4, products[REACH + k]], panel=SIMILARITY, color=ORANGE, width=1, dashed=True),
              Points([k], [products[REACH + k]], panel=SIMILARITY, color=ORANGE, size=10)]
    product = float(products[REACH + k])
    return View(marks, [
        f"PE(p)       = {_row(here)}",
        f"PE(p + k)   = {_row(there)}",
        f"M_k PE(p)   = {_row(moved)}",
        f"largest difference of the last two: {error:.0e}",
        minus(f"PE(p)·PE(p + k) = cos kω_{{0}} + … + cos kω_{{{PAIRS - 1}}} = {product:.4f}"),
    ], (f"From position {p} to {p + k}: each pair's hand turns by its own angle; PE(p + k) and M_k PE(p) coincide; the "
        f"dot product is {product:.4f}."), [Line(offsets, products, panel=SIMILARITY, color=BLUE)])


def _row(entries: torch.Tensor) -> str:
    return minus("[" + " ".join(f"{entry:7.4f}" for entry in entries.tolist()) + "]")


def offset_explorer() -> Explorer:
    return Explorer(background, offset_view, p=slider(0, LAST, 5), k=slider(-REACH, REACH, 3))
