"""The grader's side of a student's process: `Session`, whose answers can be handed to `posenc_lib.check`.

    with Session(cells, {"2.1": "entry"}) as session:
        verdict = check("2.1", session.answer("2.1"))

An answer called here runs there; its result comes back as numbers. What goes wrong in it is raised here as it would be
in a reader's notebook, with the student's own line, so that the same verdict comes with the same message.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import keyword
import linecache
import math
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from classroom import wire
from classroom.isolation import Ended, Limits, Process
from posenc_lib.checking import TooLong

LIBRARY = Path(__file__).resolve().parents[1] / "posenc_lib"
STARTING = 30.0                                 # seconds that importing PyTorch may take on a slow machine
GRACE = 1.0                                     # seconds after which an answer that was told to stop is ended
EARLIER = 0.25                                  # seconds before a check's own time is up: then the line can be told
CALLBACK = 10_000                               # numbers that a student may hand to a function of the grader's
NUMBERS = itertools.count()
STAND_IN = '''"""Shows and keeps nothing: the work is judged elsewhere."""


def check(name, answer):
    return None


def solved(chapter):
    return None
'''


class SessionEnded(Exception):
    """The student's process is there no longer; the message says why."""


class NoAnswer(Exception):
    """There is no function to call; the message says why."""


@dataclass(frozen=True)
class Ran:
    """A cell that an answer needed. `error` is None, or what it raised and in which line."""

    number: int
    error: str | None
    notes: tuple[str, ...] = ()                 # what was left out of it


@dataclass(frozen=True)
class Found:
    """What is known of a student's function."""

    name: str
    parameters: tuple[str, ...] | None
    cell: int | None                            # where it stands
    first_line: int
    value: object = None                        # if it is no function


def library_for_students(target: Path) -> Path:
    """Makes the folder `target` with a posenc_lib that has no exercises and whose `check` and `solved` do nothing."""
    copied = Path(target) / "posenc_lib"
    shutil.copytree(LIBRARY, copied, ignore=shutil.ignore_patterns("exercises", "__pycache__", ".*"))
    (copied / "checking.py").write_text(STAND_IN, encoding="utf-8")
    return Path(target)


@functools.cache
def _own_library() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="classroom-library-")
    library_for_students(Path(folder.name))
    return folder


class Session:
    """A student's process with the answers in it. A context manager: at its end nothing of it runs on.

    cells    code cells in the notebook's order: (number, grade id or "", source)
    wanted   for each exercise the name of its function
    library  what `library_for_students` made; without it, a copy is made once in this process

    `cells` afterwards tells what ran, for each exercise; `printed` what the cells printed; `ended` is None or why the
    process is there no longer. Then `restart` starts a new one, without the exercises whose cells ended it.
    """

    def __init__(self, cells: Sequence[tuple[int, str, str]], wanted: Mapping[str, str], limits: Limits | None = None,
                 isolated: bool = True, library: Path | None = None) -> None:
        self.sources = {number: re.sub(r"\A(?:[ \t]*\n)+", "", source) for number, _, source in cells}
        self._given = [[number, grade_id, self.sources[number]] for number, grade_id, _ in cells]
        self.wanted, self.limits, self.isolated = dict(wanted), limits or Limits(), isolated
        self.library = Path(library) if library else Path(_own_library().name)
        self.cells: dict[str, list[Ran]] = {}
        self.printed = ""
        self.spoiled: dict[str, str] = {}       # exercises whose cells ended a process, and how
        self._found: dict[str, Found] = {}
        self.until: float | None = None         # when the check that calls has to end, if no signal ends it
        self._process: Process | None = None
        self._number, self._calls = next(NUMBERS), itertools.count()

    def __enter__(self) -> Session:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        for number in self.sources:
            linecache.cache.pop(self._file(number), None)

    @property
    def ended(self) -> str | None:
        return self._process.reason if self._process else "was closed"

    def restart(self) -> None:
        """A new process for the same cells; exercises whose cells ended the last one, or end this one, stay out."""
        for _ in self.wanted:
            self._close()
            self._start()
            if not self.ended:
                break

    def answer(self, exercise: str) -> Callable:
        """The student's function; or, if it is none, its value.

        Raises: `NoAnswer` if the cell does not define it, `SessionEnded` if its cells ended the process.
        """
        if exercise in self.spoiled:
            raise SessionEnded(self.spoiled[exercise])
        if exercise not in self._found:
            if self.ended:
                raise SessionEnded(self.ended)
            raise NoAnswer(self._why_none(exercise))
        found = self._found[exercise]
        return Answer(self, exercise, found) if found.value is None else found.value

    def _why_none(self, exercise: str) -> str:
        if not any(grade_id == f"answer-{exercise.replace('.', '-')}" for _, grade_id, _ in self._given):
            return f"no cell answers exercise {exercise}"
        errors = [ran.error for ran in self.cells.get(exercise, []) if ran.error]
        return errors[-1] if errors else f"the cell defines no {self.wanted[exercise]}"

    def _close(self) -> None:
        if self._process:
            self._process.close()
            self._process = None

    def _start(self) -> None:
        self.cells, self._found, self.printed = {}, {}, ""
        self._process = Process(self.library, self.limits, self.isolated)
        wanted = [[exercise, name] for exercise, name in self.wanted.items() if exercise not in self.spoiled]
        try:
            self._expect("hello", STARTING)
            self._send({"op": "start", "cells": self._given, "wanted": wanted, "seconds": self.limits.cell_seconds})
        except SessionEnded:
            return
        for exercise, _ in wanted:
            try:
                message, values = self._expect("prepared", self.limits.cell_seconds + GRACE)
                self._prepared(exercise, message, values)
            except SessionEnded as ended:
                self.spoiled[exercise] = str(ended)
                break
        else:
            with contextlib.suppress(SessionEnded):
                self._expect("ready", STARTING)
        self._process.keep_no_more()
        self.printed = "".join(wire.plain(line, self.limits.kept) + "\n" for line in self._process.printed.splitlines())

    def _prepared(self, exercise: str, message: dict, values: dict) -> None:
        with self._trusting_nothing():
            if message["answer"] != exercise:
                raise wire.Refused("it is about another exercise")
            rans = []
            for report in message["cells"]:
                number = report["number"]
                if number not in self.sources:
                    raise wire.Refused("there is no such cell")
                if report["source"] is not None:
                    self.sources[number] = wire.plain(report["source"], 100_000)
                rans.append(Ran(number, self._told(report["error"], number),
                                tuple(wire.plain(note, 100) for note in report["notes"][:5])))
            self.cells[exercise] = rans
            if message["name"] is None:
                return
            parameters = message["parameters"]
            if parameters is not None:
                parameters = tuple(dict.fromkeys(name for name in parameters[:50]
                                                 if name.isidentifier() and not keyword.iskeyword(name)))
            cell = message["cell"] if message["cell"] in self.sources else None
            if cell is not None:
                lines = self.sources[cell].splitlines(keepends=True)
                linecache.cache[self._file(cell)] = (len(self.sources[cell]), None, lines, self._file(cell))
            value = None if message["callable"] is True else values["value"]
            if value is None and message["callable"] is not True:
                value = ...                     # `check` says of None that it is no function; so it does of this
            self._found[exercise] = Found(wire.plain(message["name"], 60), parameters, cell,
                                          _line(message["first_line"]) or 1, value)

    def _told(self, error: dict | None, number: int) -> str | None:
        if error is None:
            return None
        text = f"{wire.plain(error['type'], 60)}: {wire.plain(error['message'], 2000)}"
        line, lines = _line(error["line"]), self.sources[number].splitlines()
        return text + (f"\nin line {line}: {lines[line - 1].strip()}" if line and line <= len(lines) else "")

    def _file(self, number: int) -> str:
        return f"<cell {number} of session {self._number}>"

    @contextlib.contextmanager
    def _trusting_nothing(self):
        """Whatever is wrong with a frame's content ends the session, and nothing else."""
        try:
            yield
        except (wire.Refused, KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            raise self._end("sent something that is no answer") from None

    def _end(self, reason: str) -> SessionEnded:
        self._process.end(reason)
        return SessionEnded(self._process.reason)

    def _send(self, message: dict, values: dict | None = None, reference: Callable | None = None,
              until: float | None = None) -> None:
        data = wire.dump(message, values, reference)
        try:
            self._process.send(data, until or time.monotonic() + STARTING)
        except (Ended, TimeoutError) as error:
            raise self._end(str(error) or "did not listen") from None

    def _receive(self, until: float) -> tuple[dict, dict]:
        try:
            return wire.read(lambda count: self._process.receive(count, until))
        except Ended as ended:
            raise SessionEnded(str(ended)) from None
        except wire.Refused as refused:
            reason = "sent more at once than is taken" if "too large" in str(refused) else (
                "sent something that is no answer")
            raise self._end(reason) from None

    def _expect(self, kind: str, seconds: float) -> tuple[dict, dict]:
        try:
            message, values = self._receive(time.monotonic() + seconds)
        except TimeoutError:
            raise self._end(f"ran its cells for more than {self.limits.cell_seconds:g} s" if kind == "prepared" else
                            f"did not start within {seconds:g} s") from None
        with self._trusting_nothing():
            if message["op"] != kind:
                raise wire.Refused("something else was due")
        return message, values

    def _call(self, exercise: str, found: Found, arguments: tuple) -> object:
        """One call: until the result is there, functions that were handed over are evaluated here when asked for."""
        if self.ended:
            raise SessionEnded(self.ended)
        functions, seconds, call = [], self._seconds(), next(self._calls)

        def reference(function: Callable) -> int:
            functions.append(function)
            return len(functions) - 1

        until = time.monotonic() + seconds + GRACE
        try:
            request = {"op": "call", "call": call, "answer": exercise, "seconds": seconds}
            self._send(request, {"arguments": list(arguments)}, reference, until)
            while True:
                message, values = self._receive(until)
                if message.get("op") != "callback":
                    break
                self._send(*self._called_back(functions, message, values), until=until)
        except TimeoutError:
            self._end(f"took more than {seconds:.3g} s for one call of the answer to exercise {exercise}")
            raise TooLong from None
        except BaseException:                   # a check's own alarm, say: what comes next would be of this call
            self._end("was interrupted in the middle of a call")
            raise
        with self._trusting_nothing():
            if message["call"] != call:
                raise wire.Refused("it is about another call")
            if message["op"] == "error":
                error = self._error(message)
            elif message["op"] == "result":
                error = None
                result = values["value"]
                self._change(arguments, values["changed"])
            else:
                raise wire.Refused("neither a result nor an error")
        if error is None:
            return result
        self._raise(error, found, _line(message["line"]))

    def _seconds(self) -> float:
        """What a call may take: less, if the check that calls has less time left."""
        left = 0.0
        if hasattr(signal, "getitimer") and threading.current_thread() is threading.main_thread():
            left = signal.getitimer(signal.ITIMER_REAL)[0]
        elif self.until is not None:
            left = max(self.until - time.monotonic(), EARLIER)
        return min(self.limits.call_seconds, max(left - EARLIER, EARLIER)) if left else self.limits.call_seconds

    def _called_back(self, functions: list[Callable], message: dict, values: dict) -> tuple[dict, dict]:
        with self._trusting_nothing():
            function = functions[message["number"]]
            arguments, keywords = values["arguments"], values["keywords"]
            if not isinstance(arguments, list) or not isinstance(keywords, dict):
                raise wire.Refused("arguments are a list and a dictionary")
        try:
            if _size([arguments, list(keywords.values())]) > CALLBACK:
                raise ValueError(f"it takes at most {CALLBACK:,} numbers")
            return {"op": "result"}, {"value": function(*arguments, **keywords)}
        except Exception as error:              # whatever a student's arguments lead to is the student's to see
            return {"op": "error", "type": type(error).__name__, "message": str(error)[:2000]}, {}

    def _change(self, arguments: tuple, changed: dict) -> None:
        for index, content in changed.items():
            argument = arguments[int(index)]
            if not isinstance(argument, torch.Tensor) or not isinstance(content, torch.Tensor):
                raise wire.Refused("what was changed is a tensor")
            argument.data = content.to(argument.dtype)

    def _error(self, message: dict) -> BaseException:
        name, text = wire.plain(message["type"], 60), wire.plain(message["message"], 2000)
        if message["late"] is True:
            return TooLong()
        return type(name if name.isidentifier() else "Exception", (Exception,), {})(text)

    def _raise(self, error: BaseException, found: Found, line: int | None) -> None:
        """Raises it as if from the student's line: `posenc_lib.blame` reads the line from the traceback."""
        if found.cell is None or line is None:
            raise error
        code = compile("raise error", self._file(found.cell), "exec").replace(co_firstlineno=line)
        exec(code, {"error": error})


class Answer:
    """A student's function, called here and run there. It looks like the function to `posenc_lib.checking`."""

    def __init__(self, session: Session, exercise: str, found: Found) -> None:
        self._call = functools.partial(session._call, exercise, found)
        self.__name__ = found.name
        if found.parameters is not None:
            self.__signature__ = inspect.Signature(
                [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in found.parameters])
        if found.cell is not None:              # an empty function at the student's line, for who asks for its source
            space: dict = {}
            code = compile("def answer(): ...", session._file(found.cell), "exec")
            exec(code, space)
            self.__wrapped__ = space["answer"]
            self.__code__ = self.__wrapped__.__code__ = space["answer"].__code__.replace(
                co_firstlineno=found.first_line)

    def __call__(self, *arguments: object) -> object:
        return self._call(arguments)


def _line(number: object) -> int | None:
    return number if type(number) is int and 0 < number < 1_000_000 else None


def _size(value: object) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    if isinstance(value, dict):
        return _size(list(value.values()))
    return math.prod(value.shape) if hasattr(value, "shape") else 1
