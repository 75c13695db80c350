"""The exercises of chapter 1, the ordering problem. Their truth is written out here, one entry after the other."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, ask


def some(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def true_weights(query: np.ndarray, key: np.ndarray, divisor: float | None = None) -> np.ndarray:
    """Softmax of q·k/√d."""
    rows = []
    for q in query:
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / (divisor or math.sqrt(len(q))) for k in key]
        rows.append([math.exp(score) / sum(math.exp(other) for other in scores) for score in scores])
    return np.array(rows)


def each_head(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, n_heads: int, divisor: float | None = None,
              cut: Callable = lambda rows, n_heads: np.split(rows, n_heads, axis=1)) -> list[np.ndarray]:
    """What each head gives, `[queries, width / n_heads]`."""
    parts = zip(*(cut(rows.double().numpy(), n_heads) for rows in (query, key, value)), strict=True)
    return [true_weights(q, k, divisor) @ v for q, k, v in parts]


def side_by_side(*arguments: object) -> np.ndarray:
    return np.concatenate(each_head(*arguments), axis=1)


# Exercise 1.1

QUERY, KEY, VALUE = some(5, 12, seed=1), some(7, 12, seed=2), some(7, 12, seed=3)


def heads_are_apart(answer: Callable) -> None:
    changed = QUERY.clone()
    changed[:, 6:] = some(5, 6, seed=4)                           # the part of the second head
    before, after = (ask(answer, query, KEY, VALUE, 2, shape=(5, 12)) for query in (QUERY, changed))
    if np.abs(before - after)[:, :6].max() > 1e-4:
        raise Wrong("The two heads are not apart: when only the columns 6 to 11 of the queries change, which belong to "
                    "the second head, the columns 0 to 5 of the result change too. Each head must see its own columns "
                    "only, of queries and keys alike.")


def whose_column(index: tuple[int, int], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, n_heads: int
                 ) -> str:
    if n_heads == 1:
        return "With one head nothing is cut: it is plain attention(query, key, value)[0]."
    width = query.shape[1] // n_heads
    head = index[1] // width
    return (f"Column {index[1]} belongs to head {head}, which owns the columns {head * width} to "
            f"{head * width + width - 1} of queries, keys and values.")


def divided_by(name: Callable[[int], str], divisor: Callable[[int], float]) -> Mistake:
    def hint(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, n_heads: int) -> str:
        width = query.shape[1] // n_heads
        return f"The scores are divided by {name(width)}. A head divides by the root of its own width, here √{width}."
    return Mistake(hint, lambda *given: side_by_side(*given, divisor(given[0].shape[1] // given[3])))


def rows_cut(rows: np.ndarray, n_heads: int) -> np.ndarray:
    return rows.reshape(n_heads, len(rows), -1)


ROWS_ARE_CUT = ("reshape(n_heads, rows, width) cuts the rows, so a head gets all columns of some words. Cut each row: "
                "reshape(rows, n_heads, width), and bring the heads to the front with transpose(0, 1).")

EXERCISES["1.1"] = Exercise(
    stages=[heads_are_apart],
    cases=[(QUERY, KEY, VALUE, n_heads) for n_heads in (1, 2, 3, 4)],
    truth=side_by_side,
    mistakes=[
        divided_by(lambda width: "√12, the root of the whole width", lambda width: math.sqrt(12)),
        divided_by(lambda width: f"{width}, not by its root", lambda width: width),
        divided_by(lambda width: "nothing", lambda width: 1),
        Mistake("Nothing is cut: this is one head over all columns.", lambda q, k, v, n: side_by_side(q, k, v, 1)),
        Mistake(ROWS_ARE_CUT, lambda q, k, v, n: np.concatenate(each_head(q, k, v, n, cut=rows_cut), axis=1)),
        Mistake(ROWS_ARE_CUT, lambda q, k, v, n: np.stack(each_head(q, k, v, n, cut=rows_cut)).reshape(q.shape)),
        Mistake("The heads are right, but not side by side: reshape fills a row from one head only. Bring the heads "
                "back next to the columns first, with transpose(0, 1).",
                lambda q, k, v, n: np.stack(each_head(q, k, v, n)).reshape(q.shape)),
        Mistake("Head 0 has the columns 0, n_heads, 2 · n_heads, … here. A head owns columns that are neighbours.",
                lambda q, k, v, n: np.concatenate(each_head(q, k, v, n, cut=lambda rows, n: [
                    rows[:, head::n] for head in range(n)]), axis=1)),
        Mistake("The heads stand below each other. They belong side by side, along the columns: dim=1.",
                lambda q, k, v, n: np.concatenate(each_head(q, k, v, n))),
        Mistake("The heads are added up. They belong side by side.", lambda q, k, v, n: sum(each_head(q, k, v, n))),
        Mistake("The softmax runs over the queries. A query's shares are over the keys, the last axis of the scores.",
                lambda q, k, v, n: np.concatenate([
                    (shares := np.exp(q @ k.T / math.sqrt(len(q.T)))) / shares.sum(0) @ v for q, k, v in zip(
                        *(np.split(rows.double().numpy(), n, axis=1) for rows in (q, k, v)), strict=True)], axis=1)),
    ],
    explain=whose_column,
    shows="each head attends with its own columns, and the results stand side by side.",
)


# Exercise 1.2

def weights_of(words: int) -> torch.Tensor:
    return torch.tensor(true_weights(some(words, 6, seed=5).numpy(), some(words, 6, seed=6).numpy()),
                        dtype=torch.float32)


EXERCISES["1.2"] = Exercise(
    cases=[(weights_of(4), torch.tensor([2, 0, 3, 1])), (weights_of(5), torch.tensor([3, 0, 4, 1, 2]))],
    truth=lambda weights, order: [[weights[i, j].item() for j in order] for i in order],
    mistakes=[
        Mistake("Only the rows have moved. The keys are the same words, so the columns move too.",
                lambda weights, order: weights[order]),
        Mistake("Only the columns have moved. The queries are the same words, so the rows move too.",
                lambda weights, order: weights[:, order]),
        Mistake("The words have moved back instead of forward. Row 0 must be the row of word order[0].",
                lambda weights, order: weights[order.argsort()][:, order.argsort()]),
        Mistake("Nothing has moved.", lambda weights, order: weights),
        Mistake("weights[order, order] pairs the two lists and takes single entries. Take the rows first, then the "
                "columns.", lambda weights, order: weights[order, order]),
        Mistake("Rows and columns have changed places: a row belongs to a query, before and after.",
                lambda weights, order: weights.T[order][:, order]),
    ],
    explain=lambda index, weights, order: (
        f"It is how much word {order[index[0]]} attends to word {order[index[1]]}, which is "
        f"weights[{order[index[0]]}, {order[index[1]]}]."),
    shows="rows and columns move together, P A Pᵀ, and attention need not be computed again.",
)
