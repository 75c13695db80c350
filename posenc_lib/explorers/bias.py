"""The Bias explorer: what ALiBi, T5 and Shaw add to the score of a query and a key, offset by offset."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.figure import Figure

from posenc_lib.alibi import Alibi, alibi_slopes
from posenc_lib.explorer import Explorer, View, choice, minus, slider
from posenc_lib.figures import BLUE, DIVERGING, GREY, ORANGE, blank, book_style
from posenc_lib.marks import Cells, Line, Mark, Points, Text
from posenc_lib.position import Position
from posenc_lib.seeding import seeded
from posenc_lib.shaw import Shaw
from posenc_lib.t5 import T5Bias, t5_bucket

if TYPE_CHECKING:
    from jaxtyping import Float

WORDS, HEADS, D_HEAD = 24, 8, 8
K = 4                                                       # Shaw's clip
BUCKETS = {"num_buckets": 16, "max_distance": 32}           # few enough for some to be shared within 24 words
LIMIT = {"ALiBi": 12.0, "T5": 0.6, "Shaw": 1.0}             # end of the scale: one for all heads, to compare them
REACH = WORDS - 1
OFFSETS = np.arange(-REACH, REACH + 1)
MATRIX, CURVE = range(2)


@book_style()
def background() -> Figure:
    figure = blank(height=3.9, width=9.4)
    matrix, curve = figure.subplots(1, 2, width_ratios=(1, 1.35))
    edge = -0.75, WORDS - 0.25                              # room for the outline of the outermost cells
    matrix.set(xlim=edge, ylim=edge[::-1], box_aspect=1, xticks=range(0, WORDS, 4), yticks=range(0, WORDS, 4))
    matrix.set(xlabel="key's position n (words)", ylabel="query's position m (words)")
    matrix.set_title("One number along each diagonal; outlined: offset k")
    curve.set(xlim=(-REACH - 3, REACH + 1), ylim=(-1.05, 1.05), xticks=range(-20, 21, 5))
    curve.set_yticks(np.linspace(-1, 1, 5), [""] * 5)       # the numbers change with the scheme: they are marks
    curve.set(xlabel="offset k = n − m (words)", ylabel="bias added to the score, and its colour")
    curve.yaxis.labelpad = 34                               # beyond those numbers
    curve.set_title("Bias by offset; orange: the offsets that share k's number")
    curve.axhline(0, color=GREY, linewidth=0.5)
    curve.axvline(0, color=GREY, linewidth=0.5)
    curve.imshow(np.linspace(1, -1, 255)[:, None], extent=(-REACH - 3, -REACH - 1.5, -1, 1), aspect="auto",
                 cmap=DIVERGING)
    return figure


@functools.cache
def schemes() -> dict[str, Position]:
    """The three schemes. The tables of T5 and Shaw are as they begin, from a fixed seed: nothing is trained here."""
    with seeded(0):
        return {"ALiBi": Alibi(HEADS), "T5": T5Bias(HEADS, **BUCKETS), "Shaw": Shaw(D_HEAD, K, values=False)}


@functools.cache
def queries() -> Float[torch.Tensor, "heads d_head"]:
    """One query for each head, always the same; every word has it. Only Shaw's term looks at it."""
    return torch.randn(HEADS, D_HEAD, generator=torch.Generator().manual_seed(3))


@functools.cache
@torch.no_grad()
def biases(scheme: str) -> Float[np.ndarray, "heads queries keys"]:
    """What the scheme itself adds to the scores."""
    position = torch.arange(WORDS)[None]
    query = queries()[None, :, None].expand(1, HEADS, WORDS, D_HEAD)
    return schemes()[scheme].score(query, position, position)[0].numpy()


def by_offset(matrix: Float[np.ndarray, "queries keys"]) -> Float[np.ndarray, " offsets"]:
    """The numbers for k = −23 … 23: the last query meets the offsets up to 0, the first one those from 0."""
    return np.concatenate([matrix[-1], matrix[0, 1:]])


@functools.lru_cache(maxsize=64)
def still_marks(scheme: str, head: int) -> tuple[Mark, ...]:
    """What stays while k moves: the matrix, the curve, the numbers on the scale."""
    limit, matrix = LIMIT[scheme], biases(scheme)[head]
    scale = [Text(-REACH - 3, tick, minus(f"{tick * limit:g}"), size=13, align="right", shift=(-8, 0), panel=CURVE,
                  color="black") for tick in (-1, -0.5, 0, 0.5, 1)]
    others: list[Mark] = []
    if scheme == "ALiBi":                                   # heads differ by their slopes only: compare them
        ends = biases(scheme)[:, 0, REACH] / limit
        others = [*(Line([-REACH, 0, REACH], [end, 0, end], panel=CURVE, color=GREY, width=0.7) for end in ends),
                  Text(REACH, 0.95, "grey: all 8 heads", panel=CURVE, color=GREY, align="right")]
    return (Cells(matrix, low=-limit, high=limit, panel=MATRIX), *scale, *others,
            _steps(by_offset(matrix) / limit, color=BLUE, width=2.0))


def bias_view(scheme: str, head: int, k: int) -> View:
    """The bias of this scheme and head, and where the number for offset `k` comes from."""
    curve = by_offset(biases(scheme)[head])
    bias = float(curve[k + REACH])
    group, lines = _explained(scheme, head, k, bias)
    shares = group == group[k + REACH]
    sharing = _sharing(OFFSETS[shares], scheme)
    corners = outline(k)
    marks = [Line(*corners, panel=MATRIX, color="white", width=4.5),          # a white rim, so that the black line
             Line(*corners, panel=MATRIX, color="black", width=1.8),          # is seen on the darkest colours too
             _steps(np.where(shares, curve, np.nan) / LIMIT[scheme], color=ORANGE, width=5.0),
             Line([k, k], [-1.05, bias / LIMIT[scheme]], panel=CURVE, color="black", width=1, dashed=True),
             Points([k], [bias / LIMIT[scheme]], panel=CURVE, color="black", size=7)]
    lines += [sharing,
              f"e^{{bias}} = {np.exp(bias):.4f}: the factor on the weight before the softmax divides by the row's sum"]
    alt = f"{scheme}, head {head}: at offset {k} the bias is {bias:.4g} along the whole diagonal; {sharing}."
    return View(marks, [minus(line) for line in lines], minus(alt), still_marks(scheme, head))


def outline(k: int) -> tuple[list[float], list[float]]:
    """Around the cells with n − m = k: down the stairs on their upper right, up again on their lower left."""
    rows = range(max(0, -k), WORDS - max(0, k))
    down = [(m + k + side, m - 0.5) for m in rows for side in (-0.5, 0.5)]
    up = [(m + k + side, m + 0.5) for m in reversed(rows) for side in (0.5, -0.5)]
    x, y = zip(*down, *up, down[0], strict=True)
    return list(x), list(y)


def _explained(scheme: str, head: int, k: int, bias: float) -> tuple[np.ndarray, list[str]]:
    """By what the scheme groups offsets −23 … 23, those of a group sharing a number, and lines on this number."""
    if scheme == "ALiBi":
        slope = float(alibi_slopes(HEADS)[head])
        return np.abs(OFFSETS), [
            f"slope of head {head}: 2^{{-{head + 1}}} = 1/{1 / slope:.0f} = {slope:.8g}; distance |{k}| = {abs(k)}",
            f"bias = -slope · |k| = -{slope:.8g} · {abs(k)} = {bias:.8g}"]
    if scheme == "T5":
        bucket = t5_bucket(torch.from_numpy(OFFSETS), **BUCKETS).numpy()
        here, (count, furthest) = bucket[k + REACH], BUCKETS.values()
        return bucket, [
            f"k = {k} falls in bucket {here} of 0 … {count - 1} (num_buckets = {count}, max_distance = {furthest})",
            f"bias = table[bucket {here}, head {head}] = {bias:.4f}   (fresh random, not trained)"]
    clipped = np.clip(OFFSETS, -K, K)
    c, a = clipped[k + REACH], schemes()["Shaw"].key_table.detach()
    product = float(queries()[head] @ a[c + K])
    return clipped, [
        f"clip({k}, -{K}, {K}) = {c}, so a is row {c + K} of the table's 0 … {2 * K}   (fresh random, not trained)",
        f"bias = q·a / √d_head = {product:.4f} / √{D_HEAD} = {bias:.4f}",
        f"it depends on the query: here all {WORDS} words have one fixed q for head {head}; another q, other numbers"]


def _steps(heights: np.ndarray, **look: object) -> Line:
    """One level stretch for each offset."""
    return Line((OFFSETS[:, None] + [-0.5, 0.5]).ravel(), np.repeat(heights, 2), panel=CURVE, **look)


def _sharing(offsets: np.ndarray, scheme: str) -> str:
    first, last = offsets[0], offsets[-1]
    if first == last:
        return f"k = {first} has this number alone"
    if scheme == "ALiBi":
        return f"k = {first} and k = {last} share this number"
    beyond = " and everything beyond" if REACH in (-first, last) else ""
    return f"k = {first} … {last}{beyond} share this number"


def bias_explorer() -> Explorer:
    return Explorer(background, bias_view, scheme=choice(list(LIMIT)), head=slider(0, HEADS - 1, 1),
                    k=slider(-REACH, REACH, -3, label="offset k"))
