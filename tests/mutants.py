"""Right answers and wrong ones, exercise by exercise, to try the checks on: `python -m tests.mutants` prints the table.

RIGHT      answers that must pass, each written differently
KNOWN      wrong answers that must be told a mistake's own hint; together they reach every hint of the catalogue
OUTSIDE    wrong answers that are in no catalogue: they must be rejected, and must not be given a name

They are written as readers write, mostly in float32, and not with the functions of `posenc_lib/exercises/`.
Beside a wrong answer stands a regular expression of what it must be told.
"""
import contextlib
import io
import math
import re
import sys

import numpy as np
import torch
from torch.nn import functional

from posenc_lib import attention, check, checking, convert_projection, sinusoidal_table, stretch
from posenc_lib.checking import EXERCISES

RIGHT, KNOWN, OUTSIDE = {}, {}, {}

FREQUENCIES = {                 # mistakes with the frequency of a pair, for every exercise that has frequencies
    r"The frequencies rise": lambda i, d: 10_000 ** (2 * i / d),
    r"The exponent is half": lambda i, d: 10_000 ** (-i / d),
    r"The exponent is twice": lambda i, d: 10_000 ** (-4 * i / d),
    r"The base is 1000": lambda i, d: 1_000 ** (-2 * i / d),
    r"counted from 1 in the exponent": lambda i, d: 10_000 ** (-2 * (i + 1) / d),
    r"All pairs turn by the same angle": lambda i, d: 1,
    r"d/2 − 1 in its denominator": lambda i, d: math.exp(-math.log(10_000) * i / max(d / 2 - 1, 1)),
}


def omega(i, d):
    return 10_000 ** (-2 * i / d)


def with_frequencies(make):
    """`make` turns a frequency into a wrong answer."""
    return [(make(frequency), message) for message, frequency in FREQUENCIES.items()]


# Exercise 0.1: twice a number

RIGHT["0.1"] = [lambda number: 2 * number, lambda number: number + number, lambda number: torch.tensor(number * 2.0)]
KNOWN["0.1"] = [
    (lambda number: number, r"is 3, expected 6\. It comes back as it was"),
    (lambda number: number * number, r"This is its square"),
    (lambda number: 2 + number, r"This is 2 more"),
    (lambda number: number / 2, r"is 1\.50000, expected 6\.00000\. This is half of it"),
    (lambda number: int(2 * number), r"is 0\.00000, expected 0\.50000\. These are whole numbers"),
]
OUTSIDE["0.1"] = [
    (lambda number: -2 * number, r"is -6, expected 6\. Asked for is twice 3\.$"),
    (lambda number: 2 * abs(number), r"is 10, expected -10\. Asked for is twice -5\.$"),
    (lambda number: 3 * number, r"is 9, expected 6"),
    (lambda number: [number, number], r"should be one number, got shape \[2\]"),
]


# Exercise 1.1: any number of heads

def plain(query, key, value):
    return attention(query, key, value)[0]


def columns(rows, n_heads):
    return rows.chunk(n_heads, dim=1)


def side_by_side(parts):
    return torch.cat(parts, dim=1)


def heads(cut=columns, attend=plain, join=side_by_side):
    """Right as in the chapter; every other setting is a mistake."""
    def answer(query, key, value, n_heads):
        parts = zip(*(cut(rows, n_heads) for rows in (query, key, value)), strict=True)
        return join([attend(*part) for part in parts])
    return answer


def divided_by(divisor):
    return heads(attend=lambda q, k, v: torch.softmax(q @ k.T / divisor(q), 1) @ v)


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
    return functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)


def not_brought_back(query, key, value, n_heads):
    q, k, v = (rows.unflatten(1, (n_heads, -1)).transpose(0, 1) for rows in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v).reshape(query.shape)


def views(query, key, value, n_heads):
    q, k, v = (rows.view(n_heads, len(rows), -1) for rows in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v).view(query.shape)


RIGHT["1.1"] = [heads_by_loop, heads_at_once, heads(),
                lambda q, k, v, n: heads()(q.double(), k.double(), v.double(), n).numpy()]
KNOWN["1.1"] = [
    (divided_by(lambda q: math.sqrt(12)), r"divided by √12, the root of the whole width.*own width, here √6\."),
    (divided_by(lambda q: q.shape[1]), r"divided by 12, not by its root"),
    (divided_by(lambda q: 1), r"divided by nothing"),
    (lambda q, k, v, n: plain(q, k, v), r"Nothing is cut"),
    (heads(cut=lambda rows, n: rows.view(n, len(rows), -1)), r"cuts the rows"),
    (views, r"cuts the rows"),
    (not_brought_back, r"reshape fills a row from one head only"),
    (heads(cut=lambda rows, n: [rows[:, head::n] for head in range(n)]), r"A head owns columns that are neighbours"),
    (heads(join=torch.cat), r"should be numbers of shape \[5, 12\], got shape \[10, 6\]\. The heads stand below"),
    (heads(join=sum), r"The heads are added up"),
    (heads(attend=lambda q, k, v: torch.softmax(q @ k.T / math.sqrt(q.shape[1]), 0) @ v), r"runs over the queries"),
]
OUTSIDE["1.1"] = [
    (lambda q, k, v, n: heads()(q / q.norm(dim=1, keepdim=True), k, v, n), r"^The two heads are not apart"),
    (lambda q, k, v, n: heads()(q, k, v, n)[:, :6], r"shape \[5, 12\], got shape \[5, 6\]"),
    (lambda q, k, v, n: heads()(q, k, v, n).T, r"looks transposed"),
    (lambda q, k, v, n: heads()(q, k, v, n).flip(1), r"^The two heads are not apart"),
    (lambda q, k, v, n: heads()(q, k, v, n).flip(0), r"With one head nothing is cut.* they stand in other places\.$"),
    (lambda q, k, v, n: 2 * heads()(q, k, v, n), r"With one head nothing is cut.* All of it is 2 times"),
    (lambda q, k, v, n: heads()(q, k, v.roll(12 // n if n > 1 else 0, 1), n), r"belongs to head 0, which owns"),
    (lambda q, k, v, n: heads()(q, k, v, min(n, 2)), r"\(q \[5, 12\], k \[7, 12\], v \[7, 12\], 3\) .* head 0"),
    (lambda q, k, v, n: attention(q, k, v), r"should be numbers of shape \[5, 12\]"),
    (lambda q, k, v: plain(q, k, v), r"TypeError"),
]


# Exercise 1.2: the weights of a shuffled sentence

def by_matrix(weights, order):
    P = torch.eye(len(order), dtype=weights.dtype)[order]
    return P @ weights @ P.T


RIGHT["1.2"] = [lambda w, order: w[order][:, order], by_matrix, lambda w, order: w.numpy()[np.ix_(order, order)],
                lambda w, order: [[w[i, j] for j in order] for i in order]]
KNOWN["1.2"] = [
    (lambda w, order: w, r"Nothing has moved"),
    (lambda w, order: w[order], r"Only the rows have moved"),
    (lambda w, order: w.index_select(1, order), r"Only the columns have moved"),
    (lambda w, order: by_matrix(w, order.argsort()), r"back instead of forward"),
    (lambda w, order: w[order, order], r"should be numbers of shape \[4, 4\], got shape \[4\]\. .*single entries"),
    (lambda w, order: by_matrix(w, order).T, r"Rows and columns have changed places"),
]
OUTSIDE["1.2"] = [
    (lambda w, order: w.flip(0, 1), r"how much word 2 attends to word 2.*stand in other places"),
    (lambda w, order: w[order][:, order].softmax(1),
     r"It is how much word 2 attends to word 2, which is weights\[2, 2\]"),
    (lambda w, order: w[order][:, order][order][:, order], r"how much word 2 attends"),
    (lambda w, order: w[order][:, order.argsort()], r"how much word 2 attends"),
    (lambda w, order: torch.eye(len(w))[order], r"how much word 2 attends"),
    (lambda w, order: torch.zeros_like(w), r"how much word 2 attends"),
]


# Exercise 2.1: one entry of the table

SIN_COS = (math.sin, math.cos)


def wave(frequency=omega, even_odd=SIN_COS):
    return lambda p, j, d: even_odd[j % 2](p * frequency(j // 2, d))


def right_entry(p, j, d):
    return SIN_COS[j % 2](p * 10_000 ** (-2 * (j // 2) / d))


RIGHT["2.1"] = [right_entry, lambda p, j, d: sinusoidal_table(p + 1, d)[p, j],
                lambda p, j, d: np.sin(p / 10_000 ** (2 * (j // 2) / d) + (j % 2) * np.pi / 2),
                lambda p, j, d: np.float32(right_entry(p, j, d)),
                lambda p, j, d: [torch.sin, torch.cos][j % 2](torch.tensor(p) * 10_000 ** (-(j - j % 2) / d))]
KNOWN["2.1"] = [
    *with_frequencies(wave),
    (wave(even_odd=(math.sin, math.sin)), r"Odd dimensions are cosines; this is a sine everywhere"),
    (wave(even_odd=SIN_COS[::-1]), r"Sine and cosine have changed places"),
    (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-2 * j / d)), r"The dimension's number is doubled"),
    (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-j / d)), r"The dimension's number stands in the exponent"),
    (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-2 * ((j + 1) // 2) / d)), r"has the frequency of the next pair"),
    (lambda p, j, d: torch.cat([sinusoidal_table(p + 1, d)[p, 0::2], sinusoidal_table(p + 1, d)[p, 1::2]])[j],
     r"All sines come first here"),
    (lambda p, j, d: right_entry(p + 1, j, d), r"The positions are counted from 1"),
    (lambda p, j, d: SIN_COS[j % 2](p * math.pi / 180 * 10_000 ** (-2 * (j // 2) / d)), r"taken in degrees"),
    (lambda p, j, d: SIN_COS[j % 2](p * 10_000 ** (-2 * (j // 2) / (d + d % 2))), r"At odd widths the denominator"),
    (lambda p, j, d: round(right_entry(p, j, d)), r"These are whole numbers where fractions are due"),
]
OUTSIDE["2.1"] = [
    (wave(lambda i, d: 5_000 ** (-2 * i / d)),
     r"expected 0\.01000\. Dimension 2 is the sine of pair 1, which turns by 10000"),
    (wave(lambda i, d: omega(i, d) / (2 * math.pi)), r"^<lambda>\(1, 2, 4\) is"),
    (wave(lambda i, d: omega(i, d + 2)), r"^<lambda>\(1, 2, 4\) is"),
    (lambda p, j, d: abs(right_entry(p, j, d)), r"^<lambda>\(20, 2, 12\) is 0\.91968, expected -0\.91968"),
    (lambda p, j, d: 2 * right_entry(p, j, d), r"\(0, 3, 6\) is 2\.00000, expected 1: at position 0 every angle is 0"),
    (lambda p, j, d: 0, r"\(0, 3, 6\) is 0\.00000, expected 1"),
    (lambda p, j, d: 0.5 + right_entry(p, j, d) if p else right_entry(p, j, d), r"must share one angle"),
    (lambda p, j, d: right_entry(p, j, d) if p < 8 else 0.0, r"^<lambda>\(11, 5, 10\) is 0\.00000, expected"),
    (lambda p, j, d: math.nan, r"<lambda>\(0, 2, 6\) is nan"),
    (lambda p, j, d: [1.0, 2.0], r"one number, got shape \[2\]"),
    (lambda p, j, d: str(right_entry(p, j, d)), r"one number, got '0.0' \(str\)"),
    (lambda p, j, d: torch.tensor(right_entry(p, j, d) + 3j), r"one number, got tensor"),
    (lambda p, j, d: 10**400, r"one number, got 1000"),
    (lambda p, j: 0.0, r"TypeError: .*\nwhen called as <lambda>\(0, 2, 6\)"),
]


# Exercise 2.2: one turn

def block(angle):
    return [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]


RIGHT["2.2"] = [lambda k, omega: block(k * omega), lambda k, omega: torch.tensor(block(k * omega)),
                lambda k, omega: np.array(block(-k * omega)).T,
                lambda k, omega: torch.matrix_exp(k * omega * torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))]
KNOWN["2.2"] = [
    (lambda k, omega: np.array(block(k * omega)).T, r"The block turns the wrong way"),
    (lambda k, omega: block(omega), r"The offset is not in it"),
    (lambda k, omega: block(k), r"The frequency is not in it"),
    (lambda k, omega: block(abs(k) * omega), r"\(-2, 0\.3\) .*The offset's own sign was dropped"),
    (lambda k, omega: [[math.sin(k * omega), math.cos(k * omega)], [-math.cos(k * omega), math.sin(k * omega)]],
     r"Sine and cosine have changed places"),
    (lambda k, omega: np.abs(block(0)) @ [[math.cos(k * omega), math.sin(k * omega)],
                                          [math.sin(k * omega), math.cos(k * omega)]], r"The minus is missing"),
    (lambda k, omega: block(k * omega / 180 * math.pi), r"taken in degrees"),
    (lambda k, omega: torch.tensor(block(k * omega)).round(), r"These are whole numbers where fractions are due"),
]
OUTSIDE["2.2"] = [
    (lambda k, omega: block(1 + k * omega), r"\(0, 0\.7\) is \[\[0\.5403, .* Offset 0 must change nothing"),
    (lambda k, omega: block(k * omega / 2),
     r"\(3, 0\.5\) takes the pair \[sin, cos\] of position 0, \[0\.0000, 1\.0000\],"),
    (lambda k, omega: -np.array(block(k * omega)), r"Offset 0 must change nothing"),
    (lambda k, omega: block(k * omega if k < 25 else 0), r"\(25, 0\.01\) takes the pair .*; at position 25 it is"),
    (lambda k, omega: [math.cos(k * omega), math.sin(k * omega)], r"shape \[2, 2\], got shape \[2\]"),
    (lambda k, omega: [[math.sin(k * omega), math.cos(k * omega)]] * 2, r"Offset 0"),
]


# Exercise 2.3: how far has each hand turned?

def dot_cross(before, after):
    (sin_a, cos_a), (sin_b, cos_b) = before.view(-1, 2).T, after.view(-1, 2).T
    return sin_a * sin_b + cos_a * cos_b, cos_a * sin_b - sin_a * cos_b


def turned(before, after):
    dot, cross = dot_cross(before, after)
    return torch.atan2(cross, dot)


def turned_by_loop(before, after):
    before, after = before.tolist(), after.tolist()
    return [math.atan2(before[i + 1] * after[i] - before[i] * after[i + 1],
                       before[i] * after[i] + before[i + 1] * after[i + 1]) for i in range(0, len(before), 2)]


def complex_turned(before, after):
    a, b = (torch.view_as_complex(v.view(-1, 2).flip(-1).contiguous()) for v in (before, after))
    return (b / a).angle()


def angles_apart(before, after):
    return torch.atan2(after[0::2], after[1::2]) - torch.atan2(before[0::2], before[1::2])


RIGHT["2.3"] = [turned, turned_by_loop, complex_turned, lambda a, b: turned(a.float(), b.float()),
                lambda a, b: (angles_apart(a, b) + math.pi) % (2 * math.pi) - math.pi,
                lambda a, b: np.array(turned_by_loop(a, b))]
KNOWN["2.3"] = [
    (lambda a, b: turned(b, a), r"The size is right, the sign is not"),
    (lambda a, b: dot_cross(a, b)[0].clamp(-1, 1).acos(), r"the sign tells which way, and an arc cosine does not"),
    (lambda a, b: (a * b).view(-1, 2).sum(1), r"This is the cosine of the angle"),
    (lambda a, b: dot_cross(a, b)[1], r"This is the sine of the angle"),
    (lambda a, b: dot_cross(a, b)[1].clamp(-1, 1).asin(), r"An arc sine ends at a quarter turn"),
    (lambda a, b: (dot_cross(a, b)[1] / dot_cross(a, b)[0]).atan(), r"The arc tangent of a quotient"),
    (lambda a, b: torch.atan2(*dot_cross(a, b)), r"torch\.atan2 takes the cross product first"),
    (angles_apart, r"Some are off by a whole turn"),
    (lambda a, b: turned(a, b) * 180 / math.pi, r"The angle is in degrees"),
    (lambda a, b: turned(a.view(2, -1).T.flatten(), b.view(2, -1).T.flatten()),
     r"The pairs are columns i and i \+ d/2"),
]
OUTSIDE["2.3"] = [
    (lambda a, b: (b - a)[0::2], r"^From PE\(3\) to PE\(5\) it is \[.* must not depend on p"),
    (lambda a, b: (b - a).view(-1, 2).norm(dim=1), r"Pair 0 is \[sin, cos\] = \[0\.1411, -0\.9900\] before and"),
    (lambda a, b: turned(a, b) / 2, r"Pair 0 is .* All of it is 0\.5 times"),
    (lambda a, b: turned(a, b) % (2 * math.pi), r"\(a \[8\], b \[8\]\) is .* Pair 0 is"),
    (lambda a, b: turned(a, b).flip(0), r"stand in other places"),
    (lambda a, b: dot_cross(a, b)[0] + 1,
     r"Twice the same encoding, PE\(7\), and pair 0 is said to have turned by 2\.0000"),
    (lambda a, b: [*turned(a, b), *turned(a, b)], r"shape \[3\], got shape \[6\]"),
    (lambda a, b: torch.atan2(*(b - a).view(-1, 2).T), r"must not depend on p"),
    (lambda a, b: a + "b", r"when called as <lambda>\(a \[6\], b \[6\]\)"),
]


# Exercise 3.1: the gradient of a position

def surprise(probability, target):
    return probability - functional.one_hot(torch.tensor(target), len(probability))


def gradient_by_loop(W, probability, target):
    return [sum((float(probability[c]) - (c == target)) * float(W[c, j]) for c in range(len(W)))
            for j in range(W.shape[1])]


def gradient_by_autograd(W, probability, target):
    """The logits are the logarithms, up to a constant that softmax forgets."""
    push = torch.zeros(W.shape[1], requires_grad=True)
    return torch.autograd.grad(-(probability.log() + W @ push).log_softmax(0)[target], push)[0]


def changed_in_place(W, probability, target):
    probability[target] -= 1
    return W.T @ probability


RIGHT["3.1"] = [lambda W, q, target: W.T @ surprise(q, target), lambda W, q, target: q @ W - W[target],
                lambda W, q, target: (surprise(q, target)[:, None] * W).sum(0).numpy(), gradient_by_loop,
                gradient_by_autograd]
KNOWN["3.1"] = [
    (lambda W, q, target: W[target] - W.T @ q, r"sign is turned: this is the way downhill"),
    (lambda W, q, target: W.T @ q, r"The target is not in it"),
    (lambda W, q, target: -W[target], r"The probabilities are not in it"),
    (lambda W, q, target: W.T @ (q + functional.one_hot(torch.tensor(target), len(q))), r"1 is added to the prob"),
    (lambda W, q, target: W.T @ surprise(q, target) / len(q), r"It is divided by the number of classes"),
    (lambda W, q, target: surprise(q, target), r"shape \[3\], got shape \[7\]\. One number a class"),
    (lambda W, q, target: surprise(q, target)[target] * W[target], r"Only the right class's row of W is in it"),
]
OUTSIDE["3.1"] = [
    (changed_in_place, r"has changed probability itself\."),
    (lambda W, q, target: 3 * (W.T @ surprise(q, target)), r"All of it is 3 times what it should be"),
    (lambda W, q, target: W @ surprise(q, target),
     r"RuntimeError: .*\n(.*\n)?when called as .*\(W \[7, 3\], q \[7\], 4\)"),
    (lambda W, q, target: W.T @ surprise(q, (target + 1) % len(q)), r"expected .* It is the sum over the classes"),
    (lambda W, q, target: W.T @ surprise(q**2, target), r"^entry \[0\] of .* It is the sum over .* W\[class, 0\]\.$"),
    (lambda W, q, target: W.T @ surprise(q, 4 if len(q) == 7 else 3), r"\(W \[4, 6\], q \[4\], 0\) is .* expected"),
    (lambda W, q, target: (W.T @ surprise(q, target))[None], r"numbers of shape \[3\], got shape \[1, 3\]"),
    (lambda W, q, target: -q[target].log(), r"numbers of shape \[3\], got shape \[\]"),
    (lambda W, q, target: W.T @ (q / 0), r"every entry should be finite"),
]


# Exercise 3.2: the best loss of a linear layer

def linear_layer_trained(n):
    a, b = (torch.randn(n, n, generator=torch.Generator().manual_seed(n), requires_grad=True) for _ in range(2))
    target = (torch.arange(n)[:, None] + torch.arange(n)) % n
    optimizer = torch.optim.SGD([a, b], lr=n / 2)
    for _ in range(200):
        loss = functional.cross_entropy((a[:, None] + b).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


RIGHT["3.2"] = [lambda n: math.log(n), np.log, lambda n: -torch.tensor(1 / n).log(), linear_layer_trained,
                lambda n: functional.cross_entropy(torch.zeros(n * n, n), torch.arange(n * n) % n)]
KNOWN["3.2"] = [
    (lambda n: 0.0, r"<lambda>\(2\) is 0\.00000, expected 0\.69315\. No linear layer gets there"),
    (lambda n: 1 / n, r"how often an even guess is right"),
    (lambda n: (n - 1) / n, r"how often an even guess is wrong"),
    (lambda n: torch.tensor(n).log2(), r"is 1\.00000, expected .* This is in bits"),
    (lambda n: np.log10(n), r"This is to the base 10"),
    (lambda n: math.log(1 / n), r"The sign is turned"),
    (lambda n: sum(math.log(n) for _ in range(n)), r"This is summed"),
    (lambda n: sum(math.log(n) for _ in range(n * n)), r"This is summed"),
    (lambda n: math.log(n**2), r"a guess is among n answers"),
    (lambda n: math.log(2), r"\(3\) is 0\.69315, .*This is right for n = 2 only"),
    (lambda n: math.log(5), r"\(2\) is 1\.60944, .*This is right for n = 5 only"),
    (lambda n: round(math.log(n)), r"These are whole numbers where fractions are due"),
]
OUTSIDE["3.2"] = [
    (lambda n: math.log(n - 1),
     r"\(2\) is 0\.00000, expected 0\.69315\. So much has the layer that gives all 2 classes"),
    (lambda n: 1 - 1 / n if n > 2 else math.log(n), r"\(3\) is 0\.66667, expected 1\.09861\. So much"),
    (lambda n: math.log(n) / 2, r"\(2\) is 0\.34657, expected 0\.69315\. So much"),
    (lambda n: math.log(min(n, 5)), r"\(12\) is 1\.60944, expected 2\.48491\. So much"),
    (lambda n: math.sqrt(n), r"\(2\) is 1\.41421, expected"),
    (lambda n: [math.log(n)] * n, r"one number, got shape \[2\]"),
    (lambda n: math.inf, r"is inf: every entry should be finite"),
    (lambda: 0.0, r"TypeError: .*\nwhen called as <lambda>\(2\)"),
]


# Exercise 3.3: stretch a table

def evenly(table, length):
    return torch.linspace(0, len(table) - 1, length)


def stretched_by_loop(table, length):
    """As in the chapter."""
    rows = []
    for row in range(length):
        place = row * (len(table) - 1) / (length - 1)
        before = min(int(place), len(table) - 2)
        rows.append((1 - place + before) * table[before] + (place - before) * table[before + 1])
    return torch.stack(rows)


def stretched_by_matrix(table, length):
    """Each old row has a tent over its place; a new row takes of each what the tent's height is."""
    return (1 - (evenly(table, length)[:, None] - torch.arange(len(table))).abs()).clamp(min=0) @ table


def stretched_as_image(table, length, align_corners=True):
    return functional.interpolate(table.T[None], length, mode="linear", align_corners=align_corners)[0].T


def read_at(place_of):
    """A wrong answer that reads the table at places of its own."""
    def wrong(table, length):
        place = torch.tensor([float(place_of(row, len(table), length)) for row in range(length)])
        before = place.long().clamp(max=len(table) - 2)
        return torch.lerp(table[before], table[before + 1], (place - before)[:, None])
    return wrong


def shares_exchanged(table, length):
    place = evenly(table, length)
    before = place.long().clamp(max=len(table) - 2)
    return torch.lerp(table[before + 1], table[before], (place - before)[:, None])


RIGHT["3.3"] = [stretched_by_loop, stretched_by_matrix, stretched_as_image, stretch,
                lambda table, length: np.stack([np.interp(np.linspace(0, len(table) - 1, length), range(len(table)), c)
                                                for c in table.numpy().T], 1),
                lambda table, length: [row.tolist() for row in stretched_by_loop(table, length)]]
KNOWN["3.3"] = [
    (read_at(lambda row, rows, length: row * rows / length),
     r"Your step is 4/6; 6 rows have 5 gaps between them, and the old ones 3"),
    (read_at(lambda row, rows, length: min(row * rows / length, rows - 1)), r"Your step is 4/6"),
    (read_at(lambda row, rows, length: row * (rows - 1) / length), r"Your step is 3/6"),
    (lambda table, length: table[evenly(table, length).round().long()], r"It repeats rows, the nearest"),
    (lambda table, length: table[[row * (len(table) - 1) // (length - 1) for row in range(length)]],
     r"It repeats rows, the old one before"),
    (lambda table, length: torch.lerp(table[evenly(table, length).floor().long()],
                                      table[evenly(table, length).ceil().long()], 0.5), r"even mixtures"),
    (shares_exchanged, r"The shares have changed places"),
    (lambda table, length: stretched_as_image(table, length, align_corners=False), r"It takes the rows for pixels"),
    (lambda table, length: stretch(table, length).flip(0), r"It is upside down"),
    (lambda table, length: functional.pad(table, (0, 0, 0, length))[:length], r"and zeros follow"),
    (lambda table, length: torch.cat([table, table[-1:].expand(length, -1)])[:length], r"the last one is repeated"),
]
OUTSIDE["3.3"] = [
    (lambda table, length: table, r"shape \[6, 2\], got shape \[4, 2\]"),
    (lambda table, length: stretch(table, length).T, r"shape \[6, 2\], got shape \[2, 6\]. It looks transposed"),
    (lambda table, length: stretch(table, length) if length >= len(table) else table[:length],
     r"\(table \[5, 2\], 3\) has the last row \[.*\], which should be the table's own, \[.*\]: the ends are kept\.$"),
    (lambda table, length: stretch(table, length).roll(1, 0), r"has the first row"),
    (read_at(lambda row, rows, length: (rows - 1) * (row / (length - 1)) ** 2),
     r"New row 1 stands at 0\.600 of the old table: between its rows 0 and 1\."),
    (lambda table, length: stretch(table, length) + (torch.arange(length) == 5)[:, None] * (length == 10) * 0.1,
     r"\(table \[3, 4\], 10\) is .* New row 5 stands at 1\.111 of the old table: between its rows 1 and 2"),
    (lambda table, length: stretch(table, length) + (torch.arange(length) == 1)[:, None] * (length == 3),
     r"New row 1 stands at 2\.000 of the old table: exactly on its row 2"),
    (lambda table, length: [table[row * (len(table) - 1) // (length - 1) + 1] for row in range(length)],
     r"IndexError: .*\n(.*\n)*when called as .*\(table \[4, 2\], 6\)"),
    (lambda table, length: stretch(table, length) * math.nan, r"every entry should be finite"),
]


# Exercise 4.1: which row of Shaw's table?

def offsets_of(length):
    return torch.arange(length) - torch.arange(length)[:, None]


def shaw_rows(length, K, low=None, high=None, shift=None):
    """Right as it stands; other ends or another shift are mistakes."""
    low, high = (-K if low is None else low), (K if high is None else high)
    return offsets_of(length).clamp(low, high) + (K if shift is None else shift)


RIGHT["4.1"] = [shaw_rows, lambda length, K: torch.stack([torch.arange(K - m, K - m + length).clamp(0, 2 * K)
                                                          for m in range(length)]),
                lambda length, K: [[max(-K, min(K, n - m)) + K for n in range(length)] for m in range(length)],
                lambda length, K: np.clip(np.subtract.outer(np.arange(length), np.arange(length)).T + K, 0.0, 2.0 * K)]
KNOWN["4.1"] = [
    (lambda length, K: shaw_rows(length, K).T,
     r"^entry \[0, 1\] of .* is 1, expected 3\. The offset has the wrong sign"),
    (lambda length, K: shaw_rows(length, K, shift=0), r"the clipped offsets, from -2 to 2\. The table's rows"),
    (lambda length, K: offsets_of(length) + K, r"Offsets beyond 2 are not clipped, .* in the table of 5"),
    (lambda length, K: offsets_of(length).abs().clamp(max=K), r"Distances have no sign"),
    (lambda length, K: shaw_rows(length, K, high=K - 1), r"The last row of the table is 4, .* never used"),
    (lambda length, K: shaw_rows(length, K, 1 - K, K - 1, K - 1), r"It clips at 1, one too early"),
    (lambda length, K: shaw_rows(length, K, high=0), r"right shares row 2 with the word itself; .* 5 rows"),
    (lambda length, K: shaw_rows(length, K, shift=K + 1), r"It counts from 1: row 3 for the word itself"),
]
OUTSIDE["4.1"] = [
    (lambda length, K: offsets_of(length).abs().clamp(max=K) + K,
     r"^entry \[1, 0\] of .*\(4, 2\) is 3, expected 1\. Query 1 and key 0: their offset is -1; clipped to -2 … 2 it"),
    (lambda length, K: shaw_rows(length, K, high=K + 1), r"is 5, expected 4\. Query 0 and key 3: their offset is 3"),
    (lambda length, K: shaw_rows(length, K, shift=length - 1), r"is 3, expected 2\. Query 0 and key 0"),
    (lambda length, K: offsets_of(length) % (2 * K + 1), r"is 0, expected 2\. Query 0 and key 0"),
    (lambda length, K: shaw_rows(length, K, -2, 2, 2), r"\(6, 3\) is 2, expected 3\. Query 0"),
    (lambda length, K: shaw_rows(length, min(K, length - 1)), r"\(3, 5\) is 2, expected 5\. Query 0 and key 0"),
    (lambda length, K: shaw_rows(length, K)[0], r"numbers of shape \[4, 4\], got shape \[4\]"),
    (lambda length: shaw_rows(length, 2), r"TypeError: .*\nwhen called as <lambda>\(4, 2\)"),
]


# Exercise 4.2: turn one vector

def rotary(frequency=omega, way=1, halves=False, joined=torch.stack):
    """Right as in the chapter; every other setting is a mistake."""
    def rotate(x, position):
        d = len(x)
        angle = way * position * torch.tensor([float(frequency(i, d)) for i in range(d // 2)])
        a, b = x.chunk(2) if halves else (x[0::2], x[1::2])
        return joined([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten()
    return rotate


def half_layout(x, position):
    return rotary(halves=True, joined=torch.cat)(x, position)


def rotated_by_loop(x, position):
    x, d = x.tolist(), len(x)
    result = []
    for column in range(0, d, 2):
        angle = position / 10_000 ** (column / d)
        result += [math.cos(angle) * x[column] - math.sin(angle) * x[column + 1],
                   math.cos(angle) * x[column + 1] + math.sin(angle) * x[column]]
    return result


def rotated_as_complex_numbers(x, position):
    angle = position * torch.logspace(0, -4, len(x) // 2 + 1, dtype=torch.float64)[:-1]
    z = torch.view_as_complex(x.double().view(-1, 2)) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(z).flatten()


def rotated_by_matrix(x, position):
    blocks = [torch.tensor(block(position * omega(i, len(x)))).T for i in range(len(x) // 2)]    # columns: R, not M
    return torch.block_diag(*blocks) @ x


def rotated_with_partners(x, position):
    """Each column with its partner, the first partner negative: as many libraries write it, for neighbours."""
    angle = np.repeat(position * omega(np.arange(len(x) // 2), len(x)), 2)
    return x.numpy() * np.cos(angle) + np.stack([-x.numpy()[1::2], x.numpy()[0::2]], 1).ravel() * np.sin(angle)


def rotate_half(x):
    return torch.cat([-x[len(x) // 2 :], x[: len(x) // 2]])


def rotate_every_two(x):
    return torch.stack([-x[1::2], x[0::2]], 1).flatten()


def with_partners(partners, spread):
    def rotate(x, position):
        angle = spread(position * omega(torch.arange(len(x) // 2), len(x)))
        return x * angle.cos() + partners(x) * angle.sin()
    return rotate


def partners_by_other_angles(x, position):
    """A frequency for each column, so that the two of a pair turn by different angles: no rotation."""
    angle = position * 10_000.0 ** (-torch.arange(len(x)) / len(x))
    return x * angle.cos() + rotate_every_two(x) * angle.sin()


def turned_in_place(x, position):
    x[:] = rotary()(x, position)
    return x


def sine_for_cosine(x, position):
    a, b, angle = x[0::2], x[1::2], position * omega(torch.arange(len(x) // 2), len(x))
    return torch.stack([a * angle.sin() - b * angle.cos(), a * angle.cos() + b * angle.sin()], 1).flatten()


def one_after_the_other(x, position):
    new, angle = x.clone(), position * omega(torch.arange(len(x) // 2), len(x))
    new[0::2] = new[0::2] * angle.cos() - new[1::2] * angle.sin()
    new[1::2] = new[0::2] * angle.sin() + new[1::2] * angle.cos()           # meets the new first number, not the old
    return new


RIGHT["4.2"] = [rotary(), rotated_by_loop, rotated_as_complex_numbers, rotated_by_matrix, rotated_with_partners,
                with_partners(rotate_every_two, lambda angle: angle.repeat_interleave(2))]
KNOWN["4.2"] = [
    *with_frequencies(rotary),
    (rotary(way=-1), r"It turns the wrong way"),
    (half_layout, r"Its pairs are \(i, i \+ d/2\), the other layout"),
    (with_partners(rotate_half, lambda angle: angle.tile(2)), r"Its pairs are \(i, i \+ d/2\), the other layout"),
    (rotary(joined=torch.cat), r"the first ones of all pairs come before all the second ones"),
    (rotary(halves=True), r"read as \(i, i \+ d/2\) and written as neighbours"),
    (with_partners(rotate_half, lambda angle: angle.repeat_interleave(2)), r"Two layouts are mixed"),
    (with_partners(rotate_every_two, lambda angle: angle.tile(2)), r"Two layouts are mixed"),
    (lambda x, p: torch.stack([rotary()(x, -p)[0::2], rotary()(x, p)[1::2]], 1).flatten(), r"The minus is missing"),
    (sine_for_cosine, r"Sine and cosine have changed places"),
    (one_after_the_other, r"The second number is made from the new first one"),
    (lambda x, p: x.view(-1, 2).norm(dim=1).repeat_interleave(2), r"only the lengths of the pairs"),
    (lambda x, p: x.clone(), r"Nothing has turned"),
    (lambda x, p: rotary()(x, p + 1), r"The positions are counted from 1"),
]
OUTSIDE["4.2"] = [
    (turned_in_place, r"has changed x itself\."),
    (partners_by_other_angles, r"\(x \[2\], 1\): pair 0 was .* A rotation keeps the length\. Are both .* same angle"),
    (lambda x, p: 2 * rotary()(x, p), r"\(x \[4\], 0\) is not x\. At position 0 every angle is 0"),
    (rotary(lambda i, d: 10_000.0 ** (-i)), r"^entry \[2\] of rotate\(x \[6\], 1\) is .* Pair 1 turns by 1 · 10000"),
    (rotary(lambda i, d: i == 0), r"^entry \[2\] of .* Pair 1 turns by 1 · 10000\^\(-2·1/6\) = 0\.04"),
    (rotary(lambda i, d: omega(i, d + 2)), r"^entry \[2\] of .* Pair 1 turns by .* = 0\.046416 radians"),
    (rotary(lambda i, d: math.radians(omega(i, d))), r"^entry \[0\] of .*\(x \[2\], 1\) is .* = 1 radians"),
    (rotary(lambda i, d: omega(d // 2 - 1 - i, d)), r"^entry \[0\] of .*\(x \[6\], 1\) is .* Pair 0 turns"),
    (rotary(lambda i, d: 2 * math.pi * omega(i, d)), r"^entry \[0\] of rotate\(x \[2\], 1\) is"),
    (lambda x, p: rotary()(x, p)[0::2], r"numbers of shape \[4\], got shape \[2\]"),
    (lambda x, p: rotary()(x, p).view(-1, 2), r"numbers of shape \[4\], got shape \[2, 2\]"),
]


# Exercise 4.3: the score from the offset

def by_products(combine):
    """Each pair's dot and cross product with cosine and sine of its angle, put together by `combine`."""
    def score(q, key, offset):
        angle = offset * omega(torch.arange(len(q) // 2), len(q))
        (a, b), (c, d) = q.view(-1, 2).T, key.view(-1, 2).T
        return combine(a * c + b * d, a * d - b * c, angle.cos(), angle.sin()).sum()
    return score


def times_turned(rotate):
    return lambda q, key, offset: q @ rotate(key, offset)


def complex_score(q, key, offset):
    a, b = (torch.view_as_complex(each.view(-1, 2)).numpy() for each in (q, key))
    return (a.conj() * b * np.exp(1j * offset * omega(np.arange(len(a)), len(q)))).real.sum()


RIGHT["4.3"] = [times_turned(rotary()), lambda q, key, offset: rotary()(q, -offset) @ key,
                lambda q, key, offset: rotary()(q, 7) @ rotary()(key, 7 + offset), complex_score,
                by_products(lambda dot, cross, cos, sin: dot * cos - cross * sin),
                lambda q, key, offset: sum(a * b for a, b in zip(q, rotated_by_loop(key, offset), strict=True))]
KNOWN["4.3"] = [
    *with_frequencies(lambda frequency: times_turned(rotary(frequency))),
    (by_products(lambda dot, cross, cos, sin: dot * cos + cross * sin),
     r"score\(q \[6\], key \[6\], 3\) .* opposite offset: a sign is turned, or q was turned and not key\.$"),
    (lambda q, key, offset: rotary()(q, offset) @ key, r"opposite offset: a sign is turned, or q was turned"),
    (lambda q, key, offset: q @ rotary()(key, abs(offset)), r"\[6\], -3\) .*the offset's own sign was dropped"),
    (by_products(lambda dot, cross, cos, sin: dot * cos), r"Only the cosines are in it"),
    (by_products(lambda dot, cross, cos, sin: -cross * sin), r"Only the cross products are in it"),
    (lambda q, key, offset: q @ rotary()(key, offset) / math.sqrt(len(q)), r"It is divided by √d"),
    (lambda q, key, offset: rotary()(q, offset) @ rotary()(key, offset), r"It does not depend on the offset"),
    (times_turned(half_layout), r"Its pairs are those of the other layout"),
    (times_turned(with_partners(rotate_half, lambda angle: angle.repeat_interleave(2))), r"Two layouts are mixed"),
    (times_turned(with_partners(rotate_every_two, lambda angle: angle.tile(2))), r"Two layouts are mixed"),
]
OUTSIDE["4.3"] = [
    (times_turned(turned_in_place), r"has changed key itself\."),
    (lambda q, key, offset: q @ rotary()(key, offset) / (len(q) / 2),
     r"the product of q and key as they stand\. With offset 0 nothing is turned"),
    (by_products(lambda dot, cross, cos, sin: dot * sin - cross * cos), r"With offset 0 nothing is turned"),
    (times_turned(rotary(lambda i, d: omega(i + 0.5, d))),
     r"It is the product of q at position 0 and key at position 3\.$"),
    (times_turned(rotary(lambda i, d: 2 * math.pi * omega(i, d))), r"It is the product of q at position 0 and key at"),
    (times_turned(partners_by_other_angles), r"It is the product of q at position 0 and key at position 3\.$"),
    (lambda q, key, offset: q * rotary()(key, offset), r"should be one number, got shape \[6\]"),
    (lambda q, key, offset: q @ key[0::2], r"RuntimeError: .*\n(.*\n)*when called as .*key \[6\], 0"),
]


# Exercise 5.1: LayerNorm

def normed(x, gamma, beta, eps, axis=-1, correction=0):
    mean = x.mean(axis, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(axis, keepdim=True, correction=correction) + eps) * gamma + beta


def normed_by_loop(x, gamma, beta, eps):
    if x.dim() > 1:
        return [normed_by_loop(row, gamma, beta, eps) for row in x]
    numbers, d = x.tolist(), len(x)
    mean = sum(numbers) / d
    spread = math.sqrt(sum(number * number for number in numbers) / d - mean * mean + eps)
    return [(number - mean) / spread * gamma[i] + beta[i] for i, number in enumerate(numbers)]


def normed_in_numpy(x, gamma, beta, eps):
    x = x.numpy().astype(np.float64)
    return gamma.numpy() * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + beta.numpy()


RIGHT["5.1"] = [normed, normed_by_loop, normed_in_numpy,
                lambda x, gamma, beta, eps: functional.layer_norm(x, (x.shape[-1],), gamma, beta, eps),
                lambda x, gamma, beta, eps: gamma.double() * functional.layer_norm(
                    x.double(), x.shape[-1:], eps=eps) + beta]
KNOWN["5.1"] = [
    (lambda *given: normed(*given, correction=1),
     r"divides the sum of squares by 3\. .* biased variance, divided by 4"),
    (lambda x, g, b, eps: g * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True, correction=0) + eps) + b,
     r"ε stands outside the root\. It belongs"),
    (lambda x, g, b, eps: g * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps) + b, r"Two things"),
    (lambda x, g, b, eps: normed(x, g, b, 0.0), r"ε is missing"),
    (lambda x, g, b, eps: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, correction=0) + eps) * g + b,
     r"divides by the variance, not by its root"),
    (lambda x, g, b, eps: normed(x, 1, 0, eps), r"γ and β are missing"),
    (lambda x, g, b, eps: normed(x, g, 0, eps), r"expected .* β is missing"),
    (lambda x, g, b, eps: normed(x, 1, b, eps), r"expected .* γ is missing"),
    (lambda x, g, b, eps: normed(x, b, g, eps), r"γ and β have changed places"),
    (lambda x, g, b, eps: g * (normed(x, 1, 0, eps) + b), r"γ also multiplies β"),
    (lambda x, g, b, eps: x / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() * g + b, r"mean is not subtracted"),
    (lambda x, g, b, eps: (x - x.mean(-1, True)) / (x.square().mean(-1, True) + eps).sqrt() * g + b,
     r"The mean of the squares stands for the variance"),
    (lambda x, g, b, eps: (x - x.mean()) / (x.var(correction=0) + eps).sqrt() * g + b, r"over all numbers at once"),
    (lambda *given: normed(*given, axis=0), r"first axis: that is BatchNorm's direction"),
]
OUTSIDE["5.1"] = [
    (lambda x, g, b, eps: normed(x, g, -b, eps), r"^entry \[0\] of .* Its vector has mean \d\.\d+ and variance"),
    (lambda x, g, b, eps: normed(x, g, b, eps * eps), r"Its vector has mean"),
    (lambda x, g, b, eps: x / x.norm(dim=-1, keepdim=True) * g + b, r"Its vector has mean"),
    (lambda x, g, b, eps: normed(x, g, b, eps) * 2, r"All of it is 2 times"),
    (lambda x, g, b, eps: normed(x, g, b, eps, axis=1 if x.dim() == 3 else -1),
     r"^entry \[0, 0, 0\] of <lambda>\(x \[2, 4, 7\], g \[7\], b \[7\], 0\.5\) is"),
    (lambda x, g, b, eps: (x - x.median()) / (x.var(-1, keepdim=True) + eps).sqrt() * g + b, r"Its vector has mean"),
    (lambda x, g, b, eps: x.sub_(x.mean(-1, True)), r"has changed x itself"),
    (lambda x, g, b, eps: normed(x, g, b, eps).mean(-1), r"shape \[4\], got shape \[\]"),
]


# Exercise 5.2: both orders

def right_layer(x, attend, transform, norm1, norm2, order):
    if order == "pre":
        x = x + attend(norm1(x))
        return x + transform(norm2(x))
    return norm2(transform(y := norm1(x + attend(x))) + y)


def layer_by_loop(x, attend, transform, norm1, norm2, order):
    for sublayer, norm in ((attend, norm1), (transform, norm2)):
        x = x + sublayer(norm(x)) if order == "pre" else norm(x + sublayer(x))
    return x


def layer_of(pre, post):
    """An answer made of one expression for each order, in x, A, F, n1 and n2."""
    def layer(x, A, F, n1, n2, order):
        return (pre if order == "pre" else post)(x, A, F, n1, n2)
    return layer


def pre_norm(x, A, F, n1, n2):
    return (y := x + A(n1(x))) + F(n2(y))


def post_norm(x, A, F, n1, n2):
    return n2((y := n1(x + A(x))) + F(y))


RIGHT["5.2"] = [right_layer, layer_by_loop, layer_of(pre_norm, post_norm),
                lambda x, *rest: right_layer(x.double(), *rest).tolist()]
KNOWN["5.2"] = [
    (layer_of(post_norm, pre_norm), r"Each order is what the other should be"),
    (layer_of(pre_norm, pre_norm), r"this is always pre-norm"),
    (layer_of(post_norm, post_norm), r"this is always post-norm"),
    (lambda x, A, F, n1, n2, order: right_layer(x, A, F, n2, n1, order), r"norm1 and norm2 have changed places"),
    (lambda x, A, F, n1, n2, order: layer_by_loop(x, F, A, n1, n2, order), r"The sublayers have changed places"),
    (layer_of(lambda x, A, F, n1, n2: x + F(n2(x + A(n1(x)))), lambda x, A, F, n1, n2: n2(x + F(n1(x + A(x))))),
     r"The second sum adds the first x again"),
    (layer_of(lambda x, A, F, n1, n2: x + A(n1(x)) + F(n2(x)), lambda x, A, F, n1, n2: n2(x + A(x) + F(x))),
     r"does not see what the first one did"),
    (layer_of(lambda x, A, F, n1, n2: F(n2(A(n1(x)))), lambda x, A, F, n1, n2: n2(F(n1(A(x))))),
     r"The residual paths are missing"),
    (layer_of(lambda x, A, F, n1, n2: x + A(n1(x)), lambda x, A, F, n1, n2: n1(x + A(x))),
     r"second sublayer is missing"),
    (layer_of(lambda *given: given[4](pre_norm(*given)), post_norm), r"There is a third norm"),
    (layer_of(lambda x, A, F, n1, n2: (z := n2((y := n1(x)) + A(y))) + F(z), post_norm),
     r"What is added is the normed"),
    (layer_of(pre_norm, lambda x, A, F, n1, n2: (y := x + n1(A(x))) + n2(F(y))),
     r"only what a sublayer gives is normed"),
]
OUTSIDE["5.2"] = [
    (lambda x, *rest: x,
     r"^entry \[0, 0, 0\] of .*, 'post'\) is .* Each sublayer's output is added to its input, then"),
    (layer_of(lambda x, A, F, n1, n2: x - A(n1(x)), post_norm),
     r", 'pre'\) is .* Before each sublayer a norm, after it the"),
    (layer_of(pre_norm, lambda x, A, F, n1, n2: n2(n1(x + A(x)) + F(x))), r"Each sublayer's output is added"),
    (layer_of(pre_norm, lambda x, A, F, n1, n2: n2(F(x + A(x)))), r"Each sublayer's output is added"),
    (lambda *given: 2 * right_layer(*given), r"All of it is 2 times"),
    (lambda x, A, F, n1, n2, order: right_layer(x, F, F, n1, n2, order), r"Each sublayer's output is added"),
    (lambda x, A, F, n1, n2, order: right_layer(x, A, F, n1, n2, order).mT, r"\[2, 3, 4\], got shape \[2, 4, 3\]"),
    (lambda x, A, F, n1, n2, order: right_layer(x, A, F, n1, n2, order.name), r"AttributeError: 'str' object"),
]


# Exercise 5.3: how many parameters

def counted_by_torch(d, d_ff):
    module = torch.nn.TransformerEncoderLayer(d, 2, d_ff, device="meta")
    return sum(parameter.numel() for parameter in module.parameters())


def right_count(d, d_ff):
    return 4 * (d * d + d) + 2 * d * d_ff + d_ff + d + 4 * d


RIGHT["5.3"] = [right_count, counted_by_torch, lambda d, d_ff: np.float64(4 * d**2 + 9 * d + d_ff * (2 * d + 1)),
                lambda d, d_ff: torch.tensor([4 * d * (d + 1), d_ff * (d + 1), d * (d_ff + 1), 4 * d]).sum()]
KNOWN["5.3"] = [
    (lambda d, d_ff: right_count(d, d_ff) - 4 * d,
     r"is 174, expected 190\. 16 numbers are missing, as many as the two"),
    (lambda d, d_ff: right_count(d, d_ff) - 2 * d, r"8 numbers are missing: there are two LayerNorms"),
    (lambda d, d_ff: 4 * (d * d + d) + 2 * d * d_ff + 4 * d,
     r"biases of the feed-forward network are missing: 10 and 4"),
    (lambda d, d_ff: 4 * d * d + 2 * d * d_ff + 4 * d, r"All biases of the matrices are missing"),
    (lambda d, d_ff: 3 * (d * d + d) + 2 * d * d_ff + d_ff + 5 * d, r"Attention has four matrices"),
    (lambda d, d_ff: right_count(d, d_ff) - d * d, r"16 numbers are missing, as many as one of attention's four"),
    (lambda d, d_ff: 4 * (d * d + d) + d * d_ff + d_ff + 4 * d, r"The feed-forward network has two matrices"),
    (lambda d, d_ff: 4 * (d * d + d), r"This is attention alone"),
    (lambda d, d_ff: 2 * d * d_ff + d_ff + d, r"This is the feed-forward network alone"),
    (lambda d, d_ff: 6 * right_count(d, d_ff), r"stack of six layers"),
]
OUTSIDE["5.3"] = [
    (lambda d, d_ff: right_count(d, d_ff) + 1,
     r"is 191, expected 190\. Attention has 80 of them, the feed-forward netw"),
    (lambda d, d_ff: right_count(d, 4 * d), r"Attention has 80 of them"),
    (lambda d, d_ff: 8 * right_count(d, d_ff), r"is 1,520, expected 190\. Attention has 80"),
    (lambda d, d_ff: right_count(d, d_ff) + 2 * d, r"Attention has 80 of them"),
    (lambda d, d_ff: 3_152_384, r"\(4, 10\) is 3,152,384, expected 190"),
    (lambda d, d_ff: right_count(d, d_ff) if d < 100 else 3_149_568, r"\(512, 2048\) is 3,149,568, expected 3,152,384"),
    (lambda d, d_ff: [1, 2, 3], r"one number, got shape \[3\]"),
]


# Exercise 6.1: one matrix for all positions

def step_matrix(frequency=omega, of=block):
    """Right as it stands; every other setting is a mistake."""
    return lambda k, d: torch.block_diag(*(torch.tensor(of(k * frequency(i, d))).float() for i in range(d // 2)))


def step_matrix_in_place(k, d):
    """As in the chapter, in float64."""
    M = torch.zeros(d, d, dtype=torch.float64)
    for i in range(d // 2):
        angle = k * 10_000 ** (-2 * i / d)
        M[2 * i, 2 * i] = M[2 * i + 1, 2 * i + 1] = math.cos(angle)
        M[2 * i, 2 * i + 1], M[2 * i + 1, 2 * i] = math.sin(angle), -math.sin(angle)
    return M


def step_matrix_by_fit(k, d):
    """Least squares on many positions."""
    PE = sinusoidal_table(2000, d, dtype=torch.float64)
    return torch.linalg.lstsq(PE[100:1900], PE[100 + k : 1900 + k]).solution.T


def in_halves(k, d):
    angle = k * omega(torch.arange(d // 2), d)
    cos, sin = angle.cos().diag(), angle.sin().diag()
    return torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])


RIGHT["6.1"] = [step_matrix(), step_matrix_in_place, step_matrix_by_fit,
                lambda k, d: [[float(number) for number in row] for row in step_matrix_in_place(-k, d).T]]
KNOWN["6.1"] = [
    *with_frequencies(step_matrix),
    (lambda k, d: step_matrix()(k, d).T, r"It goes back instead of forward"),
    (step_matrix(of=lambda angle: [[math.cos(angle), math.sin(angle)], [math.sin(angle), math.cos(angle)]]),
     r"The minus is missing"),
    (step_matrix(of=lambda angle: [[math.sin(angle), math.cos(angle)], [-math.cos(angle), math.sin(angle)]]),
     r"Sine and cosine have changed places"),
    (step_matrix(of=lambda angle: [[math.cos(angle), 0], [0, math.cos(angle)]]), r"The sines are missing"),
    (lambda k, d: step_matrix()(1, d), r"k is not in it"),
    (lambda k, d: step_matrix()(abs(k), d), r"The sign of k was dropped"),
    (in_halves, r"all sines first and all cosines after them"),
]
OUTSIDE["6.1"] = [
    (step_matrix(lambda i, d: 2 * math.pi * omega(i, d)),
     r"It is how much of the sine of pair 0 at p goes into the sine"),
    (step_matrix(lambda i, d: 5_000 ** (-2 * i / d)), r"^entry \[2, 2\] of <lambda>\(3, 4\) is .* sine of pair 1 at p"),
    (lambda k, d: torch.eye(d), r"^entry \[0, 0\] of <lambda>\(1, 2\) is 1\.00000, expected 0\.54030\. It is how much"),
    (lambda k, d: -step_matrix()(k, d), r"goes 0 positions on and should change nothing: it is the identity"),
    (lambda k, d: step_matrix()(k, d).flip(0, 1), r"<lambda>\(1, 2\) is .* It is how much of"),
    (lambda k, d: step_matrix()(2 * k, d), r"It is how much"),
    (lambda k, d: step_matrix()(k, d)[:, 0], r"numbers of shape \[2, 2\], got shape \[2\]"),
]


# Exercise 6.2: the squared distance from the offset

def distance(frequency=omega, of=lambda angle: 2 - 2 * math.cos(angle)):
    return lambda k, d: sum(of(k * frequency(i, d)) for i in range(d // 2))


def measured(k, d, power=2):
    PE = sinusoidal_table(5200, d, dtype=torch.float64)
    return ((PE[100 + k] - PE[100]).norm() ** power).item()


RIGHT["6.2"] = [distance(), measured, distance(of=lambda angle: 4 * np.sin(angle / 2) ** 2),
                lambda k, d: d - 2 * torch.cos(k * omega(torch.arange(d // 2), d)).sum()]
KNOWN["6.2"] = [
    *with_frequencies(distance),
    (lambda k, d: measured(k, d, 1), r"This is the distance; asked for is its square"),
    (distance(of=lambda angle: 1 - math.cos(angle)), r"It is half of it"),
    (distance(of=math.cos), r"This is the dot product"),
    (distance(of=lambda angle: 2 + 2 * math.cos(angle)), r"The sign before the cosine is wrong"),
    (distance(of=lambda angle: 2 - 2 * math.sin(angle)), r"It has the sines"),
    (lambda k, d: distance()(1, d), r"k is not in it"),
    (lambda k, d: distance()(k, d) / (d / 2), r"This is the mean over the pairs"),
    (lambda k, d: sum(2 - 2 * math.cos(k * omega(i, d)) for i in range(d)), r"\(5000, 2\) .*It goes over d pairs"),
]
OUTSIDE["6.2"] = [
    (lambda k, d: float(d),
     r"^<lambda>\(1, 4\) is 4\.00000, expected 0\.91950\. It is a sum over 2 pairs of 2 − 2 cos\(1 ω\)"),
    (lambda k, d: k * k, r"It is a sum over 2 pairs"),
    (distance(of=lambda angle: angle**2), r"It is a sum over 2 pairs"),
    (lambda k, d: distance()(2 * k, d), r"It is a sum over 2 pairs"),
    (lambda k, d: distance()(k, d) if k > 0 else 0.0, r"^<lambda>\(-3, 8\) is 0\.00000, expected"),
    (lambda k, d: [distance()(k, d)], r"one number, got shape \[1\]"),
]


# Exercise 6.3: products of pairs

def both_products(here, there):
    return torch.stack(dot_cross(here, there))


def products_by_loop(here, there):
    pairs = range(0, len(here), 2)
    return [here[i] * there[i] + here[i + 1] * there[i + 1] for i in pairs] + [
        there[i] * here[i + 1] - there[i + 1] * here[i] for i in pairs]


def complex_products(here, there):
    a, b = (each.numpy()[1::2] + 1j * each.numpy()[0::2] for each in (here, there))
    return np.concatenate([(b * a.conj()).real, (b * a.conj()).imag])


RIGHT["6.3"] = [lambda here, there: both_products(here, there).flatten(), products_by_loop, complex_products,
                lambda here, there: torch.cat(dot_cross(here.float(), there.float()))]
KNOWN["6.3"] = [
    (lambda here, there: both_products(here, there).flip(0).flatten(), r"Dot and cross products have changed places"),
    (lambda here, there: both_products(here, there).T.flatten(), r"Dot and cross products alternate"),
    (lambda here, there: products_by_loop(there, here), r"The cross products have the wrong sign"),
    (lambda here, there: dot_cross(here, there)[0].tile(2), r"Both halves are the dot products"),
    (lambda here, there: dot_cross(here, there)[1].tile(2), r"Both halves are the cross products"),
    (lambda here, there: torch.cat([dot_cross(here, there)[0], here[0::2] * there[1::2] + here[1::2] * there[0::2]]),
     r"The minus is missing in the cross products"),
    (lambda here, there: dot_cross(here, there)[0], r"shape \[6\], got shape \[3\]\. The cross products are missing"),
    (lambda here, there: here * there, r"Entry times entry are d products"),
    (both_products, r"shape \[6\], got shape \[2, 3\]\. Dot and cross products are \[2, d/2\] here"),
]
OUTSIDE["6.3"] = [
    (lambda here, there: there - here, r"^Of PE\(2\) and PE\(5\) it is \[.*\], .* must not depend on p"),
    (lambda here, there: 3 * both_products(here, there).flatten(), r"All of it is 3 times"),
    (lambda here, there: both_products(here, there).flatten().flip(0),
     r"is the dot product of pair 0.*in other places"),
    (lambda here, there: torch.cat([turned(here, there)] * 2), r"It is the dot product of pair 0, the cosine of kω"),
    (lambda here, there: -both_products(here, there).flatten(), r"All of it is -1 times"),
    (lambda here, there: (a := both_products(here, there).flatten()) + (torch.arange(len(a)) == 3) * 0.5,
     r"^entry \[3\] of .* It is the cross product of pair 0, the sine of kω"),
    (lambda here, there: here @ there, r"numbers of shape \[8\], got shape \[\]"),
]


# Exercise 6.4: which pairs turn

def turning(frequency=omega, turn=2 * math.pi):
    return lambda length, d: sum(turn / frequency(i, d) <= length for i in range(d // 2))


def turning_by_loop(length, d):
    i = 0
    while i < d // 2 and length * omega(i, d) >= 2 * math.pi:
        i += 1
    return i


RIGHT["6.4"] = [turning(), turning_by_loop, lambda length, d: float(turning()(length, d)),
                lambda length, d: (2 * math.pi * 10_000 ** (2 * torch.arange(d // 2) / d) <= length).sum(),
                lambda length, d: np.count_nonzero(length * omega(np.arange(d // 2), d) / (2 * np.pi) >= 1)]
KNOWN["6.4"] = [
    *with_frequencies(turning),
    (lambda length, d: d // 2 - turning()(length, d), r"These are the pairs that do not turn once"),
    (lambda length, d: 2 * turning()(length, d), r"This counts dimensions; a pair has two"),
    (turning(turn=1), r"A full turn is 2π radians, not 1"),
    (turning(turn=math.pi), r"Half a turn is counted as a whole one"),
    (lambda length, d: sum(2 * math.pi / omega(i, d) <= length for i in range(d)), r"It goes over d pairs"),
    (lambda length, d: turning()(length, d) - 1, r"This is the number of the last pair that turns"),
]
OUTSIDE["6.4"] = [
    (lambda length, d: 0,
     r"^<lambda>\(512, 1024\) is 0, expected 245\. The wavelengths of d = 1024 begin 6\.283, 6\.397"),
    (lambda length, d: d // 2, r"is 512, expected 245\. The wavelengths"),
    (lambda length, d: turning()(length, d) + 1, r"The wavelengths of d"),
    (lambda length, d: turning()(length, d) / d, r"The wavelengths of d"),
    (lambda length, d: turning()(512, d), r"^<lambda>\(6, 8\) is .* The wavelengths of d = 8"),
    (lambda length, d: [i for i in range(d // 2) if 2 * math.pi / omega(i, d) <= length],
     r"one number, got shape \[245\]"),
]


# Exercise 6.5: the ratio of lengths

def ratio_measured(std, d):
    """Many numbers, drawn; their mean square made exact, as it would be of more of them."""
    token = torch.randn(d, dtype=torch.float64)
    return token.div(token.square().mean().sqrt()).mul(std).norm() / sinusoidal_table(100, d)[50].norm()


RIGHT["6.5"] = [lambda std, d: std * math.sqrt(d) / math.sqrt(d / 2), lambda std, d: std * 2**0.5, ratio_measured,
                lambda std, d: 1.4142 * std, lambda std, d: torch.tensor(std) * np.sqrt(2)]
KNOWN["6.5"] = [
    (lambda std, d: math.sqrt(d / 2) / (std * math.sqrt(d)), r"It is turned over"),
    (lambda std, d: std * d**0.5, r"This is the length of a token alone"),
    (lambda std, d: sinusoidal_table(2, d)[1].norm(), r"This is the length of a row of the encoding alone"),
    (lambda std, d: std * math.sqrt(d) / math.sqrt(d), r"A row of positions is not √d long"),
    (lambda std, d: std**2 * d / (d / 2), r"This is the ratio of the squared lengths"),
    (lambda std, d: std * math.sqrt(d) / (d / 2), r"d/2 is the square of it"),
    (lambda std, d: std * d / math.sqrt(d / 2), r"not std·d"),
    (lambda std, d: std / math.sqrt(d / 2), r"Tokens have d entries"),
    (lambda std, d: math.sqrt(std * d) / math.sqrt(d / 2), r"std is a standard deviation"),
    (lambda std, d: math.sqrt(2), r"std is not in it"),
    (lambda std, d: int(std * math.sqrt(2)), r"These are whole numbers where fractions are due"),
]
OUTSIDE["6.5"] = [
    (lambda std, d: 1.0,
     r"^<lambda>\(1\.0, 512\) is 1\.00000, expected 1\.41421\. A token is about 1·√512 long, a row"),
    (lambda std, d: 1.5 * std, r"A token is about 1·√512 long"),
    (lambda std, d: std * math.sqrt(3), r"A token is about 1·√512 long"),
    (lambda std, d: std * math.sqrt(2) + (d == 768), r"\(0\.02, 768\) is 1\.02828, expected 0\.02828"),
    (lambda std, d: std * math.sqrt(2) if std > 0.2 else std, r"\(0\.125, 96\) is 0\.12500, expected 0\.17678"),
    (lambda std, d: std / 0, r"ZeroDivisionError"),
]


# Exercise 7.1: name the layout

def unit(d, column=0):
    return functional.one_hot(torch.tensor(column), d).float()


def layout_by_lengths(rotate, d):
    """A rotation keeps the length of a pair: so neighbours are one, or they are not."""
    x = torch.linspace(1, 2, d)
    return "interleaved" if abs(rotate(x, 3)[:2].norm() - x[:2].norm()) < 1e-5 else "half"


def layout_by_search(rotate, d):
    partner = next(column for column in range(d - 1) if abs(rotate(unit(d, d - 1), 1)[column]) > 0)
    return {d - 2: "interleaved", d // 2 - 1: "half"}[partner]


RIGHT["7.1"] = [lambda rotate, d: "interleaved" if rotate(unit(d), 1)[1] != 0 else "half",
                lambda rotate, d: "half" if rotate(unit(d).tolist(), 1).numpy()[d // 2] else "interleaved",
                layout_by_lengths, layout_by_search,
                lambda rotate, d: "Half" if rotate(np.eye(d)[1], 1)[0] == 0 else "Interleaved"]
KNOWN["7.1"] = []               # words: nothing to compare, so no catalogue
OUTSIDE["7.1"] = [
    (lambda rotate, d: bool(rotate(unit(d), 1)[1]), r'should be a string, "interleaved" or "half", got True'),
    (lambda rotate, d: ("half",), r"should be a string, .* got \('half',\)"),
    (lambda rotate, d: "split", r"is 'split'; the two names are \"interleaved\" and \"half\""),
    (lambda rotate, d: "half" if rotate(unit(d), 0)[1] == 0 else "interleaved", r"is 'half'\. .* to position 0 only"),
    (lambda rotate, d: "HALF", r"in the interleaved layout and of base 10000, is 'HALF', and rotate was never called"),
    (lambda rotate, d: "interleaved", r"in the half layout and of base 10000, is 'interleaved', and rotate was never"),
    (lambda rotate, d: "half" if rotate(unit(d), 1)[4] else "interleaved",
     r"layout_of\(rotate, 6\), .* half layout and of base 500000, is 'interleaved'\. Turn a vector .* here column 3\."),
    (lambda rotate, d: "interleaved" if rotate(torch.ones(d), 1)[1] != 1 else "half", r"'interleaved'\. Turn a"),
    (lambda rotate, d: "interleaved" if rotate(unit(d), 1)[0] == 1 else "half",
     r"'half'\. Turn a vector .* column 1\."),
    (lambda rotate, d: "interleaved" if torch.allclose(rotate(unit(d, 2), 1)[2:4], torch.tensor([0.1, -1]).cos())
     else "half", r"'half'\. Turn a vector that is 1 in column 0"),
    (lambda rotate, d: rotate(unit(d)[None], 1), r"ValueError: rotate turns one vector of even width, got"),
]


# Exercise 7.2: the rows for the half layout

def firsts_then_seconds(d_head):
    return [*range(0, d_head, 2), *range(1, d_head, 2)]


def head_by_head(order=firsts_then_seconds):
    """Right as it stands; other orders are mistakes."""
    def to_half(weight, n_heads):
        return torch.cat([head[order(len(head))] for head in weight.chunk(n_heads)])
    return to_half


def rows_by_loop(weight, n_heads):
    d_head, rows = len(weight) // n_heads, []
    for head in range(n_heads):
        for second in (0, 1):
            rows += [weight[head * d_head + 2 * i + second].tolist() for i in range(d_head // 2)]
    return rows


def scattered(weight, n_heads):
    """new[order] = old: the other way round."""
    new = torch.zeros_like(weight)
    for old, part in zip(weight.chunk(n_heads), new.chunk(n_heads), strict=True):
        part[firsts_then_seconds(len(old))] = old
    return new


def moved_in_place(weight, n_heads):
    weight[:] = head_by_head()(weight, n_heads)
    return weight


RIGHT["7.2"] = [head_by_head(), rows_by_loop,
                lambda weight, n: weight.view(n, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape),
                lambda weight, n: np.concatenate([np.concatenate([head[0::2], head[1::2]])
                                                  for head in np.split(weight.numpy().astype(float), n)]),
                lambda weight, n_heads: convert_projection(weight, n_heads, to="half")]
KNOWN["7.2"] = [
    (head_by_head(lambda d: torch.tensor(firsts_then_seconds(d)).argsort()), r"the way from half to interleaved"),
    (scattered, r"Or did you write new\[order\] = old for new = old\[order\]\?"),
    (lambda weight, n_heads: weight[firsts_then_seconds(len(weight))],
     r"\(weight \[16, 5\], 2\) .* The rows of all heads are mixed"),
    (lambda weight, n_heads: weight.clone(), r"Nothing has moved"),
    (head_by_head(lambda d: [*range(1, d, 2), *range(0, d, 2)]), r"The second rows of the pairs come first"),
    (lambda weight, n: weight.view(-1, 2, n, weight.shape[1]).permute(2, 1, 0, 3).reshape(weight.shape),
     r"rows that are n_heads heads apart"),
    (lambda weight, n: torch.cat([head_by_head()(weight[: len(weight) // n], 1), weight[len(weight) // n :]]),
     r"^entry \[9, 0\] of <lambda>\(weight \[16, 5\], 2\) .* but only in head 0"),
]
OUTSIDE["7.2"] = [
    (moved_in_place, r"has changed weight itself\."),
    (lambda weight, n_heads: head_by_head()(weight, n_heads).T, r"It looks transposed"),
    (lambda weight, n_heads: weight.view(n_heads, -1, 2, weight.shape[1]).transpose(1, 2),
     r"shape \[6, 4\], got shape \[1, 2, 3, 4\]"),
    (lambda weight, n_heads: torch.cat([-weight[1::2], weight[0::2]]),
     r"^entry \[0, 0\] of .* Row 0 is row 0 of head 0"),
    (head_by_head(lambda d: range(d - 1, -1, -1)), r"^entry \[0, 0\] of .* Row 0 is row 0 of head 0"),
    (lambda weight, n_heads: head_by_head()(head_by_head()(weight, n_heads), n_heads),
     r"^entry \[1, 0\] of .* what row 2 of that head was"),
    (lambda weight, n_heads: head_by_head()(weight, n_heads).view(n_heads, -1, weight.shape[1]).flip(0).flatten(0, 1),
     r"^entry \[0, 0\] of <lambda>\(weight \[16, 5\], 2\)"),
    (lambda weight, n_heads: weight[:, firsts_then_seconds(6)], r"IndexError: .*\n(.*\n)*when called as .*\], 1"),
]


# Exercise 7.3: positions of a padded batch

def counted_by_loop(mask):
    result = []
    for row in mask:
        result.append([])
        count = 0
        for real in row:
            result[-1].append(count)
            count += bool(real)
    return result


def columns_of(mask):
    return torch.arange(mask.shape[1]).expand(mask.shape)


def count_words(mask):
    return mask.long().cumsum(1)


RIGHT["7.3"] = [lambda mask: (count_words(mask) - 1).clamp(min=0), lambda mask: (count_words(mask) - 1) * mask,
                counted_by_loop, lambda mask: np.maximum(np.cumsum(mask.numpy(), axis=1) - 1.0, 0),
                lambda mask: count_words(mask) - mask.long(),
                lambda mask: (columns_of(mask) - mask.long().argmax(1, keepdim=True)).clamp(min=0)]
KNOWN["7.3"] = [
    (columns_of, r"\(\[\[0, 0, 1, 1, 1\]\]\) is 1, expected 0\. The padding is counted\. The first"),
    (lambda mask: columns_of(mask) * mask, r"The padding is counted, and then gets 0"),
    (count_words, r"\(\[\[1, 1, 1\]\]\) is 1, expected 0\. It counts from 1"),
    (lambda mask: count_words(mask) - 1, r"is -1, expected 0\. Padding has position −1"),
    (lambda mask: (count_words(mask) - 1).masked_fill(~mask, 1), r"is 1, expected 0\. Padding has position 1"),
    (lambda mask: mask.long().cumsum(1) * mask + 1, r"as in RoBERTa's table"),
    (lambda mask: (count_words(~mask) - 1).clamp(min=0), r"Padding is counted and words are not"),
    (lambda mask: (mask.long().cumsum(0) - 1).clamp(min=0), r"It counts down the batch"),
    (lambda mask: (columns_of(mask) - (~mask[0]).sum()).clamp(min=0), r"Every row begins where the first row does"),
]
OUTSIDE["7.3"] = [
    (lambda mask: columns_of(mask) - (~mask).sum(1, keepdim=True), r"is -2, expected 0\. It is padding"),
    (lambda mask: (columns_of(mask) - (~mask).sum(1).max()).clamp(min=0),
     r"^entry \[0, 2\] of .* is 0, expected 1\. It is real token number 2 of its row"),
    (lambda mask: count_words(~mask), r"is 0, expected 1\. It is real token number 2 of its row"),
    (lambda mask: columns_of(mask).clamp(max=mask.sum(1, keepdim=True) - 1), r"is 1, expected 0\. It is padding"),
    (lambda mask: mask.long(), r"is 1, expected 0\. It is real token number 1"),
    (lambda mask: (count_words(mask) - 1).clamp(min=0).flip(1), r"is 2, expected 0\. It is real token number 1"),
    (lambda mask: (count_words(mask) - 1)[0], r"numbers of shape \[1, 3\], got shape \[3\]"),
]


def texts(mistake, exercise):
    """Every text that a mistake's hint can be."""
    return {mistake.hint if isinstance(mistake.hint, str) else mistake.hint(*case) for case in exercise.cases}


def hints_in(name, message):
    """The entries of the catalogue whose hint a message ends with."""
    exercise = EXERCISES[name]
    return {number for number, mistake in enumerate(exercise.mistakes)
            if any(message.endswith(text) for text in texts(mistake, exercise))}


def is_named(name, message):
    return bool(hints_in(name, message)) or "whole numbers where fractions are due" in message


def faults(name):
    """What the check of an exercise does wrong: right answers refused, wrong ones accepted or told something else."""
    found = [f"a right answer was refused: {verdict.message}" for answer in RIGHT[name]
             if (verdict := check(name, answer)).passed is not True]
    reached = set()
    for answer, message in KNOWN[name] + OUTSIDE[name]:
        verdict = check(name, answer)
        reached |= hints_in(name, verdict.message)
        if verdict.passed is not False or not re.search(message, verdict.message):
            found.append(f"expected {message!r}, told: {verdict.message}")
        elif is_named(name, verdict.message) != ((answer, message) in KNOWN[name]):
            found.append(f"{'a wrong name' if is_named(name, verdict.message) else 'no name'}: {verdict.message}")
    exercise = EXERCISES[name]
    return found + [f"no wrong answer reaches {texts(mistake, exercise)}"
                    for number, mistake in enumerate(exercise.mistakes) if number not in reached]


def main():
    torch.set_num_threads(1)                                        # the tensors are small: threads would only cost
    checking.SECONDS = 60                                           # a busy machine is no wrong answer
    check("0.1", lambda number: number)                             # fills EXERCISES
    print("exercise   right   catalogue   outside   faults")
    every = {}
    for name in sorted(EXERCISES):
        with contextlib.redirect_stdout(io.StringIO()):
            every[name] = faults(name)
        counts = len(RIGHT[name]), len(KNOWN[name]), len(OUTSIDE[name]), len(every[name]) or "–"
        print("{:8} {:7} {:11} {:9} {:>8}".format(name, *counts))
    for name, found in every.items():
        for fault in found:
            print(f"\n{name}: {fault}")
    return 1 if any(every.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
