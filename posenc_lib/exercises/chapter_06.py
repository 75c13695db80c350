"""The checks of chapter 6, the three classic exercises. Their truth is written out here, entry by entry."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import Mistake, Wrong, call, calling, compare, exercise, numbers
from posenc_lib.exercises.chapter_02 import encoding


def omega(d: int) -> np.ndarray:
    return 10_000.0 ** (-2 * np.arange(d // 2) / d)


def block_matrix(k: int, d: int, frequency: np.ndarray | None = None, sign: int = 1) -> np.ndarray:
    matrix = np.zeros((d, d))
    for i, w in enumerate(omega(d) if frequency is None else frequency):
        sin, cos = sign * math.sin(k * w), math.cos(k * w)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    return matrix


@exercise("6.1")
def one_matrix_for_all_positions(answer: Callable) -> str:
    for d in (2, 6):
        seen = numbers(call(answer, 0, d), (d, d), calling(answer, 0, d))
        if np.abs(seen - np.eye(d)).max() > 1e-4:
            raise Wrong(f"{calling(answer, 0, d)} should change nothing, since it goes 0 positions on: the identity matrix.")
    compare(
        answer, [(1, 2), (3, 4), (-2, 6), (25, 10)], block_matrix, [
            Mistake(lambda k, d: block_matrix(-k, d), "It goes back instead of forward: for the order (sin, cos) a block is "
                                                      "[[cos, sin], [−sin, cos]]."),
            Mistake(lambda k, d: block_matrix(k, d, 1 / omega(d)), "The frequencies rise from block to block: look at the "
                                                                   "exponent's sign."),
            Mistake(lambda k, d: block_matrix(k, d, omega(d) ** 0.5), "The exponent is half of what it should be: −2i/d for "
                                                                      "pair i."),
            Mistake(lambda k, d: block_matrix(k, d, omega(d) ** 2), "The exponent is twice of what it should be: −2i/d for "
                                                                    "pair i."),
            Mistake(lambda k, d: block_matrix(k, d, np.ones(d // 2)), "All blocks turn by the same angle; pair i turns by "
                                                                      "kω_i."),
            Mistake(lambda k, d: block_matrix(k, d, 0.1 ** (6 * np.arange(d // 2) / d)), "The base is 1000; it should be "
                                                                                         "10000."),
            Mistake(halves, "It fits a table with all sines first and all cosines after them. Here sine and cosine "
                            "alternate, so the blocks stand on the diagonal."),
        ],
        explain=lambda index, k, d: (
            f"Row {index[0]} makes the {('sine', 'cosine')[index[0] % 2]} of pair {index[0] // 2} at p + k, from column "
            f"{index[1]}, the {('sine', 'cosine')[index[1] % 2]} of pair {index[1] // 2} at p."))
    return "one matrix takes every position k places on, and does not ask which."


def halves(k: int, d: int) -> np.ndarray:
    cos, sin = np.diag(np.cos(k * omega(d))), np.diag(np.sin(k * omega(d)))
    return np.block([[cos, sin], [-sin, cos]])


def squared_distance(k: int, d: int) -> float:
    return float(sum(2 - 2 * np.cos(k * omega(d))))


@exercise("6.2")
def distance_from_the_offset(answer: Callable) -> str:
    compare(
        answer, [(0, 4), (1, 2), (5, 6), (-3, 8), (40, 12)], squared_distance, [
            Mistake(lambda k, d: math.sqrt(squared_distance(k, d)), "This is the distance; asked for is its square."),
            Mistake(lambda k, d: squared_distance(k, d) / 2, "It is half of it: a pair's two squares add up to "
                                                             "2 − 2 cos kω."),
            Mistake(lambda k, d: float(sum(np.cos(k * omega(d)))), "This is the dot product of the two. The squared distance "
                                                                   "is |a|² + |b|² − 2 a·b."),
            Mistake(lambda k, d: float(sum(2 - 2 * np.cos(k / omega(d)))), "The frequencies rise: look at the exponent's "
                                                                           "sign."),
            Mistake(lambda k, d: float(sum(2 - 2 * np.cos(k * omega(d) ** 0.5))), "The exponent is half of what it should "
                                                                                  "be: −2i/d for pair i."),
            Mistake(lambda k, d: float(sum(2 + 2 * np.cos(k * omega(d)))), "The sign before the cosine is wrong: at k = 0 "
                                                                           "the two encodings are the same."),
            Mistake(lambda k, d: float(sum(2 - 2 * np.sin(k * omega(d)))), "It has the sines; the product of two hands is "
                                                                           "the cosine of the angle between them."),
            Mistake(lambda k, d: float(d), "It does not depend on k."),
        ],
        explain=lambda _, k, d: (f"It is a sum over {d // 2} pairs of 2 − 2 cos({k} ω)."))
    return "the position has dropped out: how far two encodings are apart, only the offset decides."


def dot_and_cross(here: object, there: object) -> np.ndarray:
    here, there = np.asarray(here, dtype=float), np.asarray(there, dtype=float)
    (sin, cos), (sin_k, cos_k) = (rows.reshape(-1, 2).T for rows in (here, there))
    return np.concatenate([sin * sin_k + cos * cos_k, sin_k * cos - cos_k * sin])


@exercise("6.3")
def products_of_pairs(answer: Callable) -> str:
    def pair(p: int, k: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
        return encoding(p, d), encoding(p + k, d)

    (near, far), k = (pair(p, 3, 8) for p in (2, 50)), 3
    if np.abs((a := numbers(call(answer, *near), (8,), "products(PE(2), PE(5))"))
              - numbers(call(answer, *far), (8,), "products(PE(50), PE(53))")).max() > 1e-3:
        raise Wrong(f"products(PE(2), PE(5)) begins {a[0]:.4f}, and products(PE(50), PE(53)) is another vector. The offset is "
                    f"{k} both times: the answer must not depend on p.")
    compare(
        answer, [pair(7, 0, 6), pair(3, 2, 8), pair(11, -4, 10)], dot_and_cross, [
            Mistake(lambda a, b: np.concatenate(np.split(dot_and_cross(a, b), 2)[::-1]), "Dot and cross products have "
                    "changed places: the dot products come first."),
            Mistake(lambda a, b: np.stack(np.split(dot_and_cross(a, b), 2), 1).ravel(), "Dot and cross products alternate. "
                    "Asked for are all the dot products, then all the cross products."),
            Mistake(lambda a, b: np.concatenate([dot_and_cross(a, b)[: len(a) // 2], dot_and_cross(b, a)[len(a) // 2 :]]),
                    "The cross products have the wrong sign: positive should mean that `there` comes later."),
            Mistake(lambda a, b: np.concatenate([dot_and_cross(a, b)[: len(a) // 2]] * 2), "Both halves are the dot products."),
        ],
        explain=lambda index, a, b: (
            f"It is the {'dot' if index[0] < len(a) // 2 else 'cross'} product of pair {index[0] % (len(a) // 2)}, the "
            f"{'cosine' if index[0] < len(a) // 2 else 'sine'} of kω."))
    return "cos kω and sin kω of every pair, wherever the two stand."


def turning_pairs(length: int, d: int) -> int:
    return int((2 * math.pi / omega(d) <= length).sum())


@exercise("6.4")
def pairs_that_turn(answer: Callable) -> str:
    compare(
        answer, [(512, 512), (6, 8), (7, 8), (100, 20), (5000, 64)], turning_pairs, [
            Mistake(lambda length, d: d // 2 - turning_pairs(length, d), "These are the pairs that do not turn once."),
            Mistake(lambda length, d: 2 * turning_pairs(length, d), "This counts dimensions; a pair has two."),
            Mistake(lambda length, d: int((1 / omega(d) <= length).sum()), "A full turn is 2π radians, not 1."),
            Mistake(lambda length, d: int((math.pi / omega(d) <= length).sum()), "Half a turn is counted as a whole one."),
            Mistake(lambda length, d: int((2 * math.pi / omega(d) ** 0.5 <= length).sum()), "The exponent is half of what it "
                                                                                            "should be: −2i/d for pair i."),
            Mistake(lambda length, d: int((2 * math.pi / omega(2 * d) <= length).sum()), "These are the frequencies of twice "
                                                                                         "the width."),
        ],
        explain=lambda _, length, d: (f"The wavelengths of d = {d} begin {2 * math.pi:.3f}, "
                                      f"{2 * math.pi * 10_000 ** (2 / d):.3f}, …; those up to {length} are counted."))
    return "the others look like constants within such a sequence."


@exercise("6.5")
def length_of_tokens_to_positions(answer: Callable) -> str:
    compare(
        answer, [(1.0, 512), (0.5, 64), (0.125, 64), (22.6, 512), (0.02, 768)], lambda std, d: std * math.sqrt(2), [
            Mistake(lambda std, d: 1 / (std * math.sqrt(2)), "It is turned over: the token's length stands above."),
            Mistake(lambda std, d: std * math.sqrt(d), "This is the length of a token alone."),
            Mistake(lambda std, d: std, "A row of positions is not √d long: half of its squares are missing, as sin² + cos² "
                                        "= 1 for each *pair*."),
            Mistake(lambda std, d: 2 * std**2, "This is the ratio of the squared lengths."),
            Mistake(lambda std, d: std * math.sqrt(d) / (d / 2), "Positions have length √(d/2); d/2 is its square."),
            Mistake(lambda std, d: std * d / math.sqrt(d / 2), "Tokens are about std·√d long, not std·d."),
            Mistake(lambda std, d: std / math.sqrt(d / 2), "Tokens have d entries: they are about std·√d long."),
        ],
        explain=lambda _, std, d: f"A token is about {std:g}·√{d} long, a position √({d}/2).", within=0.02)
    return "the width drops out: a token drawn from N(0, 1) is √2 times as long as a sinusoidal row, at every width."
