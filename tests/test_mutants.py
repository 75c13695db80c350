"""The exercises tried on right and wrong answers, and their catalogues of mistakes on themselves."""
import ast
import itertools
import linecache
import math
import pathlib

import numpy as np
import pytest
import torch

import posenc_lib
from builder.chapter import exercises
from posenc_lib import attention, check, checking
from posenc_lib.checking import EXERCISES, NAMING, _array, _close
from tests import mutants
from tests.mutants import KNOWN, OUTSIDE, RIGHT, faults, hints_in, is_named, texts

ROOT = pathlib.Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))
check("0.1", lambda number: number)                     # fills EXERCISES
ENTRIES = [(name, number) for name in EXERCISES for number in range(len(EXERCISES[name].mistakes))]
every_exercise = pytest.mark.parametrize("name", list(EXERCISES))
every_entry = pytest.mark.parametrize(("name", "number"), ENTRIES)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 60.0)      # a busy machine is no wrong answer


def test_every_exercise_of_the_book_has_a_check_and_mutants():
    in_the_book = {exercise.id for chapter in CHAPTERS for exercise in exercises(chapter)}
    assert in_the_book == set(EXERCISES) == set(RIGHT) == set(KNOWN) == set(OUTSIDE)
    for name in EXERCISES:
        assert len(RIGHT[name]) >= 3 and len(KNOWN[name]) + len(OUTSIDE[name]) >= 6 and len(OUTSIDE[name]) >= 3, name


@every_exercise
def test_right_answers_pass_and_wrong_ones_are_told_what_they_should_be(name):
    assert faults(name) == []


@every_entry
def test_a_mistake_is_told_its_own_hint_and_no_other(name, number):
    exercise = EXERCISES[name]
    mistake = exercise.mistakes[number]
    verdict = check(name, mistake.answer)
    assert verdict.passed is False
    assert {frozenset(texts(exercise.mistakes[found], exercise)) for found in hints_in(name, verdict.message)} == {
        frozenset(texts(mistake, exercise))}, verdict.message


def same_everywhere(exercise, one, other, within):
    return all(_close(_array(one(*case)), _array(other(*case)), within) for case in exercise.cases)


@every_exercise
def test_mistakes_are_far_from_the_truth_and_from_each_other(name):
    """Twice as far as a mistake is recognised: then no answer is near two of them."""
    exercise, within = EXERCISES[name], 2 * NAMING * EXERCISES[name].within
    known = [(mistake.hint, mistake.answer) for mistake in exercise.mistakes] + [("the truth", exercise.truth)]
    for (hint, one), (other_hint, other) in itertools.combinations(known, 2):
        assert not same_everywhere(exercise, one, other, within), (hint, other_hint)


@every_exercise
def test_cases_have_sizes_of_their_own_and_no_zeros(name):
    for case in EXERCISES[name].cases:
        for tensor in filter(torch.is_tensor, case):
            if tensor.is_floating_point():
                assert not (tensor == 0).any() and len(tensor.unique()) == tensor.numel()
                assert len(set(tensor.shape)) == tensor.dim() or name == "1.2"             # weights are square there


def test_the_exercises_are_independent_of_the_library():
    for file in pathlib.Path(posenc_lib.__file__).parent.glob("exercises/chapter_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            imported = ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                        [node.module] if isinstance(node, ast.ImportFrom) else [])
            assert all(module == "posenc_lib.checking" or module.startswith("posenc_lib.exercises")
                       for module in imported if module.startswith("posenc_lib")), (file.name, imported)


def test_moved_weights_are_those_of_the_moved_words():
    query, key, order = torch.randn(4, 6), torch.randn(4, 6), torch.tensor([2, 0, 3, 1])
    before, after = attention(query, key, key)[1], attention(query[order], key[order], key[order])[1]
    assert np.allclose(EXERCISES["1.2"].truth(before, order), after, atol=1e-6)


def run(source, name):
    """Runs an exercise's cell as a notebook does, and returns its verdict."""
    *cell, last = ast.parse(source).body
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = {"check": check, "math": math, "torch": torch, "attention": attention}
    exec(compile(ast.Module(cell, []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


@pytest.mark.parametrize("exercise", [each for chapter in CHAPTERS for each in exercises(chapter)],
                         ids=lambda exercise: exercise.id)
def test_the_books_solutions_pass_and_its_stubs_are_open(exercise):
    assert run(exercise.solved, f"<solution of {exercise.id}>").passed is True
    stub = run(exercise.stub, f"<stub of {exercise.id}>")
    assert stub.passed is None and "Put your code in place of the ..." in stub.message


def test_the_table_has_a_line_for_each_exercise(capsys):
    assert mutants.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(EXERCISES)
    assert all(line.endswith("–") for line in lines[1:])


def test_the_table_tells_faults_of_every_kind(capsys, monkeypatch):
    known = (lambda number: number, r"It comes back as it was")
    monkeypatch.setattr(mutants, "EXERCISES", {"0.1": EXERCISES["0.1"]})
    monkeypatch.setitem(RIGHT, "0.1", [lambda number: 2 * number, lambda number: 3 * number])
    monkeypatch.setitem(KNOWN, "0.1", [known, (lambda number: -number, r"is -3, expected 6")])
    monkeypatch.setitem(OUTSIDE, "0.1", [(known[0], "as it was"), (lambda number: 2 * number, r"expected"),
                                         (lambda number: 5 * number, r"some other text")])
    assert mutants.main() == 1
    told = capsys.readouterr().out
    for fault in ("a right answer was refused: <lambda>(3) is 9, expected 6", "no name: <lambda>(3) is -3, expected 6",
                  "a wrong name: <lambda>(3) is 3, expected 6", "expected 'expected', told: this is how an exercise",
                  "expected 'some other text', told: <lambda>(3) is 15", "no wrong answer reaches {'This is its squ"):
        assert fault in told, told


def test_no_name_is_given_to_many_outsiders():
    outside = [(name, answer) for name in OUTSIDE for answer, _ in OUTSIDE[name]]
    assert len(outside) >= 100
    assert not [name for name, answer in outside if is_named(name, check(name, answer).message)]
