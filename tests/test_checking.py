"""The checks of the exercises: right answers written differently pass, wrong ones are told what was seen."""
import math
import re

import numpy as np
import pytest
import torch

from posenc_lib import attention, check, sinusoidal_table
from posenc_lib.checking import CHECKS, Verdict


def true_entry(p, j, d):
    return (math.cos if j % 2 else math.sin)(p * 10_000 ** (-2 * (j // 2) / d))


def turn(k, omega):
    return [[math.cos(k * omega), math.sin(k * omega)], [-math.sin(k * omega), math.cos(k * omega)]]


def turned(before, after):
    pairs = [(before[i] * after[i] + before[i + 1] * after[i + 1], before[i + 1] * after[i] - before[i] * after[i + 1])
             for i in range(0, len(before), 2)]
    return [math.atan2(cross, dot) for dot, cross in pairs]


def complex_turned(before, after):
    a, b = (torch.view_as_complex(v.view(-1, 2).flip(-1).contiguous()) for v in (before, after))
    return (b / a).angle()


def difference_of_angles(before, after):
    angle = torch.atan2(after[0::2], after[1::2]) - torch.atan2(before[0::2], before[1::2])
    return (angle + math.pi) % (2 * math.pi) - math.pi


def heads_by_loop(query, key, value, n_heads):
    width, rows = query.shape[1] // n_heads, []
    for q in query:
        row = []
        for head in range(n_heads):
            part = slice(head * width, (head + 1) * width)
            powers = [math.exp(float(q[part] @ k[part]) / math.sqrt(width)) for k in key]
            row += sum(power * v[part] for power, v in zip(powers, value, strict=True)).div(sum(powers)).tolist()
        rows.append(row)
    return rows


def heads_at_once(query, key, value, n_heads):
    q, k, v = (rows.unflatten(1, (n_heads, -1)).transpose(0, 1) for rows in (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)


def heads(query, key, value, n_heads):
    """As in the chapter."""
    parts = zip(*(rows.chunk(n_heads, dim=1) for rows in (query, key, value)), strict=True)
    return torch.cat([attention(*part)[0] for part in parts], dim=1)


def heads_divided_by(divisor):
    def wrong(query, key, value, n_heads):
        parts = zip(*(rows.chunk(n_heads, dim=1) for rows in (query, key, value)), strict=True)
        return torch.cat([torch.softmax(q @ k.T / divisor(q, n_heads), 1) @ v for q, k, v in parts], dim=1)
    return wrong


def by_matrix(weights, order):
    P = torch.eye(len(order), dtype=weights.dtype)[order]
    return P @ weights @ P.T


RIGHT = {
    "1.1": [heads_by_loop, heads_at_once, heads,
            lambda q, k, v, n: heads(q.double(), k.double(), v.double(), n).numpy()],
    "1.2": [lambda w, order: w[order][:, order], by_matrix, lambda w, order: w.numpy()[np.ix_(order, order)],
            lambda w, order: [[w[i, j] for j in order] for i in order]],
    "0.1": [lambda number: 2 * number, lambda number: number + number, lambda number: torch.tensor(number * 2.0)],
    "2.1": [true_entry, lambda p, j, d: sinusoidal_table(p + 1, d)[p, j],
            lambda p, j, d: np.sin(p / 10_000 ** (2 * (j // 2) / d) + (j % 2) * np.pi / 2),
            lambda p, j, d: np.float32(true_entry(p, j, d))],
    "2.2": [turn, lambda k, omega: torch.tensor(turn(k, omega)), lambda k, omega: np.array(turn(k, omega))],
    "2.3": [turned, complex_turned, difference_of_angles, lambda a, b: np.array(turned(a.tolist(), b.tolist()))],
}

SIN_COS = (math.sin, math.cos)
WRONG = {
    "1.1": [
        (lambda q, k, v, n: attention(q, k, v)[0], r"two heads are not apart"),
        (lambda q, k, v, n: heads(q, k, v, n)[:, :6], r"shape \[3, 12\], got shape \[3, 6\]"),
        (lambda q, k, v, n: heads(q, k, v, n).T, r"looks transposed"),
        (lambda q, k, v, n: heads(q, k, v, n).flip(1), r"With one head nothing is cut"),
        (heads_divided_by(lambda q, n: 1), r"With one head nothing is cut"),
        (heads_divided_by(lambda q, n: math.sqrt(12)), r"divided by √12, the root of the whole width"),
        (heads_divided_by(lambda q, n: q.shape[1] if n > 1 else math.sqrt(12)), r"divided by 6, not by its root"),
        (heads_divided_by(lambda q, n: 1 if n > 1 else math.sqrt(12)), r"divided by nothing"),
        (lambda q, k, v, n: heads(q, k, v.roll(12 // n if n > 1 else 0, 1), n), r"belongs to head 0, which owns"),
        (lambda q, k, v, n: heads(q, k, v, min(n, 2)), r"heads\(query, key, value, 3\).*belongs to head 0"),
        (lambda q, k, v, n: attention(q, k, v), r"should be numbers of shape \[3, 12\]"),
        (lambda q, k, v: attention(q, k, v)[0], r"TypeError"),
    ],
    "1.2": [
        (lambda w, order: w, r"nothing has moved"),
        (lambda w, order: w[order], r"only the rows have moved"),
        (lambda w, order: w[:, order], r"only the columns have moved"),
        (lambda w, order: w[order.argsort()][:, order.argsort()], r"back instead of forward"),
        (lambda w, order: w[order, order], r"pairs the two lists and takes single entries"),
        (lambda w, order: w.T[order][:, order], r"how much word 2 attends to word"),
        (lambda w, order: w.flip(0, 1), r"how much word 2 attends to word 2"),
    ],
    "0.1": [(lambda number: number, r"is 3, expected 6"), (lambda number: number**2, r"is 9, expected 6"),
            (lambda number: print(end=""), r"returned None. Is a return missing\?")],
    "2.1": [
        (lambda p, j, d: math.sin(p * 10_000 ** (-2 * (j // 2) / d)), r"odd ones"),                     # sine only
        (lambda p, j, d: SIN_COS[1 - j % 2](p * 10_000 ** (-2 * (j // 2) / d)), r"sin 0 = 0"),
        (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-2 * j / d)), r"share one angle"),
        (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-j / d)), r"share one angle"),
        (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (2 * (j // 2) / d)), r"turns by 10000\^\(-2·1/4\)"),
        (lambda p, j, d: SIN_COS[j % 2](p * 1_000 ** (-2 * (j // 2) / d)), r"expected 0\.01000"),
        (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-(j // 2) / d)), r"expected 0\.01000"),
        (lambda p, j, d: math.nan, r"entry\(0, 2, 6\) is nan|<lambda>\(0, 2, 6\) is nan"),
        (lambda p, j, d: [1.0, 2.0], r"one number, got shape \[2\]"),
        (lambda p, j, d: str(true_entry(p, j, d)), r"one number, got '0.0' \(str\)"),
        (lambda p, j, d: torch.tensor(true_entry(p, j, d) + 3j), r"one number, got tensor"),
        (lambda p, j, d: 10**400, r"one number, got 1000"),
        (lambda p, j, d: "0.5 radians", r"one number, got '0.5 radians' \(str\)"),
        (lambda p, j: 0.0, r"TypeError: .*\nwhen called as <lambda>\(0, 2, 6\)"),
    ],
    "2.2": [
        (lambda k, omega: np.array(turn(k, omega)).T, r"turns the wrong way"),
        (lambda k, omega: turn(1, omega), r"Offset 0 must change nothing"),
        (lambda k, omega: turn(k, 1.0), r"at position 3 it is"),
        (lambda k, omega: turn(abs(k), omega), r"\(-2, 0.3\).*at position -2 it is"),
        (lambda k, omega: [math.cos(k * omega), math.sin(k * omega)], r"shape \[2, 2\], got shape \[2\]"),
        (lambda k, omega: [[math.sin(k * omega), math.cos(k * omega)]] * 2, r"Offset 0"),
    ],
    "2.3": [
        (lambda a, b: (b - a)[0::2], r"must not depend on p"),
        (lambda a, b: (b - a).view(-1, 2).norm(dim=1), r"has turned by kω = 2"),
        (lambda a, b: torch.acos((a * b).view(-1, 2).sum(1).clamp(-1, 1)), r"kω = -3.*the sign tells which way"),
        (lambda a, b: [-angle for angle in turned(a, b)], r"the sign tells which way"),
        (lambda a, b: (a * b).view(-1, 2).sum(1), r"is 1.00000, expected 0.00000. The two are the same encoding"),
        (lambda a, b: turned(a, b) * 2, r"shape \[3\], got shape \[6\]"),
        (lambda a, b: torch.atan2(*(b - a).view(-1, 2).T), r"must not depend on p"),
        (lambda a, b: a + "b", r"when called as <lambda>\(tensor \[6\], tensor \[6\]\)"),
    ],
}


def test_every_exercise_is_tried():
    check("0.1", lambda number: number)
    assert set(CHECKS) == set(RIGHT) == set(WRONG)


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers_pass(name, answer):
    verdict = check(name, answer)
    assert verdict.passed is True, verdict


@pytest.mark.parametrize(("name", "answer", "message"),
                         [(name, *wrong) for name, answers in WRONG.items() for wrong in answers])
def test_wrong_answers_are_told_what_was_seen(name, answer, message):
    verdict = check(name, answer)
    assert verdict.passed is False
    assert re.search(message, verdict.message), verdict.message


@pytest.mark.parametrize("name", list(RIGHT))
def test_stubs_are_open_and_empty_answers_are_told_what_is_missing(name):
    def stub(*_):
        ...  # your code here

    def nothing(*_):
        pass

    assert check(name, stub).passed is None
    assert "Put your code in place of the ..." in check(name, stub).message
    assert check(name, nothing).passed is False
    assert "returned None. Is a return missing?" in check(name, nothing).message


def test_an_exception_is_shown_with_the_readers_own_line():
    def entry(position, dimension, d_model):
        return math.sin(position * frequency)        # noqa: F821

    verdict = check("2.1", entry)
    assert "NameError: name 'frequency' is not defined" in verdict.message
    assert "when called as entry(0, 2, 6)" in verdict.message
    assert "return math.sin(position * frequency)" in verdict.message


def test_what_is_no_function_and_unknown_exercises_are_named():
    assert "A function was expected, got 0.5 (float)" in check("2.1", 0.5).message
    with pytest.raises(ValueError, match=r"there is no exercise '9.9'; there are 0.1, 1.1, 1.2, 2.1"):
        check("9.9", true_entry)


def test_verdicts_speak_as_text_and_as_html():
    right, wrong, still_open = check("2.1", true_entry), check("2.1", lambda *_: 0.25), Verdict("2.1", None, "")
    assert [repr(v).split(":")[0] for v in (right, wrong, still_open)] == [
        "Exercise 2.1, right", "Exercise 2.1, not yet", "Exercise 2.1, open"]
    assert "✗ not yet" in wrong._repr_html_() and 'role="status"' in wrong._repr_html_()
    assert "&lt;b&gt;" in check("2.1", lambda *_: "<b>")._repr_html_()
