"""The checks of chapter 7, RoPE in practice."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import Wrong, agree, call, exercise, numbers
from posenc_lib.exercises.chapter_04 import turned


@exercise("7.1")
def name_of_the_layout(answer: Callable) -> str:
    def rotary(pairs: str, base: float) -> Callable:
        def rotate(x: torch.Tensor, position: int) -> torch.Tensor:
            x = torch.as_tensor(x).detach().double()
            if x.dim() != 1 or len(x) % 2:
                raise ValueError(f"rotate turns one vector of even width, got shape {list(x.shape)}")
            frequency = base ** (-2 * np.arange(len(x) // 2) / len(x))
            return torch.tensor(turned(x.numpy(), float(position), frequency, pairs), dtype=torch.float32)
        return rotate

    for pairs, base, d in (("interleaved", 1e4, 8), ("half", 1e4, 8), ("half", 5e5, 6), ("interleaved", 5e5, 12)):
        what = f"layout_of(rotate, {d}) for a rotate in the {pairs} layout with base {base:g}"
        seen = call(answer, rotary(pairs, base), d)
        if not isinstance(seen, str):
            raise Wrong(f"{what} should be a string, \"interleaved\" or \"half\", got {seen!r}.")
        name = seen.strip().lower()
        if name == pairs:
            continue
        if name not in ("interleaved", "half"):
            raise Wrong(f"{what} is {seen!r}; the two names are \"interleaved\" and \"half\".")
        raise Wrong(f"{what} is {seen!r}. Turn a vector that is 1 in column 0 and 0 elsewhere: its partner is the "
                    f"other column that is no longer 0, here column {1 if pairs == 'interleaved' else d // 2}. (At "
                    f"position 0 nothing turns.)")
    return "one unit vector is enough: column 0 shares its turn with its partner."


@exercise("7.2")
def rows_for_the_half_layout(answer: Callable) -> str:
    random = torch.Generator().manual_seed(7)
    for n_heads, d_head, d_in in ((1, 6, 4), (2, 8, 5), (3, 6, 10)):
        weight = torch.randn(n_heads * d_head, d_in, generator=random, dtype=torch.float64)
        what = f"to_half(weight [{n_heads * d_head}, {d_in}], {n_heads})"
        handed = weight.float()
        seen = numbers(call(answer, handed, n_heads), tuple(weight.shape), what)
        if not torch.equal(handed, weight.float()):
            raise Wrong(f"{what} has changed the weight itself. Return a new tensor.")
        order = np.arange(d_head).reshape(-1, 2).T.ravel()
        heads = weight.numpy().reshape(n_heads, d_head, d_in)
        expected = heads[:, order].reshape(-1, d_in)
        if np.abs(seen - expected).max() < 1e-5:
            continue
        whole = np.arange(n_heads * d_head).reshape(-1, 2).T.ravel()
        for wrong, hint in (
            (heads[:, np.argsort(order)].reshape(-1, d_in), "That is the way from half to interleaved. Or did you "
                                                            "write new[order] = old for new = old[order]?"),
            (weight.numpy()[whole], "The rows of all heads are mixed. Each head has its own pairs: cut the rows into "
                                    "heads first."),
            (weight.numpy(), "Nothing has moved. Are the rows cut into n_heads heads, and is each head reordered?"),
        ):
            if np.abs(seen - wrong).max() < 1e-5:
                raise Wrong(f"{what}: {hint}")
        agree(seen, expected, what, lambda row, _, d_head=d_head, order=order: (
            f"Row {row} is row {row % d_head} of head {row // d_head}; in the half layout that is what row "
            f"{order[row % d_head]} of that head was."), within=1e-5)
    return "within each head the first numbers of all pairs come first, then the second ones."


@exercise("7.3")
def positions_of_padded_rows(answer: Callable) -> str:
    for rows in ([[1, 1, 1]], [[0, 0, 1, 1, 1]], [[0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]):
        mask = torch.tensor(rows, dtype=torch.bool)
        what = f"positions({rows})"
        seen = numbers(call(answer, mask.clone()), tuple(mask.shape), what)
        expected = (mask.long().cumsum(1) - 1).clamp(min=0).numpy()
        if np.array_equal(seen, expected):
            continue
        for wrong, hint in (
            (np.arange(mask.shape[1])[None].repeat(len(rows), 0), "The padding is counted. The first real token of a "
                                                                  "row should be at position 0"),
            (mask.long().cumsum(1).numpy(), "It counts from 1"),
            (mask.long().cumsum(1).numpy() - 1, "Padding has position −1. Nothing looks at it, but a table has no row "
                                                "−1: put 0 there"),
        ):
            if np.array_equal(seen, wrong):
                raise Wrong(f"{what} is {seen.astype(int).tolist()}. {hint}.")
        row, column = (int(axis) for axis in np.argwhere(seen != expected)[0])
        count = int(mask[row, : column + 1].sum())
        which = f"It is real token number {count} of its row" if mask[row, column] else "It is padding"
        raise Wrong(f"{what}: row {row}, column {column} has position {seen[row, column]:g}, expected "
                    f"{expected[row, column]}. {which}.")
    return "each row counts its own tokens, and padding does no harm."
