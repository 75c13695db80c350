"""The checks of chapter 4, relative positions and RoPE."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import Wrong, agree, call, calling, exercise, numbers

HALF_THE_EXPONENT = "The exponent is half of what it should be, −2i/d for pair i, or the base is the root of 10000"


@exercise("4.1")
def rows_of_shaws_table(answer: Callable) -> str:
    for length, K in ((4, 2), (6, 3), (7, 1), (3, 5)):
        what = calling(answer, length, K)
        seen = numbers(call(answer, length, K), (length, length), what)
        offset = np.arange(length)[None, :] - np.arange(length)[:, None]
        expected = offset.clip(-K, K) + K
        if np.array_equal(seen, expected):
            continue
        for wrong, hint in (
            (expected.T, "The offset has the wrong sign: it is key minus query, so it grows to the right along a row"),
            (offset.clip(-K, K), f"These are the clipped offsets, from -{K} to {K}. The table's rows count from 0"),
            (offset + K, f"Offsets beyond {K} are not clipped, so some rows are not in the table of {2 * K + 1}"),
            (np.abs(offset).clip(0, K), "Distances have no sign: a word to the left and one to the right share a row "
                                        "here, and Shaw's table has a row for each"),
            ((offset + K).clip(0, 2 * K - 1), f"The last row of the table is {2 * K}, for all that is {K} or more to "
                                              f"the right; it is never used"),
            (offset.clip(-K + 1, K - 1) + K - 1, f"It clips at {K - 1}, one too early"),
            ((offset + K).clip(0, K), f"All that is to the right shares row {K} with the word itself; the table has "
                                      f"{2 * K + 1} rows, for both sides"),
        ):
            if np.array_equal(seen, wrong):
                raise Wrong(f"{what} begins {_row(seen[0])}, expected {_row(expected[0])}. {hint}.")
        m, n = (int(axis) for axis in np.argwhere(seen != expected)[0])
        raise Wrong(f"{what}: query {m} and key {n} have row {seen[m, n]:g}, expected {expected[m, n]}. Their offset "
                    f"is {n - m}; clipped to -{K} … {K} it is {min(max(n - m, -K), K)}, and row 0 is for -{K}.")
    return "near offsets have a row each, far ones share the first or the last."


@exercise("4.2")
def one_turned_vector(answer: Callable) -> str:
    random = torch.Generator().manual_seed(5)
    for d_head, position in ((2, 0), (2, 1), (6, 1), (4, 3), (10, 17)):     # 6 first: at 4, −i and −4i/d are the same
        x = torch.randn(d_head, generator=random, dtype=torch.float64)
        what = f"rotate(x of width {d_head}, {position})"
        handed = x.float()
        seen = numbers(call(answer, handed, position), (d_head,), what)
        if not torch.equal(handed, x.float()):
            raise Wrong(f"{what} has changed x itself. Write the result into a new tensor: the second number of a pair "
                        "needs the first one as it was.")
        x = x.numpy()
        expected = turned(x, position)
        if np.abs(seen - expected).max() < 1e-4:
            continue
        exponent = np.arange(d_head // 2) / d_head
        for wrong, hint in (
            (turned(x, -position), "It turns the wrong way. With (a, b) → (a cos − b sin, a sin + b cos) a positive "
                                   "angle turns from the first axis towards the second"),
            (turned(x, position, pairs="half"), f"Its pairs are (i, i + {d_head // 2}), the other layout. Here pair i "
                                                f"is columns 2i and 2i + 1"),
            (turned(x, position, 10_000.0 ** (2 * exponent)), "The frequencies rise from pair to pair: look at the "
                                                              "exponent's sign"),
            (turned(x, position, 10_000.0 ** -exponent), HALF_THE_EXPONENT),
            (turned(x, position, 10_000.0 ** (-4 * exponent)), "The exponent is twice of what it should be: −2i/d for "
                                                               "pair i, where column 2i begins"),
            (turned(x, position, 1_000.0 ** (-2 * exponent)), "The base is 1000; it should be 10000"),
            (turned(x, position, np.ones(d_head // 2)), "Every pair turns by the same angle; pair i turns by p ω_i"),
            (expected.reshape(-1, 2).T.ravel(), "The numbers are right, but the first ones of all pairs come before "
                                                "all the second ones. Bring the two of a pair together again"),
            (plus_for_minus(x, position), "The minus is missing: the first number becomes a cos − b sin"),
            (np.sqrt((x.reshape(-1, 2) ** 2).sum(-1)).repeat(2), "It has only the lengths of the pairs"),
        ):
            if np.abs(seen - wrong).max() < 1e-4 and np.abs(wrong - expected).max() > 1e-3:
                raise Wrong(f"{what} is wrong. {hint}.")
        before, after = (np.hypot(*each.reshape(-1, 2).T) for each in (x, seen))
        pair = int(np.abs(before - after).argmax())
        if abs(before[pair] - after[pair]) > 1e-4:
            raise Wrong(f"{what}: pair {pair} was {before[pair]:.4f} long and is now {after[pair]:.4f}. A rotation "
                        f"keeps the length. Are both new numbers made from the old ones, by the same angle, and is "
                        f"one of the four signs a minus?")
        agree(seen, expected, what, lambda column, p=position, d=d_head: (
            f"Pair {column // 2} turns by {p} · 10000^(-2·{column // 2}/{d}) = "
            f"{p * 10_000.0 ** (-2 * (column // 2) / d):.5g} radians."))
    return "each pair turns by its own angle, and no length changes."


@exercise("4.3")
def score_from_the_offset(answer: Callable) -> str:
    random = torch.Generator().manual_seed(6)
    for d_head, offset in ((6, 0), (6, 3), (6, -3), (2, 1), (10, -12)):     # at 4, √d is the number of pairs
        q, k = torch.randn(2, d_head, generator=random, dtype=torch.float64)
        what = f"score(q, key, {offset}) for width {d_head}"
        handed = q.float(), k.float()
        seen = float(numbers(call(answer, *handed, offset), (), what))
        if not (torch.equal(handed[0], q.float()) and torch.equal(handed[1], k.float())):
            raise Wrong(f"{what} has changed what was handed in. Write into new tensors.")
        expected = float(turned(q.numpy(), 0) @ turned(k.numpy(), offset))
        if abs(seen - expected) < 1e-3:
            continue
        dot = (q * k).view(-1, 2).sum(-1).numpy()
        angle = offset * 10_000.0 ** (-2 * np.arange(d_head // 2) / d_head)
        for wrong, hint in (
            (turned(q.numpy(), 0) @ turned(k.numpy(), -offset), "This is the score of the opposite offset: " + (
                "the offset's own sign was dropped" if offset < 0 else "a sign is turned, or q was turned and not k")),
            (dot @ np.cos(angle), "Only the cosines are in it, so it is the same for an offset and its opposite; the "
                                  "cross products are missing"),
            (expected / math.sqrt(d_head), "It is divided by √d. Asked for is the product itself"),
            (float(q @ k), "It does not depend on the offset"),
            (q.numpy() @ turned(k.numpy(), offset, pairs="half"), "Its pairs are those of the other layout; here pair "
                                                                  "i is columns 2i and 2i + 1"),
            (q.numpy() @ turned(k.numpy(), offset, 10_000.0 ** (-np.arange(d_head // 2) / d_head)),
             HALF_THE_EXPONENT),
        ):
            if abs(seen - wrong) < 1e-3 and abs(wrong - expected) > 1e-2:
                raise Wrong(f"{what} is {seen:.4f}, expected {expected:.4f}. {hint}.")
        raise Wrong(f"{what} is {seen:.4f}, expected {expected:.4f}, the product of q at position 0 and k at position "
                    f"{offset}." + (" With offset 0 nothing is turned." if offset == 0 else ""))
    return "dot products with the cosines, cross products with the sines: the score needs the offset and nothing else."


def turned(x: np.ndarray, position: float, frequency: np.ndarray | None = None, pairs: str = "interleaved"
           ) -> np.ndarray:
    """`x` with each pair turned by position · frequency, by complex numbers: independent of the library's own."""
    half = len(x) // 2
    frequency = 10_000.0 ** (-2 * np.arange(half) / len(x)) if frequency is None else frequency
    first, second = (x[0::2], x[1::2]) if pairs == "interleaved" else (x[:half], x[half:])
    z = (first + 1j * second) * np.exp(1j * position * frequency)
    if pairs == "interleaved":
        return np.stack([z.real, z.imag], -1).ravel()
    return np.concatenate([z.real, z.imag])


def plus_for_minus(x: np.ndarray, position: float) -> np.ndarray:
    """a cos + b sin, a sin + b cos: no rotation."""
    angle = position * 10_000.0 ** (-2 * np.arange(len(x) // 2) / len(x))
    a, b = x[0::2], x[1::2]
    return np.stack([a * np.cos(angle) + b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1).ravel()


def _row(entries: np.ndarray) -> str:
    return "[" + ", ".join(f"{entry:g}" for entry in entries) + "]"
