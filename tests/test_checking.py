"""How an answer is judged, whatever the exercise: on a small one made for it. The book's own are in test_mutants.py."""
import contextlib
import math
import random
import signal
import sys
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from posenc_lib import check, checking, solved
from posenc_lib.checking import EXERCISES, Exercise, Mistake, Verdict, Wrong, ask

A, B = torch.tensor([[1.5, -2.25, 0.3], [0.7, 4.1, -3.2]]), torch.tensor([[0.4, 1.3, -1.9, 2.6]])
SPREAD = Exercise(
    shows="all of it.",
    cases=[(A, 2), (B, -3)],
    truth=lambda x, factor: x.numpy() * factor + 1,
    explain=lambda index, x, factor: f"It is {factor} times x{list(index)}, and 1.",
    mistakes=[Mistake("The 1 is missing.", lambda x, factor: x * factor),
              Mistake(lambda x, factor: f"The 1 is multiplied by {factor} too.", lambda x, factor: (x + 1) * factor),
              Mistake("Only the first row is there.", lambda x, factor: x[0] * factor + 1),
              Mistake("The 1 is rather small.", lambda x, factor: x * factor + 0.2)],
)


def right(x, factor):
    return x * factor + 1


@pytest.fixture(autouse=True)
def exercise(monkeypatch):
    """Exercise 9.1, for one test, and a memory of verdicts that is empty."""
    check("0.1", right)                                         # fills EXERCISES
    monkeypatch.setitem(EXERCISES, "9.1", SPREAD)
    monkeypatch.setattr(checking, "LAST", {})


def told(answer):
    verdict = check("9.1", answer)
    assert verdict.passed is False, verdict
    return verdict.message


def with_stages(monkeypatch, *stages):
    monkeypatch.setitem(EXERCISES, "9.1", replace(SPREAD, stages=stages))


# What is right

@pytest.mark.parametrize("answer", [
    right, lambda x, factor: right(x.double(), factor), lambda x, factor: right(x, factor).requires_grad_(),
    lambda x, factor: right(x, factor).half(), lambda x, factor: right(x, factor).bfloat16()])
def test_tensors_of_any_precision_pass(answer):
    assert check("9.1", answer) == Verdict("Exercise 9.1", True, "all of it.")


@pytest.mark.parametrize(("convert", "kind"), [
    (torch.Tensor.tolist, "list"), (torch.Tensor.numpy, "ndarray"), (list, "list"), (tuple, "tuple"),
    (lambda x: x.numpy().astype(np.float16), "ndarray"), (lambda x: [row.half() for row in x], "list"),
    (lambda x: list(x.requires_grad_()), "list")])
def test_the_numbers_decide_and_other_types_get_a_remark(convert, kind):
    verdict = check("9.1", lambda x, factor: convert(right(x, factor)))
    assert verdict.passed
    assert verdict.message == (f"all of it. (A tensor was asked for, and this is of type {kind}; the numbers decide.)")


def test_where_no_tensor_goes_in_none_is_asked_for():
    assert check("2.2", lambda k, omega: [[math.cos(k * omega), math.sin(k * omega)],
                                          [-math.sin(k * omega), math.cos(k * omega)]]).message.endswith("what p is.")
    assert check("4.3", lambda q, key, offset: EXERCISES["4.3"].truth(q, key, offset)).message.endswith("nothing else.")


def test_rounding_is_no_mistake_and_a_thousandth_is_one():
    assert check("9.1", lambda x, factor: right(x, factor) + 5e-5).passed
    assert not check("9.1", lambda x, factor: right(x, factor) + 2e-3).passed


# What is wrong

def test_a_mistake_is_named_with_the_entry_that_shows_it():
    assert told(lambda x, factor: x * factor) == (
        "entry [0, 0] of <lambda>(x [2, 3], 2) is 3, expected 4. The 1 is missing.")
    assert told(lambda x, factor: (x + 1) * factor).endswith("expected 4. The 1 is multiplied by 2 too.")
    assert told(lambda x, factor: right(x, factor)[0]) == (
        "<lambda>(x [2, 3], 2) should be numbers of shape [2, 3], got shape [3]. Only the first row is there.")


def test_a_mistake_is_named_only_if_it_is_one_on_every_case():
    only_first = told(lambda x, factor: x * factor if factor == 2 else right(x, factor) + 1)
    assert only_first == ("entry [0, 0] of <lambda>(x [2, 3], 2) is 3, expected 4. It is 2 times x[0, 0], "
                          "and 1.")
    only_second = told(lambda x, factor: x * factor if factor == -3 else right(x, factor))
    assert only_second.endswith("(x [1, 4], -3) is -1.20000, expected -0.20000. It is -3 times x[0, 0], and 1.")


def test_a_case_that_raises_gives_no_name():
    def answer(x, factor):
        return x * factor if factor == 2 else x.missing
    assert told(answer).endswith("It is 2 times x[0, 0], and 1.")


def test_what_is_almost_right_is_not_named():
    assert told(lambda x, factor: right(x, factor) + 0.01).endswith("It is 2 times x[0, 0], and 1.")


def test_a_mistake_in_half_precision_is_named_unless_two_look_alike():
    assert told(lambda x, factor: right(x, factor)[0].bfloat16()).endswith("Only the first row is there.")
    assert told(lambda x, factor: ((x + 1) * factor).half()).endswith("The 1 is multiplied by 2 too.")
    assert told(lambda x, factor: (x * factor).half()).endswith("The 1 is missing.")
    assert told(lambda x, factor: (x * factor).bfloat16()).endswith(
        "and 1. It came as torch.bfloat16 and was judged as coarsely; that is not it.")


def test_one_entry_alone_is_found():
    def answer(x, factor):
        result = right(x, factor)
        result[0, 2] += 0.5 * (factor < 0)
        return result
    assert told(answer) == (
        "entry [0, 2] of answer(x [1, 4], -3) is 7.20000, expected 6.70000. It is -3 times x[0, 2], and 1.")


def test_a_factor_and_other_places_are_seen_without_a_name():
    assert told(lambda x, factor: 3 * right(x, factor)).endswith(" All of it is 3 times what it should be.")
    assert told(lambda x, factor: -right(x, factor)).endswith(" All of it is -1 times what it should be.")
    assert told(lambda x, factor: right(x, factor).flip(1)).endswith(" but they stand in other places.")


def test_whole_numbers_where_fractions_are_due_are_explained():
    for lose in (torch.Tensor.long, torch.floor, torch.round):
        assert told(lambda x, factor, lose=lose: lose(right(x, factor))).endswith(
            "These are whole numbers where fractions are due. Is there a // or an int() too many, or an integer dtype?")
    assert told(lambda x, factor: torch.full(x.shape, 3)).endswith(
        "is 3, expected 4. It is 2 times x[0, 0], and 1. It came as torch.int64, whole numbers, where fractions are "
        "due.")
    assert "whole numbers" not in told(lambda x, factor: torch.zeros(x.shape))
    assert "whole numbers" not in told(lambda x, factor: torch.full(x.shape, 3.0))
    assert "whole numbers" not in check("7.3", lambda mask: mask.long() + 3).message       # where none are due


def test_shapes_are_told_and_transposed_is_told_from_wrong():
    assert told(lambda x, factor: right(x, factor).T) == (
        "<lambda>(x [2, 3], 2) should be numbers of shape [2, 3], got shape [3, 2]. It looks transposed.")
    assert told(lambda x, factor: right(x, factor)[:, :2]).endswith("numbers of shape [2, 3], got shape [2, 2].")
    assert told(lambda x, factor: 0.5).endswith("got shape [].")


@pytest.mark.parametrize(("value", "seen"), [
    (math.nan, "entry [1, 2] of <lambda>(x [2, 3], 2) is nan: every entry should be finite."),
    (-math.inf, "entry [1, 2] of <lambda>(x [2, 3], 2) is -inf: every entry should be finite.")])
def test_entries_that_are_no_finite_numbers_are_found(value, seen):
    assert told(lambda x, factor: right(x, factor).index_put((torch.tensor(1), torch.tensor(-1)), torch.tensor(value))
                if len(x) == 2 else right(x, factor)) == seen


@pytest.mark.parametrize("result", [
    "0.5", {"a": 1}, [[1, 2], [3]], [["a"]], torch.tensor([[3j]]), np.array([[3j]]), 10**400, right, object()])
def test_what_is_no_numbers_is_shown(result):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # as in a notebook: a warning must not be what refuses it
        assert told(lambda x, factor: result).startswith(
            f"<lambda>(x [2, 3], 2) should be numbers of shape [2, 3], got {repr(result)[:50]}")


# Stages

def test_the_first_failing_stage_speaks_and_stops(monkeypatch):
    ran = []

    def stage(number, fails):
        def run(answer):
            ran.append(number)
            ask(answer, A, 2, shape=(2, 3))
            if fails:
                raise Wrong(f"stage {number}")
        return run

    with_stages(monkeypatch, stage(1, False), stage(2, True), stage(3, True))
    assert told(right) == "stage 2" and ran == [1, 2]


def test_a_known_mistake_is_named_whatever_stage_it_failed(monkeypatch):
    def stage(answer):
        if abs(ask(answer, A, 0, shape=(2, 3)) - 1).max() > 1e-4:
            raise Wrong("With factor 0, 1 is left.")

    with_stages(monkeypatch, stage)
    assert told(lambda x, factor: x * factor).endswith("expected 4. The 1 is missing.")
    assert told(lambda x, factor: right(x, factor) + 3) == "With factor 0, 1 is left."


# What raises, returns nothing, does not end

def test_an_exception_is_shown_with_the_readers_own_line():
    def answer(x, factor):
        return x * faktor                       # noqa: F821

    assert told(answer) == (f"NameError: name 'faktor' is not defined\nin line {answer.__code__.co_firstlineno + 1}: "
                            "return x * faktor                       # noqa: F821\nwhen called as answer(x [2, 3], 2)")


def test_an_exception_inside_a_library_is_shown_where_the_reader_called_it():
    def answer(x, factor):
        return torch.cat([x, torch.nn.functional.softmax(x, dim=7)])

    assert "IndexError: Dimension out of range" in told(answer) and "return torch.cat([x, torch.nn" in told(answer)


def test_an_exception_of_a_known_mistake_is_shown_too(monkeypatch):
    def answer(x, factor):
        return x * factor if factor != 0 else 1 / 0

    with_stages(monkeypatch, lambda answer: ask(answer, A, 0, shape=(2, 3)))
    assert told(answer).startswith("ZeroDivisionError")


@pytest.mark.parametrize("leave", [sys.exit, lambda: sys.exit("enough"), exit])
def test_exit_does_not_end_the_kernel(leave):
    assert told(lambda x, factor: leave()).startswith("SystemExit: ")


def test_endless_recursion_is_shown():
    def answer(x, factor):
        return answer(x, factor)
    assert "RecursionError" in told(answer)


def test_missing_and_stub_results():
    def stub(x, factor):
        ...  # your code here

    def nothing(x, factor):
        x * factor + 1

    verdict = check("9.1", stub)
    assert verdict.passed is None and verdict.message == "Put your code in place of the ... and run this cell again."
    assert told(nothing) == "nothing(x [2, 3], 2) returned None. Is a return missing?"
    assert told(lambda x, factor: ...) == "<lambda>(x [2, 3], 2) returned Ellipsis. Is a return missing?"


def test_what_is_no_function_is_named():
    assert told(0.5) == "A function was expected, got 0.5 (float). Pass its name without brackets."
    assert told(right(A, 2)).startswith("A function was expected, got tensor(")
    assert told(None).startswith("A function was expected, got None (NoneType).")


def test_too_many_or_too_few_parameters_are_shown():
    assert "takes 1 positional argument but 2 were given\nwhen called as <lambda>(x [2, 3], 2)" in told(lambda x: x)
    assert "missing 1 required positional argument: 'c'" in told(lambda a, b, c: a)


def test_an_answer_that_does_not_end_is_stopped(monkeypatch):
    def answer(x, factor):
        while True:
            with contextlib.suppress(Exception):                # does not swallow the end
                time.sleep(0.01)

    monkeypatch.setattr(checking, "SECONDS", 0.3)
    before, begin = signal.getsignal(signal.SIGALRM), time.monotonic()
    message = told(answer)
    assert time.monotonic() - begin < 3
    assert message.startswith("It was still running after 0.3 seconds, and was stopped\nin line ")
    assert message.endswith("\nIs there a loop that does not end?")
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_limit_is_gone_after_the_check(monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 0.2)
    assert check("9.1", right).passed
    time.sleep(0.4)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("where", ["another thread", "a system without such signals"])
def test_where_nothing_can_be_stopped_answers_are_still_checked(where, monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 0.05)

    def slow(x, factor):
        time.sleep(0.1)
        return right(x, factor)

    verdicts = []

    def run():
        verdicts.extend(check("9.1", answer) for answer in (slow, lambda x, factor: x * factor))

    if where == "another thread":
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        monkeypatch.delattr(signal, "setitimer")
        run()
    assert [verdict.passed for verdict in verdicts] == [True, False]
    assert verdicts[1].message.endswith("The 1 is missing.")


# What an answer does beside answering

def test_inputs_are_copies_and_who_edits_them_is_told():
    before = [(x.clone(), factor) for x, factor in SPREAD.cases]

    def in_place(table, factor):
        table *= factor
        return table + 1

    assert told(in_place) == ("in_place(table [2, 3], 2) has changed table itself. Leave what is handed in as it is: "
                              "table.clone() is a copy.")
    assert all(torch.equal(x, y) for (x, _), (y, _) in zip(before, SPREAD.cases, strict=True))


@pytest.mark.parametrize("end", [lambda x, factor: right(x, factor), lambda x, factor: 1 / 0, lambda x, factor: x])
def test_random_numbers_go_on_as_if_nothing_had_happened(end):
    def answer(x, factor):
        torch.manual_seed(0), np.random.seed(0), random.seed(0)     # noqa: NPY002
        torch.rand(3), np.random.rand(3), random.random()           # noqa: NPY002
        return end(x, factor)

    def draw():
        return torch.rand(4).tolist(), np.random.rand(4).tolist(), [random.random() for _ in range(4)]  # noqa: NPY002

    torch.manual_seed(5), np.random.seed(5), random.seed(5)         # noqa: NPY002
    expected = draw()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)         # noqa: NPY002
    check("9.1", answer)
    assert draw() == expected


def test_random_numbers_go_on_after_an_answer_that_was_stopped(monkeypatch):
    def answer(x, factor):
        while True:
            torch.rand(3), random.random()

    monkeypatch.setattr(checking, "SECONDS", 0.2)
    torch.manual_seed(6)
    expected = torch.rand(2).tolist()
    torch.manual_seed(6)
    assert "still running" in told(answer)
    assert torch.rand(2).tolist() == expected


def test_of_what_is_printed_the_beginning_is_shown(capsys):
    def answer(x, factor):
        print("line " * 1000)
        return right(x, factor)

    assert check("9.1", answer).passed
    out = capsys.readouterr().out
    assert out.startswith("line line ") and len(out) < checking.PRINTED + 60
    assert out.endswith("more characters, left out\n")


def test_a_little_printing_is_shown_whole_even_if_the_answer_fails(capsys):
    def answer(x, factor):
        print("factor", factor)
        return 1 / 0

    told(answer)
    assert capsys.readouterr().out == "factor 2\n"


# Exercises, verdicts, progress

def test_exercises_that_do_not_exist_are_named():
    with pytest.raises(ValueError, match=r"there is no exercise '9\.9'; there are 0\.1, 1\.1, 1\.2, 2\.1"):
        check("9.9", right)


def test_verdicts_speak_as_text_and_as_html():
    wrong, still_open = check("9.1", lambda x, factor: "<b>"), Verdict("Exercise 9.1", None, "")
    assert [repr(verdict).split(":")[0] for verdict in (check("9.1", right), wrong, still_open)] == [
        "Exercise 9.1, right", "Exercise 9.1, not yet", "Exercise 9.1, open"]
    assert "✗ not yet" in wrong._repr_html_() and 'role="status"' in wrong._repr_html_()
    assert "&lt;b&gt;" in wrong._repr_html_() and "<b>&" not in wrong._repr_html_()


def test_calls_are_shown_as_the_reader_would_write_them():
    def answer(mask, x, order, *rest):
        return 0

    shown = checking.calling(answer, torch.tensor([[True, False]]), A, torch.arange(13), "pre", right, 0.5)
    assert shown == "answer([[1, 0]], x [2, 3], order [13], 'pre', right, 0.5)"
    assert checking.calling(lambda *both: 0, A, B) == "<lambda>(argument 1 [2, 3], argument 2 [1, 4])"
    assert checking.calling(np.add, A, 1) == "add(x1 [2, 3], 1)" and checking.calling(int, 1.5) == "int(1.5)"


def test_solved_tells_which_exercises_of_a_chapter_pass():
    assert solved(9) == Verdict("Exercises of chapter 9", None, "0 of 1: 9.1 ○")
    check("9.1", lambda x, factor: x)
    assert solved(9) == Verdict("Exercises of chapter 9", None, "0 of 1: 9.1 ✗")
    check("9.1", right)
    assert solved(9) == Verdict("Exercises of chapter 9", True, "1 of 1: 9.1 ✓")


def test_solved_counts_in_order_and_is_open_until_all_pass(monkeypatch):
    for name in ("9.10", "9.2"):
        monkeypatch.setitem(EXERCISES, name, SPREAD)
    check("9.10", right), check("9.2", right)
    assert solved(9) == Verdict("Exercises of chapter 9", None, "2 of 3: 9.1 ○, 9.2 ✓, 9.10 ✓")


@pytest.mark.parametrize("chapter", [99, -1, "two", 2.5])
def test_a_chapter_without_exercises_is_named(chapter):
    with pytest.raises(ValueError, match=f"chapter {chapter} has no exercises"):
        solved(chapter)
