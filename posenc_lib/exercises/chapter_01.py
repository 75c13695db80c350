"""The checks of chapter 1, the ordering problem."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import Wrong, agree, call, exercise, numbers


def some(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def true_weights(query: torch.Tensor, key: torch.Tensor, divisor: float | None = None) -> np.ndarray:
    """Softmax of q·k/√d, one entry after the other."""
    rows = []
    for q in query.tolist():
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / (divisor or math.sqrt(len(q))) for k in key.tolist()]
        rows.append([math.exp(score) / sum(math.exp(other) for other in scores) for score in scores])
    return np.array(rows)


def true_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, n_heads: int, divisor: float | None = None,
               ) -> np.ndarray:
    parts = zip(*(rows.chunk(n_heads, dim=1) for rows in (query, key, value)), strict=True)
    return np.concatenate([true_weights(q, k, divisor) @ v.numpy() for q, k, v in parts], axis=1)


@exercise("1.1")
def any_number_of_heads(answer: Callable) -> str:
    def asked(query: torch.Tensor, n_heads: int) -> np.ndarray:
        result = call(answer, query.clone(), key.clone(), value.clone(), n_heads)
        return numbers(result, (3, 12), f"heads(query, key, value, {n_heads}) for 3 queries, 5 keys and width 12")

    query, key, value = some(3, 12, seed=1), some(5, 12, seed=2), some(5, 12, seed=3)
    one = asked(query, 1)
    agree(one, true_heads(query, key, value, 1), "heads(query, key, value, 1)", lambda row, column: (
        "With one head nothing is cut: it is plain attention(query, key, value)[0]."))
    changed = query.clone()
    changed[:, 6:] = some(3, 6, seed=4)                           # the part of the second head
    before, after = asked(query, 2), asked(changed, 2)
    if np.abs(before - after)[:, :6].max() > 1e-4:
        raise Wrong("two heads are not apart: when only the columns 6 to 11 of the queries change, which belong to the "
                    "second head, the columns 0 to 5 of the result change too. Each head must see its own columns "
                    "only, of queries and keys alike.")
    for n_heads in (2, 3, 4):
        seen, expected = asked(query, n_heads), true_heads(query, key, value, n_heads)
        width = 12 // n_heads
        for divisor, name in ((math.sqrt(12), f"√{12}, the root of the whole width"), (1, "nothing"),
                              (width, f"{width}, not by its root")):
            if np.abs(seen - true_heads(query, key, value, n_heads, divisor)).max() < 1e-4:
                raise Wrong(f"with {n_heads} heads the scores are divided by {name}. A head divides by the root of its "
                            f"own width, here √{width}.")
        agree(seen, expected, f"heads(query, key, value, {n_heads})", lambda row, column, width=width: (
            f"Column {column} belongs to head {column // width}, which owns the columns {column // width * width} to "
            f"{column // width * width + width - 1} of queries, keys and values."))
    return "each head attends with its own columns, and the results stand side by side."


@exercise("1.2")
def weights_moved(answer: Callable) -> str:
    order = torch.tensor([2, 0, 3, 1])                            # not its own inverse
    query, key = some(4, 6, seed=5), some(4, 6, seed=6)
    weights = torch.tensor(true_weights(query, key), dtype=torch.float32)
    expected = true_weights(query[order], key[order])
    what = f"moved_weights(weights, {order.tolist()})"
    result = call(answer, weights.clone(), order.clone())
    if getattr(result, "shape", None) == (4,):
        raise Wrong(f"{what} should be a matrix [4, 4], got 4 numbers. weights[order, order] pairs the two lists and "
                    "takes single entries. Take the rows first, then the columns.")
    seen = numbers(result, (4, 4), what)
    back = torch.argsort(order)
    for name, wrong in (
        ("only the rows have moved. The keys are the same words, so the columns move too", weights[order]),
        ("only the columns have moved. The queries are the same words, so the rows move too", weights[:, order]),
        ("the words have moved back instead of forward. Row 0 must be the row of word order[0]",
         weights[back][:, back]),
        ("nothing has moved", weights),
    ):
        if np.abs(seen - wrong.numpy()).max() < 1e-6:
            raise Wrong(f"{what}: {name}.")
    agree(seen, expected, what, lambda row, column: (
        f"It is how much word {order[row]} attends to word {order[column]}, which is weights[{order[row]}, "
        f"{order[column]}]."))
    return "rows and columns move together, P A Pᵀ, and attention need not be computed again."
