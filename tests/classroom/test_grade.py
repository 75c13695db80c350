"""The real loop: `python -m classroom grade` over a generated class, and what each of its students is due."""
import json
import os
import shutil
import signal
import threading
from dataclasses import dataclass

import pytest

from classroom import __main__, grade, isolation
from classroom.course import Course
from classroom.names import file_names
from tests.classroom import a_class
from tests.classroom.conftest import Run, Running, everything, results_of, rows_of, until

SIX = a_class.SMALL


@dataclass
class Graded:
    course: Course
    folder: object
    expected: dict
    run: Run
    running: Running
    before: dict                    # of what was handed in, of the release and of the assignment's own files
    after: dict


def trusted(course, folder):
    return {"handed in": everything(folder), "release": everything(course.folder / "release"),
            "source": everything(course.folder / "source"), "assignments": everything(course.folder / "assignments")}


def graded(made, start, solutions, folder, size):
    course = made("00", "02")
    target = folder / "handed in"
    expected = a_class.make_class(course.release("week-1"), solutions, target, size)
    before = trusted(course, target)
    running = start("grade", course.folder, "week-1", target, "--jobs", 2)
    run = running.end(1200)
    assert run.code == 0, run.complained
    return Graded(course, target, expected, run, running, before, trusted(course, target))


@pytest.fixture(scope="module")
def six(made, start, solutions, tmp_path_factory):
    return graded(made, start, solutions, tmp_path_factory.mktemp("six"), 6)


@pytest.fixture(scope="module")
def whole(made, start, solutions, tmp_path_factory):
    return graded(made, start, solutions, tmp_path_factory.mktemp("whole"), None)


def hold(graded, student):
    """A student's row and result against what is expected of them."""
    expected, row = graded.expected[student], rows_of(graded.course)[student]
    result = results_of(graded.course)[student]
    scores = [score for score in result["scores"] if score["task"][-1].isdigit()]
    points, of = sum(score["shown"] + score["hidden"] for score in scores), sum(score["of"] for score in scores)
    assert expected.at_least - 1e-6 <= points / of <= expected.at_most + 1e-6, (row, scores)
    if expected.full is not None:
        assert (points == of) is expected.full, (row, scores)
        assert ("every exercise right" in row["status"]) is expected.full
    told = " ".join([row["status"], row["findings"], *(score["message"] + score["hidden_message"] for score in scores)])
    assert not expected.status or any(word in told for word in expected.status), told
    for word in expected.finding:
        assert any(word in finding for finding in result["findings"]), result["findings"]
    assert result["trouble"] == "" and result["seconds"] < 200
    assert student in graded.run.said


@pytest.mark.parametrize("student", SIX)
def test_each_of_six_gets_what_is_due(six, student):
    hold(six, student)


@pytest.mark.slow
@pytest.mark.parametrize("student", a_class.CASES)
def test_each_of_the_class_gets_what_is_due(whole, student):
    hold(whole, student)


def nothing_else_was_touched(graded):
    assert rows_of(graded.course).keys() == graded.expected.keys()
    assert graded.after == graded.before
    assert not a_class.trace(graded.folder).exists()
    assert graded.running.left_behind() == []
    # Two at a time, with some room for what is taken between two looks, and for the graders themselves.
    assert graded.run.memory < 2 * (1.4 * isolation.Limits.memory) + 4e9


def test_of_six_nothing_else_was_touched(six):
    nothing_else_was_touched(six)


@pytest.mark.slow
def test_of_the_class_nothing_else_was_touched(whole):
    nothing_else_was_touched(whole)
    pages = {path.parts[-3] for path in whole.course.feedback.rglob("*.html")}
    assert {student for student, each in whole.expected.items() if each.full} <= pages


def test_a_loop_without_end_is_stopped_and_told(six):
    row, result = rows_of(six.course)["infinite-loop"], results_of(six.course)["infinite-loop"]
    assert row["status"] == "0.1 stopped (was still running after 5 s)"
    first = result["scores"][0]
    assert first["state"] == "stopped" and first["hidden_message"] == "" and "while True" in first["message"]
    assert result["seconds"] > 4


def test_the_summary_and_the_table_say_what_waits_for_a_person(six):
    line = next(line for line in six.run.said.splitlines() if line.startswith("right-numpy"))
    assert line.split() == "right-numpy 8/11 3 1 2 2 3 read every exercise right".split()
    row = rows_of(six.course)["right-numpy"]
    assert (row["score"], row["of"], row["points to be read"], row["2.a"]) == ("8", "11", "3", "to be read")
    nothing = rows_of(six.course)["empty-file"]
    assert (nothing["status"], nothing["score"], nothing["of"]) == ("nothing to grade", "0", "11")
    assert "Answers of 5 are to be read" in six.run.said


def test_a_second_run_changes_no_byte_and_says_so(six, start):
    before = everything(six.course.folder)
    assert "gradebook.db" in before and "results/week-1.csv" in before
    run = start("grade", six.course.folder, "week-1", six.folder, "--jobs", 2).end()
    assert run.code == 0, run.complained
    assert "Nothing has changed: all 6 submissions had been graded before." in run.said
    assert everything(six.course.folder) == before


def test_only_who_has_changed_is_graded_again_and_gets_pages(six, start, tmp_path):
    course = Course(shutil.copytree(six.course.folder, tmp_path / "course"))
    folder = shutil.copytree(six.folder, tmp_path / "handed in")
    shutil.copy(folder / "right-numpy" / "00_start_here.ipynb", folder / "infinite-loop" / "00_start_here.ipynb")
    (course.feedback / "right-numpy" / "week-1" / "00_start_here.html").unlink()
    before = everything(course.folder)
    run = start("grade", course.folder, "week-1", folder, "--jobs", 1).end()
    assert "1 of 6 submissions are graded again: other files were handed in (infinite-loop)." in run.said, run
    assert "5 of 6 submissions had been graded before." in run.said
    assert rows_of(course)["infinite-loop"]["status"] == "every exercise right"
    changed = {path for path, content in everything(course.folder).items() if before.get(path) != content}
    assert changed == {
        "gradebook.db", "results/week-1.csv", "results/week-1/infinite-loop.json",
        "autograded/infinite-loop/week-1/00_start_here.ipynb", "submitted/infinite-loop/week-1/00_start_here.ipynb",
        "feedback/infinite-loop/week-1/00_start_here.html", "feedback/right-numpy/week-1/00_start_here.html"}


# Interrupted

@pytest.fixture
def small(made, solutions, tmp_path):
    """One chapter, six right answers; the folder that they lie in."""
    course = made("00")
    desk = a_class.Desk(course.release("week-1"), solutions, tmp_path / "handed in")
    for number in range(6):
        desk.write(desk.name, desk.notebook, folder=f"student {number}")
    return course, desk.target


def all_right(course, number=6):
    rows = rows_of(course)
    assert len(rows) == number and {row["status"] for row in rows.values()} == {"every exercise right"}, rows


def some_results(course, number=1):
    return lambda: len(list((course.results / "week-1").glob("*.json"))) >= number


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(small, start):
    course, folder = small
    running = start("grade", course.folder, "week-1", folder, "--jobs", 2)
    until(some_results(course))
    os.kill(running.workers()[0], signal.SIGKILL)
    run = running.end()
    assert run.code == 0, run.complained
    all_right(course)
    assert running.left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_stopped_goes_on_from_there(small, start, number):
    course, folder = small
    running = start("grade", course.folder, "week-1", folder, "--jobs", 2)
    until(some_results(course))
    workers = running.workers()
    (os.killpg if number == signal.SIGINT else os.kill)(running.process.pid, number)
    run = running.end(60)
    assert run.code == (130 if number == signal.SIGINT else -signal.SIGKILL), run
    until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") and os.access(f"/proc/{pid}/exe", os.R_OK)
                          for pid in workers), 20)
    assert running.left_behind() == []
    kept = everything(course.results / "week-1")
    assert 1 <= len(kept) < 6
    if number == signal.SIGINT:
        assert "the same command goes on from there" in run.complained and "Traceback" not in run.complained
    run = start("grade", course.folder, "week-1", folder, "--jobs", 2).end()
    finished = [name for name in kept if name.endswith(".json")]
    assert f"{len(finished)} of 6 submissions had been graded before" in run.said
    all_right(course)
    after = everything(course.results / "week-1")
    assert all(after[name] == kept[name] for name in kept if not name.startswith("."))


class Deadly(dict):
    """What a worker ends of, as soon as it is handed over."""

    def __reduce__(self):
        return os._exit, (1,)


def without_notebooks(course, student, files=None):
    """Work that is done in no time."""
    manifest = course.manifest("week-1")
    return grade.Work(student, manifest, {}, {} if files is None else files, (), isolation.Limits(), True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")
def test_work_that_each_worker_dies_of_costs_only_itself(made):
    course = made("00")
    works = [without_notebooks(course, f"student {number}", Deadly() if number == 2 else {}) for number in range(5)]
    results = {result["student"]: result for result in grade.grade_all(works, 2)}
    assert len(results) == 5
    assert "ended each time that this was graded" in results["student 2"]["findings"][-1]
    assert [student for student, result in results.items() if result["trouble"]] == ["student 2"]


def test_the_command_itself_does_not_watch_for_its_own_end(made):
    grade.grade_while_wanted(os.getpid(), without_notebooks(made("00"), "ann"))
    assert "classroom command" not in {thread.name for thread in threading.enumerate()}


# In this process, with the graders replaced: what is decided around them

@pytest.fixture
def counted(monkeypatch):
    """Grading without a process for the answers; the list of who was graded."""
    graded = []

    def all_of(waiting, jobs, scheduler=None):
        for work in waiting:
            graded.append(work.student)
            scores = [grade.judge.missing(task) for task in work.manifest.tasks]
            yield grade.result_of(work, scores, work.findings)

    monkeypatch.setattr(grade, "grade_all", all_of)
    monkeypatch.setattr(grade, "why_not_available", lambda: None)
    return graded


def command(*words):
    return __main__.main([*map(str, words)])


def test_everyone_is_graded_again_when_the_release_was_remade(small, counted, capsys):
    course, folder = small
    assert command("grade", course.folder, "week-1", folder) == 0
    path = course.release("week-1") / "00_start_here.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][0]["source"] += "\n\nAnother word."
    path.write_text(json.dumps(notebook), encoding="utf-8")
    capsys.readouterr()
    assert command("grade", course.folder, "week-1", folder) == 0
    assert "6 of 6 submissions are graded again: the assignment was made anew." in capsys.readouterr().out
    assert len(counted) == 12
    assert command("grade", course.folder, "week-1", folder, "--seconds", 30) == 0
    assert "6 of 6 submissions are graded again: the limits are others." in capsys.readouterr().out


def test_a_result_of_trouble_is_no_result(small, counted):
    course, folder = small
    assert command("grade", course.folder, "week-1", folder) == 0
    path = course.results / "week-1" / "student 3.json"
    path.write_text(path.read_text().replace('"trouble": ""', '"trouble": "bubblewrap did not start"'))
    counted.clear()
    assert command("grade", course.folder, "week-1", folder) == 0
    assert counted == ["student 3"]


def test_who_is_not_in_the_folder_stays_in_the_table(small, counted, capsys):
    course, folder = small
    assert command("grade", course.folder, "week-1", folder) == 0
    late = folder.parent / "late"
    shutil.copytree(folder / "student 0", late / "student 9")
    capsys.readouterr()
    assert command("grade", course.folder, "week-1", late) == 0
    assert len(rows_of(course)) == 7
    out = capsys.readouterr().out
    assert "1 submissions and 6 graded earlier" in out and "student 0" not in out


def test_submitted_is_read_by_assignment(small, counted):
    course, folder = small
    for student in ("ann", "bo"):
        shutil.copytree(folder / "student 0", course.submitted / student / "week-1")
    shutil.copytree(folder / "student 0", course.submitted / "bo" / "week-2")
    before = everything(course.submitted)
    assert command("grade", course.folder, "week-1") == 0
    assert command("grade", course.folder, "week-1", course.submitted) == 0
    assert counted == ["ann", "bo"] and everything(course.submitted) == before
    assert results_of(course)["bo"]["findings"] == []


def test_what_lies_in_no_assignments_folder_of_submitted_is_told(small, counted, capsys):
    course, folder = small
    notebook = next((folder / "student 0").iterdir())
    submitted = course.submitted
    for place in ("carl/week-1", "alice", "dora/Week-1", "bob/week-1", ".hidden"):
        (submitted / place).mkdir(parents=True)
        shutil.copy(notebook, submitted / place)
    (submitted / "empty").mkdir()
    for name in ("bob_02_x.ipynb", "class.zip", ".DS_Store", "carl/.DS_Store", "bob/week-1.zip"):
        (submitted / name).write_bytes(b"x")
    (submitted / "link").symlink_to(submitted / "carl")
    assert command("grade", course.folder, "week-1") == 0
    assert counted == ["bob", "carl"]
    head, *astray, advice = [line for line in capsys.readouterr().err.splitlines() if "student/s]" not in line]
    assert head == f"Not graded, as it lies in no assignment's folder in {submitted}:"
    assert sorted(line.strip() for line in astray) == sorted([
        f".hidden/{notebook.name}", f"alice/{notebook.name}", "bob/week-1.zip", "bob_02_x.ipynb", "class.zip",
        "dora/Week-1/", "empty/", "link/"])
    assert "Move it to STUDENT/week-1/" in advice and "FOLDER" in advice


def test_nothing_is_told_of_other_assignments(small, counted, capsys):
    course, folder = small
    assert command("assign", course.folder, "week-2", "00") == 0
    for name in ("week-1", "week-2"):
        shutil.copytree(folder / "student 0", course.submitted / "ann" / name)
    assert command("grade", course.folder, "week-1") == 0
    assert "Not graded" not in capsys.readouterr().err and counted == ["ann"]


def test_a_folder_whose_name_is_no_text_stops_nobody(small, counted):
    course, folder = small
    for student in ("ann", os.fsdecode(b"M\xfcller")):
        shutil.copytree(folder / "student 0", course.submitted / student / "week-1")
    assert command("grade", course.folder, "week-1") == 0
    assert sorted(counted) == ["M%FCller", "ann"] and set(rows_of(course)) == {"M%FCller", "ann"}
    assert [result["findings"] for result in results_of(course).values()] == [[], []]


def test_names_that_are_no_text_have_names_of_files_that_are(made):
    course, odd = made("00"), os.fsdecode(b"M\xfcller")
    names = file_names(course, [odd, "Müller"])
    assert names[odd].encode() and len(set(names.values())) == 2
    assert file_names(course, ["ann"]) == {**names, "ann": "ann"}


def test_a_folder_that_grading_made_is_no_other_student(small, counted):
    course, folder = small
    (folder / "student 0").rename(folder / "Ann #2")
    assert command("grade", course.folder, "week-1", folder) == 0
    made = next(path for path in course.submitted.iterdir() if path.name.startswith("Ann"))
    assert made.name != "Ann #2"
    assert command("grade", course.folder, "week-1") == 0
    assert "Ann #2" in rows_of(course) and len(rows_of(course)) == 6
    # The student's own folder beside it is of the same person.
    newer = shutil.copytree(made, course.submitted / "Ann #2")
    for path in (newer / "week-1").iterdir():
        path.write_text(path.read_text() + " ")
        os.utime(path, (4e9, 4e9))
    handed, = [each for each in grade.works(course, "week-1", None, isolation.Limits(), True)
               if each.student.startswith("Ann")]
    assert "There are 2 folders of this student in submitted/; the newest was taken." in handed.findings
    assert all(data.endswith(b" ") for _, data in handed.files.values()) and handed.files


@pytest.mark.parametrize(("words", "said"), [
    (("grade", "week-2"), "There is no assignment week-2"),
    (("grade", "week-1", "nowhere"), "is no folder"),
    (("grade", "week-1", "empty"), "is empty: nothing was handed in there for week-1"),
])
def test_what_cannot_be_graded_is_said(small, counted, capsys, tmp_path, words, said):
    (tmp_path / "empty").mkdir()
    verb, name, *folders = words
    assert command(verb, small[0].folder, name, *(tmp_path / each for each in folders)) == 1
    assert said in capsys.readouterr().err and counted == []


def test_nothing_is_graded_where_code_cannot_be_isolated(small, counted, monkeypatch, capsys):
    course, folder = small
    monkeypatch.setattr(grade, "why_not_available", lambda: "bubblewrap is missing.")
    before = everything(course.folder)
    assert command("grade", course.folder, "week-1", folder) == 1
    assert capsys.readouterr().err.startswith("bubblewrap is missing.\nNothing was graded.")
    assert counted == [] and everything(course.folder) == before


@pytest.mark.slow
def test_without_isolation_on_the_same_way(small, start):
    course, folder = small
    for number in range(2, 6):
        shutil.rmtree(folder / f"student {number}")
    running = start("grade", course.folder, "week-1", folder, "--without-isolation", "--jobs", 1)
    run = running.end()
    assert run.code == 0, run.complained
    all_right(course, 2)
    assert running.left_behind() == []


@pytest.mark.parametrize("words", [("--jobs", "0"), ("--seconds", "0"), ("--memory", "-1"), ("--seconds", "nan")])
def test_odd_limits_are_refused(small, words):
    with pytest.raises(SystemExit):
        command("grade", small[0].folder, "week-1", small[1], *words)
