"""The Table's end explorer: sentences longer than the table, refused, stretched or computed, and what that is worth."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from matplotlib.figure import Figure
from torch import Tensor

from posenc_lib.arguments import whole_number
from posenc_lib.explorer import Explorer, View, slider
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, RED, RED_TEXT, panels
from posenc_lib.learned import LearnedEncoding, stretch
from posenc_lib.marks import Cells, Line, Points, Text, frame
from posenc_lib.progress import progress
from posenc_lib.sinusoidal import SinusoidalEncoding, sinusoidal_table
from posenc_lib.training import SentenceReader, accuracy, train, which_came_first

if TYPE_CHECKING:
    from jaxtyping import Float

N, LONGEST, D_MODEL = 8, 32, 32
LENGTHS = tuple(range(2, LONGEST + 1))
LEARNED, STRETCHED, COMPUTED, WORTH = range(4)
SCHEMES = {"learned, stretched": (BLUE, "-"), "sinusoidal": (ORANGE, "-"), "sinusoidal, stretched": (GREEN, "--")}


@dataclass(frozen=True)
class EndRuns:
    """A table learned on sentences of 8 words, and the accuracy at other lengths, by scheme, length and seed."""

    table: Float[Tensor, "8 32"]
    accuracy: dict[str, dict[int, list[float]]]


def small_rows(d_model: int, max_len: int) -> LearnedEncoding:
    """A learned table that starts near 0, so that what is seen in it later was learned."""
    position = LearnedEncoding(d_model, max_len)
    position.table.data *= 0.02
    return position


def end_runs(seeds: int = 5, steps: int = 300, *, bar: bool = True) -> EndRuns:
    """Trains on 'which came first' at length 8, per seed once learned and once sinusoidal, and tests at all lengths.

    At another length nothing is trained: the rows of the learned table are stretched; those of the sinusoidal one are
    once computed and once stretched in the same way.
    """
    seeds = whole_number("seeds", seeds, at_least=1)
    learned_table, accuracies = None, {scheme: {length: [] for length in LENGTHS} for scheme in SCHEMES}
    for seed in progress(range(seeds), "training", shown=bar):
        task = which_came_first(seed, length=N)
        learned, sinusoidal = (
            train(lambda scheme=scheme, task=task: SentenceReader(task.vocabulary, task.classes, scheme()), task,
                  seed=seed, steps=steps, device="cpu", bar=False)[0]
            for scheme in (lambda: small_rows(D_MODEL, N), lambda: SinusoidalEncoding(D_MODEL, LONGEST, dropout=0.0)))
        table = learned.position.table.detach()
        learned_table = table if learned_table is None else learned_table
        for length in LENGTHS:
            other = which_came_first(seed + 1000, length=length, sentences=1000)
            for scheme, model, rows in (("learned, stretched", learned, stretch(table, length)),
                                        ("sinusoidal", sinusoidal, sinusoidal_table(length, D_MODEL)),
                                        ("sinusoidal, stretched", sinusoidal,
                                         stretch(sinusoidal_table(N, D_MODEL), length))):
                model.position = LearnedEncoding.from_rows(rows)
                accuracies[scheme][length].append(accuracy(model, other))
    return EndRuns(learned_table, accuracies)


def background(runs: EndRuns) -> Figure:
    figure, (*tables, worth) = panels(1, 1, 1, 1.9, height=3.5, width=9.8)
    for ax, title in zip(tables, ("learned", "stretched", "sinusoidal"), strict=True):
        ax.set(xlim=(-0.5, D_MODEL - 0.5), ylim=(LONGEST - 0.5, -0.5), xlabel="dimension", title=title)
    tables[0].set_ylabel("position p")
    for scheme, (color, style) in SCHEMES.items():
        worth.plot(LENGTHS, list(runs.accuracy[scheme].values()), color=color, linestyle=style, linewidth=0.7)
        worth.plot([], [], color=color, linestyle=style, label=scheme)
    worth.legend(loc="lower left", fontsize=8, frameon=False)
    worth.axvline(N, color=GREY, linewidth=0.8, linestyle=":")
    worth.text(N, 0.28, f" trained on {N}", fontsize=8, color=GREY)
    worth.axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    worth.text(LENGTHS[0], 0.5, " chance", va="bottom", fontsize=8, color=GREY)
    worth.set(xlim=(LENGTHS[0], LONGEST), ylim=(0, 1.03), xlabel="words in the sentence", ylabel="accuracy")
    worth.set_title("Accuracy, one line a seed")
    return figure


def end_view(runs: EndRuns, length: int) -> View:
    """Both tables for sentences of `length` words, what the learned one says by itself, and the accuracies."""
    encoding = LearnedEncoding.from_rows(runs.table)
    try:
        encoding(torch.zeros(1, length, D_MODEL))
        answer = f"{length} of its {N} rows are used"
    except ValueError as error:
        answer = f"refused: {error}"
    reach = float(runs.table.abs().max())
    marks = [Cells(runs.table[:length].numpy(), _rows(min(length, N)), -reach, reach, panel=LEARNED),
             Cells(stretch(runs.table, length).numpy(), _rows(length), -reach, reach, panel=STRETCHED),
             Cells(sinusoidal_table(length, D_MODEL).numpy(), _rows(length), panel=COMPUTED),
             Line([length, length], [0.35, 1], panel=WORTH, color=GREY, width=1, dashed=True),
             *(Points([length] * len(runs.accuracy[scheme][length]), runs.accuracy[scheme][length], panel=WORTH,
                      color=color, size=6, hollow=style != "-") for scheme, (color, style) in SCHEMES.items())]
    if length > N:
        left, right, bottom, _ = _rows(length)
        marks += [frame(left, right, N - 0.5, bottom, panel=LEARNED, color=RED, width=1.5),
                  Text(D_MODEL / 2, (N + length - 1) / 2, "no rows", panel=LEARNED, color=RED_TEXT, size=11)]
    lines = [f"{scheme + ':':23}accuracy {_spread(runs.accuracy[scheme][length])}" for scheme in SCHEMES]
    return View(marks, [f"the learned table as it is, {length} words: {answer}", *lines],
                f"Sentences of {length} words with a table of {N} rows: {answer}. The accuracies stand below.")


def _rows(count: int) -> tuple[float, float, float, float]:
    """Where the first rows lie in a table's panel."""
    return -0.5, D_MODEL - 0.5, count - 0.5, -0.5


def _spread(accuracies: list[float]) -> str:
    mean = sum(accuracies) / len(accuracies)
    return f"{mean:.3f} ({min(accuracies):.3f} to {max(accuracies):.3f} over {len(accuracies)} seeds)"


def table_end_explorer(runs: EndRuns | None = None) -> Explorer:
    """The explorer for these runs; without them it trains its own, which takes some seconds."""
    runs = end_runs() if runs is None else runs

    def view(words: int) -> View:
        return end_view(runs, words)

    return Explorer(lambda: background(runs), view, words=slider(LENGTHS[0], LENGTHS[-1], 12))
