"""The Scale explorer: how fast a model learns when its tokens are longer, or shorter, than its positions."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional

from posenc_lib.arguments import positive_number, whole_number
from posenc_lib.explorer import Explorer, View, choice
from posenc_lib.figures import BLUE, GREY, ORANGE, panels
from posenc_lib.marks import Line, Points
from posenc_lib.progress import progress
from posenc_lib.seeding import seeded

if TYPE_CHECKING:
    from jaxtyping import Float

D_MODEL, LENGTH, HIDDEN = 64, 5, 64
EVERY = 10                                              # steps between two looks at the accuracy
RATIOS = (1 / 64, 1 / 16, 1 / 8, 1 / 2, 1, 2, 8, 16, 64)
SCALED = ("tokens", "positions")
RATIO, STEPS = 0, 1


@dataclass(frozen=True)
class ScaleRuns:
    """Share of the 25 cases of `(x + p) mod 5` that are right, by what was scaled, ratio, seed and look.

    The ratio is the length of a token over that of a position. `accuracy["tokens"]` has positions of the usual size,
    drawn from N(0, 1), and scales the tokens; `accuracy["positions"]` the other way round.
    """

    ratios: tuple[float, ...]
    accuracy: dict[str, Float[Tensor, "ratios seeds looks"]]

    @property
    def steps(self) -> list[int]:
        return [look * EVERY for look in range(self.accuracy["tokens"].shape[-1])]

    def needed(self, scaled: str, ratio: float) -> list[float]:
        """For each seed the first step at which every case is right; infinite if that never came."""
        return [next((step for step, value in zip(self.steps, curve.tolist(), strict=True) if value == 1), math.inf)
                for curve in self.accuracy[scaled][self.ratios.index(ratio)]]


def scale_runs(seeds: int = 5, steps: int = 300, ratios: Iterable[float] = RATIOS, *, bar: bool = True) -> ScaleRuns:
    """Trains one small model for each of the two ways to make a ratio, each ratio and seed, with a progress bar."""
    seeds, steps = whole_number("seeds", seeds, at_least=1), whole_number("steps", steps, at_least=EVERY)
    ratios = tuple(positive_number("ratio", ratio) for ratio in ratios)
    if not ratios:
        raise ValueError("ratios must name at least one ratio, got none")
    sizes = [(ratio, 1.0) for ratio in ratios] + [(1.0, 1 / ratio) for ratio in ratios]
    runs = [(*size, seed, steps) for size in sizes for seed in range(seeds)]
    curves = torch.stack([learning_curve(*run) for run in progress(runs, "training", shown=bar)])
    return ScaleRuns(ratios, dict(zip(SCALED, curves.unflatten(0, (2, len(ratios), seeds)), strict=True)))


def learning_curve(token_size: float, position_size: float, seed: int, steps: int) -> Float[Tensor, " looks"]:
    """Accuracy at step 0, 10, 20, … of a small model that learns `(x + p) mod 5`.

    Both tables are learned; their entries begin as N(0, size²). One hidden layer, every case in every step, Adam.
    """
    with seeded(seed):
        tokens, positions = (
            nn.Parameter(size * torch.randn(LENGTH, D_MODEL)) for size in (token_size, position_size))
        head = nn.Sequential(nn.Linear(D_MODEL, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, LENGTH))
        place = torch.arange(LENGTH)
        every_token = place[:, None]                    # token 0 everywhere, token 1 everywhere, …: all 25 cases
        target = ((every_token + place) % LENGTH).flatten()
        optimizer = torch.optim.Adam([tokens, positions, *head.parameters()], lr=3e-3)
        looks = []
        for step in range(steps + 1):
            logits = head(tokens[every_token] + positions).flatten(0, 1)
            if step % EVERY == 0:
                looks.append((logits.argmax(-1) == target).float().mean())
            optimizer.zero_grad()
            functional.cross_entropy(logits, target).backward()
            optimizer.step()
    return torch.stack(looks)


def background(runs: ScaleRuns) -> Figure:
    figure, (by_ratio, by_step) = panels(1.25, 1, height=3.5, width=9.4)
    low, high = min(runs.ratios), max(runs.ratios)
    by_ratio.set(xscale="log", xlim=(low / 1.5, high * 1.5), ylim=(0, 1.04), ylabel="accuracy")
    names = [f"1/{1 / ratio:g}" if ratio < 1 and (1 / ratio).is_integer() else f"{ratio:g}" for ratio in runs.ratios]
    by_ratio.set_xticks(runs.ratios, names)
    by_ratio.minorticks_off()
    by_ratio.set_xlabel("length of a token / length of a position, at the start")
    by_ratio.set_title("After the chosen steps: line = mean, dots = seeds")
    by_step.set(xlim=(0, runs.steps[-1]), ylim=(0, 1.04), xlabel="step", ylabel="accuracy")
    by_step.set_title("The chosen ratio: one line a seed")
    for ax in (by_ratio, by_step):
        ax.axhline(1 / LENGTH, color=GREY, linewidth=0.8, linestyle="--")
    by_step.text(runs.steps[-1], 1 / LENGTH + 0.01, "chance", ha="right", va="bottom", fontsize=8, color=GREY)
    return figure


def scale_view(runs: ScaleRuns, scaled: str, ratio: float, steps: int) -> View:
    row, look = runs.ratios.index(ratio), runs.steps.index(steps)
    accuracy = runs.accuracy[scaled]
    now, here, mean = accuracy[:, :, look], accuracy[row], accuracy[:, :, look].mean(1)
    marks = [Points([each] * len(seeds), seeds.tolist(), panel=RATIO, color=BLUE, size=4)
             for each, seeds in zip(runs.ratios, now, strict=True)]
    marks += [Line(runs.ratios, mean.tolist(), panel=RATIO),
              Points([ratio], [mean[row].item()], panel=RATIO, color=ORANGE, size=12),
              *(Line(runs.steps, seed.tolist(), panel=STEPS, width=1.2) for seed in here),
              Line([steps, steps], [0, 1], panel=STEPS, color=ORANGE, width=1.5, dashed=True)]
    size = (f"N(0, {ratio:g}²)", "N(0, 1)") if scaled == "tokens" else ("N(0, 1)", f"N(0, {1 / ratio:g}²)")
    return View(marks, [
        f"tokens begin as {size[0]}, positions as {size[1]}: tokens are {ratio:g} times as long",
        f"accuracy after {steps} steps: {mean[row]:.2f} ({now[row].min():.2f} to {now[row].max():.2f} "
        f"over {now.shape[1]} seeds)",
        f"every case right: {_first(runs.needed(scaled, ratio), runs.steps[-1])}",
    ], (f"Tokens {ratio:g} times as long as positions, made by scaling the {scaled}: the accuracy after {steps} steps "
        f"is {mean[row]:.2f}."))


def _first(needed: list[float], last: int) -> str:
    within = [int(step) for step in needed if step < math.inf]
    if not within:
        return f"by no seed within {last} steps"
    text = f"first at step {min(within)} to {max(within)}"
    return text if len(within) == len(needed) else f"{text} by {len(within)} of {len(needed)} seeds"


def scale_explorer(runs: ScaleRuns | None = None) -> Explorer:
    """The explorer for these runs; without them it trains its own, which takes some seconds."""
    runs = scale_runs() if runs is None else runs

    def view(scaled: str, ratio: float, steps: int) -> View:
        return scale_view(runs, scaled, ratio, steps)

    return Explorer(lambda: background(runs), view, scaled=choice(SCALED, SCALED[0]),
                    ratio=choice(runs.ratios, runs.ratios[-1]),
                    steps=choice(runs.steps, runs.steps[min(8, len(runs.steps) - 1)]))
