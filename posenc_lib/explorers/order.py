"""The Order explorer: move a word of your own sentence and see what attention makes of it."""
from __future__ import annotations

import functools
import hashlib

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure

from posenc_lib.attention import MultiHeadAttention, causal_mask
from posenc_lib.explorer import SLIDER_LOOK, Explorer, View, slider
from posenc_lib.figures import RED, SEQUENTIAL, panels
from posenc_lib.marks import Cells, Mark, Text, frame
from posenc_lib.seeding import seeded
from posenc_lib.sinusoidal import sinusoidal_table

SENTENCE = "the cat sat on the mat"
MOST_WORDS, D_MODEL = 10, 16
WEIGHTS, MOVED_WEIGHTS, OUTPUT, MOVED_OUTPUT = range(4)
EQUAL = 1e-5


def background() -> Figure:
    figure, axes = panels(1, 1, 1.1, 1.1, height=3.4, width=9.6)
    titles = ["weights, as typed", "weights, moved", "output, as typed", "output, moved"]
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], title=title)
        ax.set_xlabel("\n\n\n" if ax in axes[:2] else f"{D_MODEL} dimensions\n\n")
        ax.set_ylabel("\n\n\n\n")                                         # room for the words
    return figure


def words_of(sentence: str) -> tuple[str, ...]:
    """The words that the explorer uses: the first ten.

    Raises: `ValueError` if there is none.
    """
    words = tuple(sentence.split()[:MOST_WORDS])
    if not words:
        raise ValueError("sentence has no word: type at least one")
    return words


@functools.cache
def embedding(word: str) -> torch.Tensor:
    """A random vector that is always the same for the same word, `[d_model]`."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return torch.randn(D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@functools.cache
def layer() -> MultiHeadAttention:
    """One attention layer with one head and random weights, always the same; its choices are sharp enough to see."""
    with seeded(1), torch.no_grad():
        made = MultiHeadAttention(D_MODEL, 1).double().eval()
        made.to_query.weight *= 6
    return made


def moved(length: int, word: int, place: int) -> list[int]:
    """The order of the words after word number `word` was taken out and put back as number `place`."""
    order = [number for number in range(length) if number != word]
    return [*order[:place], word, *order[place:]]


@functools.lru_cache(maxsize=64)
@torch.no_grad()
def attend(words: tuple[str, ...], positions: bool, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights `[seq, seq]` and output `[seq, d_model]` of the layer for these words."""
    x = torch.stack([embedding(word) for word in words])
    if positions:
        x = x + sinusoidal_table(len(words), D_MODEL, dtype=torch.float64)
    output, weights = layer()(x[None], mask=causal_mask(len(words)) if causal else None)
    return weights[0, 0].numpy(), output[0].numpy()


def order_view(sentence: str, word: int, place: int, positions: bool, causal: bool) -> View:
    """Attention and output before and after the move, and how far the one is from the other moved along."""
    words = words_of(sentence)
    order = moved(len(words), word, place)
    new_words = tuple(words[number] for number in order)
    weights, output = attend(words, positions, causal)
    new_weights, new_output = attend(new_words, positions, causal)
    apart = np.abs(new_output - output[order]).max()
    weights_apart = np.abs(new_weights - weights[np.ix_(order, order)]).max()
    marks = [
        *_matrices(new_words, positions, causal, MOVED_WEIGHTS, MOVED_OUTPUT),
        *(frame(0, 1, row / len(words), (row + 1) / len(words), panel=panel, color=RED) for panel, row in (
            (WEIGHTS, word), (OUTPUT, word), (MOVED_WEIGHTS, place), (MOVED_OUTPUT, place))),
    ]
    verdict = ("EQUAL: the output moves along with the word, and nothing else happens" if apart < EQUAL else
               "DIFFERENT: the layer noticed the order")
    state = f"positions {'on' if positions else 'off'}, causal mask {'on' if causal else 'off'}"
    return View(marks, [
        f"as typed: {_text(words)}",
        f"moved:    {_text(new_words)}" + ("   (nothing was moved)" if word == place else ""),
        f"weights: largest difference from the moved old ones {weights_apart:.1e}",
        f"output:  largest difference from the moved old one  {apart:.1e}",
        f"{state}: {verdict}",
    ], (f"Word {word} of '{' '.join(words)}' moved to place {place}, {state}. Output of the moved sentence against the "
        f"moved output: {verdict}."),
        _matrices(words, positions, causal, WEIGHTS, OUTPUT))


@functools.lru_cache(maxsize=64)
def _matrices(words: tuple[str, ...], positions: bool, causal: bool, left: int, right: int) -> tuple[Mark, ...]:
    """Weights in panel `left`, output in panel `right`, each row named by its word."""
    weights, output = attend(words, positions, causal)
    middle = (np.arange(len(words)) + 0.5) / len(words)
    rows = [Text(0, y, _short(word), panel=panel, align="right", shift=(-5, 0), size=11, color="black")
            for panel in (left, right) for y, word in zip(middle, words, strict=True)]
    columns = [Text(x, 1, _short(word), panel=left, align="right", shift=(3, 6), size=11, angle=60, color="black")
               for x, word in zip(middle, words, strict=True)]
    whole = (0, 1, 1, 0)
    return (Cells(weights, extent=whole, panel=left, low=0.0, colors=SEQUENTIAL),
            Cells(output, extent=whole, panel=right), *rows, *columns)


def _text(words: tuple[str, ...]) -> str:
    """The words as they are: a zero-width space keeps `^{` and `_{` from being set as super- and subscript."""
    return " ".join(words).replace("{", "\u200b{")


def _short(word: str) -> str:
    return word if len(word) <= 7 else word[:6] + "…"


def order_explorer(sentence: str = SENTENCE) -> Explorer:
    """The explorer, starting with `sentence`."""
    def last(sentence: str, **_: object) -> int:
        return len(words_of(sentence)) - 1                  # raises before a slider is touched if there is no word

    end = len(words_of(sentence)) - 1
    return Explorer(
        background, order_view, limits={"word": last, "place": last},
        sentence=widgets.Text(sentence, continuous_update=False, **SLIDER_LOOK),
        word=slider(0, end, min(1, end)), place=slider(0, end, end, label="moved to"),
        positions=widgets.Checkbox(False, description="positions"),
        causal=widgets.Checkbox(False, description="causal mask"))
