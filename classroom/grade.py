"""A folder of submissions, graded: everyone gets a row, side by side on this machine or on a Dask cluster.

One student's work is a value (`Work`), and so is what comes of it: a worker needs this package, and no folder of the
course. Each result is stored as soon as it is there, with a key made of all that it depends on; who has one already is
passed over. So an interrupted run goes on where it stopped, and a second run changes nothing.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

import joblib
import nbformat
import torch
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError
from tqdm import tqdm

from builder.files import write_if_changed
from classroom import judge
from classroom.course import Course, CourseError, Manifest, grade_id
from classroom.harmless import harmless
from classroom.isolation import Limits, why_not_available
from classroom.names import file_names, known_names
from classroom.salvage import Handed, find_submissions, is_clutter, printable, salvage, student_name
from posenc_lib.checking import TooLong

ROOT = Path(__file__).resolve().parents[1]
WHY_AGAIN = {"files": "other files were handed in", "assignment": "the assignment was made anew",
             "limits": "the limits are others", "grader": "the classroom's own code has changed"}


@dataclass(frozen=True)
class Work:
    """What one student handed in, and all that is needed to grade it."""

    student: str
    manifest: Manifest
    releases: Mapping[str, str]                     # by chapter, the released notebook without its outputs
    files: Mapping[str, tuple[str, bytes]]          # by chapter: the file's name and content
    findings: tuple[str, ...]
    limits: Limits
    isolated: bool

    @functools.cached_property
    def key(self) -> dict[str, str]:
        """Changes with the files, the assignment, the limits and the graders' own code, and with nothing else."""
        files = {chapter: [name, hashlib.sha256(data).hexdigest()] for chapter, (name, data) in self.files.items()}
        return {"files": digest([self.student, files, self.findings]),
                "assignment": digest([self.manifest.to_json(), self.releases]),
                "limits": digest([asdict(self.limits), self.isolated]), "grader": code_version()}


def digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.cache
def code_version() -> str:
    files = sorted([*(ROOT / "classroom").glob("*.py"), *(ROOT / "posenc_lib").rglob("*.py")])
    content = b"\0".join(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()


# One student

def grade_student(work: Work) -> dict:
    """The result of one student, as it is stored. Whatever goes wrong in here is said in it: nobody is lost."""
    torch.set_num_threads(1)
    started, findings, scores, notebooks, essays, trouble = time.monotonic(), list(work.findings), [], {}, {}, ""
    for chapter in work.manifest.versions:
        tasks = work.manifest.of_chapter(chapter)
        if chapter not in work.files:
            scores += [judge.missing(task) for task in tasks]
            findings.append(f"There is no notebook of chapter {chapter}.")
            continue
        _, data = work.files[chapter]
        try:
            salvaged = salvage(data, nbformat.reads(work.releases[chapter], as_version=4))
            judged = judge.judge(salvaged.notebook.cells, tasks, salvaged.answers, work.limits, work.isolated)
        except (Exception, TooLong) as error:       # a fault of ours, or of the machine: it costs nobody else anything
            trouble = traceback.format_exc()
            findings.append(f"{chapter} could not be graded: {type(error).__name__}: {error}")
            scores += [judge.stopped(task, "could not be graded") for task in tasks]
            continue
        findings += [finding if len(work.manifest.versions) == 1 else f"{chapter}: {finding}"
                     for finding in salvaged.findings]
        scores += judged.scores
        notebooks[chapter] = nbformat.writes(marked(salvaged.notebook, judged))
        essays |= {name: digest(answer.source) for name, answer in salvaged.answers.items()
                   if name.startswith("essay-")}
    return result_of(work, scores, findings, trouble, time.monotonic() - started, notebooks, essays)


def result_of(work: Work, scores: Sequence[judge.Score], findings: Sequence[str], trouble: str = "",
              seconds: float = 0.0, notebooks: Mapping = {}, essays: Mapping = {}) -> dict:
    return {
        "student": work.student, "assignment": work.manifest.assignment, "key": work.key,
        "seconds": round(seconds, 1), "findings": list(findings), "scores": [asdict(score) for score in scores],
        "notebooks": dict(notebooks), "essays": dict(essays), "trouble": trouble,
    }


def marked(notebook: nbformat.NotebookNode, judged: judge.Judged) -> nbformat.NotebookNode:
    """The notebook as the student gets it back: what its cells said, and the marks where the checks stood."""
    texts: dict[str, str] = {}
    for score in judged.scores:
        texts[grade_id("check", score.task)] = f"{score.shown:g} of {score.of / 2:g}: {score.message}"
        hidden = score.hidden_message or score.message
        texts[grade_id("hidden", score.task)] = f"{score.hidden:g} of {score.of - score.of / 2:g}: {hidden}"
    printed = judged.printed
    for number, cell in enumerate(notebook.cells):
        name = judge.grade_id_of(cell)
        if cell.cell_type != "code":
            if name.startswith("essay-") or cell.metadata.get("posenc_classroom", {}).get("added"):
                cell.source, cell.cell_type = harmless(cell.source), "markdown"      # raw cells would stand as HTML
            continue
        said = texts.get(name) or judged.errors.get(number)
        if name.startswith("answer-") and printed:
            said, printed = f"{printed}\n{said or ''}".rstrip(), ""       # what all cells printed, once
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=said + "\n")] if said else []
        cell.execution_count = None
    return notebook


# Everyone

def works(course: Course, name: str, folder: Path | None, limits: Limits, isolated: bool) -> list[Work]:
    """A `Work` for everyone with a file or a folder in `folder`; without one, in the course's submitted/."""
    manifest, releases = course.manifest(name), {}
    for chapter in manifest.versions:
        path = course.release(name) / f"{chapter}.ipynb"
        if not path.is_file():
            raise CourseError(f"{path} is missing: make the assignment anew, or take the file back from {name}.zip.")
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        releases[chapter] = nbformat.writes(notebook)
    notebooks = {chapter: nbformat.reads(text, as_version=4) for chapter, text in releases.items()}
    found = []
    for handed in handed_in(course, name, folder, notebooks):
        files, findings = {}, list(handed.findings)
        for chapter, file in handed.files.items():
            if chapter not in manifest.versions:
                continue
            try:
                files[chapter] = (file.name, file.read())
            except OSError as error:
                findings.append(f"{printable(file.name)} was not graded: it cannot be read ({printable(str(error))}).")
        found.append(Work(handed.student, manifest, releases, files, tuple(findings), limits, isolated))
    return found


def handed_in(course: Course, name: str, folder: Path | None, notebooks: Mapping) -> list[Handed]:
    folder = course.submitted if folder is None else folder.resolve()
    if not folder.is_dir():
        raise CourseError(f"{folder} is no folder: name the one that holds what was handed in.")
    if folder != course.submitted:
        return find_submissions(folder, notebooks)
    found, astray = in_submitted(course, name, notebooks)
    if astray:
        print(f"Not graded, as it lies in no assignment's folder in {folder}:",
              *(f"  {printable(path.relative_to(folder).as_posix())}{'/' * path.is_dir()}" for path in astray),
              f"Move it to STUDENT/{name}/ there; or move all that was handed in to a folder elsewhere, and give that "
              f"as FOLDER: python -m classroom grade COURSE {name} FOLDER", sep="\n", file=sys.stderr)
    return found


def in_submitted(course: Course, name: str, notebooks: Mapping) -> tuple[list[Handed], list[Path]]:
    """What lies in submitted/STUDENT/NAME/, and all that lies in no assignment's folder."""
    assignments, found, astray = {name, *course.assignments()}, defaultdict(list), []
    students = {file: student for student, file in known_names(course).items()}     # of folders made by grading
    for folder in sorted(path for path in course.submitted.iterdir() if not is_clutter(path)):
        if not folder.is_dir() or folder.is_symlink():
            astray.append(folder)
            continue
        inside = sorted(path for path in folder.iterdir() if not is_clutter(path))
        astray += [path for path in inside if path.name not in assignments or not path.is_dir()] if inside else [folder]
        if any(path.name == name and path.is_dir() for path in inside):
            student = student_name(folder.name)
            found[students.get(student, student)] += find_submissions(folder, notebooks, only=name)
    return [newest(student, each) for student, each in found.items()], astray


def newest(student: str, handed: Sequence[Handed]) -> Handed:
    """Of several folders of one student, which are two spellings of the name, the one with the newest file."""
    last = max(handed, key=lambda each: max((file.modified for file in each.files.values()), default=0.0))
    more = [f"There are {len(handed)} folders of this student in submitted/; the newest was taken."]
    return dataclasses.replace(last, student=student, findings=last.findings + more * (len(handed) > 1))


def grade_all(waiting: Sequence[Work], jobs: int, scheduler: str | None = None) -> Iterator[dict]:
    """The results, as they come. A worker that dies loses nothing: what it had is graded again, at last alone."""
    if not waiting:
        return
    done, wanted = set(), functools.partial(grade_while_wanted, os.getpid())
    with backend(scheduler, any(work.isolated for work in waiting)) as client:
        for _ in range(2):
            left = [work for work in waiting if work.student not in done]
            # As many at a time as there are workers: what is handed to one that dies is little.
            pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            grading = joblib.delayed(grade_student if scheduler else wanted)
            try:
                with contextlib.closing(pool(grading(work) for work in left)) as coming:
                    for result in coming:
                        done.add(result["student"])
                        yield result
                break
            except (TerminatedWorkerError, BrokenProcessPool, *lost_workers(scheduler)):
                if client and client.status != "running":
                    raise CourseError(f"The Dask scheduler at {scheduler} is gone. What has been graded is kept; the "
                                      "same command goes on from there.") from None
    for work in waiting:
        if work.student not in done:
            yield graded_alone(work)


def grade_while_wanted(command: int, work: Work) -> dict:
    """In a process that ends with the command, however that ends, and a student's process with it."""
    if os.getpid() != command:                      # with one job joblib starts no process
        end_with(command)
    return grade_student(work)


@functools.cache
def end_with(command: int) -> None:
    def watch() -> None:
        while os.getppid() == command:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="classroom command", daemon=True).start()


def lost_workers(scheduler: str | None) -> tuple[type[Exception], ...]:
    if scheduler is None:
        return ()
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    return KilledWorker, FutureCancelledError


def graded_alone(work: Work) -> dict:
    if work.isolated and (reason := why_not_available()):       # the command's machine, where workers have died
        finding = f"Each worker that graded this ended, and it cannot be graded here: {reason}"
        scores = [judge.stopped(task, "could not be graded") for task in work.manifest.tasks]
        return result_of(work, scores, [*work.findings, finding], trouble=finding)
    try:
        with ProcessPoolExecutor(max_workers=1) as pool:
            return pool.submit(grade_while_wanted, os.getpid(), work).result()
    except (TerminatedWorkerError, BrokenProcessPool) as error:
        scores = [judge.stopped(task, "ended the grader's own process") for task in work.manifest.tasks]
        finding = f"The grader's process ended each time that this was graded. Look at the files. ({error})"
        return result_of(work, scores, [*work.findings, finding], trouble=finding)


@contextlib.contextmanager
def backend(scheduler: str | None, isolated: bool) -> Iterator[object]:
    """Processes of this machine, or the workers of a Dask scheduler at an address; then gives its client."""
    if scheduler is None:
        with joblib.parallel_config("loky"):
            yield None
        return
    from distributed import Client

    from classroom.cluster import Cluster

    try:
        client = Client(scheduler, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        said = str(error).splitlines() or [type(error).__name__]
        raise CourseError(f"No Dask scheduler answers at {scheduler}: {said[0]}\nNothing was graded.") from None
    with client:
        refuse_unfit_workers(client, isolated)
        with joblib.parallel_config(Cluster(client=client)):
            yield client


def refuse_unfit_workers(client, isolated: bool) -> None:
    threads = client.nthreads()
    if not threads:
        raise CourseError("The Dask scheduler has no workers: start `dask worker ADDRESS --nthreads 1` in the book's "
                          "folder, on each machine.\nNothing was graded.")
    try:
        client.run_on_scheduler(code_version)       # it unpacks what is sent to the workers
        reasons = client.run(why_unfit, isolated, code_version())
    except Exception as error:                      # of theirs: what they lack
        raise CourseError(f"The scheduler or a worker cannot grade: {type(error).__name__}: {error}. Start both in the "
                          "book's folder, with the classroom's Python.\nNothing was graded.") from None
    reasons |= {worker: "it grades several at once: start it with --nthreads 1"
                for worker, number in threads.items() if number != 1}
    for worker, reason in reasons.items():
        if reason:
            raise CourseError(f"Worker {worker}: {reason}\nNothing was graded.")


def why_unfit(isolated: bool, version: str) -> str | None:
    if code_version() != version:
        return "it has another version of the book than this: bring both to the same."
    return why_not_available() if isolated else None


# Results on disk

def result_path(course: Course, name: str, file: str) -> Path:
    return course.results / name / f"{file}.json"


def stored(path: Path) -> dict | None:
    """The result that stands there, if one does."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and isinstance(result.get("key"), dict) else None


def store(course: Course, result: dict, file: str) -> None:
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    write_if_changed(result_path(course, result["assignment"], file), text)


def all_results(course: Course, manifest: Manifest) -> list[dict]:
    """Of everyone who was ever graded for the assignment as it is now."""
    found = [stored(path) for path in sorted((course.results / manifest.assignment).glob("*.json"))]
    tasks = [task.id for task in manifest.tasks]
    return [each for each in found if each and [score["task"] for score in each["scores"]] == tasks]


# The command

def add_parser(commands) -> None:
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("course", type=Path, metavar="COURSE", help="the folder of the course")
    grade.add_argument("assignment", metavar="NAME", help="such as week-1")
    grade.add_argument("folder", type=Path, metavar="FOLDER", nargs="?",
                       help="what was handed in, in any of the usual layouts (COURSE/submitted)")
    grade.add_argument("--jobs", type=at_least(int, 1), default=joblib.cpu_count(),
                       help="how many at a time (%(default)s)")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster, such as tcp://10.0.0.1:8786")
    grade.add_argument("--seconds", type=at_least(float, 1), default=Limits.seconds,
                       help="for one chapter's process (%(default)g)")
    grade.add_argument("--memory", type=at_least(float, 0.5), default=Limits.memory / 1e9, metavar="GB",
                       help="for one chapter's process (%(default)g)")
    grade.add_argument("--force", action="store_true", help="grade again what has been graded")
    grade.add_argument("--without-isolation", action="store_true",
                       help="for files you trust: their code may read and write what you can")
    grade.set_defaults(command=run)


def at_least(kind, least):
    def number(word: str):
        value = kind(word)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"{word} is too little: take {least} or more")
        return value
    return number


def run(options) -> int:
    from classroom import gradebook

    isolated = not options.without_isolation
    if os.name != "posix":
        raise CourseError("Students' code is graded on Linux, or on macOS without isolation: use WSL2 here.\n"
                          "Nothing was graded.")
    if isolated and options.scheduler is None and (reason := why_not_available()):
        raise CourseError(f"{reason}\nNothing was graded.")
    course, name = Course(options.course), options.assignment
    limits = Limits(seconds=options.seconds, cpu_seconds=options.seconds, memory=int(options.memory * 1e9))
    with taken_from(options.folder) as folder:
        everyone = works(course, name, folder, limits, isolated)
    if not everyone:
        raise CourseError(f"{options.folder or course.submitted} is empty: nothing was handed in there for {name}.")
    files = file_names(course, [work.student for work in everyone])
    results, again = {}, defaultdict(list)
    for work in everyone:
        result = stored(result_path(course, name, files[work.student]))
        if result is None:
            continue
        if why := why_again(result, work, options.force):
            again[why].append(printable(work.student))
        else:
            results[work.student] = result
    before = len(results)
    for why, students in again.items():
        named = f" ({', '.join(students)})" if len(students) < len(everyone) else ""
        print(f"{len(students)} of {len(everyone)} submissions are graded again: {why}{named}.")
    waiting = [work for work in everyone if work.student not in results]
    grade_waiting(course, waiting, results, files, options, len(everyone))
    rows = [results[work.student] for work in everyone]
    handed = {} if options.folder is None or options.folder.resolve() == course.submitted else {
        work.student: work.files for work in everyone}
    changed = gradebook.record(course, course.manifest(name), rows, files, handed)
    changed += gradebook.publish(course, name, options.jobs, [work.student for work in everyone])
    if not changed and not waiting:
        print(f"Nothing has changed: all {len(everyone)} submissions had been graded before.")
    elif before:
        print(f"{before} of {len(everyone)} submissions had been graded before.")
    return 0


@contextlib.contextmanager
def taken_from(folder: Path | None) -> Iterator[Path | None]:
    """A folder as it is; a single zip file, as learning platforms give it, in a folder of its own."""
    if folder is None or not folder.is_file() or folder.suffix.lower() != ".zip":
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="classroom-") as alone:
        shutil.copy(folder, alone)
        yield Path(alone)


def why_again(result: dict, work: Work, force: bool) -> str:
    if force:
        return "so --force says"
    if result["trouble"]:
        return "something went wrong the last time"
    return next((why for part, why in WHY_AGAIN.items() if result["key"].get(part) != work.key[part]), "")


def grade_waiting(course: Course, waiting: Sequence[Work], results: dict, files: Mapping[str, str], options,
                  total: int) -> None:
    stopped = 0
    progress = tqdm(total=total, initial=len(results), desc=options.assignment, unit="student", disable=None)
    with progress, contextlib.closing(grade_all(waiting, options.jobs, options.scheduler)) as coming:
        for result in coming:
            store(course, result, files[result["student"]])
            results[result["student"]] = result
            stopped += any(score["state"] == "stopped" for score in result["scores"])
            progress.set_postfix_str(f"{stopped} stopped, last {result['student'][:20]}", refresh=False)
            progress.update()
