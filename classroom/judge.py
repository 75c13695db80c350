"""What the answers of one notebook are worth: each exercise's own check, then cases that students do not see.

Both run here, in the trusted process. The student's process only computes: it never learns what was expected, and
nothing that it prints, raises or patches reaches a score. All checks run before the first hidden case, so that no
message can tell of one.
"""
from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from classroom.course import Task
from classroom.hidden import share_right
from classroom.isolation import Limits
from classroom.remote import NoAnswer, Session, SessionEnded
from classroom.salvage import Answer
from posenc_lib.checking import SECONDS, TooLong, check

STATES = ("right", "partly right", "not yet", "failed", "stopped", "not answered", "not handed in", "by hand")
JUDGED_FURTHER = ("right", "not yet")           # states after the check with which hidden cases are tried
FROM_THE_CHECKS = ("This takes its values from the book's own checks (posenc_lib.exercises), which are not there when "
                   "work is graded: write the answer itself.")
SHARED = ("ran for more than", "used more than")        # limits of a session: another exercise may have used them up
TIME_IS_UP = f"It was still running after {SECONDS:g} seconds"      # as `check` says it


@dataclass(frozen=True)
class Score:
    """Of one task. `message` is for the student: of the hidden cases it has how many are right, and no more."""

    task: str
    state: str                      # one of STATES; "by hand" waits for an instructor
    shown: float                    # points of the check that the student has
    hidden: float                   # points of the cases that the student does not have
    of: float
    message: str
    hidden_message: str = ""
    reason: str = ""                # why it was stopped

    @property
    def points(self) -> float:
        return self.shown + self.hidden


@dataclass(frozen=True)
class Judged:
    scores: list[Score]
    printed: str                    # by the cells that the answers needed
    errors: dict[int, str]          # by the number of a cell: what it raised


def judge(cells: Sequence[Mapping], tasks: Sequence[Task], answers: Mapping[str, Answer], limits: Limits,
          isolated: bool) -> Judged:
    """The scores of one chapter's tasks, in their order. `cells` are a salvaged notebook's."""
    code = [(number, grade_id_of(cell), cell["source"]) for number, cell in enumerate(cells)
            if cell["cell_type"] == "code"]
    scores = {task.id: by_hand(task, answers[task.answer_cell]) if task.kind == "essay" else unanswered(task)
              for task in tasks}
    exercises = [task for task in tasks
                 if task.kind == "exercise" and answers[task.answer_cell].state == "answered"]
    if not exercises:
        return Judged(list(scores.values()), "", {})
    with Session(code, {task.id: task.function for task in exercises}, limits, isolated) as session:
        printed, errors = session.printed, errors_in(session)
        for part in (checked, with_hidden_cases):
            for task in exercises:
                if session.ended:
                    session.restart()
                    printed, errors = printed or session.printed, errors | errors_in(session)
                scores[task.id] = part(session, task, scores[task.id])
    for task in exercises:
        if len(exercises) > 1 and scores[task.id].reason.startswith(SHARED):
            with Session(code, {task.id: task.function}, limits, isolated) as alone:
                scores[task.id] = with_hidden_cases(alone, task, checked(alone, task, scores[task.id]))
    return Judged(list(scores.values()), printed, errors)


def errors_in(session: Session) -> dict[int, str]:
    return {ran.number: ran.error for rans in session.cells.values() for ran in rans if ran.error}


def checked(session: Session, task: Task, _: Score) -> Score:
    """By the check that the student has, in a session that may end with it."""
    try:
        answer = session.answer(task.id)
    except SessionEnded as ended:
        return stopped(task, str(ended))
    except NoAnswer as none:
        if str(none).startswith("TooLong: "):
            return stopped(task, str(none).partition("\n")[0].removeprefix("TooLong: "))
        if "posenc_lib.exercises" in str(none):
            return from_the_checks(task)
        return failed(task, f"There is no function to call: {none}")
    session.until = time.monotonic() + SECONDS      # where no signal ends the check: on a cluster it runs in a thread
    verdict = check(task.id, answer)
    session.until = None
    if not callable(answer):
        return failed(task, verdict.message)
    if verdict.passed is None:
        return unanswered(task)
    if verdict.message.startswith(TIME_IS_UP):
        score = stopped(task, f"was still running after {SECONDS:g} s")
        return score if session.ended else replace(score, message=verdict.message)
    if session.ended:
        return stopped(task, session.ended)
    if "No module named 'posenc_lib.exercises'" in verdict.message:
        return from_the_checks(task)
    shown = task.points / 2 if verdict.passed else 0.0
    return Score(task.id, "right" if verdict.passed else "not yet", shown, 0, task.points, verdict.message)


def with_hidden_cases(session: Session, task: Task, score: Score) -> Score:
    if score.state not in JUDGED_FURTHER:
        return score
    try:
        right, of = share_right(task.id, session.answer(task.id))
        told = f"{right} of {of} hidden cases are right."
    except TooLong:
        right, of, told = 0, 1, f"It was still running after {session.limits.call_seconds:g} s on a hidden case."
    except NoAnswer:
        right, of, told = 0, 1, "On the hidden cases there was no function to call any more."
    except SessionEnded as ended:
        right, of, told = 0, 1, "On a hidden case its process was stopped."    # how may tell what the case was
        score = replace(score, reason=str(ended))
    hidden = round((task.points - task.points / 2) * right / of, 2)
    if score.state != "right" or right < of:
        score = replace(score, state="partly right" if score.shown + hidden > 0 else "not yet")
    return replace(score, hidden=hidden, hidden_message=told)


def failed(task: Task, message: str) -> Score:
    return Score(task.id, "failed", 0, 0, task.points, message)


def from_the_checks(task: Task) -> Score:
    return replace(failed(task, FROM_THE_CHECKS), reason="takes from the book's checks")


def unanswered(task: Task) -> Score:
    return Score(task.id, "not answered", 0, 0, task.points, "There is no answer: the cell is as it was handed out.")


def by_hand(task: Task, answer: Answer) -> Score:
    if answer.state != "answered":
        return Score(task.id, "not answered", 0, 0, task.points, "There is no answer.")
    return Score(task.id, "by hand", 0, 0, task.points, "This is read by a person.")


def missing(task: Task) -> Score:
    return Score(task.id, "not handed in", 0, 0, task.points, "The notebook of this chapter was not handed in.")


def stopped(task: Task, reason: str) -> Score:
    return Score(task.id, "stopped", 0, 0, task.points, f"Its process was stopped: it {reason}.", reason=reason)


def grade_id_of(cell: Mapping) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")
