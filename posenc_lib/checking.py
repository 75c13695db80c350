"""`check("2.1", answer)`: tells a reader whether an exercise is solved, and if not, what was seen.

The checks of a chapter stand in `posenc_lib/exercises/`. Each is a function of the answer that goes from shape, to one
mechanism alone, to an independent truth, and stops at the first thing that is wrong by raising `Wrong`.
"""
from __future__ import annotations

import html
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_lib.blame import own_frame

Check = Callable[[Callable], str]           # takes the answer; returns what a right one has shown, or raises
CHECKS: dict[str, Check] = {}


class Wrong(Exception):
    """The answer is not right yet; the message says what was seen and where to look."""


class Unanswered(Exception):
    """The answer is still the stub."""


@dataclass(frozen=True)
class Verdict:
    """What `check` found. `passed` is None while the exercise has not been answered."""

    exercise: str
    passed: bool | None
    message: str

    def __repr__(self) -> str:
        mark = {True: "right", False: "not yet", None: "open"}[self.passed]
        return f"Exercise {self.exercise}, {mark}: {self.message}"

    def _repr_html_(self) -> str:
        color = {True: "#009E73", False: "#D55E00", None: "#6B6B6B"}[self.passed]
        mark = {True: "✓ right", False: "✗ not yet", None: "○ open"}[self.passed]
        return (f'<div role="status" style="border-left:5px solid {color};padding:4px 10px;white-space:pre-wrap">'
                f'<b style="color:{color}">Exercise {self.exercise} {mark}</b>\n{html.escape(self.message)}</div>')


def exercise(name: str) -> Callable[[Check], Check]:
    """Registers the function below it as the check of exercise `name`."""
    def register(function: Check) -> Check:
        if name in CHECKS:
            raise ValueError(f"exercise {name} has two checks: {CHECKS[name].__name__} and {function.__name__}")
        CHECKS[name] = function
        return function
    return register


def check(name: str, answer: Callable) -> Verdict:
    """Checks `answer`, the function asked for by exercise `name`; the verdict shows itself as the cell's value.

    Raises: `ValueError` for an exercise that does not exist.
    """
    import posenc_lib.exercises  # noqa: F401  fills CHECKS; here, because the exercises import this file

    if name not in CHECKS:
        raise ValueError(f"there is no exercise {name!r}; there are {', '.join(sorted(CHECKS))}")
    if not callable(answer):
        return Verdict(name, False, f"A function was expected, got {_seen(answer)}. Pass its name without brackets.")
    try:
        return Verdict(name, True, CHECKS[name](answer))
    except Unanswered:
        return Verdict(name, None, "Put your code in place of the ... and run this cell again.")
    except Wrong as wrong:
        return Verdict(name, False, str(wrong))


def call(answer: Callable, *arguments: object) -> object:
    """The answer's result; its exception becomes `Wrong` with the reader's own line, a missing result `Unanswered`."""
    try:
        result = answer(*arguments)
    except Exception as error:
        raise Wrong(f"{type(error).__name__}: {error}{_line_of(answer, error)}\n"
                    f"when called as {calling(answer, *arguments)}") from None
    if result is None or result is Ellipsis:
        if _is_stub(answer):
            raise Unanswered
        raise Wrong(f"{calling(answer, *arguments)} returned {result}. Is a return missing?")
    return result


def calling(answer: Callable, *arguments: object) -> str:
    """The call as the reader would write it."""
    shown = (f"tensor {list(each.shape)}" if hasattr(each, "shape") else str(each) for each in arguments)
    return f"{getattr(answer, '__name__', 'answer')}({', '.join(shown)})"


def numbers(result: object, shape: tuple[int, ...], what: str) -> np.ndarray:
    """`result` (a number, list, array or tensor) as float64 if it has `shape`; else `Wrong` says what `what` was."""
    try:
        array = np.asarray(result.detach().cpu().double() if hasattr(result, "detach") else result)
        if array.dtype.kind not in "biuf":                       # text and complex numbers convert, but are no answer
            raise TypeError
        array = array.astype(np.float64)
    except Exception:
        raise Wrong(f"{what} should be {_kind(shape)}, got {_seen(result)}.") from None
    if array.shape != shape:
        hint = " It looks transposed." if array.shape == shape[::-1] and len(shape) > 1 else ""
        raise Wrong(f"{what} should be {_kind(shape)}, got shape {list(array.shape)}.{hint}")
    if not np.isfinite(array).all():
        index = tuple(int(axis) for axis in np.argwhere(~np.isfinite(array))[0])
        raise Wrong(f"{_entry(index)}{what} is {array[index]}: every entry should be finite.")
    return array


def agree(seen: np.ndarray, expected: np.ndarray, what: str, explain: Callable[..., str], within: float = 1e-4) -> None:
    """Raises `Wrong` at the first entry that differs, with both values and `explain(*index)`: what that entry is."""
    differing = np.argwhere(np.abs(seen - expected) > within)
    if len(differing):
        index = tuple(int(axis) for axis in differing[0])
        raise Wrong(f"{_entry(index)}{what} is {seen[index]:.5f}, expected {expected[index]:.5f}. {explain(*index)}")


def _is_stub(answer: Callable) -> bool:
    """Whether the placeholder still stands in the answer, alone on its line."""
    try:
        lines = inspect.getsource(answer).splitlines()
    except (OSError, TypeError):            # no source at hand: then there is no stub to see
        return False
    return any(line.partition("#")[0].strip() == "..." for line in lines)


def _entry(index: tuple[int, ...]) -> str:
    return f"entry [{', '.join(map(str, index))}] of " if index else ""


def _kind(shape: tuple[int, ...]) -> str:
    return f"numbers of shape {list(shape)}" if shape else "one number"


def _seen(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) < 60 else text[:57] + '...'} ({type(value).__name__})"


def _line_of(answer: Callable, error: Exception) -> str:
    """The line of the answer's own file or cell that raised."""
    frame = own_frame(answer, error)
    return f"\nin line {frame.lineno}: {frame.line}" if frame else ""
