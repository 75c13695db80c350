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
from posenc_lib.attention import MultiHeadAttention
from posenc_lib.position import Position
from posenc_lib.progress import progress

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class Task:
    """Sentences of token numbers, one class each; the last fifth of them is kept for testing."""

    tokens: Int[Tensor, "sentences seq"]
    target: Int[Tensor, " sentences"]
    vocabulary: int
    classes: int

    @property
    def boundary(self) -> int:
        return len(self.tokens) * 4 // 5


def which_came_first(seed: int, *, length: int = 8, vocabulary: int = 12, sentences: int = 2000) -> Task:
    """Tokens 0 and 1 stand once each among others: class 0 if 0 comes before 1, class 1 if after it.

    Raises: `ValueError` for a length that cannot hold both, a vocabulary without others, or under 10 sentences.
    """
    length, vocabulary = whole_number("length", length, at_least=2), whole_number("vocabulary", vocabulary, at_least=3)
    sentences = whole_number("sentences", sentences, at_least=10)
    random = torch.Generator().manual_seed(whole_number("seed", seed))
    tokens = torch.randint(2, vocabulary, (sentences, length), generator=random)
    places = torch.rand(sentences, length, generator=random).argsort(1)[:, :2]          # two different places
    tokens.scatter_(1, places, torch.tensor([0, 1]).expand(sentences, 2))
    return Task(tokens, (places[:, 0] > places[:, 1]).long(), vocabulary, 2)


def who_did_it(seed: int, *, names: int = 6, verbs: int = 4, sentences: int = 2000) -> Task:
    """Sentences *name verb name* with two different names: class 0 if the lower number does it, 1 if the higher.

    Raises: `ValueError` for fewer than two names, no verb, or under 10 sentences.
    """
    names, verbs = whole_number("names", names, at_least=2), whole_number("verbs", verbs, at_least=1)
    sentences = whole_number("sentences", sentences, at_least=10)
    random = torch.Generator().manual_seed(whole_number("seed", seed))
    who = torch.rand(sentences, names, generator=random).argsort(1)[:, :2]
    verb = names + torch.randint(verbs, (sentences, 1), generator=random)
    tokens = torch.cat([who[:, :1], verb, who[:, 1:]], 1)
    return Task(tokens, (who[:, 0] > who[:, 1]).long(), names + verbs, 2)


class SentenceReader(nn.Module):
    """Embedding, positions, one attention layer, the mean over the sentence, a decision."""

    def __init__(self, vocabulary: int, classes: int, position: Position | None = None, d_model: int = 32,
                 n_heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.position = Position() if position is None else position
        self.attention = MultiHeadAttention(d_model, n_heads, self.position)
        self.decide = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, classes))

    def forward(self, tokens: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch classes"]:
        x = self.position.embed(self.embedding(tokens))             # door 1, once
        x = x + self.attention(x)[0]                                # doors 2 and 3
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
    learning_rate = positive_number("learning_rate", learning_rate)
    device = torch.device(device) if device is not None else pick_device()
    tokens, target = task.tokens.to(device), task.target.to(device)
    history = []
    with torch.random.fork_rng():
        torch.manual_seed(whole_number("seed", seed))
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
