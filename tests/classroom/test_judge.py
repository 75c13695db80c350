"""Scores of one notebook's answers, by real processes: the state of each kind of answer, and what its message tells."""
import dataclasses
import textwrap
import threading

import pytest

from classroom import judge
from classroom.course import Task
from classroom.isolation import Limits
from classroom.salvage import Answer

LIMITS = Limits(cell_seconds=3, call_seconds=1.5)
RIGHT = {
    "0.1": "def double(number):\n    return 2 * number",
    "2.2": """
        import math
        def turn(offset, frequency):
            angle = offset * frequency
            return [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]""",
}
FUNCTIONS = {"0.1": "double", "2.2": "turn"}


def scores(answers, limits=LIMITS, essay="Words."):
    """Judged answers by exercise, the essay with them; None is not answered."""
    tasks = [Task(number, "exercise", "chapter", FUNCTIONS[number], 2) for number in answers]
    cells = [{"cell_type": "code", "source": textwrap.dedent(answers[task.id] or "..."),
              "metadata": {"nbgrader": {"grade_id": task.answer_cell}}} for task in tasks]
    tasks.append(Task("2.a", "essay", "chapter", None, 3))
    states = {**answers, "2.a": essay}
    handed = {task.answer_cell: Answer(task.answer_cell, "answered" if states[task.id] else "not answered",
                                       states[task.id] or "", "grade id") for task in tasks}
    judged = judge.judge(cells, tasks, handed, limits, True)
    assert [score.task for score in judged.scores] == [*answers, "2.a"]
    assert all(score.state in judge.STATES for score in judged.scores)
    return judged, {score.task: score for score in judged.scores}


def test_right_partly_right_and_not_yet():
    _, right = scores(RIGHT)
    assert [(score.state, score.points) for score in right.values()] == [("right", 2), ("right", 2), ("by hand", 0)]
    # 0.1 is called with small numbers by the check, and with large ones too by the hidden cases.
    _, partly = scores({"0.1": "def double(number):\n    return 2 * number if abs(number) < 1000 else 0",
                        "2.2": "def turn(offset, frequency):\n    return [[1, 0], [0, 1]]"}, essay="")
    assert partly["0.1"].state == "partly right" and partly["0.1"].shown == 1 and 0 < partly["0.1"].hidden < 1
    assert partly["0.1"].hidden_message == "5 of 7 hidden cases are right."
    assert partly["2.2"].state == "not yet" and partly["2.2"].points == 0
    assert partly["2.a"].state == "not answered"


@pytest.mark.parametrize(("source", "state", "words"), [
    ("def double(number):\n    while True:\n        pass", "stopped", "still running"),
    ("def double(number):\n    while True:\n        try:\n            while True:\n                pass\n"
     "        except BaseException:\n            pass", "stopped", "still running"),
    ("while True:\n    pass\ndef double(number):\n    return 2 * number", "stopped", "still running after 3 seconds"),
    ("import os\ndef double(number):\n    os._exit(3)", "stopped", "exit status 3"),
    ("double = 5", "failed", "A function was expected, got 5"),
    ("def twice(number):\n    return 2 * number", "failed", "defines no double"),
    ("def double(number:\n    return 2 * number", "failed", "SyntaxError"),
    ("def double(number):\n    return 1 / 0", "not yet", "ZeroDivisionError"),
])
def test_what_goes_wrong_is_told_and_costs_the_others_nothing(source, state, words):
    _, found = scores({"0.1": source, "2.2": RIGHT["2.2"]})
    assert found["0.1"].state == state and words in found["0.1"].message and found["0.1"].points == 0
    assert (found["0.1"].hidden_message == "") is (state in ("stopped", "failed"))
    assert bool(found["0.1"].reason) is (state == "stopped")
    assert found["2.2"].state == "right" and found["2.2"].points == 2


def test_a_process_that_ends_in_a_hidden_case_costs_that_part_only():
    source = "import os\ndef double(number):\n    return 2 * number if abs(number) < 1000 else os._exit(0)"
    _, found = scores({"0.1": source, "2.2": RIGHT["2.2"]})
    assert (found["0.1"].state, found["0.1"].shown, found["0.1"].hidden) == ("partly right", 1, 0)
    assert found["0.1"].hidden_message == "On a hidden case its process was stopped."    # how could tell of the case
    assert found["0.1"].reason.startswith("ended by itself")
    assert found["2.2"].state == "right"


def test_a_hidden_case_without_end_is_stopped():
    source = "def double(number):\n    while abs(number) > 1000:\n        pass\n    return 2 * number"
    _, found = scores({"0.1": source})
    assert (found["0.1"].shown, found["0.1"].hidden) == (1, 0)
    assert found["0.1"].hidden_message == "It was still running after 1.5 s on a hidden case."


def test_no_message_tells_what_a_hidden_case_was_called_with():
    """Numbers kept from one exercise's hidden cases would be told by another one's error."""
    judged, found = scores({
        "0.1": "import builtins\nbuiltins.kept = []\ndef double(number):\n    builtins.kept.append(number)\n"
               "    print(number)\n    return 2 * number",
        "2.2": "def turn(offset, frequency):\n    raise ValueError(str(kept))"})
    assert found["0.1"].state == "right" and "ValueError: [" in found["2.2"].message
    told = judged.printed + str(dataclasses.astuple(found["0.1"])) + str(dataclasses.astuple(found["2.2"]))
    assert "1000000" not in told and "1234.5" not in told


def test_what_cells_print_and_raise_is_kept(monkeypatch):
    judged, _ = scores({"0.1": f"print('printed once')\n{RIGHT['0.1']}", "2.2": "1 / 0"})
    assert judged.printed.count("printed once") == 1
    assert list(judged.errors) == [1] and "ZeroDivisionError" in judged.errors[1]


def test_without_an_answer_no_process_is_started(monkeypatch):
    monkeypatch.setattr(judge, "Session", None)
    _, found = scores({"0.1": None, "2.2": None})
    assert [score.state for score in found.values()] == ["not answered", "not answered", "by hand"]


def test_cells_that_end_the_process_cost_no_other_exercise_whatever_their_number(monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "2.1", "entry")
    ending = "import os\nos._exit(3)\ndef {}(*_):\n    return 0"
    _, found = scores({"0.1": RIGHT["0.1"], "2.1": ending.format("entry"), "2.2": ending.format("turn")})
    assert [found[name].state for name in ("0.1", "2.1", "2.2")] == ["right", "stopped", "stopped"]


def test_time_that_others_have_used_up_is_given_once_more():
    slow = "import time\ntime.sleep(2.5)\ndef turn(offset, frequency):\n    return 0"
    late = "import time\ntime.sleep(2.5)\n" + RIGHT["0.1"]
    _, found = scores({"2.2": slow, "0.1": late}, dataclasses.replace(LIMITS, seconds=6.5))
    assert found["0.1"].state == "right", found["0.1"]


def test_without_a_signal_a_check_has_no_more_time_than_with_one():
    """On a cluster a check runs in a thread, where no signal ends it."""
    slow = textwrap.dedent(RIGHT["2.2"]).replace("    angle", "    import time; time.sleep(1)\n    angle")
    found = []
    thread = threading.Thread(target=lambda: found.append(scores({"2.2": slow})[1]["2.2"]))
    thread.start()
    thread.join()
    here = scores({"2.2": slow})[1]["2.2"]
    assert (found[0].state, found[0].points) == (here.state, here.points) == ("stopped", 0)


def test_values_taken_from_the_books_own_checks_are_told_as_that():
    above = "from posenc_lib.exercises.chapter_02 import block as turn"
    inside = "def double(number):\n    import posenc_lib.exercises\n    return 2 * number"
    _, found = scores({"2.2": above, "0.1": inside})
    for score in (found["2.2"], found["0.1"]):
        assert (score.state, score.points, score.message) == ("failed", 0, judge.FROM_THE_CHECKS), score


def test_a_parameter_that_is_no_name_ends_nothing_but_its_own():
    odd = ("def double(number):\n    return 2 * number\nimport inspect\ndouble.__signature__ = inspect.Signature("
           "[type('P', (inspect.Parameter,), {'name': 'def'})('x', inspect.Parameter.POSITIONAL_ONLY)])")
    _, found = scores({"0.1": odd, "2.2": RIGHT["2.2"]})
    assert found["2.2"].state == "right"
