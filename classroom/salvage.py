"""Files as they come: who handed in what, and the answers of one file put back into a clean copy of the release.

    find_submissions(folder, releases)      everyone who handed in anything, with a file for each chapter
    salvage(data, release)                  one file, in whatever state: the release with the student's answers in it

No line of a student's code is run here, and nothing raises because of what a file holds. Of a submission only the
sources of cells are carried over; outputs, metadata and attachments are not. What was odd is told in `findings`, one
sentence each, for the instructor.
"""
from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import hashlib
import json
import os
import re
import stat
import time
import unicodedata
import warnings
import zipfile
import zlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

MAX_FILE = 20_000_000               # bytes of one notebook
MAX_CELLS = 3_000
MAX_SOURCE = 100_000                # characters of one cell: beyond, Python's parser takes gigabytes
MAX_ZIP = 50_000_000                # bytes of an archive as it comes
MAX_UNPACKED = 200_000_000          # and of all its notebooks together
MAX_DIRECTORY = 1_000_000           # bytes of the archive's table of contents
MAX_FILES = 2_000                   # files of one student
MAX_DEPTH = 12                      # folders inside of folders
MAX_NAME = 200                      # bytes of a student's name
MAX_PART = 255                      # characters between two / in an archive: file systems allow no more
SAME_TIME = 60                      # seconds: files of one download are written within these
ALIKE = 0.5                         # share of lines two versions of a cell have in common
ALIKE_HEADER = 0.75                 # likeness of two lines `def ...(...):`


@dataclass(frozen=True)
class Answer:
    """What was handed in for one answer cell of the release."""

    grade_id: str                   # such as answer-2-1 or essay-2-a
    state: str                      # "answered" or "not answered"
    source: str                     # "" when not answered
    found: str                      # by what: "grade id", "cell id", "function", "likeness", "position" or "nothing"


@dataclass(frozen=True)
class Salvaged:
    notebook: nbformat.NotebookNode     # the release, with the answers and the student's own cells in it
    answers: dict[str, Answer]          # by grade id, every answer cell of the release
    findings: list[str]


@dataclass(frozen=True)
class HandedFile:
    path: Path
    member: str = ""                # its name inside of the archive at `path`
    modified: float = 0.0

    @property
    def name(self) -> str:
        return Path(self.member or self.path.name).name

    def read(self) -> bytes:
        """At most `MAX_FILE` bytes and one; `OSError` when it cannot be read."""
        if not self.member:
            with _opened(self.path) as file:
                return file.read(MAX_FILE + 1)
        try:
            with _opened(self.path) as file, zipfile.ZipFile(file) as archive, archive.open(self.member) as member:
                return member.read(MAX_FILE + 1)
        except _BROKEN_ZIP as error:
            raise OSError(f"{self.member} cannot be unpacked: {error}") from None


@dataclass
class Handed:
    student: str
    files: dict[str, HandedFile] = field(default_factory=dict)      # by chapter
    findings: list[str] = field(default_factory=list)


_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError, ValueError)


# A file's text and its cells

class Unreadable(Exception):
    """The file is no notebook; the message says what it is instead."""


@dataclass(frozen=True)
class Given:
    """A cell as it was handed in."""

    index: int
    type: str                       # code, markdown or raw
    source: str
    grade_id: str
    ids: frozenset[str]             # its cell id, and the one that Colab keeps in the metadata
    code: Code


@dataclass(frozen=True)
class Code:
    """What a source says as Python; found by its lines when it does not parse."""

    parses: bool
    names: frozenset[str]           # bound at the top level
    functions: frozenset[str]       # of these, those bound by def, lambda or another function's name
    dump: str                       # tells two sources apart, but not by layout and comments
    blank: frozenset[str]           # functions with nothing in them
    headers: tuple[str, ...]        # its lines `def ...(...):`


def read_cells(data: bytes | str) -> tuple[list[Given], dict, list[str]]:
    """The cells of a notebook file, its metadata and what was odd; `Unreadable` if it is no notebook."""
    text, findings = _decoded(data)
    value, damage = _json(text)
    findings += damage
    cells = value.get("cells")
    if not isinstance(cells, list):
        sheets = value.get("worksheets")
        cells = [cell for sheet in sheets if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
                 for cell in sheet["cells"]] if isinstance(sheets, list) else None
        if cells is None:
            raise Unreadable("The file is JSON, but no notebook: it has no cells.")
        findings.append("The notebook is in the old format 3; it was converted.")
    if len(cells) > MAX_CELLS:
        findings.append(f"The notebook has {len(cells)} cells; only the first {MAX_CELLS} were read.")
    given = []
    for index, cell in enumerate(cells[:MAX_CELLS]):
        if not isinstance(cell, dict):
            findings.append(f"Cell {index + 1} is no cell; it was left out.")
            continue
        made, odd = _given(index, cell)
        given.append(made)
        findings += odd
    metadata = value.get("metadata")
    return given, metadata if isinstance(metadata, dict) else {}, _shortened(findings)


def _decoded(data: bytes | str) -> tuple[str, list[str]]:
    if len(data) > MAX_FILE:
        raise Unreadable(f"The file is larger than {MAX_FILE // 1_000_000} MB; it was not read.")
    if isinstance(data, str):
        text, findings = data.removeprefix("\ufeff"), []
    else:
        text, findings = _text(data)
    if not text.strip(" \t\r\n\0"):
        raise Unreadable("The file is empty.")
    return text, findings


def _text(data: bytes) -> tuple[str, list[str]]:
    kinds = {b"PK\x03\x04": "a zip archive or an Office document", b"%PDF": "a PDF", b"\x89PNG": "a picture",
             b"\xff\xd8\xff": "a picture", b"GIF8": "a picture", b"\xd0\xcf\x11\xe0": "an old Office document",
             b"\x1f\x8b": "a gzip archive", b"Rar!": "a rar archive", b"7z\xbc\xaf": "a 7z archive"}
    for beginning, kind in kinds.items():
        if data.startswith(beginning):
            raise Unreadable(f"The file is {kind}, no notebook.")
    even, odd = data[0:400:2], data[1:400:2]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _utf16(data, "utf-16")
    if data.strip(b"\0") and odd.count(0) > len(odd) // 2 > even.count(0):
        return _utf16(data, "utf-16-le")
    if data.strip(b"\0") and even.count(0) > len(even) // 2 > odd.count(0):
        return _utf16(data, "utf-16-be")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        if b"\0" in data or sum(byte < 9 for byte in data[:4000]) > 20:
            raise Unreadable("The file is binary, no notebook.") from None
        return data.decode("latin-1"), ["The file is not in UTF-8; it was read as Latin-1."]


def _utf16(data: bytes, encoding: str) -> tuple[str, list[str]]:
    return data.decode(encoding, errors="replace"), ["The file is in UTF-16; it was converted."]


def _json(text: str) -> tuple[dict, list[str]]:
    start = text.lstrip()[:200].lower()
    if start.startswith("<"):
        raise Unreadable("The file is a web page, no notebook.")
    try:
        value = json.loads(text, strict=False)
    except RecursionError:
        raise Unreadable("The file is nested too deeply to be a notebook.") from None
    except ValueError:
        cells = _whole_cells(text)
        if cells:
            return {"cells": cells}, [f"The file is cut off or damaged; {_counted(len(cells), 'cell')} could be read."]
        kind = "cut off or damaged: no cell could be read" if start.startswith("{") else "no notebook: it is not JSON"
        raise Unreadable(f"The file is {kind}.") from None
    if not isinstance(value, dict):
        raise Unreadable("The file is JSON, but no notebook: it has no cells.")
    return value, []


def _whole_cells(text: str) -> list:
    """The cells before the place where the JSON breaks."""
    beginning = re.search(r'"cells"\s*:\s*\[', text)
    cells, place, decoder = [], beginning.end() if beginning else len(text), json.JSONDecoder(strict=False)
    with contextlib.suppress(ValueError, RecursionError):            # there it breaks
        while len(cells) < MAX_CELLS:
            while text[place : place + 1] in " \t\r\n," and place < len(text):
                place += 1
            cell, place = decoder.raw_decode(text, place)
            cells.append(cell)
    return [cell for cell in cells if isinstance(cell, dict)]


def _given(index: int, cell: dict) -> tuple[Given, list[str]]:
    findings = []
    metadata = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
    grader = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    type = cell.get("cell_type")
    if type == "heading":                                           # of format 3
        type = "markdown"
    if type not in ("code", "markdown", "raw"):
        findings.append(f"Cell {index + 1} has no known type; it was read as code.")
        type = "code"
    raw = cell.get("source", cell.get("input", ""))
    source = _source(raw)
    if source is None:
        findings.append(f"The source of cell {index + 1} is no text; it was left out.")
        source = ""
    if len(source) > MAX_SOURCE:
        findings.append(f"Cell {index + 1} is longer than {MAX_SOURCE:,} characters; it was left out.")
        source = ""
    clean = source.encode("utf-8", "replace").decode().replace("\0", "?")
    if clean != source:
        findings.append(f"Cell {index + 1} holds characters that no text has; each became a question mark.")
    clean = clean.replace("\r\n", "\n").replace("\r", "\n")
    ids = frozenset(each for each in (cell.get("id"), metadata.get("id")) if isinstance(each, str) and each)
    grade_id = grader.get("grade_id")
    given = Given(index, type, clean, grade_id if isinstance(grade_id, str) else "", ids, _code(clean))
    return given, findings


def _source(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        return None
    ends = any(line.endswith("\n") for line in value[:-1])
    return ("" if ends else "\n").join(value)                       # some programs leave out the line ends


def _shortened(findings: list[str], most: int = 30) -> list[str]:
    more = len(findings) - most
    return findings if more <= 0 else [*findings[:most], f"There were {more} more such findings."]


# A cell as Python

def _code(source: str) -> Code:
    tree = _tree(_without_magics(source))
    headers = tuple(re.findall(r"^def [^\n]{1,200}", source, re.MULTILINE))
    if tree is None:
        defined = set(re.findall(r"^(?:async +)?def +(\w+) *\(", source, re.MULTILINE))
        defined |= set(re.findall(r"^(\w+) *= *lambda\b", source, re.MULTILINE))
        assigned = set(re.findall(r"^(\w+) *=(?!=)", source, re.MULTILINE))
        return Code(False, frozenset(defined | assigned), frozenset(defined), _plain(source), frozenset(), headers)
    names, functions, blank, waiting = set(), set(), set(), list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            functions.add(node.name)
            if all(_says_nothing(line) for line in node.body):
                blank.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda | ast.Name):
                functions |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            waiting += ast.iter_child_nodes(node)
    body = [line for line in tree.body if not _is_check(line)]
    try:
        dump = ast.dump(ast.Module(body, []))
    except RecursionError:
        dump = _plain(source)
    return Code(True, frozenset(names), frozenset(functions), dump if body else "", frozenset(blank), headers)


def _tree(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                             # such as an invalid escape in a string
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _without_magics(source: str) -> str:
    """Lines of IPython in place of which Python can stand."""
    lines = source.split("\n")
    for number, line in enumerate(lines):
        text = line.lstrip()
        if text.startswith(("%", "!")):
            lines[number] = "" if text.startswith("%%") else line[: len(line) - len(text)] + "pass"
    return "\n".join(lines)


def _says_nothing(line: ast.stmt) -> bool:
    return isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))


def _is_check(line: ast.stmt) -> bool:
    """The line check("2.1", entry), which stands in the answer's cell in the reader's notebook."""
    call = line.value if isinstance(line, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def _plain(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().split("\n")).strip()


# The release

@dataclass(frozen=True)
class Slot:
    """An answer cell of the release."""

    grade_id: str
    number: str                     # such as 2.1
    place: int                      # its index in the release
    essay: bool
    function: str                   # what the check line names; "" for an essay
    released: str                   # what stands there before it is answered
    code: Code

    def __str__(self) -> str:
        return f"{'question' if self.essay else 'exercise'} {self.number}"


def _grade_id(cell: Mapping) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def _released(cell: Mapping) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def slots(release: Mapping) -> list[Slot]:
    sources = {_grade_id(cell): _released(cell) for cell in release["cells"]}
    found = []
    for place, cell in enumerate(release["cells"]):
        kind, _, rest = _grade_id(cell).partition("-")
        if kind not in ("answer", "essay"):
            continue
        source, code = _released(cell), _code(_released(cell))
        named = re.search(r"^check\(\s*[\"'][^\"']*[\"']\s*,\s*(\w+)", sources.get(f"check-{rest}", ""), re.MULTILINE)
        function = named[1] if named else min(code.blank or code.functions, default="")
        function = "" if kind == "essay" else function
        found.append(Slot(_grade_id(cell), rest.replace("-", "."), place, kind == "essay", function, source, code))
    return found


# One file

def salvage(data: bytes | str, release: Mapping) -> Salvaged:
    """The release with the answers of a handed-in file in it.

    An answer is looked for by its grade id, its cell's id, the function it defines and its likeness to the stub, an
    essay by grade id, cell id, heading and position. `release` is trusted: a notebook of format 4.5 whose answer
    cells have the grade ids answer-... and essay-....
    """
    try:
        given, metadata, findings = read_cells(data)
    except Unreadable as error:
        given, metadata, findings = [], {}, [str(error)]
        answers = {slot.grade_id: Answer(slot.grade_id, "not answered", "", "nothing") for slot in slots(release)}
        return Salvaged(_clean_copy(release), answers, findings)
    work = _Work(release, given)
    findings += _about_the_notebook(metadata, given, release, work)
    for slot in work.slots:
        findings += work.find_essay(slot) if slot.essay else work.find_exercise(slot)
    findings += work.say_moved()
    findings += work.say_changed_cells()
    notebook, said = work.notebook()
    return Salvaged(notebook, {slot.grade_id: work.answers[slot.grade_id] for slot in work.slots}, findings + said)


def _clean_copy(release: Mapping) -> nbformat.NotebookNode:
    result = nbformat.from_dict(copy.deepcopy(dict(release)))
    for cell in result.cells:
        cell.source = _released(cell)                               # in a file it may be a list of lines
    return result


def _about_the_notebook(metadata: dict, given: list[Given], release: Mapping, work: _Work) -> list[str]:
    findings = []
    ours = release["metadata"].get("posenc_classroom", {})
    theirs = metadata.get("posenc_classroom")
    if "colab" in metadata:
        findings.append("The notebook was saved by Colab.")
    if not isinstance(theirs, dict):
        findings.append("The notebook does not say which release it was made from.")
    elif theirs.get("version") != ours.get("version"):
        findings.append("The notebook was made from another version of the release; its answers were carried over.")
    if given and not any(cell.index in work.home for cell in given) and not any(
            slot.function in cell.code.functions for slot in work.slots for cell in given if slot.function):
        findings.append("No cell of the notebook is one of the release: it may be another notebook.")
    known = {slot.grade_id for slot in work.slots}
    numbers = sorted({cell.grade_id.partition("-")[2].replace("-", ".")[:20] for cell in given
                      if re.fullmatch(r"(answer|essay)-[\w-]+", cell.grade_id) and cell.grade_id not in known})
    if numbers:
        findings.append(f"The notebook has answer cells that are not in this release ({_listed(numbers)}); they were "
                        f"kept as cells of the student's own.")
    return findings


class _Work:
    """One notebook being put back: which handed-in cell is which cell of the release."""

    def __init__(self, release: Mapping, given: list[Given]) -> None:
        self.release, self.given = release, given
        self.cells = list(release["cells"])
        self.slots = slots(release)
        self.functions = {slot.function for slot in self.slots if slot.function}
        self.codes = [_code(_released(cell)) for cell in self.cells]
        self.answer_places = {slot.place: slot for slot in self.slots}
        self.home: dict[int, int] = {}              # index of a handed-in cell -> place in the release
        self.answers: dict[str, Answer] = {}
        self.used: set[int] = set()                 # handed-in cells that became an answer
        self.dropped: set[int] = set()              # attempts beside the one that was taken
        self._find_homes()

    def _find_homes(self) -> None:
        by_grade_id = {_grade_id(cell): place for place, cell in enumerate(self.cells) if _grade_id(cell)}
        by_id = {cell.get("id"): place for place, cell in enumerate(self.cells)}
        by_source = defaultdict(list)
        for place, cell in enumerate(self.cells):
            if _plain(_released(cell)):
                by_source[cell["cell_type"], _plain(_released(cell))].append(place)
        for cell in self.given:
            place = by_grade_id.get(cell.grade_id)
            if place is not None and not self._is_for_another(cell, place):
                self.home[cell.index] = place
        for cell in self.given:
            same = by_source.get((cell.type, _plain(cell.source)))
            if cell.index not in self.home and same:
                free = [place for place in same if place not in self.home.values()]
                self.home[cell.index] = (free or same)[0]
        for cell in self.given:
            place = next((by_id[each] for each in sorted(cell.ids) if each in by_id), None)
            if cell.index not in self.home and place is not None and not self._is_for_another(cell, place):
                self.home[cell.index] = place
        self._find_edited()

    def _is_for_another(self, cell: Given, place: int) -> bool:
        """Whether a cell with the metadata of one exercise answers another one, as after a renumbering."""
        slot = self.answer_places.get(place)
        return (slot is not None and not slot.essay and slot.function not in cell.code.functions
                and bool(cell.code.functions & self.functions))

    def _find_edited(self) -> None:
        """Cells without any metadata that are a release's cell with other lines in it."""
        free = {place: Counter(_lines(_released(cell))) for place, cell in enumerate(self.cells)
                if place not in self.home.values() and place not in self.answer_places}
        homeless = [cell for cell in self.given
                    if cell.index not in self.home and not cell.code.functions & self.functions]
        for cell in homeless[:300]:
            lines = Counter(_lines(cell.source)[:500])
            alike = {place: 2 * (lines & theirs).total() / (lines.total() + theirs.total())
                     for place, theirs in free.items()
                     if self.cells[place]["cell_type"] == cell.type and (lines & theirs).total()}
            place = max(alike, key=alike.get, default=None)
            if place is not None and alike[place] >= ALIKE:
                self.home[cell.index] = place
                del free[place]

    # Exercises

    def find_exercise(self, slot: Slot) -> list[str]:
        own = [cell for cell in self.given if self.home.get(cell.index) == slot.place]
        others = [cell for cell in self.given if cell not in own and slot.function in cell.code.functions
                  and self._is_students_own(cell, slot)]
        readable = [cell for cell in own + others if cell.type == "code" or cell.code.parses]
        changed = [cell for cell in readable if _is_changed(cell, slot)]
        way = "function"
        if not changed:
            changed, way = self._alike(slot), "likeness"
        if not changed:
            return self._not_answered(slot, own, readable)
        taken = max(changed, key=lambda cell: (slot.function in cell.code.functions, cell.code.parses, cell in own,
                                               cell.index))
        if taken in own:
            way = "grade id" if taken.grade_id == slot.grade_id else "cell id"
        findings = self._about_the_answer(slot, own, taken, way)
        if way != "likeness" and slot.function not in taken.code.names:
            findings.append(f"The answer to {slot} defines no function {slot.function}.")
        different = {cell.code.dump for cell in changed}
        if len(changed) > 1 and len(different) > 1:
            last = "the last one" if taken is max(changed, key=lambda cell: cell.index) else f"cell {taken.index + 1}"
            findings.append(f"There are {len(changed)} answers to {slot}; {last} was taken.")
        elif len(own) > 1 or len(changed) > 1:
            findings.append(f"The cell of {slot} was there {max(len(own), len(changed))} times; one was taken.")
        self.answers[slot.grade_id] = Answer(slot.grade_id, "answered", taken.source, way)
        self.used.add(taken.index)
        for cell in own + others:
            more = cell.code.names - self.functions - slot.code.names     # helpers, which the taken one may use
            same = cell.code.dump in (taken.code.dump, slot.code.dump)
            if cell is not taken and (same or (cell in own and not more)):
                self.dropped.add(cell.index)
        if not own and taken.index not in self.home:
            self.home[taken.index] = slot.place
        return findings

    def _is_students_own(self, cell: Given, slot: Slot) -> bool:
        """No cell of the release that binds the function's name itself, and not another exercise's untouched stub."""
        place = self.home.get(cell.index)
        return place is None or slot.function not in self.codes[place].functions

    def _alike(self, slot: Slot) -> list[Given]:
        """Own cells of the student whose function looks like the stub's, its name misspelt, say."""
        header = next((each for each in slot.code.headers), "")
        found = []
        for cell in self.given:
            if cell.type != "code" or cell.index in self.home or cell.index in self.used:
                continue
            if cell.code.functions & self.functions:
                continue
            ratios = [difflib.SequenceMatcher(None, header, other[:200]).ratio() for other in cell.code.headers[:20]]
            if header and max(ratios, default=0) >= ALIKE_HEADER and _is_changed(cell, slot):
                found.append(cell)
        return found[-1:]

    def _about_the_answer(self, slot: Slot, own: list[Given], taken: Given, way: str) -> list[str]:
        findings = []
        place = self.home.get(taken.index)
        if taken.type != "code":
            findings.append(f"The cell of {slot} had been turned into {taken.type}; it was read as code.")
        if taken in own and way == "cell id":
            findings.append(f"The cell of {slot} had lost its metadata; it was found by its cell id.")
        elif taken not in own and place in self.answer_places:
            findings.append(f"The answer to {slot} stands in the cell of {self.answer_places[place]}; it was taken.")
        elif taken not in own and place is not None:
            findings.append(f"The answer to {slot} stands in an edited cell of the release; it was taken.")
        elif taken not in own and own:
            where = "below" if taken.index > own[0].index else "above"
            state = "its stub" if any(_is_changed(cell, slot) for cell in own) else "its untouched stub"
            findings.append(f"The answer to {slot} stands in another cell {where} {state}; it was taken.")
        elif taken not in own and way == "function":
            findings.append(f"The cell of {slot} had lost its metadata; it was found by its function {slot.function}.")
        elif taken not in own:
            findings.append(f"The cell of {slot} had lost its metadata and defines no {slot.function}; it was found by "
                            f"its likeness to the stub.")
        return findings

    def _not_answered(self, slot: Slot, own: list[Given], readable: list[Given]) -> list[str]:
        self.answers[slot.grade_id] = Answer(slot.grade_id, "not answered", "", "nothing")
        self.dropped |= {cell.index for cell in readable if cell.code.dump == slot.code.dump}
        self.dropped |= {cell.index for cell in own if not cell.source.strip()}
        turned = [cell for cell in own if cell.type != "code" and cell.source.strip()]
        if turned:
            return [f"{_title(slot)} is not answered: its cell had been turned into {turned[-1].type} that is no "
                    f"Python; it was kept as a cell of the student's own."]
        if not own and not readable:
            return [f"{_title(slot)} is not answered: its cell had been deleted."]
        if not any(cell.source.strip() for cell in own + readable):
            return [f"{_title(slot)} is not answered: its cell is empty."]
        return [f"{_title(slot)} is not answered: nothing stands in place of the stub."]

    # Essays

    def find_essay(self, slot: Slot) -> list[str]:
        own = [cell for cell in self.given if self.home.get(cell.index) == slot.place]
        changed = [cell for cell in own if _is_words(cell, slot)]
        if changed:
            taken, findings = changed[-1], []
            if taken.type != "markdown":
                findings.append(f"The answer to {slot} had been turned into {taken.type}; it was read as text.")
            if taken.grade_id != slot.grade_id:
                findings.append(f"The cell of {slot} had lost its metadata; it was found by its cell id.")
            if len({_plain(cell.source) for cell in changed}) > 1:
                findings.append(f"There are {len(changed)} answers to {slot}; the last one was taken.")
            way = "grade id" if taken.grade_id == slot.grade_id else "cell id"
            return self._essay(slot, [taken], taken.source, way, findings, own)
        texts, way = self._essay_elsewhere(slot, own)
        if texts:
            where = "by its heading" if way == "heading" else "by where it stands"
            said = (f"The answer to {slot} stands in another cell than its own; it was found {where}." if own else
                    f"The cell of {slot} had lost its metadata; it was found {where}.")
            return self._essay(slot, texts, "\n\n".join(cell.source.strip() for cell in texts), way, [said], own)
        question = next((cell for cell in self.given if self.home.get(cell.index) == slot.place - 1), None)
        before = _plain(_released(self.cells[slot.place - 1])) if slot.place else ""
        if question and before and _plain(question.source) != before and _plain(question.source).startswith(before):
            words = _plain(question.source)[len(before) :].strip()
            return self._essay(slot, [], words, "position",
                               [f"The answer to {slot} stands in the cell of its question; it was taken."], own)
        self.answers[slot.grade_id] = Answer(slot.grade_id, "not answered", "", "nothing")
        self.dropped |= {cell.index for cell in own}
        return [f"{_title(slot)} is not answered: its cell {'is unchanged' if own else 'had been deleted'}."]

    def _essay_elsewhere(self, slot: Slot, own: list[Given]) -> tuple[list[Given], str]:
        """Text of the student's own with the essay's heading, or where the essay should stand."""
        texts = [cell for cell in self.given if cell.type in ("markdown", "raw") and cell.index not in self.home
                 and cell.index not in self.used and _is_words(cell, slot) and not cell.grade_id]
        heading = _plain(slot.released).split("\n")[0]
        same = [cell for cell in texts if heading and _plain(cell.source).split("\n")[0] == heading]
        if same:
            return same[-1:], "heading"
        known = {self.home[cell.index]: number for number, cell in enumerate(self.given) if cell.index in self.home}
        before = max((place for place in known if place < slot.place + bool(own)), default=None)
        after = min((place for place in known if place > slot.place), default=None)
        start = known[before] if before is not None else -1
        end = known[after] if after is not None else len(self.given)
        between = [cell for cell in self.given[start + 1 : end] if cell in texts]
        if between:
            return between, "position"
        missing = [each for each in self.slots if each.essay and each.grade_id not in self.answers]
        return (texts, "position") if len(missing) == 1 and len(texts) == 1 and not own else ([], "")

    def _essay(self, slot: Slot, cells: list[Given], words: str, way: str, findings: list[str],
               own: list[Given]) -> list[str]:
        if len(words) > MAX_SOURCE:
            words = words[:MAX_SOURCE]
            findings.append(f"The answer to {slot} is longer than {MAX_SOURCE:,} characters; it was cut there.")
        self.answers[slot.grade_id] = Answer(slot.grade_id, "answered", words, way)
        self.used |= {cell.index for cell in cells}
        if cells and not own:
            self.home[cells[0].index] = slot.place
        self.dropped |= {cell.index for cell in own if cell not in cells
                         and (not _is_words(cell, slot) or _plain(cell.source) == _plain(words))}
        return findings

    # The other cells

    def _places(self) -> dict[int, int]:
        """For one handed-in cell of each place of the release: handed-in index -> place."""
        def rank(cell: Given) -> tuple:
            return cell.index not in self.used, self._is_edited(cell), cell.index

        places = {}
        for cell in sorted((cell for cell in self.given if cell.index in self.home), key=rank):
            places.setdefault(self.home[cell.index], cell.index)
        return dict(sorted((index, place) for place, index in places.items()))

    def say_moved(self) -> list[str]:
        places = self._places()
        steady = _longest_rise(list(places.values()))
        self.steady = {index for index, place in places.items() if place in steady}
        moved = [place for index, place in places.items() if index not in self.steady]
        findings = [f"The cell of {self.answer_places[place]} had been moved; its answer was put back in place."
                    for place in moved if place in self.answer_places
                    and self.answers[self.answer_places[place].grade_id].found in ("grade id", "cell id", "function")]
        others = [place for place in moved if place not in self.answer_places]
        if others:
            findings.append(f"{_counted(len(others), 'other cell')} of the release had been moved; the release's order "
                            f"was used.")
        return findings

    def say_changed_cells(self) -> list[str]:
        findings, edited, removed, places = [], [], [], self._places()
        at = {place: index for index, place in places.items()}
        given = {cell.index: cell for cell in self.given}
        for place in range(len(self.cells)):
            if place in self.answer_places:
                continue
            if place not in at:
                removed.append(place)
            elif self._is_edited(given[at[place]]):
                edited.append(place)
        for places, what, done in ((edited, "edited", "used"), (removed, "removed", "put back")):
            named = [self._name_of(place) for place in places if self._name_of(place)]
            findings += [f"{name} had been {what}; the release's was {done}." for name in named]
            more = len(places) - len(named)
            if more:
                findings.append(f"{_counted(more, 'other cell')} of the release had been {what}; the release's text "
                                f"was {done}.")
        return findings

    def _is_edited(self, cell: Given) -> bool:
        released = self.cells[self.home[cell.index]]
        return _plain(cell.source) != _plain(_released(released)) or cell.type != released["cell_type"]

    def _name_of(self, place: int) -> str:
        kind, _, rest = _grade_id(self.cells[place]).partition("-")
        if kind in ("check", "hidden"):
            return f"The {'check' if kind == 'check' else 'hidden test'} of exercise {rest.replace('-', '.')}"
        code = [number for number, cell in enumerate(self.cells) if cell["cell_type"] == "code"]
        return "The first cell of code" if code[:1] == [place] else ""

    def notebook(self) -> tuple[nbformat.NotebookNode, list[str]]:
        result = _clean_copy(self.release)
        for slot in self.slots:
            answer = self.answers[slot.grade_id]
            if answer.state == "answered":
                result.cells[slot.place].source = answer.source
        after, findings, places, anchor, duplicates = defaultdict(list), [], self._places(), -1, 0
        for cell in self.given:
            place = self.home.get(cell.index)
            if cell.index in places:
                anchor = place if cell.index in self.steady else anchor
                if cell.index in self.used or not self._is_edited(cell):
                    continue
                more = cell.code.names - self.codes[place].names if cell.type == "code" else ()
                if place in self.answer_places and cell.type != "code" and cell.source.strip():
                    after[place].append(cell)                       # an exercise's cell that became text
                elif place not in self.answer_places and more:
                    after[place].append(cell)
                    findings.append(f"An edited cell of the release also bound {_listed(sorted(more)[:5])}; it was "
                                    f"kept below the release's.")
            elif cell.index in self.dropped or not cell.source.strip() or cell.index in self.used:
                continue
            elif place is not None and not self._is_edited(cell):
                duplicates += 1
            else:
                after[anchor].append(cell)
        if duplicates:
            findings.append(f"{_counted(duplicates, 'copy', 'copies')} of the release's cells had been added and left "
                            f"out.")
        cells, taken = [], {cell.get("id") for cell in result.cells}
        for place in range(-1, len(result.cells)):
            cells += result.cells[place : place + 1] if place >= 0 else []
            for cell in after[place]:
                identity = f"added-{cell.index + 1}"
                while identity in taken:
                    identity += "-"
                taken.add(identity)
                make = getattr(nbformat.v4, f"new_{cell.type}_cell")
                cells.append(make(cell.source, id=identity, metadata={"posenc_classroom": {"added": True}}))
        result.cells = cells
        return result, findings


def _lines(source: str) -> list[str]:
    return [line.strip() for line in source.split("\n") if line.strip()]


def _is_changed(cell: Given, slot: Slot) -> bool:
    """Whether something stands in place of the stub."""
    if not cell.code.dump or slot.function in cell.code.blank:
        return False
    return cell.code.dump != slot.code.dump and _plain(cell.source) != _plain(slot.released)


def _is_words(cell: Given, slot: Slot) -> bool:
    return bool(cell.source.strip()) and _plain(cell.source) != _plain(slot.released)


def _longest_rise(numbers: list[int]) -> set[int]:
    """The largest set of numbers that stand in rising order: what was not moved."""
    ends, places, before = [], [], [-1] * len(numbers)
    for index, number in enumerate(numbers):
        spot = bisect_left(ends, number)
        before[index] = places[spot - 1] if spot else -1
        ends[spot : spot + 1], places[spot : spot + 1] = [number], [index]
    found, index = set(), places[-1] if places else -1
    while index >= 0:
        found.add(numbers[index])
        index = before[index]
    return found


def _title(slot: Slot) -> str:
    return str(slot).capitalize()


def _counted(number: int, word: str, words: str = "") -> str:
    return f"1 {word}" if number == 1 else f"{number} {words or word + 's'}"


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


# Who handed in what

def find_submissions(folder: Path | str, releases: Mapping[str, Mapping] | None = None, only: str = "",
                     ) -> list[Handed]:
    """Everyone with a file or a folder in `folder`, sorted by name; what was found and not used is in the findings.

    Three layouts, also mixed: <student>/<notebook>.ipynb, nbgrader's <student>/<assignment>/<notebook>.ipynb, and
    flat downloads named <student>_<anything>.ipynb or <name>_<number>_assignsubmission_file_<anything>. Archives (zip)
    are read without being unpacked to disk; one that is alone in the folder is taken for the folder. `releases` holds
    the assignment's notebooks by chapter; by them a file is recognised by what is in it, whatever it is called. Without
    them its name says the chapter. Hidden files at the top are passed over unless they are notebooks. `only` is the
    name of the one entry of `folder` that is to be read.
    """
    entries, notes = _entries(Path(folder), only)
    whose = {parts: _student(parts, releases or {}) for parts, _ in [*entries, *notes]}
    numbers = defaultdict(set)
    for student, number, _ in whose.values():
        numbers[student] |= {number} - {""}
    found = defaultdict(_Found)

    def of(parts: tuple[str, ...]) -> _Found:
        student, number, _ = whose[parts]                           # two people may have one name
        return found[f"{student} {number}" if number and len(numbers[student]) > 1 else student]

    for parts, said in notes:
        of(parts).findings.append(said)
    for parts, file in entries:
        of(parts).origins.add(parts[0] if len(parts) > 1 else "")
        of(parts).files.append((whose[parts][2], file))
    marks = {chapter: _Marks(release) for chapter, release in (releases or {}).items()}
    _only_its_own(marks)
    return [_handed(student, found[student], releases, marks) for student in sorted(found)]


@dataclass
class _Found:
    files: list[tuple[tuple[str, ...], HandedFile]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    origins: set[str] = field(default_factory=set)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A plain file, opened without following a link or waiting for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
                         | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no plain file")
        yield file


Entries = list[tuple[tuple[str, ...], HandedFile]]
Notes = list[tuple[tuple[str, ...], str]]


def _entries(folder: Path, only: str) -> tuple[Entries, Notes]:
    """Every file below the folder, with the names on the way to it, and what is said of those that are not taken."""
    entries, notes, counts = [], [], Counter()
    top = [folder / only] if only else sorted(folder.iterdir(), reverse=True)
    visible = [path for path in top if not _is_hidden(path.name)]
    waiting = [(path, (path.name,)) for path in top]
    while waiting:
        path, parts = waiting.pop()
        shown = printable("/".join(parts[1:] or parts))
        if counts[parts[0]] >= MAX_FILES:
            if counts[parts[0]] == MAX_FILES:
                notes.append((parts, f"There are more than {MAX_FILES} files; the others were not looked at."))
            counts[parts[0]] += 1
            continue
        counts[parts[0]] += 1
        try:
            status = path.lstat()
            is_folder = stat.S_ISDIR(status.st_mode)
            inside = sorted(path.iterdir(), reverse=True) if is_folder else []
        except OSError as error:
            notes.append((parts, f"{shown} cannot be read ({error.strerror}); it was left out."))
            continue
        if _is_hidden(path.name):
            if len(parts) > 1 or not is_clutter(path):
                notes.append((parts, f"{shown} is hidden and was left out."))
        elif stat.S_ISLNK(status.st_mode):
            notes.append((parts, f"{shown} is a link to somewhere else and was left out."))
        elif is_folder and len(parts) >= MAX_DEPTH:
            notes.append((parts, f"{shown} lies more than {MAX_DEPTH} folders deep and was left out."))
        elif is_folder:
            waiting += [(each, (*parts, each.name)) for each in inside]
            if not inside:
                notes.append((parts, f"The folder {shown} is empty." if len(parts) > 1 else "The folder is empty."))
        elif not stat.S_ISREG(status.st_mode):
            notes.append((parts, f"{shown} is no plain file and was left out."))
        elif path.suffix.lower() == ".zip":
            packed, said = _packed(path, parts, alone=len(parts) == 1 and visible == [path])
            entries += packed
            notes += said
        else:
            entries.append((parts, HandedFile(path, modified=status.st_mtime)))
    return entries, notes


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def is_clutter(path: Path) -> bool:
    """Whether something is hidden and no student can have meant it: such as a Mac's shadow of another file."""
    if not _is_hidden(path.name):
        return False
    if path.is_symlink() or path.name.startswith("._") or path.name == ".ipynb_checkpoints":
        return True
    return path.suffix.lower() != ".ipynb" and not (path.is_dir() and any(path.rglob("*.ipynb")))


def _packed(path: Path, parts: tuple[str, ...], alone: bool) -> tuple[Entries, Notes]:
    """The files in an archive, none of them unpacked yet. `alone`: nothing else lies in the folder of submissions."""
    shown = printable(path.name)
    try:
        problem = _too_much(path)
        if problem:
            return [], [(parts, f"The archive {shown} {problem}; it was not opened.")]
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (OSError, *_BROKEN_ZIP):
        return [], [(parts, f"The archive {shown} is damaged and could not be opened.")]
    entries, notes, total = [], [], 0
    named = any("_assignsubmission_" in member.filename for member in members)
    whole = _may_name_people(parts, alone, named)
    if named and not whole:
        notes.append((parts, f"The archive {shown} looks like an LMS's download of several people; all in it was taken "
                             f"as this student's own."))
    prefix, hidden = () if whole else parts, []
    for member in members:
        names = tuple(member.filename.replace("\\", "/").split("/"))
        inside = prefix + tuple(name for name in names if name)
        name = printable(member.filename)
        if member.is_dir() or not inside:
            continue
        if any(part == ".." for part in names) or names[0] == "" or ":" in names[0]:
            notes.append((parts, f"{name[:MAX_PART]} in {shown} points outside of the archive and was left out."))
        elif any(len(part) > MAX_PART for part in names):
            notes.append((parts, f"{name[:40]}... in {shown} has a name of more than {MAX_PART} characters and was "
                                 f"left out."))
        elif any(_is_hidden(part) for part in names):
            hidden.append(name)
        elif stat.S_ISLNK(member.external_attr >> 16):
            notes.append((parts, f"{name} in {shown} is a link and was left out."))
        elif member.flag_bits & 1:
            notes.append((parts, f"{name} in {shown} needs a password and was left out."))
        elif member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            notes.append((parts, f"{name} in {shown} is packed in a way that is not read here; it was left out."))
        elif member.filename.lower().endswith(".zip"):
            notes.append((parts, f"{name} in {shown} is an archive in an archive and was left out."))
        else:
            total += member.file_size
            entries.append((inside, HandedFile(path, member.filename, _packed_at(member))))
    if hidden:
        were = "was" if len(hidden) == 1 else "were"
        notes.append((parts, f"{_counted(len(hidden), 'hidden file')} in {shown} {were} left out."))
    if total > MAX_UNPACKED or len(entries) > MAX_FILES:
        return [], [(parts, f"The archive {shown} unpacks to more than {MAX_UNPACKED // 1_000_000} MB or {MAX_FILES} "
                            f"files; it was not opened.")]
    if not entries:
        notes.append((parts, f"The archive {shown} holds no file that could be used."))
    return entries, notes


def _may_name_people(parts: tuple[str, ...], alone: bool, named: bool) -> bool:
    """Whether an archive is of the whole class, its folders named after people: never what a student handed in."""
    if len(parts) > 1:
        return False
    first = unicodedata.normalize("NFC", parts[0])
    if _MOODLE.fullmatch(first) or _CANVAS.fullmatch(first):
        return False
    return alone or (named and _student((first,), {})[2] == (first,))


def _too_much(path: Path) -> str:
    """What speaks against opening an archive, seen before its table of contents is read."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - 65_600))
        end = file.read()
    place = end.rfind(b"PK\x05\x06")
    if size > MAX_ZIP:
        return f"is larger than {MAX_ZIP // 1_000_000} MB"
    if b"PK\x06\x07" in end or int.from_bytes(end[place + 12 : place + 16], "little") > MAX_DIRECTORY:
        return "has too many entries"
    return ""


def _packed_at(member: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*member.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


_MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_[a-z]+(?:_(.*))?", re.DOTALL)
_CANVAS = re.compile(r"([^_]+)_(?:LATE_)?(\d{3,})_\d{3,}_(.+)", re.DOTALL)


def _student(parts: tuple[str, ...], releases: Mapping) -> tuple[str, str, tuple[str, ...]]:
    """Whose file it is, the number that an LMS gave that person, and the rest of the file's name."""
    first, rest = unicodedata.normalize("NFC", parts[0]), parts[1:]
    moodle, canvas = _MOODLE.fullmatch(first), _CANVAS.fullmatch(first)
    if moodle:
        return student_name(moodle[1]), moodle[2], rest or (moodle[3] or first,)
    if rest and not first.lower().endswith(".zip"):
        return student_name(first), "", rest
    if canvas:
        return student_name(canvas[1]), canvas[2], rest or (canvas[3],)
    stem = re.sub(r"\.[A-Za-z]{1,8}$", "", first)
    for chapter in releases:                                        # a student's name may have underlines in it
        at = stem.find(f"_{chapter}")
        if at > 0:
            return student_name(stem[:at]), "", rest or (first[at + 1 :],)
    numbered = re.match(r"(.+?)_(\d\d_.*)", first, re.DOTALL)
    name, underline, remainder = numbered.group(1, 0, 2) if numbered else first.partition("_")
    if not underline or re.fullmatch(r"\d\d", name) or not name:
        return student_name(stem or first), "", rest or (first,)
    return student_name(name), "", rest or (remainder,)


def student_name(text: str) -> str:
    """A name that is safe in a path and a table: one form of each letter, nothing that cannot be printed."""
    name = printable(unicodedata.normalize("NFC", text)).replace("/", "_").replace("\\", "_").strip()
    if len(name.encode()) > MAX_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]     # two long names stay two
        name = f"{name.encode()[: MAX_NAME - 13].decode(errors='ignore')} {digest}"
    return name if name.strip(". ") else f"unnamed {name}".strip()


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else f"%{ord(char) & 0xFF:02X}" for char in text)


class _Marks:
    """What tells a chapter from the others of the assignment."""

    def __init__(self, release: Mapping) -> None:
        self.chapter = release["metadata"].get("posenc_classroom", {}).get("chapter")
        self.texts = {_plain(_released(cell)) for cell in release["cells"]}
        self.grade_ids = {_grade_id(cell) for cell in release["cells"]} - {""}
        self.functions = {slot.function for slot in slots(release)} - {""}

    def votes(self, given: list[Given], metadata: dict) -> int:
        theirs = metadata.get("posenc_classroom")
        chapter = theirs.get("chapter") if isinstance(theirs, dict) else None
        texts = len({_plain(cell.source) for cell in given} & self.texts)
        functions = len({name for cell in given for name in cell.code.functions} & self.functions)
        grade_ids = len({cell.grade_id for cell in given} & self.grade_ids)
        return texts + 5 * functions + 2 * grade_ids + 3 * (chapter is not None and chapter == self.chapter)


def _only_its_own(marks: dict[str, _Marks]) -> None:
    counts = Counter(text for each in marks.values() for text in each.texts)
    functions = Counter(name for each in marks.values() for name in each.functions)
    for each in marks.values():
        each.texts = {text for text in each.texts if counts[text] == 1}
        each.functions = {name for name in each.functions if functions[name] == 1}


def _handed(student: str, found: _Found, releases: Mapping | None, marks: dict[str, _Marks]) -> Handed:
    handed = Handed(student, findings=list(found.findings))
    folders = found.origins - {""}
    if len(folders) > 1:
        handed.findings.append(f"The work lies in {len(folders)} folders of the same name; they were taken together.")
    attempts, others = defaultdict(list), []
    for rest, file in found.files:
        shown = printable("/".join(rest))
        if rest[-1] == "timestamp.txt":                             # nbgrader's
            continue
        if Path(rest[-1]).suffix.lower() not in (".ipynb", ".json", ".txt", ".docx", ""):
            others.append(shown)
            continue
        try:
            given, metadata, _ = read_cells(file.read())
        except Unreadable as problem:
            handed.findings.append(f"{shown} was not graded. {problem}")
            continue
        except OSError as problem:
            handed.findings.append(f"{shown} was not graded: it cannot be read ({printable(str(problem))}).")
            continue
        chapter, said = _chapter(rest[-1], given, metadata, marks if releases is not None else None)
        handed.findings += [said] if said else []
        if chapter is not None:
            attempts[chapter].append((rest, file))
    if others:
        more = [f"{len(others) - 4} more"] if len(others) > 5 else []
        are = "is no notebook and was" if len(others) == 1 else "are no notebooks and were"
        handed.findings.append(f"{_listed(sorted(others)[: 5 - len(more)] + more)} {are} left out.")
    for chapter, files in sorted(attempts.items()):
        taken, said = _latest(chapter, files, (releases or {}).get(chapter))
        handed.files[chapter] = taken
        handed.findings += said
    if not handed.files and not handed.findings:
        handed.findings.append("There is no notebook.")
    handed.findings = _shortened(handed.findings)
    return handed


# What browsers, LMS and JupyterLab put behind a name: " (1)", "-2", "-Copy1", " - Copy".
_ATTEMPT = re.compile(r"(.*?)(?: *\((\d{1,4})\)|-copy(\d{0,4})|-(\d{1,2})| - (?:copy|kopie))?", re.DOTALL | re.I)


def _stem(name: str) -> tuple[str, int]:
    """A file's name without its ending and the number that a browser or LMS gave it; and that number."""
    pieces = unicodedata.normalize("NFC", name).split(".")
    while len(pieces) > 1 and re.fullmatch("[A-Za-z]{1,8}", pieces[-1]):
        pieces.pop()
    match = _ATTEMPT.fullmatch(".".join(pieces))
    number = next((int(each) for each in match.groups()[1:] if each), 0)
    return match[1].strip(), number


def _chapter(name: str, given: list[Given], metadata: dict, marks: dict[str, _Marks] | None) -> tuple[str | None, str]:
    """Which chapter a notebook is, and what is said of it."""
    stem, shown = _stem(name)[0], printable(name)
    if marks is None:
        return stem, ""
    votes = {chapter: each.votes(given, metadata) for chapter, each in marks.items()}
    best = max(votes, key=votes.get, default=None)
    named = next((chapter for chapter in marks if chapter in stem), None)
    if best is not None and votes[best] > 0:
        return best, "" if named == best else f"{shown} was recognised as {best} by its content."
    if named:
        return named, f"{shown} holds nothing of {named} and was taken for it by its name."
    return None, f"{shown} is a notebook, but none of this assignment; it was not graded."


def _latest(chapter: str, files: Entries, release: Mapping | None) -> tuple[HandedFile, list[str]]:
    """Of several attempts the newest that holds an answer."""
    if len(files) == 1:
        return files[0][1], []
    answered = files
    if release is not None:
        answered = [each for each in files if _has_answers(each[1], release)] or files
    newest = max(file.modified for _, file in answered)
    recent = [each for each in answered if newest - each[1].modified <= SAME_TIME]
    rest, taken = max(recent, key=lambda each: (_stem(each[0][-1])[1], each[1].modified, each[0]))
    # The number counts only among files written together, as by a download; else the time does.
    names = _listed(sorted(printable("/".join(rest)) for rest, _ in files)[:10])
    why = "the newest" if len(answered) == len(files) else "the newest with answers"
    chosen = printable("/".join(rest))
    return taken, [f"There are {len(files)} files for {chapter} ({names}); {why}, {chosen}, was taken."]


def _has_answers(file: HandedFile, release: Mapping) -> bool:
    return any(answer.state == "answered" for answer in salvage(file.read(), release).answers.values())
