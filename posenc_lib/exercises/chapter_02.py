"""The checks of chapter 2, sinusoidal encoding by hand. Their truth is written out here, entry by entry."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch

from posenc_lib.checking import Wrong, agree, call, calling, exercise, numbers


def true_entry(position: int, dimension: int, d_model: int) -> float:
    angle = position * 10_000.0 ** (-2 * (dimension // 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


def what_entry(position: int, dimension: int, d_model: int) -> str:
    """Says how an entry is computed, up to the last step."""
    pair = dimension // 2
    name = "cosine" if dimension % 2 else "sine"
    frequency = 10_000.0 ** (-2 * pair / d_model)
    return (f"Dimension {dimension} is the {name} of pair {pair}, which turns by 10000^(-2·{pair}/{d_model}) = "
            f"{frequency:.5g} radians a position, so its angle at position {position} is {position * frequency:.5g}.")


@exercise("2.1")
def one_entry(answer: Callable) -> str:
    def entry(*arguments: int) -> float:
        return float(numbers(call(answer, *arguments), (), calling(answer, *arguments)))

    for dimension, start in ((2, 0.0), (3, 1.0)):                # position 0: no angle yet, whatever the frequency is
        seen = entry(0, dimension, 6)
        if abs(seen - start) > 1e-4:
            raise Wrong(f"{calling(answer, 0, dimension, 6)} is {seen:.5f}, expected {start:.0f}: at position 0 every "
                        f"angle is 0, sin 0 = 0 stands in the even dimensions and cos 0 = 1 in the odd ones.")
    for pair in (0, 1, 2):                                       # one pair, one angle
        sin, cos = entry(5, 2 * pair, 6), entry(5, 2 * pair + 1, 6)
        if abs(sin**2 + cos**2 - 1) > 1e-4:
            raise Wrong(f"Dimensions {2 * pair} and {2 * pair + 1} are a pair, a point on the unit circle, but at "
                        f"position 5 of d_model 6 their squares add up to {sin**2 + cos**2:.4f}. The two must share "
                        f"one angle: both use the pair index {pair}.")
    for position, dimension, d_model in ((1, 2, 4), (2, 3, 4), (7, 4, 10), (11, 5, 10), (3, 6, 7), (40, 9, 12)):
        where = (position, dimension, d_model)
        agree(np.array(entry(*where)), np.array(true_entry(*where)), calling(answer, *where),
              lambda where=where: what_entry(*where))
    return "each entry has its own pair's frequency, sines in even dimensions, cosines in odd ones."


@exercise("2.2")
def turning_block(answer: Callable) -> str:
    blocks = {(offset, frequency): numbers(call(answer, offset, frequency), (2, 2), calling(answer, offset, frequency))
              for offset, frequency in ((0, 0.7), (3, 0.5), (-2, 0.3), (25, 0.01))}
    agree(blocks[0, 0.7], np.eye(2), calling(answer, 0, 0.7), lambda *_: "Offset 0 must change nothing.")
    for (offset, frequency), block in blocks.items():
        for position in (0, 1, 10):
            before, after = (np.array([math.sin(p * frequency), math.cos(p * frequency)])
                             for p in (position, position + offset))
            if np.abs(block @ before - after).max() > 1e-4:
                back = np.array([math.sin((position - offset) * frequency), math.cos((position - offset) * frequency)])
                hint = (" That is the pair at position minus offset: the block turns the wrong way."
                        if np.abs(block @ before - back).max() < 1e-4 else "")
                raise Wrong(f"{calling(answer, offset, frequency)} takes the pair [sin, cos] of position {position}, "
                            f"{_pair(before)}, to {_pair(block @ before)}; at position {position + offset} it is "
                            f"{_pair(after)}.{hint}")
    return "the block takes the pair at every position p to the pair at p + k, and does not ask what p is."


@exercise("2.3")
def angles_turned(answer: Callable) -> str:
    def asked(p: int, k: int, d_model: int) -> tuple[np.ndarray, str]:
        what = f"turned(PE({p}), PE({p + k})), d_model = {d_model},"
        return numbers(call(answer, encoding(p, d_model), encoding(p + k, d_model)), (d_model // 2,), what), what

    seen, what = asked(7, 0, 6)
    agree(seen, np.zeros(3), what, lambda pair: f"The two are the same encoding: pair {pair} has not turned.")
    for k in (2, -2):                                            # one offset, two places
        (here, what), (there, elsewhere) = asked(3, k, 10), asked(20, k, 10)
        if np.abs(here - there).max() > 1e-3:
            raise Wrong(f"{what} begins {here[0]:.4f} {here[1]:.4f}, but {elsewhere} begins {there[0]:.4f} "
                        f"{there[1]:.4f}. The offset is {k} both times: the answer must not depend on p. Which "
                        f"products of the entries of a pair do not?")
    for p, k, d_model in ((3, 2, 10), (11, -3, 8), (0, 1, 4), (100, 40, 12)):
        seen, what = asked(p, k, d_model)
        agree(seen, turns(k, d_model), what, functools.partial(what_turn, k, d_model, seen), within=1e-3)
    return "each hand's turn, read off two encodings without knowing where they stand."


def encoding(position: int, d_model: int) -> torch.Tensor:
    return torch.tensor([true_entry(position, dimension, d_model) for dimension in range(d_model)], dtype=torch.float64)


def turns(k: int, d_model: int) -> np.ndarray:
    """The angle kω of every pair, between −π and π."""
    return np.angle(np.exp(1j * k * 10_000.0 ** (-2 * np.arange(d_model // 2) / d_model)))


def what_turn(k: int, d_model: int, seen: np.ndarray, pair: int) -> str:
    turn = turns(k, d_model)[pair]
    mirrored = " The size is right; the sign tells which way." if abs(seen[pair] + turn) < 1e-3 else ""
    return (f"Pair {pair} has turned by kω = {k} · 10000^(-2·{pair}/{d_model}), which is {turn:.5f} between −π and π."
            f"{mirrored}")


def _pair(pair: np.ndarray) -> str:
    return f"[{pair[0]:.4f}, {pair[1]:.4f}]"
