"""The Training explorer: a small run epoch by epoch, its positions in the plane, its loss, its predictions."""
from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from posenc_lib.explorer import Explorer, View, minus, slider
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SEQUENTIAL, SKY, panels
from posenc_lib.marks import Cells, Line, Mark, Points, Text, frame
from posenc_lib.small_run import SmallRun, small_run

PLANE, LOSS, PREDICTION = range(3)
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
TRAIL = 40                                          # points of a trail at most, so that a move stays small


def background(run: SmallRun) -> Figure:
    """The empty panels for this run: its plane, its loss curve, its table of predictions."""
    figure, (plane, loss, prediction) = panels(1.15, 1, 1.1, height=3.5, width=9.6)
    reach = max(run.table.abs().max().item(), 0.5) * 1.15
    plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    plane.set(xlabel="dimension 0", ylabel="dimension 1", title="Positions P, ring = start")
    plane.axhline(0, color=GREY, linewidth=0.5)
    plane.axvline(0, color=GREY, linewidth=0.5)
    loss.semilogy(run.loss, color=GREY)
    loss.set(xlabel="epoch", ylabel="loss (log scale)", title="Loss")
    seq, vocabulary = run.probability.shape[1:]
    prediction.set(xlim=(-0.5, vocabulary - 0.5), ylim=(seq - 0.5, -0.5), box_aspect=seq / vocabulary)
    prediction.set(xticks=range(vocabulary), yticks=range(seq), xlabel="predicted token", ylabel="position")
    prediction.set_title("Probability; framed: the target")
    return figure


def training_view(run: SmallRun, epoch: int) -> View:
    """The state of `run` after `epoch` updates."""
    here, probability, loss = run.table[epoch].numpy(), run.probability[epoch].numpy(), run.loss[epoch].item()
    passed = np.unique(np.linspace(0, epoch, TRAIL).round().astype(int))
    trails = run.table[passed].numpy()
    guess = probability.argmax(-1)
    right = int((guess == run.y).sum())
    marks: list[Mark] = [Cells(probability, panel=PREDICTION, low=0.0, colors=SEQUENTIAL)]
    for position, (x, y) in enumerate(here):
        color, ink = COLORS[position % len(COLORS)], "black" if guess[position] == run.y[position] else RED
        trail = trails[:, position]
        away = np.array([x, y]) - trail[0]                  # the number stands ahead of the point, not on its trail
        ahead = away / max(np.linalg.norm(away), 1e-9) if epoch else np.array([0.7, 0.7])
        marks += [Line(*trail.T, panel=PLANE, color=color, width=1.2),
                  Points(*trail[:1].T, panel=PLANE, color=color, size=7, hollow=True),
                  Points([x], [y], panel=PLANE, color=color, size=10),
                  Text(x, y, str(position), panel=PLANE, shift=(13 * ahead[0], -13 * ahead[1]), color="black"),
                  frame(run.y[position] - 0.5, run.y[position] + 0.5, position - 0.5, position + 0.5,
                        panel=PREDICTION, color=ink, width=2.5)]
    marks.append(Points([epoch], [loss], panel=LOSS, color=RED, size=10))
    moved = np.linalg.norm(here - run.table[0].numpy(), axis=-1)
    return View(marks, [
        f"epoch {epoch}: loss {loss:.4f}, {right} of {len(run.y)} predictions right",
        "P now: " + minus("  ".join(f"{position}: ({x:6.3f}, {y:6.3f})" for position, (x, y) in enumerate(here))),
        "distance from the start: " + "  ".join(f"{position}: {far:.3f}" for position, far in enumerate(moved)),
    ], (f"After {epoch} epochs the loss is {loss:.4f} and {right} of {len(run.y)} predictions are right; the position "
        f"vectors have moved {moved.min():.2f} to {moved.max():.2f} from where they began."))


def training_explorer(run: SmallRun | None = None) -> Explorer:
    """The explorer for a run; by default the one with seed 42."""
    run = small_run(42) if run is None else run

    def view(epoch: int) -> View:
        return training_view(run, epoch)

    return Explorer(lambda: background(run), view, epoch=slider(0, len(run.loss) - 1, min(100, len(run.loss) - 1)))
