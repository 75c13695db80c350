"""The exercises of chapter 2, sinusoidal encoding by hand. Their truth is written out here, entry by entry."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, ask, calling


def omega(pair: float, d_model: int) -> float:
    return 10_000.0 ** (-2 * pair / d_model)


def angles(position: int, d_model: int, frequency: Callable[[int, int], float] = omega) -> np.ndarray:
    """How far each pair has turned at a position."""
    return position * np.array([frequency(pair, d_model) for pair in range(d_model // 2)])


def entry(position: float, dimension: int, d_model: int, frequency: Callable[[int, int], float] = omega,
          even_odd: tuple[Callable, Callable] = (math.sin, math.cos)) -> float:
    return even_odd[dimension % 2](position * frequency(dimension // 2, d_model))


def encoding(position: int, d_model: int) -> torch.Tensor:
    return torch.tensor([entry(position, dimension, d_model) for dimension in range(d_model)], dtype=torch.float64)


# Mistakes with the frequencies, which other chapters have as well: what is said, and the frequency of a pair.
FREQUENCY_MISTAKES = [
    ("The frequencies rise from pair to pair: look at the exponent's sign.", lambda i, d: 1 / omega(i, d)),
    ("The exponent is half of what it should be, −2i/d for pair i, or the base is the root of 10000.",
     lambda i, d: omega(i / 2, d)),
    ("The exponent is twice of what it should be: −2i/d for pair i, whose columns begin at 2i.",
     lambda i, d: omega(2 * i, d)),
    ("The base is 1000; it should be 10000.", lambda i, d: 1_000.0 ** (-2 * i / d)),
    ("The pairs are counted from 1 in the exponent. They count from 0, so the first one turns by 1 radian a position.",
     lambda i, d: omega(i + 1, d)),
    ("All pairs turn by the same angle. Pair i has its own frequency, ω_i.", lambda i, d: 1.0),
    ("The exponent runs from 0 to −1, with d/2 − 1 in its denominator, as in some libraries. Here it is −2i/d.",
     lambda i, d: 10_000.0 ** (-i / max(d / 2 - 1, 1))),
]


# Exercise 2.1

def waves_begin(answer: Callable) -> None:
    for dimension, start in ((2, 0.0), (3, 1.0)):                # no angle yet, whatever the frequency is
        seen = float(ask(answer, 0, dimension, 6))
        if abs(seen - start) > 1e-4:
            raise Wrong(f"{calling(answer, 0, dimension, 6)} is {seen:.5f}, expected {start:.0f}: at position 0 every "
                        f"angle is 0, sin 0 = 0 stands in the even dimensions and cos 0 = 1 in the odd ones.")


def pairs_share_an_angle(answer: Callable) -> None:
    for pair in (0, 1, 2):
        squares = float(ask(answer, 5, 2 * pair, 6)) ** 2 + float(ask(answer, 5, 2 * pair + 1, 6)) ** 2
        if abs(squares - 1) > 1e-3:
            raise Wrong(f"Dimensions {2 * pair} and {2 * pair + 1} are a pair, a point on the unit circle, but at "
                        f"position 5 of d_model 6 their squares add up to {squares:.4f}. The two must share one angle: "
                        f"both use the pair index {pair}.")


def what_entry(index: tuple, position: int, dimension: int, d_model: int) -> str:
    """How an entry is computed, up to the last step."""
    pair = dimension // 2
    name = "cosine" if dimension % 2 else "sine"
    return (f"Dimension {dimension} is the {name} of pair {pair}, which turns by 10000^(-2·{pair}/{d_model}) = "
            f"{omega(pair, d_model):.5g} radians a position, so its angle at position {position} is "
            f"{position * omega(pair, d_model):.5g}.")


def in_blocks(position: int, dimension: int, d_model: int) -> float:
    sines = (d_model + 1) // 2
    return (math.sin(position * omega(dimension, d_model)) if dimension < sines else
            math.cos(position * omega(dimension - sines, d_model)))


EXERCISES["2.1"] = Exercise(
    stages=[waves_begin, pairs_share_an_angle],
    cases=[(1, 2, 4), (2, 3, 4), (7, 4, 10), (11, 5, 10), (9, 3, 5), (9, 4, 5), (20, 2, 12), (3, 1, 8)],
    truth=entry,
    mistakes=[
        *(Mistake(hint, lambda p, j, d, frequency=frequency: entry(p, j, d, frequency))
          for hint, frequency in FREQUENCY_MISTAKES),
        Mistake("Sine and cosine have changed places: even dimensions are sines.",
                lambda p, j, d: entry(p, j, d, even_odd=(math.cos, math.sin))),
        Mistake("Odd dimensions are cosines; this is a sine everywhere.",
                lambda p, j, d: entry(p, j, d, even_odd=(math.sin, math.sin))),
        Mistake("The dimension's number is doubled in the exponent. What is doubled is the number of its pair, "
                "dimension // 2, which two dimensions share.",
                lambda p, j, d: entry(p, j, d, lambda i, d: omega(j, d))),
        Mistake("The dimension's number stands in the exponent, so the cosine of a pair turns slower than its sine. "
                "The two share one frequency: twice the pair's number, dimension // 2.",
                lambda p, j, d: entry(p, j, d, lambda i, d: omega(j / 2, d))),
        Mistake("The cosine of a pair has the frequency of the next pair. Sine and cosine share one.",
                lambda p, j, d: entry(p, j, d, lambda i, d: omega(i + j % 2, d))),
        Mistake("All sines come first here and all cosines after them. In this table they alternate.", in_blocks),
        Mistake("The positions are counted from 1. They count from 0.", lambda p, j, d: entry(p + 1, j, d)),
        Mistake("The angle is taken in degrees. math.sin wants radians, and so does the formula.",
                lambda p, j, d: entry(math.radians(p), j, d)),
        Mistake("At odd widths the denominator is one too large. It is d_model itself.",
                lambda p, j, d: entry(p, j, d, lambda i, d: omega(i, d + d % 2))),
    ],
    explain=what_entry,
    shows="each entry has its own pair's frequency, sines in even dimensions, cosines in odd ones.",
)


# Exercise 2.2

def block(angle: float) -> list[list[float]]:
    return [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]


def nothing_at_offset_0(answer: Callable) -> None:
    seen = ask(answer, 0, 0.7, shape=(2, 2))
    if np.abs(seen - np.eye(2)).max() > 1e-4:
        raise Wrong(f"{calling(answer, 0, 0.7)} is [{row(seen[0])}, {row(seen[1])}]. Offset 0 must change nothing.")


def pairs_arrive(answer: Callable) -> None:
    for offset, frequency in ((3, 0.5), (-2, 0.3), (25, 0.01)):
        seen = ask(answer, offset, frequency, shape=(2, 2))
        for position in (0, 1, 10):
            before, after = (np.array([math.sin(p * frequency), math.cos(p * frequency)])
                             for p in (position, position + offset))
            if np.abs(seen @ before - after).max() > 1e-4:
                raise Wrong(f"{calling(answer, offset, frequency)} takes the pair [sin, cos] of position {position}, "
                            f"{row(before)}, to {row(seen @ before)}; at position {position + offset} it is "
                            f"{row(after)}.")


def row(entries: np.ndarray) -> str:
    return "[" + ", ".join(f"{entry:.4f}" for entry in entries) + "]"


EXERCISES["2.2"] = Exercise(
    stages=[nothing_at_offset_0, pairs_arrive],
    cases=[(3, 0.5), (-2, 0.3), (25, 0.01)],
    truth=lambda offset, frequency: block(offset * frequency),
    mistakes=[
        Mistake("The block turns the wrong way: it takes the pair at position p to the pair at p minus offset.",
                lambda offset, frequency: block(-offset * frequency)),
        Mistake("The offset is not in it: the angle is offset · frequency.", lambda _, frequency: block(frequency)),
        Mistake("The frequency is not in it: the angle is offset · frequency.", lambda offset, _: block(offset)),
        Mistake("The offset's own sign was dropped.", lambda offset, frequency: block(abs(offset) * frequency)),
        Mistake("Sine and cosine have changed places: at offset 0 the cosine is 1, and the block changes nothing.",
                lambda offset, frequency: block(math.pi / 2 - offset * frequency)),
        Mistake("The minus is missing. The cosine's row is −sin, cos.",
                lambda offset, frequency: np.where(np.eye(2), math.cos(offset * frequency),
                                                   math.sin(offset * frequency))),
        Mistake("The angle is taken in degrees. math.sin wants radians.",
                lambda offset, frequency: block(math.radians(offset * frequency))),
    ],
    explain=lambda index, offset, frequency: (
        f"It is how much of the {('sine', 'cosine')[index[1]]} at p goes into the {('sine', 'cosine')[index[0]]} at "
        f"p + {offset}."),
    shows="the block takes the pair at every position p to the pair at p + k, and does not ask what p is.",
)


# Exercise 2.3

def two_encodings(position: int, offset: int, d_model: int) -> tuple[torch.Tensor, torch.Tensor]:
    return encoding(position, d_model), encoding(position + offset, d_model)


def nothing_turns_at_offset_0(answer: Callable) -> None:
    for pair, angle in enumerate(ask(answer, *two_encodings(7, 0, 6), shape=(3,))):
        if abs(angle) > 1e-3:
            raise Wrong(f"Twice the same encoding, PE(7), and pair {pair} is said to have turned by {angle:.5f}, "
                        f"expected 0.00000. Nothing has turned.")


def offset_alone_counts(answer: Callable) -> None:
    for k in (2, -2):                                            # one offset, two places
        here, there = (ask(answer, *two_encodings(p, k, 10), shape=(5,)) for p in (3, 20))
        if np.abs(here - there).max() > 1e-3:
            raise Wrong(f"From PE(3) to PE({3 + k}) it is {row(here)}, but from PE(20) to PE({20 + k}) it is "
                        f"{row(there)}. The offset is {k} both times: the answer must not depend on p. Which products "
                        f"of the entries of a pair do not?")


def hands(before: torch.Tensor, after: torch.Tensor, halves: bool = False) -> list[np.ndarray]:
    """Each pair as a point, cosine to the right and sine upwards, so that its angle is that of the encoding."""
    pairs = (rows.numpy().reshape(2, -1) if halves else rows.numpy().reshape(-1, 2).T for rows in (before, after))
    return [cos + 1j * sin for sin, cos in pairs]


def turn(before: torch.Tensor, after: torch.Tensor, halves: bool = False) -> np.ndarray:
    """The quotient of two complex numbers has the difference of their angles; its length is 1."""
    here, there = hands(before, after, halves)
    return there / here


EXERCISES["2.3"] = Exercise(
    stages=[nothing_turns_at_offset_0, offset_alone_counts],
    cases=[two_encodings(*each) for each in ((3, 2, 10), (11, -3, 8), (5, 1, 4), (100, 40, 12))],
    truth=lambda before, after: np.angle(turn(before, after)),
    mistakes=[
        Mistake("The size is right, the sign is not: a hand that goes on has a positive angle. Look at the cross "
                "product's order.", lambda before, after: -np.angle(turn(before, after))),
        Mistake("The size is right; the sign tells which way, and an arc cosine does not know it. math.atan2 and "
                "torch.atan2 take the cross product too.", lambda before, after: np.abs(np.angle(turn(before, after)))),
        Mistake("This is the cosine of the angle, the dot product.", lambda before, after: turn(before, after).real),
        Mistake("This is the sine of the angle, the cross product.", lambda before, after: turn(before, after).imag),
        Mistake("An arc sine ends at a quarter turn. torch.atan2(cross, dot) knows the whole circle.",
                lambda before, after: np.arcsin(turn(before, after).imag)),
        Mistake("The arc tangent of a quotient ends at a quarter turn. torch.atan2(cross, dot) knows the whole circle.",
                lambda before, after: np.arctan(turn(before, after).imag / turn(before, after).real)),
        Mistake("torch.atan2 takes the cross product first: torch.atan2(cross, dot).",
                lambda before, after: np.angle(1j * turn(before, after).conj())),
        Mistake("Some are off by a whole turn. Asked for is the angle between −π and π.",
                lambda before, after: np.subtract(*map(np.angle, hands(before, after)[::-1]))),
        Mistake("The angle is in degrees; asked for are radians.",
                lambda before, after: np.degrees(np.angle(turn(before, after)))),
        Mistake("The pairs are columns i and i + d/2 here. In this table a pair is two neighbours.",
                lambda before, after: np.angle(turn(before, after, halves=True))),
    ],
    explain=lambda index, before, after: (
        f"Pair {index[0]} is [sin, cos] = {row(before.view(-1, 2)[index[0]])} before and "
        f"{row(after.view(-1, 2)[index[0]])} after."),
    shows="each hand's turn, read off two encodings without knowing where they stand.",
)
