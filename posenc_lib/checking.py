"""`check("2.1", answer)`: tells a reader whether an exercise is solved, and if not, what was seen.

The exercises of a chapter stand in `posenc_lib/exercises/`. An answer goes through the stages of its `Exercise`, from
shape to one mechanism alone, and is then held against an independent truth. The first thing that is wrong speaks. If
everything the answer gives is what a known `Mistake` gives, it is told that mistake's hint; if not, it gets no name,
and the first differing entry is shown.
"""
from __future__ import annotations

import contextlib
import copy
import html
import inspect
import io
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posenc_lib.blame import own_frame

EXERCISES: dict[str, Exercise] = {}
LAST: dict[str, Verdict] = {}               # the last verdict on each exercise in this session
SECONDS = 5.0                               # how long a check may take
PRINTED = 2_000                             # how many characters of what an answer prints are shown
COARSE = {"float16": 2e-3, "bfloat16": 2e-2}            # formats judged at a tolerance of their own
NAMING = 100                                # a mistake is recognised this much more coarsely than the truth: in float32
                                            # its angles may be large, and catalogue entries lie far apart (tested)


class Wrong(Exception):
    """The answer is not right yet; the message says what was seen and where to look."""


class Failed(Wrong):
    """The answer gave nothing to judge: it raised, returned nothing, or edited what was handed in."""


class Unanswered(Exception):
    """The answer is still the stub."""


class TooLong(BaseException):
    """The answer did not end in time. No `Exception`, so that an answer's own `except` does not catch it."""


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer: what a good tutor says to who gave it, and the answer, called as the reader's is."""

    hint: str | Callable[..., str]          # a text, or a function of the arguments that makes one
    answer: Callable


@dataclass(frozen=True)
class Exercise:
    """How an answer is judged: by its stages, then against the truth on every case, a tuple of arguments."""

    shows: str                                              # what a right answer has shown, said to the reader
    cases: Sequence[tuple] = ()
    truth: Callable | None = None                           # called as the answer is; written out, not the library's
    explain: Callable[..., str] | None = None               # explain(index, *case): what that entry of the truth is
    mistakes: Sequence[Mistake] = ()
    stages: Sequence[Callable[[Callable], None]] = ()       # each takes the answer and raises `Wrong` if it is
    within: float = 1e-4                                    # of the largest entry, or of 1


# The word, the sign and their background: white text on it can be read, and it stands out on a light and a dark page.
MARKS = {True: ("right", "✓", "#00785A"), False: ("not yet", "✗", "#B54F00"), None: ("open", "○", "#6B6B6B")}


@dataclass(frozen=True)
class Verdict:
    """What `check` found. `passed` is None while the exercise has not been answered."""

    title: str
    passed: bool | None
    message: str

    def __repr__(self) -> str:
        return f"{self.title}, {MARKS[self.passed][0]}: {self.message}"

    def _repr_html_(self) -> str:
        word, sign, color = MARKS[self.passed]
        mark = f'<span style="background:{color};color:#FFFFFF;padding:1px 6px;border-radius:3px">{sign} {word}</span>'
        return (f'<div role="status" style="border-left:5px solid {color};padding:4px 10px;white-space:pre-wrap">'
                f"<b>{self.title} {mark}</b>\n{html.escape(self.message)}</div>")


def check(name: str, answer: Callable) -> Verdict:
    """Checks `answer`, the function asked for by exercise `name`; the verdict shows itself as the cell's value.

    The answer is called several times, each time with copies. Whatever it raises is shown with its own line, `exit()`
    too, and the random numbers of PyTorch, NumPy and Python go on afterwards as if nothing had happened. Of what it
    prints, the beginning is shown. Not undone is what else it does: to variables outside of it, to files, to settings.

    After `SECONDS` it is interrupted by a Unix signal. So an endless loop is stopped, but not on Windows and not
    outside the main thread; a single long call inside PyTorch or NumPy comes to its end first; and a loop that catches
    everything, with a bare `except:`, catches this too. Then interrupt or restart the kernel.

    Raises: `ValueError` for an exercise that does not exist.
    """
    import posenc_lib.exercises  # noqa: F401  fills EXERCISES; here, because the exercises import this file

    if name not in EXERCISES:
        raise ValueError(f"there is no exercise {name!r}; there are {', '.join(sorted(EXERCISES))}")
    verdict = LAST[name] = _verdict(name, answer)
    return verdict


def solved(chapter: int) -> Verdict:
    """One line that tells which exercises of a chapter pass, as far as their cells have been run in this session."""
    import posenc_lib.exercises  # noqa: F401

    names = sorted((name for name in EXERCISES if name.partition(".")[0] == str(chapter)),
                   key=lambda name: int(name.partition(".")[2]))
    if not names:
        raise ValueError(f"chapter {chapter} has no exercises")
    states = {name: LAST[name].passed if name in LAST else None for name in names}
    right = sum(state is True for state in states.values())
    line = ", ".join(f"{name} {MARKS[state][1]}" for name, state in states.items())
    return Verdict(f"Exercises of chapter {chapter}", right == len(names) or None, f"{right} of {len(names)}: {line}")


def _verdict(name: str, answer: Callable) -> Verdict:
    title = f"Exercise {name}"
    if not callable(answer):
        return Verdict(title, False, f"A function was expected, got {_seen(answer)}. Pass its name without brackets.")
    try:
        with _printing_little(), _random_numbers_kept(), _time_limit():
            return Verdict(title, True, _judge(answer, EXERCISES[name]))
    except Unanswered:
        return Verdict(title, None, "Put your code in place of the ... and run this cell again.")
    except Wrong as wrong:
        return Verdict(title, False, str(wrong))
    except TooLong as error:
        return Verdict(title, False, f"It was still running after {SECONDS:g} seconds, and was stopped"
                                     f"{_line_of(answer, error)}\nIs there a loop that does not end?")


def _judge(answer: Callable, exercise: Exercise) -> str:
    """What a right answer has shown; `Wrong` if it is none, with the hint of a known mistake if it is one."""
    try:
        for stage in exercise.stages:
            stage(answer)
        for case in exercise.cases:
            compare(answer, exercise, case)
    except Failed:
        raise
    except Wrong:
        _name_the_mistake(answer, exercise)
        raise
    return exercise.shows + _remark(answer, exercise)


def compare(answer: Callable, exercise: Exercise, case: tuple, hint: str = "") -> None:
    """Raises `Wrong` at the first entry that is not the truth's: both values, and the hint or what that entry is."""
    result, what, expected = call(answer, *case), calling(answer, *case), _array(exercise.truth(*case))
    within = exercise.within + _coarseness(result)
    try:
        seen = numbers(result, expected.shape, what)
    except Wrong as wrong:
        raise Wrong(f"{wrong} {hint}".strip()) from None
    if _close(seen, expected, within):
        return
    index = tuple(int(axis) for axis in np.argwhere(~(np.abs(seen - expected) <= _reach(expected, within)))[0])
    meaning = hint or exercise.explain(index, *case) + _pattern(seen, expected, within) + _format(result, expected)
    raise Wrong(f"{_entry(index)}{what} is {_both(seen[index], expected[index])}. {meaning}")


def _name_the_mistake(answer: Callable, exercise: Exercise) -> None:
    """Raises `Wrong` with the hint of the known mistake that gives what `answer` gives on *every* case, if one does."""
    try:
        results = [call(answer, *case) for case in exercise.cases]
        seen = [_array(result) for result in results]
    except (Wrong, TypeError):
        return
    within = NAMING * exercise.within + max(map(_coarseness, results), default=0.0)

    def same(known: Callable) -> list[bool]:
        return [_close(array, _array(known(*case)), within) for array, case in zip(seen, exercise.cases, strict=True)]

    right = same(exercise.truth)
    if all(right):                                              # so near the truth that no mistake could be told
        return
    case = exercise.cases[right.index(False)]
    known = [mistake for mistake in (*exercise.mistakes, *_whole_numbers(exercise)) if all(same(mistake.answer))]
    hints = {mistake.hint if isinstance(mistake.hint, str) else mistake.hint(*case) for mistake in known}
    if len(hints) == 1:                                         # in half precision, two may look the same
        compare(answer, exercise, case, hints.pop())


def _whole_numbers(exercise: Exercise) -> list[Mistake]:
    """The truth with its fractions lost, a mistake of any exercise; unless all of it is 0 then, as of much else."""
    hint = "These are whole numbers where fractions are due. Is there a // or an int() too many, or an integer dtype?"
    lost = [lambda *case, lose=lose: lose(_array(exercise.truth(*case))) for lose in (np.floor, np.trunc, np.round)]
    return [Mistake(hint, answer) for answer in lost if any(answer(*case).any() for case in exercise.cases)]


def _pattern(seen: np.ndarray, expected: np.ndarray, within: float) -> str:
    """What can be said of a result without a name."""
    if seen.size < 2:
        return ""
    factor = float((seen * expected).sum() / (expected**2).sum()) if expected.any() else 0.0
    if factor and _close(seen, factor * expected, within):
        return f" All of it is {factor:.4g} times what it should be."
    if _close(np.sort(seen, axis=None), np.sort(expected, axis=None), within):
        return " All the numbers are right, but they stand in other places."
    return ""


def _format(result: object, expected: np.ndarray) -> str:
    kind = str(getattr(result, "dtype", ""))
    if _coarseness(result):
        return f" It came as {kind or 'half precision'} and was judged as coarsely; that is not it."
    if "int" in kind and not np.array_equal(expected, expected.round()):
        return f" It came as {kind}, whole numbers, where fractions are due."
    return ""


def _remark(answer: Callable, exercise: Exercise) -> str:
    """Tensors in, tensor out; but the numbers decide, not their type."""
    case = exercise.cases[0] if exercise.cases else ()
    if any(map(torch.is_tensor, case)):
        result = call(answer, *case)
        if not isinstance(result, torch.Tensor) and _array(result).ndim:
            return f" (A tensor was asked for, and this is of type {type(result).__name__}; the numbers decide.)"
    return ""


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    ours, numpys = random.getstate(), np.random.get_state()         # noqa: NPY002  the reader's, whichever is used
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(ours)
            np.random.set_state(numpys)                             # noqa: NPY002


@contextlib.contextmanager
def _printing_little() -> Iterator[None]:
    """What the answer prints is shown after the check, and only its beginning: it is called many times."""
    printed = _Beginning()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        sys.stdout.write(printed.text())


class _Beginning(io.TextIOBase):
    def __init__(self) -> None:
        self.kept, self.length = "", 0

    def write(self, text: str) -> int:
        self.kept += text[: max(PRINTED - self.length, 0)]
        self.length += len(text)
        return len(text)

    def text(self) -> str:
        more = self.length - PRINTED
        return self.kept + (f"\n… and {more:,} more characters, left out\n" if more > 0 else "")


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ask(answer: Callable, *arguments: object, shape: tuple[int, ...] = ()) -> np.ndarray:
    """The answer's numbers for these arguments, if they are finite and have this shape."""
    return numbers(call(answer, *arguments), shape, calling(answer, *arguments))


def call(answer: Callable, *arguments: object) -> object:
    """The answer's result; its exception becomes `Failed` with the reader's own line, a missing result `Unanswered`.

    The answer gets copies, and is told if it changed them.
    """
    given = copy.deepcopy(arguments)
    try:
        result = answer(*given)
    except (Exception, SystemExit) as error:
        raise Failed(f"{type(error).__name__}: {error}{_line_of(answer, error)}\n"
                     f"when called as {calling(answer, *arguments)}") from None
    if result is None or result is Ellipsis:
        if _is_stub(answer):
            raise Unanswered
        raise Failed(f"{calling(answer, *arguments)} returned {result}. Is a return missing?")
    for name, before, after in zip(_parameters(answer, len(arguments)), arguments, given, strict=True):
        if isinstance(before, torch.Tensor) and not torch.equal(before, after):
            raise Failed(f"{calling(answer, *arguments)} has changed {name} itself. Leave what is handed in as it is: "
                         f"{name}.clone() is a copy.")
    return result


def calling(answer: Callable, *arguments: object) -> str:
    """The call as the reader would write it; of tensors only the shape, unless they are small and of whole numbers."""
    shown = []
    for name, value in zip(_parameters(answer, len(arguments)), arguments, strict=True):
        if not isinstance(value, torch.Tensor):
            shown.append(getattr(value, "__name__", repr(value)))
        elif value.is_floating_point() or value.numel() > 12:
            shown.append(f"{name} {list(value.shape)}")
        else:
            shown.append(str(value.int().tolist()))
    return f"{getattr(answer, '__name__', 'answer')}({', '.join(shown)})"


def _parameters(answer: Callable, count: int) -> list[str]:
    """The names of the answer's parameters, as its author gave them."""
    try:
        parameters = inspect.signature(answer).parameters.values()
        names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    except (TypeError, ValueError):
        names = []
    return (names + [f"argument {number + 1}" for number in range(len(names), count)])[:count]


def numbers(result: object, shape: tuple[int, ...], what: str) -> np.ndarray:
    """`result` (a number, list, array or tensor) as float64 if it has `shape`; else `Wrong` says what `what` was."""
    try:
        array = _array(result)
    except TypeError:
        raise Wrong(f"{what} should be {_kind(shape)}, got {_seen(result)}.") from None
    if array.shape != shape:
        hint = " It looks transposed." if array.shape == shape[::-1] else ""
        raise Wrong(f"{what} should be {_kind(shape)}, got shape {list(array.shape)}.{hint}")
    if not np.isfinite(array).all():
        index = tuple(int(axis) for axis in np.argwhere(~np.isfinite(array))[0])
        raise Wrong(f"{_entry(index)}{what} is {array[index]}: every entry should be finite.")
    return array


def _array(result: object) -> np.ndarray:
    """`result` as float64, whatever it is made of; `TypeError` if it is no numbers."""
    try:
        if isinstance(result, list | tuple):                     # of tensors, say
            result = [_array(each) for each in result]
        if isinstance(result, torch.Tensor):
            result = result.detach().cpu().numpy() if result.dtype != torch.bfloat16 else result.detach().cpu().float()
        array = np.asarray(result)
        if array.dtype.kind not in "biuf":                       # text and complex numbers convert, but are no answer
            raise TypeError
        return array.astype(np.float64)
    except Exception:
        raise TypeError("no numbers") from None


def _coarseness(result: object) -> float:
    if isinstance(result, list | tuple):
        return max(map(_coarseness, result), default=0.0)
    return COARSE.get(str(getattr(result, "dtype", "")).removeprefix("torch."), 0.0)


def _reach(expected: np.ndarray, within: float) -> float:
    return within * max(1.0, np.abs(expected).max(initial=0.0))


def _close(seen: np.ndarray, expected: np.ndarray, within: float) -> bool:
    return seen.shape == expected.shape and bool((np.abs(seen - expected) <= _reach(expected, within)).all())


def _both(seen: float, expected: float) -> str:
    whole = float(seen).is_integer() and float(expected).is_integer()
    return f"{seen:,.0f}, expected {expected:,.0f}" if whole else f"{seen:.5f}, expected {expected:.5f}"


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


def _line_of(answer: Callable, error: BaseException) -> str:
    """The line of the answer's own file or cell that raised."""
    frame = own_frame(answer, error)
    return f"\nin line {frame.lineno}: {frame.line}" if frame else ""
