"""What an instructor sees of a graded assignment: a table as CSV, and lines for the terminal.

Scores are the gradebook's, so that what a person has entered there counts. What waits for a person is not in the score
yet; how many points that are is a column of its own.
"""
from __future__ import annotations

import csv
import io
import shutil
import sys
import textwrap
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from classroom.course import Manifest

FORMULA = ("=", "+", "-", "@", "\t", "\r")          # with which a cell of a table begins to be a program
NAME = 24                                           # columns of the terminal
FEW = 3                                             # findings of one student that are shown; students that share one
SAID = {"not yet": "wrong", **{state: state for state in (
    "partly right", "stopped", "failed", "not handed in", "not answered")}}
MARKS = {"not answered": "–", "not handed in": "–", "stopped": "stop", "failed": "fail"}


@dataclass(frozen=True)
class Row:
    student: str
    status: str
    score: float                    # of what is graded
    of: float                       # as many points can be had in all
    to_read: float                  # points that wait for a person
    points: dict[str, float | None] # by task; None waits for a person
    states: dict[str, str]
    seconds: float
    findings: list[str]


def row(result: dict, manifest: Manifest, grades: Mapping[str, Mapping]) -> Row:
    """`grades` are a student's in the gradebook: by cell, its score and whether it waits for a person."""
    points = {}
    for task in manifest.tasks:
        cells = [grades[cell] for cell in task.cell_points if cell in grades]
        waits = any(cell["waits"] for cell in cells)
        points[task.id] = None if waits else round(sum(cell["score"] for cell in cells), 2)
    waiting = [task for task in manifest.tasks if points[task.id] is None]
    to_read = sum(task.points for task in waiting)
    return Row(
        result["student"], status(result, manifest),
        round(sum(each for each in points.values() if each is not None), 2), manifest.points, to_read, points,
        {score["task"]: score["state"] for score in result["scores"]}, result["seconds"], result["findings"])


def status(result: dict, manifest: Manifest) -> str:
    """In a few words, with the numbers of the exercises."""
    scores = result["scores"]
    if result["trouble"]:
        return "could not be graded"
    if all(score["state"] == "not handed in" for score in scores):
        return "nothing to grade"
    exercises = {task.id for task in manifest.tasks if task.kind == "exercise"}
    said = []
    if exercises and all(score["state"] == "right" for score in scores if score["task"] in exercises):
        said.append("every exercise right")
    groups = defaultdict(list)
    for score in scores:
        if score["state"] in SAID:
            groups[SAID[score["state"]], score["reason"]].append(score["task"])
    said += [f"{', '.join(tasks)} {state}{f' ({reason})' if reason else ''}"
             for (state, reason), tasks in groups.items()] or ([] if said else ["graded"])
    return "; ".join(said)


def table(rows: Sequence[Row], manifest: Manifest) -> str:
    """As CSV, a row for everyone; "to be read" stands where a person has to give points."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["student", "status", "score", "of", "points to be read", *(task.id for task in manifest.tasks),
                    "seconds", "findings"])
    for each in rows:
        cells = ["to be read" if points is None else f"{points:g}" for points in each.points.values()]
        lines.writerow([plain(each.student), each.status, f"{each.score:g}", f"{each.of:g}", f"{each.to_read:g}",
                        *cells, each.seconds, plain(" ".join(each.findings))])
    return text.getvalue()


def plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def summary(rows: Sequence[Row], manifest: Manifest) -> str:
    """For a terminal: a line for everyone, then what was odd, shortened. The table has all of it."""
    columns = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120
    width = min(NAME, max([7, *(wide(each.student) for each in rows)]))
    heads = " ".join(f"{task.id:>5}" for task in manifest.tasks)
    lines = [f"{fitted('student', width)}  {'score':>9}  {'to read':>7}  {heads}  status"]
    for each in rows:
        cells = " ".join(f"{mark(each, task.id):>5}" for task in manifest.tasks)
        line = (f"{fitted(each.student, width)}  {each.score:>4g}/{each.of:<4g}  {each.to_read or '':>7}  {cells}  "
                f"{each.status}")
        lines.append(fitted(line, columns).rstrip())
    return "\n".join([*lines, *odd(rows, columns)])


def odd(rows: Sequence[Row], columns: int) -> list[str]:
    """What many share is said once; of one student, the first few."""
    sharing = defaultdict(list)
    for each in rows:
        for finding in dict.fromkeys(each.findings):
            sharing[finding].append(each.student)
    lines = []
    for finding, students in sharing.items():
        if len(students) > FEW:
            lines.append(f"{len(students)} students ({', '.join(students[:FEW])}, …): {finding}")
    for each in rows:
        own = [finding for finding in dict.fromkeys(each.findings) if len(sharing[finding]) <= FEW]
        lines += [f"{each.student}: {finding}" for finding in own[:FEW]]
        lines += [f"{each.student}: and {len(own) - FEW} more"] if len(own) > FEW else []
    shown = [f"  {textwrap.shorten(line, columns - 2, placeholder=' …')}" for line in lines]
    return ["", "What was odd:", *shown] if shown else []


def mark(row: Row, task: str) -> str:
    if row.points[task] is None:
        return "read"
    return MARKS.get(row.states[task], f"{row.points[task]:g}") if not row.points[task] else f"{row.points[task]:g}"


def wide(text: str) -> int:
    """Columns of a terminal: some letters take two, some none."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
               for char in text)


def fitted(text: str, width: int) -> str:
    if wide(text) > width:
        while wide(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - wide(text))
