"""The exercises of chapter 5, the encoder layer. Their truth is written out here."""
from __future__ import annotations

from collections.abc import Callable

import torch

from posenc_lib.checking import EXERCISES, Exercise, Mistake
from posenc_lib.exercises.chapter_01 import some

# Exercise 5.1

def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float,
               over: int | tuple[int, ...] = -1, fewer: int = 0) -> torch.Tensor:
    mean, variance = moments(x, over, fewer)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def moments(x: torch.Tensor, over: int | tuple[int, ...] = -1, fewer: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance along `over`; `fewer` is what is taken from the count that the squares are divided by."""
    mean = x.mean(over, keepdim=True)
    squares = (x - mean) ** 2
    count = squares.numel() / squares.sum(over, keepdim=True).numel()
    return mean, squares.sum(over, keepdim=True) / (count - fewer)


def vectors(*shape: int, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """An `x` far from mean 0 and variance 1. An eps as large as most of these shows where it stands."""
    scale = torch.linspace(0.3, 3, shape[0] if len(shape) > 1 else 1).view(-1, *[1] * (len(shape) - 1))
    return 2 + scale * some(*shape, seed=12), 1 + some(shape[-1], seed=13), 1 + some(shape[-1], seed=14), eps


def normed(change: Callable) -> Callable:
    """A wrong answer made of x − mean, the variance and the other arguments."""
    def answer(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> torch.Tensor:
        mean, variance = moments(x)
        return change(x - mean, variance, gamma, beta, eps)
    return answer


EXERCISES["5.1"] = Exercise(
    cases=[vectors(4, eps=0.3), vectors(3, 5, eps=1e-5), vectors(2, 4, 7, eps=0.5)],
    truth=layer_norm,
    mistakes=[
        Mistake(lambda x, *_: f"It divides the sum of squares by {x.shape[-1] - 1}. LayerNorm has the biased variance, "
                              f"divided by {x.shape[-1]}.", lambda *given: layer_norm(*given, fewer=1)),
        Mistake("ε stands outside the root. It belongs to the variance, inside.", normed(
            lambda centred, variance, gamma, beta, eps: gamma * centred / (variance.sqrt() + eps) + beta)),
        Mistake(lambda x, *_: f"Two things: the sum of squares is divided by {x.shape[-1] - 1} in place of "
                              f"{x.shape[-1]}, and ε stands outside the root.",
                lambda x, gamma, beta, eps: gamma * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps) + beta),
        Mistake("ε is missing.", normed(
            lambda centred, variance, gamma, beta, eps: gamma * centred / variance.sqrt() + beta)),
        Mistake("It divides by the variance, not by its root.", normed(
            lambda centred, variance, gamma, beta, eps: gamma * centred / (variance + eps) + beta)),
        Mistake("γ and β are missing.", normed(
            lambda centred, variance, gamma, beta, eps: centred / (variance + eps).sqrt())),
        Mistake("β is missing.", normed(
            lambda centred, variance, gamma, beta, eps: gamma * centred / (variance + eps).sqrt())),
        Mistake("γ is missing.", normed(
            lambda centred, variance, gamma, beta, eps: centred / (variance + eps).sqrt() + beta)),
        Mistake("γ and β have changed places: scale by γ, shift by β.",
                lambda x, gamma, beta, eps: layer_norm(x, beta, gamma, eps)),
        Mistake("γ also multiplies β. Scale first, then shift.", normed(
            lambda centred, variance, gamma, beta, eps: gamma * (centred / (variance + eps).sqrt() + beta))),
        Mistake("The mean is not subtracted.",
                lambda x, gamma, beta, eps: gamma * x / (moments(x)[1] + eps).sqrt() + beta),
        Mistake("The mean of the squares stands for the variance. Subtract the mean before you square.",
                lambda x, gamma, beta, eps: gamma * (x - moments(x)[0]) / ((x**2).mean(-1, True) + eps).sqrt() + beta),
        Mistake("Mean and variance are taken over all numbers at once. Each position has its own, over the last axis.",
                lambda x, *rest: layer_norm(x, *rest, over=tuple(range(x.dim())))),
        Mistake("Mean and variance are taken over the first axis: that is BatchNorm's direction. LayerNorm takes them "
                "over the last.", lambda *given: layer_norm(*given, over=0)),
    ],
    explain=lambda index, x, *_: "Its vector has mean {:.4f} and variance {:.4f}.".format(
        *(moment[index[:-1]].item() for moment in moments(x))),
    shows="each vector by itself: mean 0, variance 1, then γ and β.",
)


# Exercise 5.2

X, A, B = some(2, 3, 4, seed=15), some(4, 4, seed=16), some(4, 4, seed=17)


def attend(x: torch.Tensor) -> torch.Tensor:
    return (x + x.mean(1, keepdim=True)) @ A.to(x.dtype)         # mixes positions


def transform(x: torch.Tensor) -> torch.Tensor:
    return (x @ B.to(x.dtype)).relu()


def norm1(x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, torch.tensor(2.0), torch.tensor(1.0), 1e-5)        # the two differ, as trained ones do


def norm2(x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, torch.tensor(1.0), torch.tensor(-3.0), 1e-5)


def layer(x: torch.Tensor, first: Callable, second: Callable, norm1: Callable, norm2: Callable, order: str
          ) -> torch.Tensor:
    if order == "pre":
        x = x + first(norm1(x))
        return x + second(norm2(x))
    x = norm1(x + first(x))
    return norm2(x + second(x))


def in_both_orders(pre: Callable, post: Callable) -> Callable:
    """A wrong answer: for each order a function of x and of what comes out of the first sublayer when that is right."""
    def answer(x: torch.Tensor, attend: Callable, transform: Callable, norm1: Callable, norm2: Callable, order: str
               ) -> torch.Tensor:
        return pre(x, x + attend(norm1(x))) if order == "pre" else post(x, norm1(x + attend(x)))
    return answer


EXERCISES["5.2"] = Exercise(
    cases=[(X, attend, transform, norm1, norm2, order) for order in ("post", "pre")],
    truth=layer,
    mistakes=[
        Mistake("Each order is what the other should be.", lambda *given: layer(
            *given[:-1], "pre" if given[-1] == "post" else "post")),
        Mistake("order is not asked: this is always pre-norm.", lambda *given: layer(*given[:-1], "pre")),
        Mistake("order is not asked: this is always post-norm.", lambda *given: layer(*given[:-1], "post")),
        Mistake("norm1 and norm2 have changed places.", lambda x, attend, transform, norm1, norm2, order: layer(
            x, attend, transform, norm2, norm1, order)),
        Mistake("The sublayers have changed places: attention comes first.",
                lambda x, attend, transform, norm1, norm2, order: layer(x, transform, attend, norm1, norm2, order)),
        Mistake("The second sum adds the first x again. What goes into the second sublayer is also what it is added "
                "to.", in_both_orders(lambda x, middle: x + transform(norm2(middle)),
                                      lambda x, middle: norm2(x + transform(middle)))),
        Mistake("The second sublayer does not see what the first one did. They follow one another.",
                in_both_orders(lambda x, middle: middle + transform(norm2(x)),
                               lambda x, middle: norm2(x + attend(x) + transform(x)))),
        Mistake("The residual paths are missing: each sublayer's output is added to what came in.",
                in_both_orders(lambda x, middle: transform(norm2(attend(norm1(x)))),
                               lambda x, middle: norm2(transform(norm1(attend(x)))))),
        Mistake("The second sublayer is missing.", in_both_orders(lambda x, middle: middle, lambda x, middle: middle)),
        Mistake("There is a third norm. The last one of a pre-norm stack comes once, after all layers.",
                in_both_orders(lambda x, middle: norm2(middle + transform(norm2(middle))),
                               lambda x, middle: norm2(middle + transform(middle)))),
        Mistake("What is added is the normed x. The residual path carries x itself past the norm.",
                in_both_orders(
                    lambda x, middle: (y := norm2((z := norm1(x)) + attend(z))) + transform(y),
                    lambda x, middle: norm2(middle + transform(middle)))),
        Mistake("In post-norm the sum comes first and is normed whole; here only what a sublayer gives is normed.",
                in_both_orders(
                    lambda x, middle: middle + transform(norm2(middle)),
                    lambda x, middle: (y := x + norm1(attend(x))) + norm2(transform(y)))),
    ],
    explain=lambda index, x, attend, transform, norm1, norm2, order: (
        "Before each sublayer a norm, after it the sum." if order == "pre" else
        "Each sublayer's output is added to its input, then comes the norm."),
    shows="one line a sublayer; the two orders differ in where the norm stands.",
)


# Exercise 5.3

def parts(d: int, d_ff: int) -> tuple[int, int, int]:
    """What attention, the feed-forward network and the norms have to learn."""
    return 4 * (d * d + d), (d * d_ff + d_ff) + (d_ff * d + d), 2 * (d + d)


def missing(numbers: Callable[[int, int], int], hint: Callable[[int, int], str]) -> Mistake:
    return Mistake(hint, lambda d, d_ff: sum(parts(d, d_ff)) - numbers(d, d_ff))


EXERCISES["5.3"] = Exercise(
    cases=[(4, 10), (512, 2048), (6, 9)],
    truth=lambda d, d_ff: sum(parts(d, d_ff)),
    mistakes=[
        missing(lambda d, d_ff: 4 * d, lambda d, d_ff: (
            f"{4 * d} numbers are missing, as many as the two LayerNorms have (γ and β each), and as many as the "
            f"biases of attention's four matrices.")),
        missing(lambda d, d_ff: 2 * d, lambda d, d_ff: (
            f"{2 * d} numbers are missing: there are two LayerNorms, with γ and β each.")),
        missing(lambda d, d_ff: d_ff + d, lambda d, d_ff: (
            f"The biases of the feed-forward network are missing: {d_ff} and {d}.")),
        missing(lambda d, d_ff: 5 * d + d_ff, lambda d, d_ff: "All biases of the matrices are missing."),
        missing(lambda d, d_ff: d * d + d, lambda d, d_ff: (
            "Attention has four matrices: for queries, keys, values, and for its output.")),
        missing(lambda d, d_ff: d * d, lambda d, d_ff: (
            f"{d * d} numbers are missing, as many as one of attention's four matrices has.")),
        missing(lambda d, d_ff: d * d_ff + d, lambda d, d_ff: (
            "The feed-forward network has two matrices, there and back.")),
        missing(lambda d, d_ff: sum(parts(d, d_ff)[1:]), lambda d, d_ff: "This is attention alone."),
        missing(lambda d, d_ff: sum(parts(d, d_ff)[::2]), lambda d, d_ff: "This is the feed-forward network alone."),
        missing(lambda d, d_ff: -5 * sum(parts(d, d_ff)), lambda d, d_ff: (
            "That is a stack of six layers; asked for is one.")),
    ],
    explain=lambda _, d, d_ff: "Attention has {:,} of them, the feed-forward network {:,}, the two norms {:,}.".format(
        *parts(d, d_ff)),
    shows="a third in attention, two thirds in the feed-forward network, next to nothing in the norms.",
    within=1e-8,                                                 # they are counted, to millions
)
