"""Grading right submissions with feedback: `python -m classroom grade` against plain nbgrader, seconds a submission.

It needs the classroom's environment: `.venv-classroom/bin/python -m benchmarks classroom`. nbgrader grades one
submission after another, as it does, without isolation, and its hidden cells end at their first line; ours runs two at
a time, each in isolation, with the hidden cases.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import median_and_spread, print_table, ratios, take_turns

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS, SUBMISSIONS, ROUNDS, JOBS = ("00", "02"), 8, 3, 2


def run() -> None:
    from builder.chapter import chapter_paths, exercises
    from classroom.assign import assign
    from classroom.course import Course
    from tests.classroom.a_class import Desk

    with tempfile.TemporaryDirectory(prefix="classroom-benchmark-") as folder:
        course = Course(Path(folder) / "course")
        assign(course, "week-1", CHAPTERS)
        solutions = {each.id: each.solved for path in chapter_paths(ROOT) for each in exercises(path)}
        desk = Desk(course.release("week-1"), solutions, Path(folder) / "handed in")
        for number in range(SUBMISSIONS):
            for name, notebook in desk.notebooks.items():
                desk.write(name, notebook, folder=f"student-{number}")
        ways = {"nbgrader autograde, generate_feedback": lambda number: plain(course, desk.target, number),
                f"classroom grade, {JOBS} at a time": lambda number: ours(course, desk.target, number)}
        compare(take_turns(ways, ROUNDS))
        where_the_time_goes(course, desk.target)


def compare(results: dict[str, list[float]]) -> None:
    theirs = next(iter(results.values()))
    rows = [[name, median_and_spread([each / SUBMISSIONS for each in seconds], "s"),
             median_and_spread(ratios(seconds, theirs))] for name, seconds in results.items()]
    print_table(f"Grading {SUBMISSIONS} right submissions of chapters {' and '.join(CHAPTERS)}, with feedback",
                ["way", "a submission", "÷ nbgrader"], rows, threads=JOBS)


def plain(course, target: Path, number: int) -> float:
    def prepare(copy: Path) -> None:
        for student in target.iterdir():
            shutil.copytree(student, copy / "submitted" / student.name / "week-1")

    commands = [["nbgrader", "autograde", "week-1"], ["nbgrader", "generate_feedback", "week-1"]]
    return timed(course, number, prepare, commands, SUBMISSIONS * len(CHAPTERS))


def ours(course, target: Path, number: int) -> float:
    grade = ["classroom", "grade", ".", "week-1", str(target), "--jobs", str(JOBS)]
    return timed(course, number, lambda copy: None, [grade], SUBMISSIONS * len(CHAPTERS))


def timed(course, number: int, prepare, commands: list[list[str]], pages: int) -> float:
    """Seconds of the commands in a fresh copy of the course. There is no rehearsal: it would take as long."""
    if number < 0:
        return 0.0
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory(prefix="classroom-benchmark-") as folder:
        copy = Path(shutil.copytree(course.folder, Path(folder) / "course"))
        prepare(copy)
        started = time.perf_counter()
        for words in commands:
            done = subprocess.run([sys.executable, "-m", *words], cwd=copy, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        seconds = time.perf_counter() - started
        made = len(list((copy / "feedback").rglob("*.html")))
        if made != pages:
            raise RuntimeError(f"{commands[0]} made {made} pages, not {pages}")
        return seconds


def where_the_time_goes(course, target: Path) -> None:
    """Our parts, one submission after another in this process."""
    from classroom import grade, gradebook, judge
    from classroom.isolation import Limits
    from classroom.names import file_names

    spent: Counter[str] = Counter()
    with (counted(spent, "the answers' process starts, cells run", judge.Session, "__enter__"),
          counted(spent, "answers put back into the release", grade, "salvage"),
          counted(spent, "checks", judge, "checked"), counted(spent, "hidden cases", judge, "with_hidden_cases"),
          counted(spent, "gradebook and notebooks", gradebook, "record"),
          counted(spent, "feedback pages", gradebook, "page"),
          counted(spent, "all", sys.modules[__name__], "all_of_it")):
        all_of_it(course, grade, gradebook, file_names, target, Limits())
    spent["other"] = 2 * spent["all"] - spent.total()
    rows = [[name, f"{seconds / SUBMISSIONS:.2f} s", f"{seconds / spent['all']:.0%}"]
            for name, seconds in spent.most_common()]
    print_table("Where the time of `classroom grade` goes, one at a time", ["part", "a submission", "share"], rows)


def all_of_it(course, grade, gradebook, file_names, target: Path, limits) -> None:
    works = grade.works(course, "week-1", target, limits, True)
    results = [grade.grade_student(work) for work in works]
    files = file_names(course, [work.student for work in works])
    manifest = course.manifest("week-1")
    gradebook.record(course, manifest, results, files, {})
    known = gradebook.standings(course, manifest)
    for result in results:
        for chapter, text in result["notebooks"].items():
            gradebook.page(text, chapter, known[files[result["student"]]][chapter])


@contextlib.contextmanager
def counted(spent: Counter, part: str, owner, name: str) -> Iterator[None]:
    """Adds what calls of a function take."""
    before = getattr(owner, name)

    def measured(*arguments):
        started = time.perf_counter()
        try:
            return before(*arguments)
        finally:
            spent[part] += time.perf_counter() - started

    setattr(owner, name, measured)
    try:
        yield
    finally:
        setattr(owner, name, before)
