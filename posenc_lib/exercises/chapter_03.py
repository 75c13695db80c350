"""The exercises of chapter 3, learned embeddings."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, ask, calling
from posenc_lib.exercises.chapter_01 import some
from posenc_lib.exercises.chapter_02 import row

# Exercise 3.1

def gradient(W: torch.Tensor, probability: torch.Tensor, target: int) -> torch.Tensor:
    """Of a step away from the position, by autograd; the logits are the logarithms, up to what softmax forgets."""
    step = torch.zeros(W.shape[1], requires_grad=True)
    return torch.autograd.grad(functional.cross_entropy(probability.log() + W @ step, torch.tensor(target)), step)[0]


EXERCISES["3.1"] = Exercise(
    cases=[(some(7, 3, seed=3), some(7, seed=4).softmax(0), 4), (some(4, 6, seed=5), some(4, seed=6).softmax(0), 0)],
    truth=gradient,
    mistakes=[
        Mistake("The sign is turned: this is the way downhill. The gradient points uphill, and the update subtracts "
                "it.", lambda W, probability, target: -gradient(W, probability, target)),
        Mistake("The target is not in it. What does the loss's derivative subtract from the probability of the right "
                "class?", lambda W, probability, target: probability @ W),
        Mistake("The probabilities are not in it. How much should be changed when the right class already has "
                "probability 1?", lambda W, probability, target: -W[target]),
        Mistake("1 is added to the probability of the right class. It is subtracted: the better the guess, the "
                "smaller the step.", lambda W, probability, target: probability @ W + W[target]),
        Mistake("It is divided by the number of classes. There is a single position here, and so no mean.",
                lambda W, probability, target: gradient(W, probability, target) / len(W)),
        Mistake("One number a class: that is the gradient of the logits. The position has as many numbers as W has "
                "columns. What takes it to the logits, and what leads back?",
                lambda W, probability, target: probability - functional.one_hot(torch.tensor(target), len(W))),
        Mistake("Only the right class's row of W is in it. The other classes push the position away from theirs.",
                lambda W, probability, target: (probability[target] - 1) * W[target]),
    ],
    explain=lambda index, W, probability, target: (
        f"It is the sum over the classes of (probability - 1 at the target, else 0) · W[class, {index[0]}]."),
    shows="each class pulls along its own row of W: the right one towards it, all others away.",
)


# Exercise 3.2

EXERCISES["3.2"] = Exercise(
    cases=[(n,) for n in (2, 3, 5, 12)],
    truth=math.log,
    mistakes=[
        Mistake("No linear layer gets there: take n = 2 and try to make all four cases right.", lambda n: 0.0),
        Mistake("This is how often an even guess is right. Asked for is its loss, the mean of -log of the "
                "probability.", lambda n: 1 / n),
        Mistake("This is how often an even guess is wrong. Asked for is its loss, the mean of -log of the "
                "probability.", lambda n: 1 - 1 / n),
        Mistake("This is in bits. PyTorch's cross-entropy uses the natural logarithm.", math.log2),
        Mistake("This is to the base 10. PyTorch's cross-entropy uses the natural logarithm.", math.log10),
        Mistake("The sign is turned: a loss is -log of a probability, and so never below 0.", lambda n: -math.log(n)),
        Mistake("This is summed. Asked for is the mean over the cases.", lambda n: n * math.log(n)),
        Mistake("This is summed. Asked for is the mean over the cases.", lambda n: n * n * math.log(n)),
        Mistake("There are n² cases, but a guess is among n answers.", lambda n: 2 * math.log(n)),
        *(Mistake(f"This is right for n = {right} only.", lambda n, right=right: math.log(right)) for right in (2, 5)),
    ],
    explain=lambda _, n: (
        f"So much has the layer that gives all {n} classes the same probability in every case. Can a step from there "
        f"help?"),
    shows="nothing linear beats an even guess, because the target leans on neither the token nor the place alone.",
)


# Exercise 3.3

def read_at(table: torch.Tensor, place: np.ndarray) -> np.ndarray:
    """The table at places between its rows; beyond its end, on along the line through the last two rows."""
    before = place.astype(int).clip(0, len(table) - 2)
    share = (place - before)[:, None]
    return (1 - share) * table.numpy()[before] + share * table.numpy()[before + 1]


def places(table: torch.Tensor, length: int) -> np.ndarray:
    return np.linspace(0, len(table) - 1, length)


def ends_are_kept(answer: Callable) -> None:
    for table, length in EXERCISES["3.3"].cases:
        seen = ask(answer, table, length, shape=(length, table.shape[1]))
        for end, name in ((0, "first"), (-1, "last")):
            if np.abs(seen[end] - table[end].numpy()).max() > 1e-4:
                raise Wrong(f"{calling(answer, table, length)} has the {name} row {row(seen[end])}, which should be "
                            f"the table's own, {row(table[end])}: the ends are kept.")


def step(too_few: int, stop: bool = False) -> Mistake:
    """A step of (rows - too_few) / length, which may go past the table's end or stop there."""
    def answer(table: torch.Tensor, length: int) -> np.ndarray:
        place = np.arange(length) * (len(table) - too_few) / length
        return read_at(table, place.clip(0, len(table) - 1) if stop else place)
    return Mistake(lambda table, length: (
        f"Your step is {len(table) - too_few}/{length}; {length} rows have {length - 1} gaps between them, and the old "
        f"ones {len(table) - 1}."), answer)


def what_row(index: tuple[int, int], table: torch.Tensor, length: int) -> str:
    place = places(table, length)[index[0]]
    return f"New row {index[0]} stands at {place:.3f} of the old table: " + (
        f"between its rows {int(place)} and {math.ceil(place)}." if place % 1 else f"exactly on its row {int(place)}.")


EXERCISES["3.3"] = Exercise(
    stages=[ends_are_kept],
    cases=[(some(4, 2, seed=7), 6), (some(5, 2, seed=8), 3), (some(3, 4, seed=9), 10), (some(6, 3, seed=10), 2),
           (some(4, 3, seed=11), 4)],
    truth=lambda table, length: np.stack([np.interp(places(table, length), range(len(table)), column)
                                          for column in table.T.numpy()], axis=1),
    mistakes=[
        step(0), step(0, stop=True), step(1),
        Mistake("It repeats rows, the nearest old one. A new row between two old ones should be a mixture of both, in "
                "proportion to how near they are.",
                lambda table, length: table[places(table, length).round().astype(int)]),
        Mistake("It repeats rows, the old one before. A new row between two old ones should be a mixture of both, in "
                "proportion to how near they are.", lambda table, length: table[places(table, length).astype(int)]),
        Mistake("Its rows are even mixtures of two old ones. The nearer one counts more.",
                lambda table, length: (table[np.floor(places(table, length)).astype(int)]
                                       + table[np.ceil(places(table, length)).astype(int)]) / 2),
        Mistake("The shares have changed places: the nearer old row must count more.",
                lambda table, length: table.numpy()[(before := places(table, length).astype(int).clip(
                    max=len(table) - 2))] + table.numpy()[before + 1] - read_at(table, places(table, length))),
        Mistake("It takes the rows for pixels, with a border of half a row: align_corners=False. Here the first and "
                "the last row stay where they are.", lambda table, length: read_at(
                    table, ((np.arange(length) + 0.5) * len(table) / length - 0.5).clip(0, len(table) - 1))),
        Mistake("It is upside down.", lambda table, length: read_at(table, places(table, length)[::-1])),
        Mistake("The old rows stay where they are, and zeros follow. The old rows should be spread out.",
                lambda table, length: torch.cat([table, torch.zeros(length, table.shape[1])])[:length]),
        Mistake("The old rows stay where they are, and the last one is repeated. The old rows should be spread out.",
                lambda table, length: table[np.arange(length).clip(max=len(table) - 1)]),
    ],
    explain=what_row,
    shows="new rows stand evenly between the old ones; first and last are where they were.",
)
