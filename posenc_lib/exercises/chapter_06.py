"""The exercises of chapter 6, the three classic ones. Their truth is written out here."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake, Wrong, ask, calling
from posenc_lib.exercises.chapter_02 import FREQUENCY_MISTAKES, angles, omega, row, two_encodings


def by_frequency(answer: Callable) -> list[Mistake]:
    """The mistakes with the frequencies, of an answer that takes the frequency of a pair as a third argument."""
    return [Mistake(hint, lambda k, d, frequency=frequency: answer(k, d, frequency))
            for hint, frequency in FREQUENCY_MISTAKES]


# Exercise 6.1

def step_matrix(k: int, d: int, frequency: Callable[[int, int], float] = omega) -> np.ndarray:
    matrix = np.zeros((d, d))
    for i, angle in enumerate(angles(k, d, frequency)):
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    return matrix


def halves(k: int, d: int) -> np.ndarray:
    cos, sin = np.diag(np.cos(angles(k, d))), np.diag(np.sin(angles(k, d)))
    return np.block([[cos, sin], [-sin, cos]])


def nothing_at_offset_0(answer: Callable) -> None:
    for d in (2, 6):
        if np.abs(ask(answer, 0, d, shape=(d, d)) - np.eye(d)).max() > 1e-4:
            raise Wrong(f"{calling(answer, 0, d)} goes 0 positions on and should change nothing: it is the identity, "
                        f"1 on the diagonal and 0 elsewhere.")


def what_factor(index: tuple[int, int], k: int, d: int) -> str:
    new, old = (f"{('sine', 'cosine')[column % 2]} of pair {column // 2}" for column in index)
    return f"It is how much of the {old} at p goes into the {new} at p + k."


EXERCISES["6.1"] = Exercise(
    stages=[nothing_at_offset_0],
    cases=[(1, 2), (3, 4), (-2, 6), (5, 8)],
    truth=step_matrix,
    mistakes=[
        Mistake("It goes back instead of forward: in the order (sin, cos) a block is [[cos, sin], [−sin, cos]].",
                lambda k, d: step_matrix(-k, d)),
        Mistake("The minus is missing: a block is [[cos, sin], [−sin, cos]].",
                lambda k, d: np.where(np.tri(d, k=-1), -1, 1) * step_matrix(k, d)),
        Mistake("Sine and cosine have changed places: the cosines stand on the diagonal.",
                lambda k, d: step_matrix(1, d, lambda i, d: math.pi / 2 - k * omega(i, d))),
        Mistake("The sines are missing: beside the diagonal, each block has sin kω and −sin kω.",
                lambda k, d: np.eye(d) * step_matrix(k, d)),
        Mistake("k is not in it: the angles are kω.", lambda k, d: step_matrix(1, d)),
        Mistake("The sign of k was dropped.", lambda k, d: step_matrix(abs(k), d)),
        Mistake("It fits a table with all sines first and all cosines after them. Here sine and cosine alternate, so "
                "the blocks stand on the diagonal.", halves),
        *by_frequency(step_matrix),
    ],
    explain=what_factor,
    shows="one matrix takes every position k places on, and does not ask which.",
)


# Exercise 6.2

def squared_distance(k: int, d: int, frequency: Callable[[int, int], float] = omega) -> float:
    return float((2 - 2 * np.cos(angles(k, d, frequency))).sum())


EXERCISES["6.2"] = Exercise(
    cases=[(1, 4), (5, 6), (-3, 8), (40, 12), (5000, 2)],              # far enough for a pair too many to show
    truth=squared_distance,
    mistakes=[
        Mistake("This is the distance; asked for is its square.", lambda k, d: math.sqrt(squared_distance(k, d))),
        Mistake("It is half of it: |a − b|² = |a|² + |b|² − 2 a·b, and each hand has length 1.",
                lambda k, d: squared_distance(k, d) / 2),
        Mistake("This is the dot product of the two. The squared distance is |a|² + |b|² − 2 a·b.",
                lambda k, d: np.cos(angles(k, d)).sum()),
        Mistake("The sign before the cosine is wrong: at k = 0 the two encodings are the same.",
                lambda k, d: (2 + 2 * np.cos(angles(k, d))).sum()),
        Mistake("It has the sines. The product of two hands is the cosine of the angle between them.",
                lambda k, d: (2 - 2 * np.sin(angles(k, d))).sum()),
        Mistake("k is not in it: the angles are kω.", lambda k, d: squared_distance(1, d)),
        Mistake("This is the mean over the pairs. The squares add up.", lambda k, d: squared_distance(k, d) / (d // 2)),
        Mistake("It goes over d pairs; there are d/2.", lambda k, d: sum(2 - 2 * math.cos(k * omega(i, d))
                                                                         for i in range(d))),
        *by_frequency(squared_distance),
    ],
    explain=lambda _, k, d: f"It is a sum over {d // 2} pairs of 2 − 2 cos({k} ω).",
    shows="the position has dropped out: how far two encodings are apart, only the offset decides.",
)


# Exercise 6.3

def dots(here: torch.Tensor, there: torch.Tensor) -> np.ndarray:
    return np.array([here[i] * there[i] + here[i + 1] * there[i + 1] for i in range(0, len(here), 2)])


def crosses(here: torch.Tensor, there: torch.Tensor) -> np.ndarray:
    return np.array([there[i] * here[i + 1] - there[i + 1] * here[i] for i in range(0, len(here), 2)])


def offset_alone_counts(answer: Callable) -> None:
    here, there = (ask(answer, *two_encodings(p, 3, 8), shape=(8,)) for p in (2, 50))
    if np.abs(here - there).max() > 1e-3:
        raise Wrong(f"Of PE(2) and PE(5) it is {row(here)}, but of PE(50) and PE(53) it is {row(there)}. The offset is "
                    f"3 both times: the answer must not depend on p.")


def which_product(index: tuple[int], here: torch.Tensor, there: torch.Tensor) -> str:
    pairs = len(here) // 2
    name, of = ("dot", "cosine") if index[0] < pairs else ("cross", "sine")
    return f"It is the {name} product of pair {index[0] % pairs}, the {of} of kω."


EXERCISES["6.3"] = Exercise(
    stages=[offset_alone_counts],
    cases=[two_encodings(*each) for each in ((7, 1, 6), (3, 2, 8), (11, -4, 10))],
    truth=lambda here, there: np.concatenate([dots(here, there), crosses(here, there)]),
    mistakes=[
        Mistake("Dot and cross products have changed places: the dot products come first.",
                lambda here, there: np.concatenate([crosses(here, there), dots(here, there)])),
        Mistake("Dot and cross products alternate. Asked for are all the dot products, then all the cross products.",
                lambda here, there: np.stack([dots(here, there), crosses(here, there)], axis=1).ravel()),
        Mistake("The cross products have the wrong sign: positive should mean that `there` comes later.",
                lambda here, there: np.concatenate([dots(here, there), crosses(there, here)])),
        Mistake("Both halves are the dot products.", lambda here, there: np.tile(dots(here, there), 2)),
        Mistake("Both halves are the cross products.", lambda here, there: np.tile(crosses(here, there), 2)),
        Mistake("The minus is missing in the cross products: sin' cos − cos' sin.",
                lambda here, there: np.concatenate([dots(here, there), [
                    there[i] * here[i + 1] + there[i + 1] * here[i] for i in range(0, len(here), 2)]])),
        Mistake("The cross products are missing. There are d/2 dot products, then d/2 cross products.", dots),
        Mistake("Entry times entry are d products. The two of a pair are added up to its dot product.",
                lambda here, there: here * there),
        Mistake("Dot and cross products are [2, d/2] here, one below the other. Asked for is one row, `[d]`.",
                lambda here, there: np.stack([dots(here, there), crosses(here, there)])),
    ],
    explain=which_product,
    shows="cos kω and sin kω of every pair, wherever the two stand.",
)


# Exercise 6.4

def turning_pairs(length: float, d: int, frequency: Callable[[int, int], float] = omega) -> int:
    return sum(2 * math.pi / angle <= length for angle in angles(1, d, frequency))


EXERCISES["6.4"] = Exercise(
    cases=[(512, 1024), (6, 8), (7, 10), (100, 20), (70_000, 64)],
    truth=turning_pairs,
    mistakes=[
        Mistake("These are the pairs that do not turn once.", lambda length, d: d // 2 - turning_pairs(length, d)),
        Mistake("This counts dimensions; a pair has two.", lambda length, d: 2 * turning_pairs(length, d)),
        Mistake("A full turn is 2π radians, not 1.", lambda length, d: turning_pairs(2 * math.pi * length, d)),
        Mistake("Half a turn is counted as a whole one.", lambda length, d: turning_pairs(2 * length, d)),
        Mistake("It goes over d pairs; there are d/2.", lambda length, d: sum(
            2 * math.pi / omega(i, d) <= length for i in range(d))),
        Mistake("This is the number of the last pair that turns. They count from 0, so there is one more.",
                lambda length, d: turning_pairs(length, d) - 1),
        *by_frequency(turning_pairs),
    ],
    explain=lambda _, length, d: (
        f"The wavelengths of d = {d} begin {2 * math.pi:.3f}, {2 * math.pi / omega(1, d):.3f}, …; those up to {length} "
        f"are counted."),
    shows="the others look like constants within such a sequence.",
    within=1e-6,                                                 # they are counted
)


# Exercise 6.5

EXERCISES["6.5"] = Exercise(
    cases=[(1.0, 512), (0.5, 64), (0.125, 96), (22.6, 256), (0.02, 768)],
    truth=lambda std, d: std * math.sqrt(d) / math.sqrt(d / 2),
    mistakes=[
        Mistake("It is turned over: the token's length stands above.", lambda std, d: 1 / (std * math.sqrt(2))),
        Mistake("This is the length of a token alone.", lambda std, d: std * math.sqrt(d)),
        Mistake("This is the length of a row of the encoding alone.", lambda std, d: math.sqrt(d / 2)),
        Mistake("A row of positions is not √d long: sin² + cos² = 1 for each *pair*, and there are d/2.",
                lambda std, d: std),
        Mistake("This is the ratio of the squared lengths.", lambda std, d: 2 * std**2),
        Mistake("A row of the encoding is √(d/2) long; d/2 is the square of it.",
                lambda std, d: std * math.sqrt(d) / (d / 2)),
        Mistake("Tokens are about std·√d long, not std·d.", lambda std, d: std * d / math.sqrt(d / 2)),
        Mistake("Tokens have d entries: they are about std·√d long.", lambda std, d: std / math.sqrt(d / 2)),
        Mistake("std is a standard deviation; its square is the variance. Tokens are about std·√d long.",
                lambda std, d: math.sqrt(2 * std)),
        Mistake("std is not in it: a token is about std·√d long.", lambda std, d: math.sqrt(2)),
    ],
    explain=lambda _, std, d: f"A token is about {std:g}·√{d} long, a row of the encoding √({d}/2).",
    shows="the width drops out: a token drawn from N(0, 1) is √2 times as long as a sinusoidal row, at every width.",
    within=2e-4,                                                 # admits 1.414 for √2
)
