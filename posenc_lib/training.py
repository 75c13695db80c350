"""Small tasks whose answer is the order of the words, the smallest model that reads, and the loop that trains it.

A task is made from a seed of its own and a run from another, so that one can be held while the other varies.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_lib.arguments import positive_number, whole_number
from posenc_lib.attention import MultiHeadAttention, causal_mask
from posenc_lib.position import Position
from posenc_lib.progress import progress
from posenc_lib.seeding import seeded

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class Task:
    """Sentences of token numbers with one class each; the last fifth of them is kept for testing.

    They come in twins: sentences 2i and 2i + 1 have the same words, and opposite classes. Who does not see the order
    gives both the same answer, and so is right on exactly half of them.
    """

    tokens: Int[Tensor, "sentences seq"]
    target: Int[Tensor, " sentences"]
    vocabulary: int
    classes: int = 2

    @property
    def boundary(self) -> int:
        """The number of sentences to train on; twins are on one side of it."""
        return len(self.tokens) * 4 // 5 // 2 * 2


def which_came_first(seed: int, *, length: int = 8, vocabulary: int = 12, sentences: int = 2000) -> Task:
    """Tokens 0 and 1 stand once each among others: class 0 if 0 comes before 1, class 1 if after it.

    Raises: `ValueError` for a length that cannot hold both, a vocabulary without others, or a number of sentences that
    is odd or below 10.
    """
    length, vocabulary = whole_number("length", length, at_least=2), whole_number("vocabulary", vocabulary, at_least=3)
    pairs = _pairs(sentences)
    random = torch.Generator().manual_seed(whole_number("seed", seed))
    tokens = torch.randint(2, vocabulary, (pairs, length), generator=random)
    places = torch.rand(pairs, length, generator=random).argsort(1)[:, :2]              # two different places
    twins = [tokens.scatter(1, places, torch.tensor(both).expand(pairs, 2)) for both in ([0, 1], [1, 0])]
    zero_is_later = places[:, 0] > places[:, 1]
    return Task(_in_turn(*twins), _in_turn(zero_is_later, ~zero_is_later).long(), vocabulary)


def who_did_it(seed: int, *, names: int = 20, verbs: int = 10, sentences: int = 2000) -> Task:
    """Sentences *name verb name*, all different: class 0 if the name with the lower number does it, 1 if the higher.

    Names are the numbers from 0, verbs those that follow. The two names of a sentence are different.

    Raises: `ValueError` for fewer than two names, no verb, or a number of sentences that is odd, below 10 or more
    than there are.
    """
    names, verbs = whole_number("names", names, at_least=2), whole_number("verbs", verbs, at_least=1)
    pairs = _pairs(sentences)
    random = torch.Generator().manual_seed(whole_number("seed", seed))
    every = torch.cartesian_prod(torch.arange(names), torch.arange(names, names + verbs), torch.arange(names))
    every = every[every[:, 0] < every[:, 2]]                                            # one of each two twins
    if pairs > len(every):
        raise ValueError(f"sentences must be at most {2 * len(every)}, as many as {names} names and {verbs} verbs "
                         f"make, got {sentences}")
    lower_does_it = every[torch.randperm(len(every), generator=random)[:pairs]]
    zeros = torch.zeros(pairs, dtype=torch.long)
    return Task(_in_turn(lower_does_it, lower_does_it.flip(1)), _in_turn(zeros, zeros + 1), names + verbs)


def _pairs(sentences: object) -> int:
    sentences = whole_number("sentences", sentences, at_least=10)
    if sentences % 2:
        raise ValueError(f"sentences must be an even number, since they come in twins, got {sentences}")
    return sentences // 2


def _in_turn(first: Tensor, second: Tensor) -> Tensor:
    """Row 0 of the first, row 0 of the second, row 1 of the first, …"""
    return torch.stack([first, second], 1).flatten(0, 1)


class SentenceReader(nn.Module):
    """Embedding, positions, one attention layer, the mean over the sentence, a decision.

    With `causal` each word attends only to itself and to those before it.
    """

    def __init__(self, vocabulary: int, classes: int, position: Position | None = None, d_model: int = 32,
                 n_heads: int = 4, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.position = Position() if position is None else position
        self.attention = MultiHeadAttention(d_model, n_heads, self.position)
        self.decide = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, classes))

    def forward(self, tokens: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch classes"]:
        x = self.position.embed(self.embedding(tokens))             # door 1, once
        mask = causal_mask(tokens.shape[1]) if self.causal else None
        x = x + self.attention(x, mask=mask)[0]                     # doors 2 and 3
        return self.decide(x.mean(1))                               # the mean forgets the order of the rows


def train(make_model: Callable[[], nn.Module], task: Task, *, seed: int, steps: int = 300, batch: int = 64,
          learning_rate: float = 3e-3, device: torch.device | str | None = None,
          bar: bool = True) -> tuple[nn.Module, list[dict]]:
    """Makes a model and trains it on the task; returns it with its history, a row every 50 steps and at the end.

    A row holds `step`, `loss` (of the batch) and `accuracy` (on the sentences kept for testing). The same seed gives
    the same run on the same device, and leaves the reader's own random numbers alone. `bar` shows the progress.

    Raises: `FloatingPointError` naming the step at which the loss is no finite number.
    """
    steps, batch = whole_number("steps", steps, at_least=1), whole_number("batch", batch, at_least=1)
    seed, learning_rate = whole_number("seed", seed), positive_number("learning_rate", learning_rate)
    device = torch.device(device) if device is not None else pick_device()
    tokens, target = task.tokens.to(device), task.target.to(device)
    history = []
    with seeded(seed, device):
        model = make_model().to(device).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        for step in progress(range(1, steps + 1), "training", shown=bar):
            chosen = torch.randint(task.boundary, (batch,)).to(device)
            loss = functional.cross_entropy(model(tokens[chosen]), target[chosen])
            if not math.isfinite(loss.item()):
                raise FloatingPointError(f"the loss is {loss.item()} at step {step}: try a smaller learning_rate "
                                         f"than {learning_rate:g}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0 or step == steps:
                history.append({"step": step, "loss": loss.item(), "accuracy": accuracy(model, task)})
    return model.eval(), history


@torch.no_grad()
def accuracy(model: nn.Module, task: Task) -> float:
    """Share of the test sentences that the model gets right."""
    was_training, device = model.training, next(model.parameters()).device
    answer = model.eval()(task.tokens[task.boundary :].to(device)).argmax(1).cpu()
    model.train(was_training)
    return (answer == task.target[task.boundary :]).float().mean().item()


def pick_device() -> torch.device:
    """The GPU that is there, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
