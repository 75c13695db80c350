"""The hidden cases: new ones, right for every right answer, and no wrong answer gets through all of them."""
import ast
import dataclasses
import hashlib
import itertools
import math
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from builder.chapter import exercises
from classroom.hidden import HIDDEN, share_right
from classroom.remote import SessionEnded
from posenc_lib import attention, check, checking
from posenc_lib.checking import EXERCISES, Failed, TooLong, Wrong, compare
from tests.mutants import KNOWN, OUTSIDE, RIGHT, unit

ROOT = pathlib.Path(__file__).parents[2]
every_exercise = pytest.mark.parametrize("name", list(EXERCISES))


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 60.0)      # a busy machine is no wrong answer


def function_of(source):
    """The function that an exercise's cell hands to its last line, `check(...)`."""
    *cell, last = ast.parse(source).body
    names = {"check": check, "math": math, "torch": torch, "attention": attention}
    exec(compile(ast.Module(cell, []), "<cell>", "exec"), names)
    return names[last.value.args[1].id]


IN_THE_BOOK = {each.id: each for chapter in sorted((ROOT / "chapters").glob("*.md")) for each in exercises(chapter)}
SOLUTIONS = {name: function_of(each.solved) for name, each in IN_THE_BOOK.items()}
STUBS = {name: function_of(each.stub) for name, each in IN_THE_BOOK.items()}


def content(arguments):
    """What can be compared. A `rotate` is known by what it does; other functions come with an `x` that tells them."""
    plain = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            value = (str(value.dtype), *value.shape, value.numpy().tobytes())
        elif callable(value):
            value = value(unit(arguments[1]), 1).numpy().tobytes() if value.__name__ == "rotate" else value.__name__
        plain.append(value)
    return tuple(plain)


def recorded(answer, calls):
    """The answer, which writes down what it is asked and what it gives."""
    def recording(*arguments):
        asked = content(arguments)
        calls.append((asked, answer(*arguments)))
        return calls[-1][1]
    return recording


def of_the_self_check(name):
    calls = []
    assert check(name, recorded(SOLUTIONS[name], calls)).passed is True
    return calls


def of_the_hidden_cases(name):
    calls = []
    assert share_right(name, recorded(SOLUTIONS[name], calls)) == (len(HIDDEN[name]), len(HIDDEN[name]))
    return calls


def digest():
    """Of what every right answer is asked, in order, and what it gives."""
    torch.set_num_threads(1)                            # with more, sums are added up in another order
    shown = hashlib.sha256()
    for name in HIDDEN:
        for asked, given in of_the_hidden_cases(name):
            shown.update(repr((name, asked, given if isinstance(given, str) else np.asarray(given).tobytes())).encode())
    return shown.hexdigest()


def test_every_exercise_has_four_to_eight_hidden_cases():
    assert set(HIDDEN) == set(EXERCISES) == set(SOLUTIONS)
    assert all(4 <= len(HIDDEN[name]) <= 8 for name in HIDDEN)


@every_exercise
def test_they_are_none_of_what_the_self_check_asks_and_none_comes_twice(name):
    known = {asked for asked, _ in of_the_self_check(name)}
    new = [asked for asked, _ in of_the_hidden_cases(name)]
    assert known.isdisjoint(new)
    each = 2 if name == "7.1" else 1                # of a layout's case both layouts are asked for
    assert len(set(new)) == len(new) == each * len(HIDDEN[name])


@every_exercise
def test_the_books_solution_and_all_right_answers_get_all(name):
    for answer in (SOLUTIONS[name], *RIGHT[name]):
        assert share_right(name, answer) == (len(HIDDEN[name]), len(HIDDEN[name]))


@every_exercise
def test_every_wrong_answer_loses_a_case(name):
    catalogue = [(mistake.answer, mistake.hint) for mistake in EXERCISES[name].mistakes]
    for answer, message in catalogue + KNOWN[name] + OUTSIDE[name]:
        right, of = share_right(name, answer)
        assert right < of, message


@every_exercise
def test_every_known_mistake_loses_a_case_by_its_numbers(name):
    """Not because the lines that stand for it here would raise, where a student's of the same kind might not."""
    for answer, message in KNOWN[name]:
        refused = []
        for case in HIDDEN[name]:
            try:
                compare(answer, EXERCISES[name], case)
            except Wrong as wrong:
                refused.append(wrong)
        assert share_right(name, answer) == (len(HIDDEN[name]) - len(refused), len(HIDDEN[name]))
        assert any(not isinstance(wrong, Failed) for wrong in refused), message


@every_exercise
def test_what_the_self_check_shows_is_worth_nothing_here(name):
    calls = of_the_self_check(name)
    table = dict(calls)
    assert check(name, lambda *arguments: table[content(arguments)]).passed is True
    assert share_right(name, lambda *arguments: table.get(content(arguments)))[0] == 0
    assert share_right(name, lambda *arguments: table[content(arguments)])[0] == 0
    for _, result in calls:                             # one of its results for all
        right, of = share_right(name, lambda *_, result=result: result)
        assert right <= of / 2


@every_exercise
def test_a_stub_and_whatever_gives_nothing_lose_all(name):
    def leaves(*_):
        raise SystemExit

    class Odd:
        @property
        def dtype(self):
            raise RecursionError

    deep = []
    deep.append(deep)
    nothing = [STUBS[name], leaves, lambda: 0.0, lambda *_: None, lambda *_: ..., lambda *_: math.nan,
               lambda *_: torch.tensor(math.inf), lambda *_: [], lambda *_: "a word", lambda *_: Odd(), lambda *_: deep,
               lambda *_: torch.zeros(3, 1, 4, 1, 5), lambda *_: 1 / 0, 7, None]
    for answer in nothing:
        assert share_right(name, answer) == (0, len(HIDDEN[name]))


@every_exercise
def test_one_bad_case_costs_that_case_only(name):
    for number in range(len(HIDDEN[name])):
        bad = [lambda: 1 / 0, lambda: sys.exit(), lambda: None, lambda: [math.nan]][number % 4]
        count = itertools.count()

        def answer(*arguments, number=number, bad=bad, count=count):
            return bad() if next(count) == number else SOLUTIONS[name](*arguments)

        assert share_right(name, answer) == (len(HIDDEN[name]) - 1, len(HIDDEN[name]))


@every_exercise
def test_a_run_changes_no_case_for_the_next_and_edits_are_wrong(name):
    def before_it_answers(edit):
        def answer(*arguments):
            result = SOLUTIONS[name](*arguments)
            for argument in arguments:
                if isinstance(argument, torch.Tensor):
                    edit(argument)
            return result
        return answer

    first = [asked for asked, _ in of_the_hidden_cases(name)]
    with_tensors = sum(any(map(torch.is_tensor, case)) for case in HIDDEN[name])
    edited = share_right(name, before_it_answers(lambda tensor: tensor.fill_(1) if tensor.any() else tensor.add_(1)))
    resized = share_right(name, before_it_answers(lambda tensor: tensor.resize_(0)))
    assert resized == (len(HIDDEN[name]) - with_tensors, len(HIDDEN[name]))
    unchanged = sum(any(map(torch.is_tensor, case)) and all(bool((each == 1).all()) for each in case
                                                            if torch.is_tensor(each)) for case in HIDDEN[name])
    assert edited == (resized[0] + unchanged, len(HIDDEN[name]))
    assert [asked for asked, _ in of_the_hidden_cases(name)] == first


def test_the_cases_are_the_same_in_every_process():
    torch.manual_seed(7)
    here = digest()
    torch.manual_seed(8)
    assert digest() == here
    elsewhere = subprocess.run(
        [sys.executable, "-c", "import torch; torch.manual_seed(9); "
                               "from tests.classroom.test_hidden import digest; print(digest())"],
        cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "3"}, capture_output=True, text=True, check=True).stdout
    assert elsewhere.split() == [here]


@every_exercise
def test_the_end_of_the_process_and_what_is_no_exception_pass_through(name):
    for end in (SessionEnded("ran for more than 60 s"), TooLong(), KeyboardInterrupt()):
        for number in range(len(HIDDEN[name])):
            count = itertools.count()

            def answer(*arguments, number=number, end=end, count=count):
                if next(count) == number:
                    raise end
                return SOLUTIONS[name](*arguments)

            with pytest.raises(type(end)) as raised:
                share_right(name, answer)
            assert raised.value is end and next(count) == number + 1
            assert raised.value.__cause__ is None and raised.value.__context__ is None      # it carries no case along


def test_an_exception_that_is_only_called_so_is_the_answers():
    def answer(*_):
        raise type("SessionEnded", (Exception,), {})("nothing has ended")
    assert share_right("2.1", answer) == (0, len(HIDDEN["2.1"]))


@every_exercise
def test_nothing_is_shown_but_two_numbers(name, capsys):
    for answer in (SOLUTIONS[name], STUBS[name], OUTSIDE[name][0][0]):
        told = share_right(name, answer)
        assert type(told) is tuple and [type(each) for each in told] == [int, int]
    assert capsys.readouterr() == ("", "")


def test_the_words_of_a_layout_are_judged_as_in_the_self_check():
    right = SOLUTIONS["7.1"]
    assert share_right("7.1", lambda rotate, d: f" {right(rotate, d).upper()}\n") == (4, 4)
    assert share_right("7.1", lambda rotate, d: "half") == share_right("7.1", lambda rotate, d: "interleaved") == (0, 4)
    assert share_right("7.1", lambda rotate, d: right(rotate, d) + "-split")[0] == 0
    assert share_right("7.1", lambda rotate, d: (right(rotate, d),))[0] == 0


def test_a_wavelength_is_far_enough_from_a_length_for_any_arithmetic():
    for length, d in HIDDEN["6.4"]:
        assert min(abs(2 * math.pi * 10_000 ** (2 * i / d) / length - 1) for i in range(d // 2)) > 1e-4


def test_an_exercise_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"no hidden cases of exercise '9\.1'; there are of 0\.1, 1\.1,"):
        share_right("9.1", lambda: None)


@every_exercise
def test_it_takes_less_than_half_a_second(name):
    begin = time.process_time()
    share_right(name, SOLUTIONS[name])
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize("name", [name for name in EXERCISES if EXERCISES[name].truth])
def test_truth_and_tolerance_are_the_exercises_own(name, monkeypatch):
    def other_truth(*case):
        true = np.asarray(exercise.truth(*case), float)
        return true + np.abs(true) + 0.5

    exercise = EXERCISES[name]
    monkeypatch.setitem(EXERCISES, name, dataclasses.replace(exercise, truth=other_truth))
    assert share_right(name, SOLUTIONS[name])[0] == 0
    monkeypatch.setitem(EXERCISES, name, dataclasses.replace(exercise, truth=other_truth, within=1e9))
    assert share_right(name, SOLUTIONS[name]) == (len(HIDDEN[name]), len(HIDDEN[name]))
