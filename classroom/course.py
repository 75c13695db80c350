"""A course: one folder, where each thing stands in it, and the manifest of each assignment.

    source/NAME/         the chapters with solutions; for the instructor
    release/NAME/        what students get, with the library; NAME.zip beside it is the same in one file
    assignments/NAME.json  the manifest: what is graded, and for how many points
    submitted/           what came back
    results/, feedback/  what grading makes of it
    gradebook.db         nbgrader's
"""

import json
import os
import re
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
IDS = {"exercise": re.compile(r"\d+\.\d+"), "essay": re.compile(r"\d+\.[a-z]")}


class CourseError(Exception):
    """What is wrong and what to do, for an instructor to read."""


@dataclass(frozen=True)
class Task:
    """Something to be graded: an exercise, by calling its function, or an essay, by hand."""

    id: str  # such as 2.1, or 2.a for an essay
    kind: str  # "exercise" or "essay"
    chapter: str  # such as 02_sinusoidal_by_hand, the name of its notebook
    function: str | None  # what the exercise's check is given; None for an essay
    points: int

    @property
    def answer_cell(self):
        """The grade id of the cell that the student answers in."""
        return grade_id("answer" if self.kind == "exercise" else "essay", self.id)

    @property
    def cell_points(self):
        """The points of each graded cell by its grade id."""
        if self.kind == "essay":
            return {self.answer_cell: self.points}
        return {grade_id("check", self.id): self.points / 2, grade_id("hidden", self.id): self.points - self.points / 2}


def grade_id(part, id):
    """nbgrader's name of a cell, such as check-2-1."""
    return f"{part}-{id.replace('.', '-')}"


@dataclass(frozen=True)
class Manifest:
    """What an assignment consists of."""

    assignment: str
    versions: dict[str, str]  # of each chapter's notebook, a hash of its released cells
    tasks: tuple[Task, ...]

    @property
    def points(self):
        return sum(task.points for task in self.tasks)

    def of_chapter(self, chapter):
        return [task for task in self.tasks if task.chapter == chapter]

    def to_json(self):
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text, file="the manifest"):
        """Raises: `CourseError` naming the file and what is wrong with it."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise broken(file, f"it is no JSON ({error})") from None
        if not isinstance(data, dict) or data.keys() != {field.name for field in fields(cls)}:
            raise broken(file, f"expected the keys {', '.join(field.name for field in fields(cls))}")
        versions, tasks = data["versions"], data["tasks"]
        if not isinstance(data["assignment"], str) or not NAME.fullmatch(data["assignment"]):
            raise broken(file, f"`assignment` is {data['assignment']!r}, which is no name")
        if not isinstance(versions, dict) or not all(isinstance(each, str) and each for each in versions.values()):
            raise broken(file, "`versions` must hold a text for each chapter")
        if not isinstance(tasks, list):
            raise broken(file, "`tasks` must be a list")
        tasks = tuple(task_from(each, versions, file) for each in tasks)
        ids = [task.id for task in tasks]
        if twice := sorted({id for id in ids if ids.count(id) > 1}):
            raise broken(file, f"task {twice[0]} stands in it twice")
        return cls(data["assignment"], versions, tasks)


def task_from(data, versions, file):
    names = [field.name for field in fields(Task)]
    if not isinstance(data, dict) or data.keys() != set(names):
        raise broken(file, f"a task is {json.dumps(data)[:80]}; expected the keys {', '.join(names)}")
    task = Task(**data)
    if not isinstance(task.id, str) or not isinstance(task.kind, str) or not isinstance(task.chapter, str):
        raise broken(file, f"task {task.id!r}: `id`, `kind` and `chapter` must be texts")
    if task.kind not in IDS or not IDS[task.kind].fullmatch(task.id):
        raise broken(file, f"task {task.id!r} is of kind {task.kind!r}; expected 2.1, an exercise, or 2.a, an essay")
    if task.chapter not in versions:
        raise broken(file, f"task {task.id} is of chapter {task.chapter!r}, which `versions` does not name")
    named = isinstance(task.function, str) and task.function.isidentifier()
    if named != (task.kind == "exercise") or (task.kind == "essay" and task.function is not None):
        raise broken(file, f"`function` of task {task.id} is {task.function!r}; an exercise has a name, an essay null")
    if type(task.points) is not int or task.points < 0:
        raise broken(file, f"`points` of task {task.id} is {task.points!r}; expected a whole number, 0 or more")
    return task


def broken(file, problem):
    return CourseError(
        f"{file}: {problem}. It is written by `python -m classroom assign`: take it back from a copy, or make the "
        "assignment anew with --force."
    )


class Course:
    """The folder of a course; it need not exist yet."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        if self.folder.exists() and not self.folder.is_dir():
            raise CourseError(f"{self.folder} is a file: name a folder for the course.")
        self.submitted = self.folder / "submitted"
        self.results = self.folder / "results"
        self.feedback = self.folder / "feedback"
        self.gradebook = self.folder / "gradebook.db"
        self.settings = self.folder / "nbgrader_config.py"

    @property
    def database(self):
        """The gradebook's address, as nbgrader wants it."""
        return f"sqlite:///{self.gradebook}"

    def open_gradebook(self):
        """nbgrader's gradebook, to be used with `with`; it is made if there is none."""
        from nbgrader.api import Gradebook

        # It starts alembic by its bare name, which stands beside this Python and mostly not on the path.
        beside = str(Path(sys.executable).parent)
        if beside not in os.environ.get("PATH", "").split(os.pathsep):
            os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
        return Gradebook(self.database, self.folder.name)

    def source(self, name):
        return self.folder / "source" / valid_name(name)

    def release(self, name):
        return self.folder / "release" / valid_name(name)

    def release_zip(self, name):
        return self.folder / "release" / f"{valid_name(name)}.zip"

    def manifest_path(self, name):
        return self.folder / "assignments" / f"{valid_name(name)}.json"

    def manifest(self, name):
        """Raises: `CourseError` if there is no such assignment, or its manifest is broken."""
        path = self.manifest_path(name)
        if not path.is_file():
            there = ", ".join(self.assignments()) or "none yet"
            raise CourseError(
                f"There is no assignment {name} in {self.folder}; there are: {there}. "
                f"`python -m classroom assign {self.folder} {name} CHAPTER` makes it."
            )
        try:
            manifest = Manifest.from_json(path.read_text(encoding="utf-8"), path)
        except UnicodeDecodeError as error:
            raise broken(path, f"it is no UTF-8 text ({error.reason})") from None
        if manifest.assignment != name:
            raise broken(path, f"`assignment` is {manifest.assignment}, not the file's name")
        return manifest

    def assignments(self):
        """The names of all assignments."""
        return sorted(path.stem for path in (self.folder / "assignments").glob("*.json"))

    def submissions(self, name):
        """Folders with files that were handed in for this assignment, or with results of grading it."""
        places = [
            *self.submitted.glob(f"*/{valid_name(name)}"), self.submitted / name,
            *self.results.glob(f"*/{name}"), self.results / name,
        ]  # fmt: skip
        return [place for place in places if any(file.is_file() for file in place.rglob("*"))]


def valid_name(name):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise CourseError(f"{name!r} cannot name an assignment: take letters a to z, digits, - and _, such as week-1.")
    return name
