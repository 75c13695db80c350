"""A run small enough to watch: five tokens, five positions, two dimensions, one linear layer.

Its default is the run that many introductions show: tokens 0 1 2 3 4, each to be followed by the next. Chapter 3 asks
what it proves.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_lib.arguments import positive_number, whole_number
from posenc_lib.seeding import seeded

if TYPE_CHECKING:
    from jaxtyping import Float

D_MODEL = 2


@dataclass(frozen=True)
class SmallRun:
    """What was there before the first update and after each: row `e` is the state in which epoch `e` begins."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    table: Float[Tensor, "epochs+1 seq 2"]
    loss: Float[Tensor, " epochs+1"]
    probability: Float[Tensor, "epochs+1 seq vocabulary"]

    @property
    def accuracy(self) -> float:
        """Share of positions at which the next token is predicted, after the last update."""
        right = [guess == token for guess, token in zip(self.probability[-1].argmax(-1).tolist(), self.y, strict=True)]
        return sum(right) / len(right)


def small_run(seed: int, x: Sequence[int] = (0, 1, 2, 3, 4), y: Sequence[int] = (1, 2, 3, 4, 0), *, epochs: int = 500,
              learning_rate: float = 0.1, tokens: bool = True, positions: bool = True) -> SmallRun:
    """Trains `E`, `P` and a linear layer by gradient descent to predict `y` at each place of the one sentence `x`.

    With `tokens=False` or `positions=False` that table is 0 and stays so. Runs on the CPU, so that a seed is the same
    everywhere, and leaves the reader's random numbers alone.

    Raises: `ValueError` for `x` and `y` of different lengths or empty, or tokens below 0.
    """
    seed, epochs = whole_number("seed", seed), whole_number("epochs", epochs, at_least=1)
    learning_rate = positive_number("learning_rate", learning_rate)
    x, y = (tuple(whole_number(f"{name}[{i}]", token, at_least=0) for i, token in enumerate(sentence))
            for name, sentence in (("x", x), ("y", y)))
    if len(x) != len(y) or not x:
        raise ValueError(f"x and y must be equally long and not empty, got {len(x)} and {len(y)} tokens")
    vocabulary = max(*x, *y) + 1
    with seeded(seed), torch.device("cpu"):
        E = nn.Embedding(vocabulary, D_MODEL)
        P = nn.Parameter(torch.randn(len(x), D_MODEL))
        linear = nn.Linear(D_MODEL, vocabulary)
        given, target = torch.tensor(x), torch.tensor(y)
    for table, used in ((E.weight, tokens), (P, positions)):
        table.requires_grad_(used)
        table.data *= used
    optimizer = torch.optim.SGD([E.weight, P, *linear.parameters()], lr=learning_rate)
    states = []
    for epoch in range(epochs + 1):
        logits = linear(E(given) + P)
        loss = functional.cross_entropy(logits, target)
        states.append((P.detach().clone(), loss.detach(), logits.detach().softmax(-1)))
        if epoch < epochs:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return SmallRun(x, y, *map(torch.stack, zip(*states, strict=True)))
