"""The same command on a Dask cluster: a real scheduler and two workers on this machine, one of them killed."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import distributed
import joblib
import pytest

from classroom import __main__, grade
from classroom.cluster import Cluster as Backend
from tests.classroom import a_class
from tests.classroom.conftest import ROOT, command_line, results_of, rows_of, tree, until

pytestmark = pytest.mark.slow

VOLATILE = {"seconds"}


def dask(*words, log, **environment):
    """`dask ...`, in a process group of its own, started as an administrator would."""
    return subprocess.Popen([sys.executable, "-m", "dask", *map(str, words)], cwd=ROOT, stdout=log, stderr=log,
                            start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


class Cluster:
    def __init__(self, folder, workers=2, **environment):
        folder.mkdir()
        self.folder, self.processes, self.log = folder, [], (folder / "log").open("w+")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.processes.append(dask("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", log=self.log))
        until(self.listens)
        for _ in range(workers):
            self.processes.append(dask("worker", self.address, "--nworkers", 1, "--nthreads", 1, "--no-dashboard",
                                       "--local-directory", folder, log=self.log, **environment))
        until(lambda: self.said().count("Registered to") >= workers)

    def listens(self):
        with socket.socket() as client:
            host, port = self.address.removeprefix("tcp://").split(":")
            return client.connect_ex((host, int(port))) == 0

    def said(self):
        return Path(self.log.name).read_text()

    def is_grading(self, worker=-1):
        """Whether a student's process runs below a worker."""
        return any(b"/classroom/student.py" in command_line(pid) for pid in tree(self.processes[worker].pid))

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.log.close()


@pytest.fixture
def cluster(tmp_path):
    started = []

    def start(**more):
        started.append(Cluster(tmp_path / f"cluster {len(started)}", **more))
        return started[-1]

    yield start
    for each in started:
        each.end()


def same(result):
    return {name: value for name, value in result.items() if name not in VOLATILE}


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_results(cluster, made, start, solutions, tmp_path):
    here, there = made("00", "02"), made("00", "02")
    shutil.copytree(here.folder, there.folder, dirs_exist_ok=True)
    a_class.make_class(here.release("week-1"), solutions, tmp_path / "handed in", 6)
    for student in ("right-numpy", "partly-right", "lost-metadata"):
        shutil.copytree(tmp_path / "handed in" / student, tmp_path / "handed in" / f"{student} 2")
    assert start("grade", here.folder, "week-1", tmp_path / "handed in", "--jobs", 2).end().code == 0
    dasks = cluster()
    running = start("grade", there.folder, "week-1", tmp_path / "handed in", "--scheduler", dasks.address)
    until(lambda: len(list((there.results / "week-1").glob("*.json"))) >= 2)
    until(dasks.is_grading)                         # in the middle of a submission
    os.killpg(dasks.processes[-1].pid, signal.SIGKILL)
    assert running.process.poll() is None
    run = running.end()
    assert run.code == 0, run.complained
    assert len(results_of(there)) == 9
    mine, theirs = results_of(here), results_of(there)
    assert {student: same(result) for student, result in mine.items()} == {
        student: same(result) for student, result in theirs.items()}
    assert rows_of(here).keys() == rows_of(there).keys()


@pytest.mark.slow
def test_one_worker_is_a_cluster_too(cluster, made, start, solutions, tmp_path):
    course = made("00")
    a_class.make_class(course.release("week-1"), solutions, tmp_path / "handed in", 2)
    dasks = cluster(workers=1)
    running = start("grade", course.folder, "week-1", tmp_path / "handed in", "--scheduler", dasks.address)
    until(dasks.is_grading)
    run = running.end()
    assert run.code == 0, run.complained
    assert {row["status"] for row in rows_of(course).values()} == {"every exercise right"}


@pytest.mark.slow
def test_work_that_each_worker_dies_of_is_given_up_in_time(cluster):
    dasks = cluster(workers=2)
    with distributed.Client(dasks.address) as client, joblib.parallel_config(Backend(client=client)):
        before = time.monotonic()
        work = [joblib.delayed(abs)(-1), joblib.delayed(os._exit)(1), joblib.delayed(abs)(-2)]
        with pytest.raises(distributed.KilledWorker):
            list(joblib.Parallel(n_jobs=2, return_as="generator_unordered", batch_size=1)(work))
        assert time.monotonic() - before < 90


@pytest.mark.slow
def test_workers_without_isolation_are_refused_before_anything_is_graded(cluster, made, start, solutions, tmp_path):
    course = made("00")
    a_class.make_class(course.release("week-1"), solutions, tmp_path / "handed in", 1)
    dasks = cluster(workers=1, PATH="/nowhere")
    run = start("grade", course.folder, "week-1", tmp_path / "handed in", "--scheduler", dasks.address).end()
    assert run.code == 1 and "bubblewrap is missing" in run.complained and "Nothing was graded." in run.complained
    assert "Worker tcp://127.0.0.1" in run.complained and "Traceback" not in run.complained
    assert not (course.results / "week-1").exists()


class Client:
    """In place of a cluster's, for what is decided before anything is sent to it."""

    def __init__(self, threads, reasons):
        self.threads, self.reasons = threads, reasons

    def nthreads(self):
        return self.threads

    def run_on_scheduler(self, function):
        return function()

    def run(self, function, *arguments):
        if isinstance(self.reasons, Exception):
            raise self.reasons
        return self.reasons


@pytest.mark.parametrize(("threads", "reasons", "words"), [
    ({}, {}, "has no workers"),
    ({"a": 1, "b": 4}, {"a": None, "b": None}, "Worker b: it grades several at once"),
    ({"a": 1}, {"a": "bubblewrap is missing"}, "Worker a: bubblewrap is missing"),
    ({"a": 1}, ModuleNotFoundError("No module named 'classroom'"),
     "The scheduler or a worker cannot grade: ModuleNotFoundError"),
])
def test_unfit_workers_are_refused(threads, reasons, words):
    with pytest.raises(grade.CourseError, match=words) as refused:
        grade.refuse_unfit_workers(Client(threads, reasons), True)
    assert str(refused.value).endswith("Nothing was graded.")


def test_a_worker_with_another_version_is_unfit(monkeypatch):
    monkeypatch.setattr(grade, "why_not_available", lambda: "no isolation")
    assert "another version" in grade.why_unfit(True, "older")
    assert grade.why_unfit(True, grade.code_version()) == "no isolation"
    assert grade.why_unfit(False, grade.code_version()) is None


def test_a_scheduler_that_does_not_answer_gives_one_clear_line(made, solutions, tmp_path, capsys):
    course = made("00")
    a_class.make_class(course.release("week-1"), solutions, tmp_path / "handed in", 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))                # no one listens there
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        before = time.monotonic()
        words = ["grade", course.folder, "week-1", tmp_path / "handed in", "--scheduler", address]
        code = __main__.main([*map(str, words)])
    said = capsys.readouterr().err
    assert code == 1 and time.monotonic() - before < 60
    assert f"No Dask scheduler answers at {address}" in said and said.endswith("Nothing was graded.\n")
    assert not (course.results / "week-1").exists()
