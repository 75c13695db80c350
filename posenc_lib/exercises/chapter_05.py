"""The checks of chapter 5, the encoder layer."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from posenc_lib.checking import Wrong, agree, call, calling, exercise, numbers


@exercise("5.1")
def one_layer_norm(answer: Callable) -> str:
    random = torch.Generator().manual_seed(8)
    for shape in ((4,), (3, 5), (2, 4, 7)):
        size = shape[-1]
        x = 3 * torch.randn(shape, generator=random, dtype=torch.float64) + 2
        x[..., 0] *= 1e-3 if len(shape) == 3 else 1
        gamma, beta = (torch.randn(size, generator=random, dtype=torch.float64) + 1 for _ in range(2))
        eps = 1e-5 if len(shape) == 1 else 0.5                   # large enough to see where it stands
        what = f"layer_norm(x {list(shape)}, gamma, beta, {eps})"
        seen = numbers(call(answer, x.clone(), gamma.clone(), beta.clone(), eps), shape, what)
        expected = functional.layer_norm(x, (size,), gamma, beta, eps)
        if np.abs(seen - expected.numpy()).max() < 1e-4:
            continue
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
        centred, unbiased = x - mean, x.var(-1, keepdim=True)
        for wrong, hint in (
            (centred / (unbiased + eps).sqrt() * gamma + beta, f"It divides the sum of squares by {size - 1}. "
                                                               f"LayerNorm has the biased variance, divided by {size}"),
            (centred / (variance.sqrt() + eps) * gamma + beta, "ε stands outside the root. It belongs to the variance, "
                                                               "inside"),
            (centred / (unbiased.sqrt() + eps) * gamma + beta, f"Two things: the variance is divided by {size - 1} in "
                                                               f"place of {size}, and ε stands outside the root"),
            (centred / variance.sqrt() * gamma + beta, "ε is missing"),
            (centred / (variance + eps) * gamma + beta, "It divides by the variance, not by its root"),
            (centred / (variance + eps).sqrt(), "γ and β are missing"),
            (centred / (variance + eps).sqrt() * gamma, "β is missing"),
            (centred / (variance + eps).sqrt() + beta, "γ is missing"),
            ((centred / (variance + eps).sqrt() + beta) * gamma, "γ also multiplies β. Scale first, then shift"),
            (x / (variance + eps).sqrt() * gamma + beta, "The mean is not subtracted"),
            (_over(x, None, gamma, beta, eps), "Mean and variance are taken over all numbers at once. Each position "
                                               "has its own, over the last axis"),
            (_over(x, 0, gamma, beta, eps), "Mean and variance are taken over the first axis: that is BatchNorm's "
                                            "direction. LayerNorm takes them over the last"),
        ):
            if np.abs(seen - wrong.numpy()).max() < 1e-4 and (wrong - expected).abs().max() > 1e-3:
                raise Wrong(f"{what} is wrong. {hint}.")
        agree(seen, expected.numpy(), what, lambda *index, mean=mean, variance=variance: (
            f"Its vector has mean {mean[index[:-1]].item():.4f} and variance {variance[index[:-1]].item():.4f}."))
    return "each vector by itself: mean 0, variance 1, then γ and β."


def _over(x: torch.Tensor, axis: int | None, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> torch.Tensor:
    axes = tuple(range(x.dim())) if axis is None else axis
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * gamma + beta


@exercise("5.2")
def both_orders(answer: Callable) -> str:
    random = torch.Generator().manual_seed(9)
    x = torch.randn(2, 3, 4, generator=random, dtype=torch.float64)
    A, B = torch.randn(2, 4, 4, generator=random, dtype=torch.float64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return (x + x.mean(1, keepdim=True)) @ A.to(x.dtype)     # mixes positions

    def transform(x: torch.Tensor) -> torch.Tensor:
        return (x @ B.to(x.dtype)).relu()

    def norm1(x: torch.Tensor) -> torch.Tensor:
        return 2 * functional.layer_norm(x, (4,)) + 1            # the two norms differ, as trained ones do

    def norm2(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (4,)) - 3

    def pre(x: torch.Tensor) -> torch.Tensor:
        x = x + attend(norm1(x))
        return x + transform(norm2(x))

    def post(x: torch.Tensor) -> torch.Tensor:
        x = norm1(x + attend(x))
        return norm2(x + transform(x))

    for order, right, other in (("post", post, pre), ("pre", pre, post)):
        what = f'layer(x, attend, transform, norm1, norm2, "{order}")'
        seen = numbers(call(answer, x.clone(), attend, transform, norm1, norm2, order), tuple(x.shape), what)
        expected = right(x)
        if np.abs(seen - expected.numpy()).max() < 1e-4:
            continue
        middle = x + attend(norm1(x)) if order == "pre" else norm1(x + attend(x))
        for wrong, hint in (
            (other(x), "That is the other order"),
            (_swapped(order, x, attend, transform, norm2, norm1), "norm1 and norm2 have changed places"),
            (_swapped(order, x, transform, attend, norm1, norm2), "The sublayers have changed places: attention comes "
                                                                  "first"),
            (x + transform(norm2(middle)) if order == "pre" else norm2(x + transform(middle)),
             "The second sum adds the first x again. What goes into the second sublayer is also what it is added to"),
            (x + attend(norm1(x)) + transform(norm2(x)) if order == "pre" else norm2(x + attend(x) + transform(x)),
             "The second sublayer does not see what the first one did. They follow one another"),
            (transform(norm2(attend(norm1(x)))) if order == "pre" else norm2(transform(norm1(attend(x)))),
             "The residual paths are missing: each sublayer's output is added to what came in"),
            (middle, "The second sublayer is missing"),
            (norm2(pre(x)), "There is a third norm. The last one of a pre-norm stack comes once, after all layers"),
        ):
            if np.abs(seen - wrong.numpy()).max() < 1e-4:
                raise Wrong(f"{what} is wrong. {hint}.")
        agree(seen, expected.numpy(), what, lambda *_, order=order: (
            "Before each sublayer a norm, after it the sum." if order == "pre" else
            "Each sublayer's output is added to its input, then comes the norm."))
    return "one line a sublayer; the two orders differ in where the norm stands."


def _swapped(order: str, x: torch.Tensor, first: Callable, second: Callable, norm1: Callable, norm2: Callable
             ) -> torch.Tensor:
    if order == "pre":
        x = x + first(norm1(x))
        return x + second(norm2(x))
    x = norm1(x + first(x))
    return norm2(x + second(x))


@exercise("5.3")
def parameters_of_a_layer(answer: Callable) -> str:
    for d, d_ff in ((4, 8), (512, 2048), (6, 10)):
        what = calling(answer, d, d_ff)
        seen = float(numbers(call(answer, d, d_ff), (), what))
        attention, ffn, norms = 4 * (d * d + d), d * d_ff + d_ff + d_ff * d + d, 2 * 2 * d
        expected = attention + ffn + norms
        if seen == expected:
            continue
        for wrong, hint in (
            (expected - norms, f"{norms} numbers are missing, as many as the two LayerNorms have (γ and β each), and "
                               "as many as the biases of attention's four matrices"),
            (expected - norms // 2, f"{norms // 2} numbers are missing: there are two LayerNorms, with γ and β each"),
            (expected - d_ff - d, f"The biases of the feed-forward network are missing: {d_ff} and {d}"),
            (expected - 4 * d - d_ff - d, "All biases of the matrices are missing"),
            (expected - d * d - d, "Attention has four matrices: for queries, keys, values, and for its output"),
            (expected - d * d_ff - d_ff, "The feed-forward network has two matrices, there and back"),
            (6 * expected, "That is a stack of six layers; asked for is one"),
        ):
            if seen == wrong and wrong != expected:
                raise Wrong(f"{what} is {seen:,.0f}, expected {expected:,}. {hint}.")
        raise Wrong(f"{what} is {seen:,.0f}, expected {expected:,}: attention {attention:,}, feed-forward network "
                    f"{ffn:,}, two norms {norms:,}.")
    return "a third in attention, two thirds in the feed-forward network, next to nothing in the norms."
