"""The exercises of chapter 4, relative positions and RoPE. Their truth is written out here."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, ask, calling
from posenc_lib.exercises.chapter_01 import some
from posenc_lib.exercises.chapter_02 import FREQUENCY_MISTAKES, angles, omega

# Exercise 4.1

def offsets(length: int) -> np.ndarray:
    """Key minus query, so it grows to the right along a row."""
    return np.array([[n - m for n in range(length)] for m in range(length)])


def shaw_rows(length: int, K: int) -> np.ndarray:
    return offsets(length).clip(-K, K) + K


EXERCISES["4.1"] = Exercise(
    cases=[(4, 2), (6, 3), (7, 1), (3, 5)],
    truth=shaw_rows,
    mistakes=[
        Mistake("The offset has the wrong sign: it is key minus query, so it grows to the right along a row.",
                lambda length, K: shaw_rows(length, K).T),
        Mistake(lambda length, K: f"These are the clipped offsets, from -{K} to {K}. The table's rows count from 0.",
                lambda length, K: offsets(length).clip(-K, K)),
        Mistake(lambda length, K: f"Offsets beyond {K} are not clipped, so some rows are not in the table of "
                                  f"{2 * K + 1}.", lambda length, K: offsets(length) + K),
        Mistake("Distances have no sign: a word to the left and one to the right share a row here, and Shaw's table "
                "has a row for each.", lambda length, K: np.abs(offsets(length)).clip(max=K)),
        Mistake(lambda length, K: f"The last row of the table is {2 * K}, for all that is {K} or more to the right; it "
                                  f"is never used.", lambda length, K: shaw_rows(length, K).clip(max=2 * K - 1)),
        Mistake(lambda length, K: f"It clips at {K - 1}, one too early.",
                lambda length, K: offsets(length).clip(1 - K, K - 1) + K - 1),
        Mistake(lambda length, K: f"All that is to the right shares row {K} with the word itself; the table has "
                                  f"{2 * K + 1} rows, for both sides.",
                lambda length, K: shaw_rows(length, K).clip(max=K)),
        Mistake(lambda length, K: f"It counts from 1: row {K + 1} for the word itself. The first row of the table is "
                                  f"0.", lambda length, K: shaw_rows(length, K) + 1),
    ],
    explain=lambda index, length, K: (
        f"Query {index[0]} and key {index[1]}: their offset is {index[1] - index[0]}; clipped to -{K} … {K} it is "
        f"{min(max(index[1] - index[0], -K), K)}, and row 0 is for -{K}."),
    shows="near offsets have a row each, far ones share the first or the last.",
)


# Exercise 4.2

def turned(x: np.ndarray, position: float, frequency: Callable[[int, int], float] = omega, pairs: str = "interleaved"
           ) -> np.ndarray:
    """`x` with each pair turned by position · frequency, as complex numbers."""
    half = len(x) // 2
    first, second = (x[0::2], x[1::2]) if pairs == "interleaved" else (x[:half], x[half:])
    z = (first + 1j * second) * np.exp(1j * angles(position, len(x), frequency))
    return np.stack([z.real, z.imag], -1).ravel() if pairs == "interleaved" else np.concatenate([z.real, z.imag])


def of_vector(answer: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[torch.Tensor, int], np.ndarray]:
    return lambda x, position: answer(x.double().numpy(), position)


def by_hand(first: Callable, second: Callable) -> Callable:
    """What comes of a pair (a, b) if its first number is first(a, b, cos, sin), and its second likewise."""
    def answer(x: np.ndarray, position: int) -> np.ndarray:
        pair = *x.reshape(-1, 2).T, np.cos(angles(position, len(x))), np.sin(angles(position, len(x)))
        return np.stack([first(*pair), second(*pair)], -1).ravel()
    return of_vector(answer)


def mixed(x: np.ndarray, position: int, pairs: str) -> np.ndarray:
    """Partners of the one layout with the angles of the other."""
    angle, half = angles(position, len(x)), len(x) // 2
    if pairs == "half":
        partner, angle = np.concatenate([-x[half:], x[:half]]), np.repeat(angle, 2)
    else:
        partner, angle = np.stack([-x[1::2], x[0::2]], -1).ravel(), np.tile(angle, 2)
    return x * np.cos(angle) + partner * np.sin(angle)


def position_0_turns_nothing(answer: Callable) -> None:
    x = some(4, seed=20)
    if np.abs(ask(answer, x, 0, shape=(4,)) - x.numpy()).max() > 1e-4:
        raise Wrong(f"{calling(answer, x, 0)} is not x. At position 0 every angle is 0, and nothing turns.")


def lengths_are_kept(answer: Callable) -> None:
    for x, position in EXERCISES["4.2"].cases:
        before, after = (np.hypot(*each.reshape(-1, 2).T)
                         for each in (x.numpy(), ask(answer, x, position, shape=tuple(x.shape))))
        pair = int(np.abs(before - after).argmax())
        if abs(before[pair] - after[pair]) > 1e-3:
            raise Wrong(f"{calling(answer, x, position)}: pair {pair} was {before[pair]:.4f} long and is now "
                        f"{after[pair]:.4f}. A rotation keeps the length. Are both new numbers made from the old ones, "
                        f"by the same angle, and is one of the four signs a minus?")


MIXED = "Two layouts are mixed: partners of (i, i + d/2) with angles of neighbours, or the other way round."

EXERCISES["4.2"] = Exercise(
    stages=[position_0_turns_nothing, lengths_are_kept],
    cases=[(some(2, seed=21), 1), (some(6, seed=22), 1), (some(4, seed=23), 3), (some(8, seed=24), 2)],
    truth=of_vector(turned),
    mistakes=[
        Mistake("It turns the wrong way. With (a, b) → (a cos − b sin, a sin + b cos) a positive angle turns from the "
                "first axis towards the second.", of_vector(lambda x, position: turned(x, -position))),
        Mistake("Its pairs are (i, i + d/2), the other layout. Here pair i is columns 2i and 2i + 1.",
                of_vector(lambda x, position: turned(x, position, pairs="half"))),
        *(Mistake(hint, of_vector(lambda x, position, frequency=frequency: turned(x, position, frequency)))
          for hint, frequency in FREQUENCY_MISTAKES),
        Mistake("The numbers are right, but the first ones of all pairs come before all the second ones. Bring the two "
                "of a pair together again.",
                of_vector(lambda x, position: turned(x, position).reshape(-1, 2).T.ravel())),
        Mistake("The pairs are read as (i, i + d/2) and written as neighbours. Here they are neighbours before and "
                "after.", of_vector(lambda x, position: turned(x.reshape(2, -1).T.ravel(), position))),
        Mistake(MIXED, of_vector(lambda x, position: mixed(x, position, "half"))),
        Mistake(MIXED, of_vector(lambda x, position: mixed(x, position, "interleaved"))),
        Mistake("The minus is missing: the first number becomes a cos − b sin.",
                by_hand(lambda a, b, cos, sin: a * cos + b * sin, lambda a, b, cos, sin: a * sin + b * cos)),
        Mistake("Sine and cosine have changed places: at position 0 the first number stays, a cos − b sin.",
                by_hand(lambda a, b, cos, sin: a * sin - b * cos, lambda a, b, cos, sin: a * cos + b * sin)),
        Mistake("The second number is made from the new first one. Both need the old ones.",
                by_hand(lambda a, b, cos, sin: a * cos - b * sin,
                        lambda a, b, cos, sin: (a * cos - b * sin) * sin + b * cos)),
        Mistake("It has only the lengths of the pairs.",
                by_hand(lambda a, b, cos, sin: np.hypot(a, b), lambda a, b, cos, sin: np.hypot(a, b))),
        Mistake("Nothing has turned.", of_vector(lambda x, position: x)),
        Mistake("The positions are counted from 1. At position 0 nothing turns.",
                of_vector(lambda x, position: turned(x, position + 1))),
    ],
    explain=lambda index, x, position: (
        f"Pair {index[0] // 2} turns by {position} · 10000^(-2·{index[0] // 2}/{len(x)}) = "
        f"{position * omega(index[0] // 2, len(x)):.5g} radians."),
    shows="each pair turns by its own angle, and no length changes.",
)


# Exercise 4.3

def score(turn: Callable[[np.ndarray, int], np.ndarray]) -> Callable:
    """q as it stands times k turned by the offset, by whatever `turn` does."""
    return lambda q, key, offset: q.double().numpy() @ turn(key.double().numpy(), offset)


def products(combine: Callable) -> Callable:
    """Each pair's dot and cross product put together with the cosine and sine of its angle."""
    def answer(q: torch.Tensor, key: torch.Tensor, offset: int) -> float:
        (a, b), (c, d) = (rows.double().numpy().reshape(-1, 2).T for rows in (q, key))
        angle = angles(offset, len(q))
        return combine(a * c + b * d, a * d - b * c, np.cos(angle), np.sin(angle)).sum()
    return answer


def offset_0_is_the_plain_product(answer: Callable) -> None:
    q, key = some(6, seed=25), some(6, seed=26)
    seen, expected = float(ask(answer, q, key, 0)), (q @ key).item()
    if abs(seen - expected) > 1e-3:
        raise Wrong(f"{calling(answer, q, key, 0)} is {seen:.5f}, expected {expected:.5f}, the product of q and key as "
                    f"they stand. With offset 0 nothing is turned.")


EXERCISES["4.3"] = Exercise(
    stages=[offset_0_is_the_plain_product],
    cases=[(some(d, seed=27), some(d, seed=28), offset) for d, offset in ((6, 3), (6, -3), (2, 1), (8, -9))],
    truth=score(turned),
    mistakes=[
        Mistake("This is the score of the opposite offset: a sign is turned, or q was turned and not key.",
                score(lambda key, offset: turned(key, -offset))),
        Mistake("This is the score of the opposite offset: the offset's own sign was dropped.",
                score(lambda key, offset: turned(key, abs(offset)))),
        Mistake("Only the cosines are in it, so it is the same for an offset and its opposite; the cross products are "
                "missing.", products(lambda dot, cross, cos, sin: dot * cos)),
        Mistake("Only the cross products are in it. The dot products times the cosines are missing.",
                products(lambda dot, cross, cos, sin: -cross * sin)),
        Mistake("It is divided by √d. Asked for is the product itself.",
                lambda q, key, offset: score(turned)(q, key, offset) / math.sqrt(len(q))),
        Mistake("It does not depend on the offset.", score(lambda key, offset: key)),
        Mistake("Its pairs are those of the other layout; here pair i is columns 2i and 2i + 1.",
                score(lambda key, offset: turned(key, offset, pairs="half"))),
        *(Mistake(hint, score(lambda key, offset, frequency=frequency: turned(key, offset, frequency)))
          for hint, frequency in FREQUENCY_MISTAKES),
        Mistake(MIXED, score(lambda key, offset: mixed(key, offset, "half"))),
        Mistake(MIXED, score(lambda key, offset: mixed(key, offset, "interleaved"))),
    ],
    explain=lambda _, q, key, offset: f"It is the product of q at position 0 and key at position {offset}.",
    shows="dot products with the cosines, cross products with the sines: the score needs the offset and nothing else.",
)
