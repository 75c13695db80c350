"""What the classroom's tests share: courses, classes, and the command as an instructor runs it."""
import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from builder.chapter import chapter_paths, exercises
from classroom.assign import assign
from classroom.course import Course
from classroom.isolation import tree, used

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def solutions():
    return {each.id: each.solved for path in chapter_paths(ROOT) if path.parent.name == "chapters"
            for each in exercises(path)}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """`made("00", "02")` is a new course with these chapters as week-1; each choice is assigned once and copied."""
    kept = {}

    def make(*chapters):
        if chapters not in kept:
            kept[chapters] = Course(tmp_path_factory.mktemp("kept") / "course")
            assign(kept[chapters], "week-1", chapters)
        folder = tmp_path_factory.mktemp("class [1]") / "course"
        shutil.copytree(kept[chapters].folder, folder)
        return Course(folder)
    return make


@dataclass
class Run:
    """A finished command."""

    code: int
    said: str
    complained: str
    memory: int = 0             # the most that all its processes took at a time, in bytes
    cpu: float = 0.0


@dataclass
class Running:
    """`python -m classroom ...`, running; its temporary files and so its processes are told by `temporary`."""

    process: subprocess.Popen
    temporary: Path
    watch: threading.Thread = field(init=False)
    memory: int = 0
    cpu: float = 0.0

    def __post_init__(self):
        self.watch = threading.Thread(target=self._watched, daemon=True)
        self.watch.start()

    def _watched(self):
        while self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                memory, *_, seconds = used(self.process.pid)
                self.memory, self.cpu = max(self.memory, memory), max(self.cpu, seconds)
            time.sleep(0.3)

    def workers(self):
        return [pid for pid in tree(self.process.pid) if b"LokyProcess" in command_line(pid)]

    def end(self, seconds=600):
        said, complained = self.process.communicate(timeout=seconds)
        self.watch.join()
        return Run(self.process.returncode, said, complained, self.memory, self.cpu)

    def left_behind(self):
        """Students' processes that still run, after a moment in which they may end."""
        until = time.monotonic() + 5
        while (left := [pid for pid in all_processes() if str(self.temporary).encode() in command_line(pid)]
               ) and time.monotonic() < until:
            time.sleep(0.1)
        return left


def all_processes():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """`start("grade", course.folder, ...)` starts the command, a process group of its own."""
    started = []

    def begin(*words):
        temporary = tmp_path_factory.mktemp("temporary")
        process = subprocess.Popen(
            [sys.executable, "-m", "classroom", *map(str, words)], cwd=ROOT, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(temporary), "PYTHONWARNINGS": "default"},
            start_new_session=True)
        started.append(process)
        return Running(process, temporary)

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def rows_of(course, name="week-1"):
    text = (course.results / f"{name}.csv").read_text(encoding="utf-8")
    return {row["student"]: row for row in csv.DictReader(io.StringIO(text))}


def results_of(course, name="week-1"):
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (course.results / name).glob("*.json")]
    return {result["student"]: result for result in found}


def everything(folder):
    """Of each file its content and when it was written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix():
            (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this has taken too long"
        time.sleep(0.05)
