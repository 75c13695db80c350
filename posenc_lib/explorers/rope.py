"""The RoPE explorer: a query turned by mω and a key turned by nω have a score that depends on n − m alone."""
from __future__ import annotations

import functools
import math

import numpy as np
import torch
from matplotlib.figure import Figure

from posenc_lib.explorer import Explorer, View, choice, minus, slider
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, panels
from posenc_lib.marks import Arrow, Line, Mark, Points, Text, frame
from posenc_lib.rotary import apply_rotary
from posenc_lib.sinusoidal import frequencies

D_HEAD, LAST, FARTHER, END = 8, 40, 7, 50               # END: how far the third panel looks
PAIRS = D_HEAD // 2
QUERY = (1.2, 0.4, -1.1, 0.6, -0.6, -1.1, 0.9, -0.9)    # pair i is columns 2i and 2i + 1
KEY = (0.4, 0.9, -0.2, 1.0, -0.7, 0.7, 0.9, 0.4)
PLANE, SHARES, SCORE = range(3)
PALE_BLUE, PALE_ORANGE = "#A9CFE6", "#F4D493"


def background() -> Figure:
    figure, (plane, shares, score) = panels(1.3, 0.75, 1.2, height=3.8, width=9.6)
    plane.set(xlim=(-1.95, 1.95), ylim=(-1.95, 1.95), aspect="equal", xlabel="column 2i", ylabel="column 2i + 1")
    plane.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], title="Chosen pair: pale before, bold turned")
    plane.plot([-1.5, 1.5, np.nan, 0, 0], [0, 0, np.nan, -1.5, 1.5], color=GREY, linewidth=0.5)
    for y, color in ((1.75, BLUE), (-1.75, ORANGE)):
        plane.plot([-1.85, -1.55], [y, y], color=color, linewidth=3)           # the angle is written beside it
    shares.plot(range(PAIRS), shares_from_offset(0, 10_000), "o", markersize=10, color=GREY, markerfacecolor="none")
    shares.axhline(0, color=GREY, linewidth=0.5)
    shares.set(xlim=(-0.5, PAIRS - 0.5), ylim=(-1.6, 1.6), xticks=range(PAIRS), xlabel="pair i")
    shares.set(ylabel="share of the score", title="Rings before, dots turned")
    score.axhline(0, color=GREY, linewidth=0.5)
    score.plot([], [], color=GREEN, label="n − m held: flat")
    score.plot([], [], "--", color=GREY, linewidth=1, label="n held: waves")
    score.plot([], [], "o", color=GREEN, label="m, n")
    score.plot([], [], "o", color=GREEN, markerfacecolor="none", label=f"m + {FARTHER}, n + {FARTHER}")
    score.legend(loc="lower center", ncols=2, frameon=False, fontsize=8.5)
    score.set(xlim=(0, END), ylim=(-8, 5.5), yticks=range(-4, 5, 2), xlabel="position m of the query")
    score.set(ylabel="score q·k, before ÷ √d", title="Whole score: n − m decides")
    return figure


def turned(vector: tuple[float, ...], position: object, base: float) -> np.ndarray:
    """The pairs of `vector` turned by each of the positions, `[positions, pairs, 2]`, float64."""
    position = torch.as_tensor(position, dtype=torch.float64).reshape(-1)
    heads = torch.tensor(vector, dtype=torch.float64).expand(1, 1, len(position), D_HEAD)
    return apply_rotary(heads, position, base=base)[0, 0].unflatten(-1, (PAIRS, 2)).numpy()


def shares_turned(m: object, n: object, base: float) -> np.ndarray:
    """What each pair adds to the score, from the turned vectors, for each m and n, `[positions, pairs]`."""
    return (turned(QUERY, m, base) * turned(KEY, n, base)).sum(-1)


def shares_from_offset(offset: int, base: float) -> np.ndarray:
    """The same from n - m alone, `[pairs]`: (q·k) cos (n - m)ω − (q×k) sin (n - m)ω in each pair."""
    (a, b), (c, d) = np.reshape(QUERY, (PAIRS, 2)).T, np.reshape(KEY, (PAIRS, 2)).T
    angle = offset * frequencies(D_HEAD, base).numpy()
    return (a * c + b * d) * np.cos(angle) - (a * d - b * c) * np.sin(angle)


def angle_between(m: float, n: float, pair: int, base: float) -> float:
    """From the turned query to the turned key in the plane of `pair`, counter-clockwise, within half a turn."""
    (a, b), (c, d) = turned(QUERY, m, base)[0, pair], turned(KEY, n, base)[0, pair]
    return math.atan2(a * d - b * c, a * c + b * d)


def rope_view(m: int, n: int, pair: int, base: float) -> View:
    """Pair `pair` of the query turned by m and of the key by n, every pair's share of the score, and the score."""
    omega = float(frequencies(D_HEAD, base)[pair])
    shares = shares_turned([m, m + FARTHER], [n, n + FARTHER], base)
    here, farther = shares.sum(-1)
    marks = [*_arrows(m, n, pair, base), *_sticks(shares[0], pair), *_flat(m, n, base),
             Points([m], [here], panel=SCORE, color=GREEN, size=10),
             Points([m + FARTHER], [farther], panel=SCORE, color=GREEN, size=10, hollow=True)]
    return View(marks, _lines(m, n, pair, base), (
        f"Pair {pair} of the query has turned by {m * omega:.3f} radians, of the key by {n * omega:.3f}. The score is "
        f"{here:.4f}, and the same at every m as long as n − m is {n - m}; with n held at {n} it waves along m."
    ).replace("is -", "is −"), _wave(n, base))


def _arrows(m: int, n: int, pair: int, base: float) -> list[Mark]:
    """The chosen pair of query and key before and after, and the way between."""
    omega = float(frequencies(D_HEAD, base)[pair])
    pale, bold = [], []
    for name, vector, position, color, light, radius, height in (
            ("q by mω", QUERY, m, BLUE, PALE_BLUE, 0.30, 1.75), ("k by nω", KEY, n, ORANGE, PALE_ORANGE, 0.34, -1.75)):
        before, after = turned(vector, [0, position], base)[:, pair]
        angle = position * omega
        pale.append(Arrow((0, 0), tuple(before), 2, panel=PLANE, color=light))
        bold += [_way(math.atan2(*before[::-1]), angle, radius, color),
                 Arrow((0, 0), tuple(after), 3, panel=PLANE, color=color),
                 Text(-1.45, height, f"{name} = {angle:.4f} rad", panel=PLANE, align="left", color="black")]
    return pale + bold


def _way(start: float, angle: float, radius: float, color: str) -> Line:
    """From direction `start` through `angle` as a spiral, a little wider with each turn; few points, to stay small."""
    turn = np.linspace(0, angle, 2 + math.ceil(4 * angle))
    reach = radius + 0.07 * turn / (2 * math.pi)
    return Line(reach * np.cos(start + turn), reach * np.sin(start + turn), 1.5, panel=PLANE, color=color)


def _sticks(shares: np.ndarray, pair: int) -> list[Mark]:
    """Every pair's share, the chosen one marked."""
    up = np.stack([np.zeros(PAIRS), shares, np.full(PAIRS, np.nan)], 1).ravel()          # no number: a gap in the line
    return [Line(np.repeat(range(PAIRS), 3), up, panel=SHARES, color=GREY, width=3),
            Points(range(PAIRS), shares, panel=SHARES, color=GREY, size=8),
            Line([pair, pair], [0, shares[pair]], panel=SHARES, color=GREEN, width=3),
            Points([pair], [shares[pair]], panel=SHARES, color=GREEN, size=8),
            frame(pair - 0.4, pair + 0.4, -1.55, 1.55, panel=SHARES, color=GREEN, width=1.5)]


def _flat(m: int, n: int, base: float) -> tuple[Mark, ...]:
    """The score along m with the key moving along, wherever that key has a place."""
    along = np.linspace(max(0, m - n), END, 11)
    return (Line(along, shares_turned(along, along + n - m, base).sum(-1), panel=SCORE, color=GREEN),)


@functools.lru_cache(maxsize=64)
def _wave(n: int, base: float) -> tuple[Mark, ...]:
    """The score along m with the key left where it is."""
    m = np.arange(0, END + 0.5, 0.5)
    return (Line(m, shares_turned(m, n, base).sum(-1), panel=SCORE, color=GREY, width=1, dashed=True),)


def _lines(m: int, n: int, pair: int, base: float) -> list[str]:
    """The exact numbers: the chosen pair's angles and share, then the whole score in three ways."""
    omega, name, offset = float(frequencies(D_HEAD, base)[pair]), f"ω_{{{pair}}}", n - m
    before, after = angle_between(0, 0, pair, base), angle_between(m, n, pair, base)
    turns = round((before + offset * omega - after) / (2 * math.pi))
    less = f" - {turns} · 2π" if turns > 0 else f" + {-turns} · 2π" if turns else ""
    shares, farther = shares_turned([m, m + FARTHER], [n, n + FARTHER], base)
    return [minus(line) for line in (
        f"pair {pair}: {name} = {base:g}^{{-2·{pair}/{D_HEAD}}} = {omega:.6g} rad a position; "
        f"q turns by m{name} = {m * omega:.4f}, k by n{name} = {n * omega:.4f}",
        f"angle from q to k: before {before:.4f}, after {after:.4f} = {before:.4f} + (n - m){name}{less}; "
        f"(n - m){name} = {offset * omega:.4f}",
        f"share of pair {pair}: before {shares_from_offset(0, base)[pair]:.4f}, after {shares[pair]:.4f}",
        f"score q·k = {shares.sum(): .10f}  from the turned vectors",
        f"          = {shares_from_offset(offset, base).sum(): .10f}  from n - m = {offset} alone: "
        "Σ (q·k)_{i} cos (n - m)ω_{i} - (q×k)_{i} sin (n - m)ω_{i}",
        f"          = {farther.sum(): .10f}  at m + {FARTHER} = {m + FARTHER}, n + {FARTHER} = {n + FARTHER}",
        "(q·k)_{i} = q_{2i}k_{2i} + q_{2i+1}k_{2i+1} and (q×k)_{i} = q_{2i}k_{2i+1} - q_{2i+1}k_{2i}, before turning",
    )]


def rope_explorer() -> Explorer:
    return Explorer(background, rope_view, m=slider(0, LAST, 5), n=slider(0, LAST, 3),
                    pair=slider(0, PAIRS - 1, 0), base=choice([10, 100, 1_000, 10_000, 100_000], 10_000))
