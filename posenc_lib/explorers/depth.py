"""The Depth explorer: what the residual path and the norm do to gradients, and to what tells the tokens apart.

All of it at initialisation, before any training. That attention without them makes all tokens equal: Dong, Cordonnier
and Loukas 2021, "Attention is not all you need: pure attention loses rank doubly exponentially with depth". Gradients
before and after the norm: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
"""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from posenc_lib.arguments import whole_number
from posenc_lib.attention import MultiHeadAttention
from posenc_lib.encoder import PositionwiseFeedForward
from posenc_lib.explorer import Explorer, View, choice, minus
from posenc_lib.figures import BLUE, GREY, ORANGE, SKY, panels
from posenc_lib.marks import Line, Mark, Points, Text
from posenc_lib.progress import progress
from posenc_lib.seeding import seeded

if TYPE_CHECKING:
    from jaxtyping import Float

D_MODEL, N_HEADS, D_FF, TOKENS = 64, 4, 256, 32
NORMS, DEPTHS = ("none", "pre", "post"), (2, 12, 24, 48)
# For rank_residue: is there a residual path, is there a feed-forward network?
KINDS = {"attention": (False, False), "attention and FFN": (False, True), "with skip": (True, False)}
GRADIENT, RESIDUE = range(2)
PALE = "#C4C4C4"
PANEL_HEIGHT = 300                                             # pixels, nearly: to keep names apart
Setting = tuple[bool, str, int]                                 # residual, norm, depth


class Layer(nn.Module):
    """An encoder layer with switches; without the feed-forward network it is attention alone."""

    def __init__(self, residual: bool, norm: str, feed_forward: bool) -> None:
        super().__init__()
        self.residual, self.norm = residual, norm
        self.attention = MultiHeadAttention(D_MODEL, N_HEADS)
        self.feed_forward = PositionwiseFeedForward(D_MODEL, D_FF, dropout=0.0) if feed_forward else None
        self.attention_norm, self.feed_forward_norm = (
            nn.Identity() if norm == "none" else nn.LayerNorm(D_MODEL) for _ in range(2))

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        x = self.around(lambda x: self.attention(x)[0], self.attention_norm, x)
        return self.around(self.feed_forward, self.feed_forward_norm, x) if self.feed_forward else x

    def around(self, sublayer: Callable, norm: nn.Module, x: Tensor) -> Tensor:
        """The sublayer, with the norm before it or after the sum, and with the residual path or without."""
        y = sublayer(norm(x) if self.norm == "pre" else x)
        if self.residual:
            y = x + y
        return norm(y) if self.norm == "post" else y


class Stack(nn.Module):
    """Layers with switches, in float64, biases 0; with norm "pre" a norm follows the last layer, as in `Encoder`.

    Weights are Xavier's, as PyTorch's own layers have them: to its attention, queries, keys and values are one
    `[3d, d]` matrix, which halves their variance, and the output keeps what `nn.Linear` gives it, variance 1/(3d).
    """

    def __init__(self, depth: int, residual: bool, norm: str, feed_forward: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(residual, norm, feed_forward) for _ in range(depth))
        self.final_norm = nn.LayerNorm(D_MODEL) if norm == "pre" else nn.Identity()
        for name, linear in self.named_modules():
            if isinstance(linear, nn.Linear):
                nn.init.zeros_(linear.bias)
                if not name.endswith("to_output"):
                    nn.init.xavier_uniform_(linear.weight, gain=1 if "feed_forward" in name else math.sqrt(1 / 2))
        self.double()                                           # float32 overflows, and its norms underflow, too soon

    def states(self, x: Float[Tensor, "batch seq d_model"]) -> list[Float[Tensor, "batch seq d_model"]]:
        """The tokens as they come in and after each layer."""
        return list(itertools.accumulate(self.layers, lambda x, layer: layer(x), initial=x))

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        return self.final_norm(self.states(x)[-1])


def rank_one_residue(x: Float[Tensor, "*axes seq d_model"]) -> Float[Tensor, "*axes"]:
    """‖X − 1x̄ᵀ‖ / ‖X‖: the share of the tokens that is not their mean; 0 if all are the same."""
    apart, whole = torch.linalg.matrix_norm(x - x.mean(-2, keepdim=True)), torch.linalg.matrix_norm(x)
    return apart / whole.clamp(min=torch.finfo(x.dtype).tiny)                            # tokens may be 0, every one


@dataclass(frozen=True)
class DepthRuns:
    """By residual (True or False), norm and depth: gradient norms of layers 1 … depth and residues after 0 … depth.

    The gradient is that of `feed_forward.narrow.weight`.
    """

    depths: tuple[int, ...]
    gradient: dict[Setting, Float[Tensor, "seeds layers"]]
    residue: dict[Setting, Float[Tensor, "seeds states"]]

    @functools.cached_property                                  # asked at every move
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of each panel's axis; that of the gradients is logarithmic, around all norms that can stand on it."""
        norms = torch.cat([seeds.flatten() for seeds in self.gradient.values()])
        low, high = norms[(norms > 0) & norms.isfinite()].log10().aminmax()
        return (10 ** (low.floor().item() - 2), 10 ** (high.ceil().item() + 2)), (-0.03, 1.03)


def depth_runs(seeds: int = 5, depths: Iterable[int] = DEPTHS, *, bar: bool = True) -> DepthRuns:
    """Measures every setting with seeds 0, 1, …, with a progress bar; some seconds."""
    seeds = whole_number("seeds", seeds, at_least=1)
    depths = tuple(whole_number("depth", depth, at_least=1) for depth in depths)
    if not depths:
        raise ValueError("depths must name at least one depth, got none")
    settings = list(itertools.product((False, True), NORMS, depths))
    runs = progress(list(itertools.product(settings, range(seeds))), "stacks", shown=bar)
    measured = [measure(*setting, seed) for setting, seed in runs]
    gradient, residue = ({setting: torch.stack(each[number * seeds: (number + 1) * seeds])
                          for number, setting in enumerate(settings)} for each in zip(*measured, strict=True))
    return DepthRuns(depths, gradient, residue)


def measure(residual: bool, norm: str, depth: int, seed: int) -> tuple[Float[Tensor, " layers"],
                                                                      Float[Tensor, " states"]]:
    """Gradient norm of each layer and residue after each, for one stack and one sequence of tokens N(0, 1).

    The loss is linear and random: the mean over tokens of c·y/√d with c from N(0, 1), another one for each token.
    """
    with seeded(seed):
        stack = Stack(depth, residual, norm)
        x, c = torch.randn(2, 1, TOKENS, D_MODEL, dtype=torch.float64)
    states = stack.states(x)
    ((c * stack.final_norm(states[-1])).sum(-1) / math.sqrt(D_MODEL)).mean().backward()
    gradients = [layer.feed_forward.narrow.weight.grad for layer in stack.layers]
    return (torch.stack([gradient.norm() for gradient in gradients]),
            torch.cat([rank_one_residue(state.detach()) for state in states]))


@torch.no_grad()
def rank_residue(kind: str, depth: int, seed: int) -> Float[Tensor, " layers"]:
    """The residue after layer 1 … depth without norms, every weight from N(0, 1/d), tokens from N(0, 1), float64.

    `kind` is "attention", "attention and FFN", or "with skip", attention with a residual path around it.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    depth = whole_number("depth", depth, at_least=1)
    residual, feed_forward = KINDS[kind]
    with seeded(whole_number("seed", seed, at_least=0)):
        stack = Stack(depth, residual, "none", feed_forward)
        for weight in stack.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=1 / math.sqrt(D_MODEL))
        x = torch.randn(1, TOKENS, D_MODEL, dtype=torch.float64)
    return torch.cat([rank_one_residue(state) for state in stack.states(x)[1:]])


def background(runs: DepthRuns) -> Figure:
    figure, (gradient, residue) = panels(1.1, 1, height=4.0, width=9.6)
    low, high = runs.ends[GRADIENT]
    gradient.set(yscale="log", ylim=(low, high), ylabel="norm, second FFN weight (log scale)")
    first, last = round(math.log10(low)), round(math.log10(high))
    step = max(1, 5 * round((last - first) / 40))
    gradient.set_yticks([10.0 ** exponent for exponent in range(first, last + 1) if exponent % step == 0])
    gradient.minorticks_off()
    gradient.plot([-0.03, 1], [1, 1], color=GREY, linewidth=0.8, linestyle="--")
    gradient.set_title("Gradients: near 1, vanishing or exploding?")
    residue.set(ylim=runs.ends[RESIDUE], ylabel="rank-one residue", title="Tokens: 1 = all differ, 0 = all the same")
    for ax, right, label in (gradient, 1.27, "layer"), (residue, 1.42, "layer (0: what comes in)"):
        ax.set(xlim=(-0.03, right), xticks=[])                  # room for names on the right
        ax.set_xlabel(label, labelpad=18)                       # below its numbers, which are marks: they change
    for color, width, label in ((BLUE, 3, "geometric mean"), (SKY, 1, "one seed"), (PALE, 1.5, "other settings, mean")):
        gradient.plot([], [], color=color, linewidth=width, label=label)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
    return figure


def depth_view(runs: DepthRuns, residual: bool, norm: str, depth: int) -> View:
    """The runs of one setting, the means of the other five at this depth pale behind them."""
    marks: list[Mark] = []
    for panel, runs_of in ((GRADIENT, runs.gradient), (RESIDUE, runs.residue)):
        ends, here = runs.ends[panel], runs_of[residual, norm, depth]
        means = {(r, n): _mean(runs_of[r, n, depth]) for r in (False, True) for n in NORMS}
        bold = _curves(means.pop((residual, norm))[None], depth, ends, 25, panel=panel, width=3)
        pale = _curves(torch.stack([*means.values()]), depth, ends, 11, panel=panel, color=PALE, width=1.5)
        marks += [pale, _curves(here, depth, ends, 19, panel=panel, color=SKY, width=1), bold,
                  Points(bold.x[[0, -2]], bold.y[[0, -2]], panel=panel, color=ORANGE, size=9)]
        last = pale.y.reshape(5, -1)[:, -2]
        names = dict(zip((_name(panel, *setting) for setting in means), last, strict=True))
        names[_name(panel, residual, norm)] = bold.y[-2]
        marks += _names(panel, ends, names, _name(panel, residual, norm))
        layers = {max(round(depth * part / 4), 1 - panel) for part in range(5)}           # no gradient before layer 1
        marks += [Text(layer / depth, ends[0], str(layer), panel=panel, shift=(0, 13), color="black")
                  for layer in sorted(layers)]
    gradient, end = runs.gradient[residual, norm, depth], runs.residue[residual, norm, depth][:, -1]
    first, last = gradient[:, 0], gradient[:, -1]
    stack = f"{'with' if residual else 'without'} residual path, norm {norm}, depth {depth}"
    table = {
        "gradient norm, layer 1": _spread(first),
        f"gradient norm, layer {depth}": _spread(last),
        f"layer 1 ÷ layer {depth}": _spread(first / last) if last.all() else "not defined, the second is 0",
        f"residue after layer {depth}": _spread(end) + (": no more than rounding" if (end < 1e-14).all() else ""),
    }
    lines = [f"{stack}: geometric mean (smallest to largest) over {len(gradient)} seeds",
             *(f"{name + ':':28}{text}" for name, text in table.items())]
    said = "; ".join(f"{name}: {text}" for name, text in table.items())
    alt = f"Gradient norm and residue by layer, {stack}. {said}."
    return View(marks, [minus(line) for line in lines], minus(alt))


def _curves(rows: Tensor, depth: int, ends: tuple[float, float], points: int, **look: object) -> Line:
    """Rows that end with layer `depth` as one line with gaps, with so many points a row that a move stays small.

    What has no place on the axis, 0 if it is logarithmic or what is beyond the largest float, is drawn at its end.
    """
    columns = rows.shape[1]
    shown = np.arange(columns)
    if columns > points:                                        # closer at the start, where tokens become the same
        shown = np.unique(((columns - 1) * np.linspace(0, 1, points) ** 1.5).round().astype(int))
    heights = np.nan_to_num(rows.numpy()[:, shown], nan=np.inf, posinf=np.inf).clip(*ends)
    gap = np.full((len(rows), 1), np.nan)
    return Line(np.tile([*(shown + depth + 1 - columns) / depth, np.nan], len(rows)),
                np.hstack([heights, gap]).ravel(), **look)


def _name(panel: int, residual: bool, norm: str) -> str:
    """What a curve is called: the same for those that lie on one another."""
    if panel == RESIDUE:
        return f"residual, {'no norm' if norm == 'none' else norm}" if residual else "no residual"
    return "with a norm" if norm != "none" else "residual only" if residual else "neither"


def _names(panel: int, ends: tuple[float, float], names: dict[str, float], here: str) -> Iterator[Text]:
    """The names to the right of the curves' ends, pushed up where two would overlap."""
    scale = math.log if panel == GRADIENT else float
    low, high, below = scale(ends[0]), scale(ends[1]), -math.inf
    for name, value in sorted(names.items(), key=lambda item: item[1]):
        height = PANEL_HEIGHT * (scale(value) - low) / (high - low)
        below = max(height, below + 14)
        yield Text(1, value, name, panel=panel, size=11, align="left", shift=(9, height - below),
                   color=BLUE if name == here else GREY)


def _mean(seeds: Float[Tensor, "seeds layers"]) -> Float[Tensor, " layers"]:
    return seeds.log().mean(0).exp()


def _spread(seeds: Float[Tensor, " seeds"]) -> str:
    if not seeds.isfinite().all():
        return "beyond the largest float"
    if not seeds.any():
        return "0 (its square is below the smallest float)"
    return f"{_mean(seeds):.2g} ({seeds.min():.2g} to {seeds.max():.2g})"


def depth_explorer(runs: DepthRuns | None = None) -> Explorer:
    """The explorer for these runs; without them it makes its own, which takes some seconds."""
    runs = depth_runs() if runs is None else runs

    def view(residual: bool, norm: str, depth: int) -> View:
        return depth_view(runs, residual, norm, depth)

    return Explorer(lambda: background(runs), view, residual=widgets.Checkbox(False, description="residual"),
                    norm=choice(NORMS), depth=choice(runs.depths, runs.depths[min(2, len(runs.depths) - 1)]))
