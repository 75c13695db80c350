"""Runs inside a student's process: executes the cells that the answers need, then answers calls of the answers.

    python student.py LIBRARY LIMITS READ_FD WRITE_FD

It is started by `isolation.py` and spoken to by `remote.py`. It knows no truth and gives no marks, so it does not
matter what a student does to it: it can only lie about the student's own results.

Every answer gets a namespace of its own. In it run, in the notebook's order, only the cells that the answer needs: its
own, those that bind the names it loads, those that bind the names these load. A name is taken from the nearest earlier
cell that binds it, else from a later one. So neither a broken cell elsewhere nor a second function of the same name is
in the way. Of the imports of a cell only those are done whose names are needed.
"""
import ast
import builtins
import contextlib
import inspect
import json
import linecache
import os
import re
import resource
import signal
import symtable
import sys
import threading
import traceback
import types

HERE = os.path.dirname(os.path.abspath(__file__))
COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
RUN_BODY = ("time", "timeit", "capture", "prun")        # cell magics whose body is the student's code


class TooLong(BaseException):
    """Time is up. No `Exception`, so that an answer's own `except` does not catch it."""


def limit(limits):
    """Hard limits: without privileges they cannot be raised again."""
    for name, most in limits.items():
        kind = getattr(resource, name)
        allowed = resource.getrlimit(kind)[1]
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        refused = (OSError, ValueError) if sys.platform == "darwin" else ()     # macOS has no limit of memory
        with contextlib.suppress(*refused):
            resource.setrlimit(kind, (most, most))


class Cell:
    """One code cell: its syntax tree, the names that it binds, and those that it needs from elsewhere."""

    def __init__(self, number, grade_id, source):
        self.number, self.grade_id, self.file = number, grade_id, f"<cell {number}>"
        self.notes, self.error, self.tree, self.binds, self.needs = [], None, ast.Module([], []), set(), set()
        self.source = self.given = source
        try:
            self.source = python_of(source, self.notes)
            self.tree = ast.parse(self.source, self.file)
            self._names()
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.error = described(error, getattr(error, "lineno", None))
            self.tree = None
            self.binds = set(re.findall(r"^(?:def |class )?(\w+)(?= *=|\()", source, re.MULTILINE))
        linecache.cache[self.file] = (len(self.source), None, self.source.splitlines(keepends=True), self.file)

    def _names(self):
        inner = set()
        for statement in self.tree.body:
            table = symtable.symtable(ast.unparse(statement), self.file, "exec")
            at_once, later, bound = names_of(table)
            changed = {name.id for node in ast.walk(statement) if isinstance(node, ast.Subscript | ast.Attribute)
                       and isinstance(node.ctx, ast.Store) and isinstance(name := root_of(node), ast.Name)}
            added = {node.target.id for node in ast.walk(statement)
                     if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
            self.needs |= (at_once | (added & bound)) - self.binds
            inner |= later
            self.binds |= bound | (changed & (at_once | self.binds))
        self.needs |= inner - self.binds

    @property
    def opens_everything(self):
        """Whether it binds names that cannot be seen from here."""
        return self.tree is not None and any(
            isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in self.tree.body)

    def code(self, wanted):
        """Compiled without the imports that nobody needs: they take time, and may not be installed here."""
        loaded = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} | wanted
        body = []
        for statement in self.tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__":
                names = [name for name in statement.names
                         if (name.asname or name.name.partition(".")[0]) in loaded or name.name == "*"]
                if not names:
                    continue
                fewer = type(statement)(**{**dict(ast.iter_fields(statement)), "names": names})
                statement = ast.copy_location(fewer, statement)
            body.append(statement)
        return compile(ast.Module(body, []), self.file, "exec", dont_inherit=True)


def root_of(node):
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def names_of(table):
    """Names loaded at once, names loaded when a function is called, names bound; all of them global."""
    at_once = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    bound = {symbol.get_name() for symbol in table.get_symbols()
             if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()}
    later = set()

    def into(inner, called):
        called = called or (inner.get_type() == "function" and inner.get_name() not in COMPREHENSIONS)
        for symbol in inner.get_symbols():
            if symbol.is_global():
                if symbol.is_declared_global() and symbol.is_assigned():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    (later if called else at_once).add(symbol.get_name())
        for child in inner.get_children():
            into(child, called)

    for child in table.get_children():
        into(child, False)
    return at_once, later, bound


def python_of(source, notes):
    """The cell as Python: what is IPython's own becomes calls of a stand-in that does nothing."""
    if source.startswith("%%"):
        name, _, body = source[2:].partition("\n")
        notes.append(f"%%{name.strip()} was left out")
        source = "\n" + body if name.split()[:1] and name.split()[0] in RUN_BODY else "\n"
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError):
        pass                                    # then it is IPython's, or wrong: the second reading tells
    from IPython.core.inputtransformer2 import TransformerManager
    return TransformerManager().transform_cell(source)


class NoIPython:
    """Takes every magic and does nothing."""

    def __getattr__(self, name):
        return lambda *_, **__: None


def plan(answer, cells):
    """The cells that `answer` needs, in the notebook's order, each with the names needed of it."""
    place, wanted, todo = cells.index(answer), {answer.number: set()}, [answer]
    for cell in cells:
        if cell.opens_everything:
            wanted.setdefault(cell.number, set())
            todo.append(cell)
    while todo:
        cell = todo.pop()
        here = cells.index(cell)
        for name in cell.needs:
            binding = [other for other in cells if name in other.binds and other is not cell and other is not answer]
            earlier = [other for other in binding if cells.index(other) < here]
            later = [other for other in binding if cells.index(other) > here]
            source = earlier[-1] if earlier else later[0] if later and not hasattr(builtins, name) else None
            if source is None:
                continue
            if source.number not in wanted:
                wanted[source.number] = set()
                todo.append(source)
            wanted[source.number].add(name)
    chosen = [cell for cell in cells if cell.number in wanted]
    late = [cell for cell in chosen if cells.index(cell) > place]
    order = [cell for cell in chosen if cell not in late and cell is not answer] + late + [answer]
    return [(cell, wanted[cell.number]) for cell in order]


def described(error, line=None):
    try:
        message = str(error)[:2000]
    except BaseException:                       # an error class of the student's own
        message = ""
    return {"type": type(error).__name__, "message": message, "line": line if isinstance(line, int) else None}


def line_in(file, error):
    """The line of the innermost frame of `error` in this cell."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return lines[-1] if file and lines else None


@contextlib.contextmanager
def time_limit(seconds):
    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Channel:
    """Frames to and from the grader."""

    def __init__(self, reading, writing, wire):
        self.reading, self.writing, self.wire, self.lock = reading, writing, wire, threading.Lock()

    def receive(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self.reading, min(count - len(parts), 1 << 20))
            if not part:
                os._exit(0)                     # the grader has gone
            parts += part
        return bytes(parts)

    def read(self):
        return self.wire.read(self.receive, self.stand_in)

    def write(self, message, **values):
        left = memoryview(self.wire.dump(message, values))
        while left:
            left = left[os.write(self.writing, left):]

    def stand_in(self, number, name):
        """A function of the grader's: called here, evaluated there."""
        def function(*arguments, **keywords):
            with self.lock:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})      # half a frame would spoil the next
                try:
                    self.write({"op": "callback", "number": number}, arguments=list(arguments), keywords=keywords)
                    message, values = self.read()
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            if message["op"] == "error":
                raise getattr(builtins, message["type"], RuntimeError)(message["message"])
            return values["value"]

        function.__name__ = function.__qualname__ = name
        return function


class Student:
    def __init__(self, channel, torch):
        self.channel, self.torch, self.equal, self.clone = channel, torch, torch.equal, torch.Tensor.clone
        self.functions, self.process = {}, os.getpid()

    def prepare(self, exercise, name, cells, seconds):
        """Runs the cells that one answer needs, and takes its function."""
        answers = [cell for cell in cells if cell.grade_id == "answer-" + exercise.replace(".", "-")]
        if not answers:
            self.channel.write({"op": "prepared", "answer": exercise, "cells": [], "name": None})
            return
        answer, reports = answers[-1], []
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        space = vars(module)
        space.update(__builtins__=builtins, display=lambda *_, **__: None, get_ipython=NoIPython)
        before, error, cell = ..., None, answer
        try:
            with time_limit(seconds):
                for cell, wanted in plan(answer, cells):
                    before = space.get(name, ...)
                    error = self.run(cell, wanted | {name}, space)
                    reports.append({"number": cell.number, "error": error, "notes": cell.notes[:5],
                                    "source": cell.source[:100_000] if cell.source != cell.given else None})
        except TooLong as late:
            error = described(late, line_in(cell.file, late))
            error.update(type="TooLong", message=f"was still running after {seconds:g} seconds")
            reports.append({"number": cell.number, "error": error, "notes": [], "source": None})
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        found = space.get(name, ...)
        if found is ... or (error and found is before):     # not there, or only left by another cell
            self.channel.write({"op": "prepared", "answer": exercise, "cells": reports, "name": None})
            return
        self.functions[exercise] = (found, module)
        self.channel.write({"op": "prepared", "answer": exercise, "cells": reports, **self.seen(found, cells)},
                           value=None if callable(found) else found)

    def run(self, cell, wanted, space):
        if cell.error:
            return cell.error
        try:
            exec(cell.code(wanted), space)
        except TooLong:
            raise
        except BaseException as error:          # SystemExit too: it ends the cell, as in a notebook
            return described(error, line_in(cell.file, error))
        return None

    def seen(self, function, cells):
        """What the grader needs for messages: name, parameters, and where the function stands."""
        code = getattr(function, "__code__", None)
        file = getattr(code, "co_filename", None)
        try:
            parameters = [each.name for each in inspect.signature(function).parameters.values()
                          if each.kind is not each.VAR_POSITIONAL]
        except (TypeError, ValueError):
            parameters = None
        return {"name": str(getattr(function, "__name__", "answer")), "callable": callable(function),
                "parameters": parameters, "cell": next((cell.number for cell in cells if cell.file == file), None),
                "first_line": getattr(code, "co_firstlineno", 1)}

    def call(self, message, values):
        function, sys.modules["__main__"] = self.functions[message["answer"]]
        arguments, number = values["arguments"], message["call"]
        before = {index: self.clone(value) for index, value in enumerate(arguments)
                  if isinstance(value, self.torch.Tensor)}
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        try:
            with time_limit(message["seconds"]):
                result = function(*arguments)
        except BaseException as error:          # SystemExit too
            late = type(error) is TooLong
            self.channel.write({"op": "error", "call": number, **described(error, line_in(file, error)), "late": late})
            return
        if os.getpid() != self.process:         # a fork that came back here is nobody's answer
            os._exit(0)
        changed = {str(index): arguments[index] for index, value in before.items()
                   if not self.equal(value, arguments[index])}
        try:
            self.channel.write({"op": "result", "call": number}, value=result, changed=changed)
        except self.channel.wire.Refused as error:
            self.channel.write({"op": "error", "call": number, **described(error), "late": False})


def main():
    library, limits, reading, writing = sys.argv[1:]
    reading, writing = int(reading), int(writing)
    for descriptor in set(map(int, os.listdir("/dev/fd"))) - {0, 1, 2, reading, writing}:
        with contextlib.suppress(OSError):      # what bubblewrap has left open; one was that of the listing itself
            os.close(descriptor)
    os.set_inheritable(reading, False)
    os.set_inheritable(writing, False)
    limit(json.loads(limits))
    sys.path.insert(0, HERE)
    import wire
    sys.path[0] = library
    import torch
    torch.set_num_threads(1)
    channel = Channel(reading, writing, wire)
    student = Student(channel, torch)
    channel.write({"op": "hello"})
    message, _ = channel.read()
    cells = [Cell(*cell) for cell in message["cells"]]
    for exercise, name in message["wanted"]:
        student.prepare(exercise, name, cells, message["seconds"])
    channel.write({"op": "ready"})
    while True:
        message, values = channel.read()
        if message["op"] == "call":
            student.call(message, values)


if __name__ == "__main__":
    main()
