"""The checks of chapter 3, learned embeddings."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from posenc_lib.checking import Wrong, agree, call, calling, exercise, numbers


@exercise("3.1")
def gradient_of_a_position(answer: Callable) -> str:
    random = torch.Generator().manual_seed(3)
    for classes, width, target in ((7, 3, 4), (4, 6, 0)):
        W = torch.randn(classes, width, generator=random, dtype=torch.float64)
        position = torch.randn(width, generator=random, dtype=torch.float64, requires_grad=True)
        logits = W @ position
        functional.cross_entropy(logits, torch.tensor(target)).backward()
        probability, expected = logits.detach().softmax(0), position.grad
        what = f"gradient(W, probability, {target}), W of shape [{classes}, {width}],"
        handed = probability.float()
        result = call(answer, W.float(), handed, target)
        if not torch.equal(handed, probability.float()):
            raise Wrong(f"{what} has changed probability itself. Work on a copy: probability.clone().")
        if getattr(result, "shape", None) == (classes,):
            raise Wrong(f"{what} has {classes} numbers, one a class. That is the gradient of the logits. The position "
                        f"has {width} dimensions: what takes it to the logits, and what leads back?")
        seen = numbers(result, (width,), what)
        for wrong, hint in (
            (-expected, "The sign is turned: this is the way downhill. The gradient points uphill, and the update "
                        "subtracts it."),
            (W.T @ probability, "The target is not in it. What does the loss's derivative subtract from the "
                                "probability of the right class?"),
            (-W[target], "The probabilities are not in it. How much should be changed when the right class already "
                         "has probability 1?"),
        ):
            if np.abs(seen - wrong.numpy()).max() < 1e-4:
                raise Wrong(f"{what} is {_row(seen)}, expected {_row(expected.numpy())}. {hint}")
        factor = seen @ expected.numpy() / (expected @ expected).item()
        if factor > 0 and np.abs(seen - factor * expected.numpy()).max() < 1e-4 < abs(factor - 1):
            raise Wrong(f"{what} is {factor:.4g} times the right one. There is a single position here, and so no mean.")
        agree(seen, expected.numpy(), what, lambda column: (
            f"It is the sum over the classes of (probability - 1 at the target, else 0) · W[class, {column}]."))
    return "each class pulls along its own row of W: the right one towards it, all others away."


@exercise("3.2")
def best_linear_loss(answer: Callable) -> str:
    for n in (2, 3, 5, 12):
        seen, expected = float(numbers(call(answer, n), (), calling(answer, n))), math.log(n)
        if abs(seen - expected) < 1e-4:
            continue
        what = f"{calling(answer, n)} is {seen:.4f}"
        if abs(seen) < 1e-4:
            raise Wrong(f"{what}. No linear layer gets there: take n = 2 and try to make all four cases right.")
        if min(abs(seen - 1 / n), abs(seen - 1 + 1 / n)) < 1e-4:
            raise Wrong(f"{what}, how often a guess is right or wrong. Asked for is its loss, the mean of -log of the "
                        f"probability.")
        if abs(seen - math.log2(n)) < 1e-4:
            raise Wrong(f"{what}, in bits. PyTorch's cross-entropy uses the natural logarithm.")
        if any(abs(seen - math.log(other)) < 1e-4 for other in (2, 3, 5)):
            raise Wrong(f"{what}, which is right for n = {round(math.exp(seen))} only.")
        if seen > expected:
            raise Wrong(f"{what}, but giving every class the same probability is already better.")
        raise Wrong(f"{what}, which is less than any linear layer reaches. What does the layer say when every class of "
                    f"every case has the same probability, and can a step from there help?")
    return "nothing linear beats an even guess, because the target leans on neither the token nor the place alone."


@exercise("3.3")
def stretched_table(answer: Callable) -> str:
    random = torch.Generator().manual_seed(4)
    for rows, length in ((4, 4), (4, 7), (5, 3), (3, 10), (6, 2)):
        table = torch.randn(rows, 2, generator=random, dtype=torch.float64)
        what = f"stretched(table, {length}), a table of {rows} rows,"
        seen = numbers(call(answer, table.float(), length), (length, 2), what)
        place = np.linspace(0, rows - 1, length)
        expected = _between(table.numpy(), place)
        for end, name in ((0, "first"), (-1, "last")):
            if np.abs(seen[end] - expected[end]).max() > 1e-4:
                step = next((text for text, wrong in (
                    (f"{rows}/{length}", rows / length), (f"{rows - 1}/{length}", (rows - 1) / length),
                ) if np.abs(seen[1] - _between(table.numpy(), np.array([wrong]))[0]).max() < 1e-4), None)
                hint = (f" Your step is {step}; {length} rows have {length - 1} gaps between them, and the old ones "
                        f"{rows - 1}." if step else "")
                raise Wrong(f"{what} has the {name} row {_row(seen[end])}, which should be the table's own, "
                            f"{_row(expected[end])}: the ends are kept.{hint}")
        if length > rows and np.abs(seen - table.numpy()[place.round().astype(int)]).max() < 1e-4:
            raise Wrong(f"{what} repeats rows. A new row between two old ones should be a mixture of both, in "
                        f"proportion to how near they are.")
        agree(seen, expected, what, lambda row, _, place=place: (
            f"New row {row} stands at {place[row]:.3f} of the old table: " + (
                f"between its rows {int(place[row])} and {math.ceil(place[row])}." if place[row] % 1 else
                f"exactly on its row {int(place[row])}.")))
    return "new rows stand evenly between the old ones; first and last are where they were."


def _between(table: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The table read at fractional rows."""
    return np.stack([np.interp(place, np.arange(len(table)), column) for column in table.T], axis=1)


def _row(entries: np.ndarray) -> str:
    return "[" + ", ".join(f"{entry:.4f}" for entry in entries) + "]"
