"""The exercises of chapter 7, RoPE in practice. Their truth is written out here."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, call
from posenc_lib.exercises.chapter_01 import some
from posenc_lib.exercises.chapter_04 import turned

# Exercise 7.1

def rotary(pairs: str, base: float) -> tuple[Callable, list[float]]:
    """A function that turns a vector, and the list of positions that it was asked for."""
    positions = []

    def rotate(x: torch.Tensor, position: int) -> torch.Tensor:
        x = torch.as_tensor(x).detach().double()
        if x.dim() != 1 or len(x) % 2:
            raise ValueError(f"rotate turns one vector of even width, got shape {list(x.shape)}")
        positions.append(float(position))
        return torch.tensor(turned(x.numpy(), float(position), lambda i, d: base ** (-2 * i / d), pairs),
                            dtype=torch.float32)
    return rotate, positions


def layout_is_found(answer: Callable) -> None:
    for pairs, base, d in (("interleaved", 1e4, 8), ("half", 1e4, 8), ("half", 5e5, 6), ("interleaved", 5e5, 12)):
        rotate, positions = rotary(pairs, base)
        seen = call(answer, rotate, d)
        what = f"layout_of(rotate, {d}), with a rotate in the {pairs} layout and of base {base:g},"
        if not isinstance(seen, str):
            raise Wrong(f'{what} should be a string, "interleaved" or "half", got {seen!r}.')
        name = seen.strip().lower()
        if name == pairs:
            continue
        if name not in ("interleaved", "half"):
            raise Wrong(f'{what} is {seen!r}; the two names are "interleaved" and "half".')
        if not positions:
            raise Wrong(f"{what} is {seen!r}, and rotate was never called. What it does shows in what it returns.")
        if not any(positions):
            raise Wrong(f"{what} is {seen!r}. It was asked to turn to position 0 only, where nothing turns.")
        raise Wrong(f"{what} is {seen!r}. Turn a vector that is 1 in column 0 and 0 elsewhere: its partner is the "
                    f"other column that is no longer 0, here column {1 if pairs == 'interleaved' else d // 2}.")


EXERCISES["7.1"] = Exercise(
    stages=[layout_is_found],                                    # words, not numbers: there is nothing to compare
    shows="one unit vector is enough: column 0 shares its turn with its partner.",
)


# Exercise 7.2

def firsts_then_seconds(rows: int) -> list[int]:
    return [*range(0, rows, 2), *range(1, rows, 2)]


def first_then_second(rows: int) -> list[int]:
    """The way back."""
    return [column for pair in range(rows // 2) for column in (pair, pair + rows // 2)]


def in_each_head(order: Callable[[int], list[int]]) -> Callable[[torch.Tensor, int], np.ndarray]:
    """new = old[order], for the rows of every head."""
    def answer(weight: torch.Tensor, n_heads: int) -> np.ndarray:
        return np.concatenate([head[order(len(head))] for head in np.split(weight.numpy(), n_heads)])
    return answer


def which_row(index: tuple[int, int], weight: torch.Tensor, n_heads: int) -> str:
    head, row = divmod(index[0], len(weight) // n_heads)
    return (f"Row {index[0]} is row {row} of head {head}; in the half layout that is what row "
            f"{firsts_then_seconds(len(weight) // n_heads)[row]} of that head was.")


EXERCISES["7.2"] = Exercise(
    cases=[(some(6, 4, seed=30), 1), (some(16, 5, seed=31), 2), (some(18, 10, seed=32), 3)],
    truth=in_each_head(firsts_then_seconds),
    mistakes=[
        Mistake("That is the way from half to interleaved. Or did you write new[order] = old for new = old[order]?",
                in_each_head(first_then_second)),
        Mistake("The rows of all heads are mixed. Each head has its own pairs: cut the rows into heads first.",
                lambda weight, n_heads: in_each_head(firsts_then_seconds)(weight, 1)),
        Mistake("Nothing has moved. Are the rows cut into n_heads heads, and is each head reordered?",
                lambda weight, n_heads: weight),
        Mistake("The second rows of the pairs come first; the half layout begins with the first ones.",
                in_each_head(lambda rows: [*range(1, rows, 2), *range(0, rows, 2)])),
        Mistake("It has pairs of rows that are n_heads heads apart: the axes are head, pair, which of the two.",
                lambda weight, n_heads: weight.numpy().reshape(-1, 2, n_heads, weight.shape[1]).transpose(
                    2, 1, 0, 3).reshape(weight.shape)),
        Mistake("It looks as for the half layout, but only in head 0.", lambda weight, n_heads: np.concatenate([
            in_each_head(firsts_then_seconds)(weight[: len(weight) // n_heads], 1), weight[len(weight) // n_heads :]])),
    ],
    explain=which_row,
    shows="within each head the first numbers of all pairs come first, then the second ones.",
)


# Exercise 7.3

def counted(mask: torch.Tensor, start: int = 0, padding: int = 0) -> np.ndarray:
    rows = []
    for row in mask.tolist():
        rows.append([start + sum(row[:column]) if real else padding for column, real in enumerate(row)])
    return np.array(rows)


def which_token(index: tuple[int, int], mask: torch.Tensor) -> str:
    row, column = index
    return (f"It is real token number {int(mask[row, : column + 1].sum())} of its row." if mask[row, column] else
            "It is padding.")


EXERCISES["7.3"] = Exercise(
    cases=[(torch.tensor(rows, dtype=torch.bool),) for rows in (
        [[1, 1, 1]], [[0, 0, 1, 1, 1]], [[0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]])],
    truth=counted,
    mistakes=[
        Mistake("The padding is counted. The first real token of a row should be at position 0.",
                lambda mask: np.tile(np.arange(mask.shape[1]), (len(mask), 1))),
        Mistake("The padding is counted, and then gets 0. The first real token of a row should be at position 0.",
                lambda mask: np.arange(mask.shape[1]) * mask.numpy()),
        Mistake("It counts from 1.", lambda mask: counted(mask, start=1)),
        Mistake("Padding has position −1. Nothing looks at it, but a table has no row −1: put 0 there.",
                lambda mask: counted(mask, padding=-1)),
        Mistake("Padding has position 1, as in some libraries. Here it gets 0.", lambda mask: counted(mask, padding=1)),
        Mistake("Words begin at 2 and padding has 1, as in RoBERTa's table. Here the first word of a row has 0.",
                lambda mask: counted(mask, start=2, padding=1)),
        Mistake("Padding is counted and words are not: True is a real token.",
                lambda mask: (np.cumsum(~mask.numpy(), axis=1) - 1).clip(0)),
        Mistake("It counts down the batch. A row counts along itself: dim=1.",
                lambda mask: (np.cumsum(mask.numpy(), axis=0) - 1).clip(0)),
        Mistake("Every row begins where the first row does. Each has its own padding.", lambda mask: (
            np.arange(mask.shape[1]) - int((~mask[0]).sum())).clip(0) * np.ones((len(mask), 1))),
    ],
    explain=which_token,
    shows="each row counts its own tokens, and padding does no harm.",
)
