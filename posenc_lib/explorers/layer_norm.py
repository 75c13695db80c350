"""The LayerNorm explorer: one small vector, step by step. Shift and scale vanish; an outlier squeezes the others.

Ba, Kiros and Hinton 2016, "Layer Normalization", equations (3) and (4), before the learned γ and β.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.figure import Figure

from posenc_lib.arguments import positive_number
from posenc_lib.explorer import Explorer, View, minus, slider
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, panels
from posenc_lib.marks import Cells, Line, Mark, Points, Text

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

X, EPS = (2.0, 4.0, 6.0, 8.0), 1e-5
D = len(X)
LINEAR = 20                                                 # the first two scales are logarithmic beyond ±20
LIMITS = (-13, 160), (-26, 110), (-1.8, 2.3)                # of the panels: every setting fits, with numbers above
VECTOR, CENTRED, RESULT = range(3)
EDGE = -0.6, D - 0.4                                        # left and right end of every panel
PALE_GREEN = {"low": 0.0, "high": 5.0, "colors": "Greens"}  # how a cell of value 1 looks


def layer_norm(
    x: object, eps: float = EPS,
) -> tuple[Float[Tensor, "*axes"], Float[Tensor, "*axes"], Float[Tensor, "*axes d"]]:
    """Mean and biased variance of `x` `[…, d]` along its last axis, and (x - mean) / √(variance + eps), in float64.

    Raises: `ValueError` or `TypeError` for an `eps` that is not a positive number, `ValueError` for an `x` without
    entries.
    """
    eps = positive_number("eps", eps)
    x = torch.as_tensor(x, dtype=torch.float64)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x must have shape [..., d] with d at least 1, got {list(x.shape)}")
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)   # the sum divided by d, not by d - 1
    return mean.squeeze(-1), variance.squeeze(-1), (x - mean) / (variance + eps).sqrt()


def background() -> Figure:
    figure, (vector, centred, result) = panels(1, 1, 1, height=4.0, width=9.6)
    for ax, ticks in ((vector, (-10, 0, 10, 20, 40, 80)), (centred, (-20, -10, 0, 10, 20, 40))):
        ax.set_yscale("symlog", linthresh=LINEAR, linscale=1.5)
        ax.set_yticks(ticks, [minus(str(tick)) for tick in ticks])
        ax.set_ylabel(f"value (logarithmic beyond ±{LINEAR})")
        ax.minorticks_off()
    result.set_ylabel("value (standard deviations)")
    titles = "The vector x and its mean", "x − mean: the shift is gone", "÷ √(variance + ε): so is the scale"
    for ax, limits, title in zip(figure.axes, LIMITS, titles, strict=True):
        ax.set(xlim=EDGE, ylim=limits, xticks=range(D), xlabel="entry", title=title)
    result.plot([], [], "o", color=BLUE, label="an entry")
    result.plot([], [], color=GREEN, label="mean")
    result.fill_between([], [], color="#D3EECD", label="mean ± 1 standard deviation")
    result.plot([], [], "o", color=ORANGE, markersize=10, markerfacecolor="none", label="result of [2, 4, 6, 8] itself")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9.5)
    return figure


def layer_norm_view(shift: float, scale: float, outlier: float) -> View:
    """LayerNorm of [2, 4, 6, 8] · scale + shift, with `outlier` added to the last entry."""
    x = np.multiply(X, scale) + shift + [0, 0, 0, outlier]
    mean, variance, result = (_clean(step.numpy()) for step in layer_norm(x))
    itself = layer_norm(X)[2].numpy()
    centred, deviation, with_eps = _clean(x - mean), np.sqrt(variance), np.sqrt(variance + EPS)
    marks = [*_step(VECTOR, x, mean, deviation), *_step(CENTRED, centred, 0, deviation),
             *_step(RESULT, result, 0, deviation / with_eps),
             Points(range(D), itself, panel=RESULT, color=ORANGE, size=15, hollow=True)]
    change, unbiased = np.abs(result - itself).max(), (centred ** 2).sum() / (D - 1)
    squares = " + ".join(f"{_bracketed(entry)}²" for entry in centred)
    squeezed = ", squeezed by the outlier" if outlier else ""
    lines = [
        f"x        = [{' '.join(f'{entry:.6g}' for entry in x)}]",
        f"mean     = ({' + '.join(map(_bracketed, x))}) / {D} = {mean:.4f}",
        f"variance = ({squares}) / {D} = {variance:.4f}   (biased: ÷ {D})",
        f"result   = (x - mean) / √(variance + ε) = {_row(result)}",
        f"[2, 4, 6, 8] itself gives                 {_row(itself)}   largest difference {change:.4f}",
        f"ε = {EPS:.5f} makes the result {100 * (1 - deviation / with_eps):.2g} % shorter than it would be without",
        f"entries 0, 1, 2 of the result stand {result[1] - result[0]:.4f} apart{squeezed}; "
        f"those of [2, 4, 6, 8] itself {itself[1] - itself[0]:.4f}",
        f"unbiased (÷ {D - 1}): variance {unbiased:.4f}, "
        f"result {_row(centred / np.sqrt(unbiased + EPS))}: not LayerNorm",
    ]
    alt = (f"x is [{' '.join(f'{entry:.6g}' for entry in x)}], with mean {mean:.4f} and variance {variance:.4f}. "
           f"LayerNorm makes {_row(result)} of it, at most {change:.4f} from what it makes of [2, 4, 6, 8].")
    return View(marks, [minus(line) for line in lines], minus(alt))


def _step(panel: int, entries: np.ndarray, mean: float, deviation: float) -> list[Mark]:
    """The entries as sticks on their mean, a band of one standard deviation, the numbers along the top."""
    sticks = np.stack([np.full(D, mean), entries, np.full(D, np.nan)], 1).ravel()        # no number: a gap in the line
    return [Cells(np.ones((1, 1)), (*EDGE, mean - deviation, mean + deviation), **PALE_GREEN, panel=panel),
            Line(EDGE, [mean, mean], panel=panel, color=GREEN),
            Line(np.repeat(range(D), 3), sticks, panel=panel, color=GREY, width=1.5),
            Points(range(D), entries, panel=panel),
            *(Text(place, LIMITS[panel][1], minus(f"{entry:.4g}"), panel=panel, color="black", size=11,
                   shift=(0, 8)) for place, entry in enumerate(entries))]


def _clean(numbers: np.ndarray) -> np.ndarray:
    """Without what rounding leaves where the number is 0, which would be shown as −0.0000."""
    return numbers.round(12) + 0.0


def _row(entries: np.ndarray) -> str:
    return "[" + " ".join(f"{entry:.4f}" for entry in entries) + "]"


def _bracketed(number: float) -> str:
    return f"({number:.6g})" if number < 0 else f"{number:.6g}"


def layer_norm_explorer() -> Explorer:
    return Explorer(background, layer_norm_view, shift=slider(-10, 10, 0), scale=slider(0.1, 3.0, 1.0, step=0.1),
                    outlier=slider(0, 40, 0))
