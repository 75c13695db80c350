"""The Slide the sentence explorer: a longer preface moves every word to the right, and only rotary scores stay."""
from __future__ import annotations

import functools

import numpy as np
import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from posenc_lib.attention import MultiHeadAttention
from posenc_lib.explorer import Explorer, View, minus, slider
from posenc_lib.explorers.order import D_MODEL, SENTENCE, embedding
from posenc_lib.figures import DIVERGING, blank, book_style
from posenc_lib.learned import LearnedEncoding
from posenc_lib.marks import Cells, Mark, Text, frame
from posenc_lib.position import Position
from posenc_lib.rotary import Rotary
from posenc_lib.seeding import seeded
from posenc_lib.sinusoidal import SinusoidalEncoding

WORDS = SENTENCE.split()
LAST = 40                                       # the farthest slide
SINUSOIDAL, LEARNED, ROTARY = "sinusoidal", "learned (fresh rows)", "rotary"
SCHEMES = (SINUSOIDAL, LEARNED, ROTARY)         # panels 0, 1, 2 at s = 0; panels 3, 4, 5 after the slide
REACH = 2.0                                     # colours go from -REACH to REACH; beyond, they stay as they are there
ROUNDING = 1e-12


@book_style()
def background() -> Figure:
    figure = blank(height=5.4, width=9.4)
    axes = figure.subplots(2, len(SCHEMES))
    count = len(WORDS)
    for ax, scheme in zip(axes[0], SCHEMES, strict=True):
        ax.set(title=f"{scheme}, s = 0")
        ax.set_xticks(range(count), [f"{word}\n{position}" for position, word in enumerate(WORDS)])
    for ax, title in zip(axes[1], ("changes with s", "changes with s", "the same at every s"), strict=True):
        ax.set(title=title, xlabel="key, at position")
        ax.set_xticks(range(count), [f"{word}\n" for word in WORDS])        # with room for the positions
    for ax in axes.flat:
        ax.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), ylabel="query")
        ax.set_yticks(range(count), WORDS)
        ax.tick_params(length=0, labelsize=9)
    bar = figure.colorbar(ScalarMappable(Normalize(-REACH, REACH), DIVERGING), ax=axes, pad=0.02, aspect=40,
                          extend="both")
    bar.set_label("score q·k/√d, before softmax")
    return figure


@functools.cache
def fixed() -> tuple[MultiHeadAttention, dict[str, Position]]:
    """An attention layer with one head and random weights, and the three schemes; always the same numbers."""
    with seeded(5):
        layer = MultiHeadAttention(D_MODEL, 1)
        rows = LAST + len(WORDS)
        schemes = (SinusoidalEncoding(D_MODEL, rows, dropout=0.0), LearnedEncoding(D_MODEL, rows), Rotary(D_MODEL))
    return layer.double(), {name: scheme.double() for name, scheme in zip(SCHEMES, schemes, strict=True)}


@functools.lru_cache(maxsize=256)
@torch.no_grad()
def scores(scheme: str, s: int) -> np.ndarray:
    """q·k/√d of every word (row) with every word (column) when the first stands at position `s`, `[6, 6]`, float64."""
    layer, schemes = fixed()
    position = torch.arange(s, s + len(WORDS))[None]
    x = schemes[scheme].embed(torch.stack([embedding(word) for word in WORDS])[None], position)            # door 1
    query, key = layer.split(layer.to_query(x)), layer.split(layer.to_key(x))
    query, key = schemes[scheme].rotate(query, key, position, position)                                    # door 2
    return (query @ key.mT / D_MODEL**0.5)[0, 0].numpy()


@functools.cache
def _at_zero() -> tuple[Mark, ...]:
    return tuple(Cells(scores(scheme, 0), panel=panel, low=-REACH, high=REACH) for panel, scheme in enumerate(SCHEMES))


def slide_view(s: int) -> View:
    """The scores of each scheme after a slide by `s`, and the largest change of any since s = 0, framed."""
    marks: list[Mark] = []
    lines = [f"words at positions {s} … {s + len(WORDS) - 1}, as after a preface of {s} word{'s' * (s != 1)}",
             f"{'scheme':22}{'largest change':20}" + (f"{'framed':18}{'at s = 0':>10}{f'at s = {s}':>12}" if s else "")]
    said = []
    for below, scheme in enumerate(SCHEMES, start=len(SCHEMES)):
        before, after = scores(scheme, 0), scores(scheme, s)
        change = np.abs(after - before)
        marks.append(Cells(after, panel=below, low=-REACH, high=REACH))
        marks += [Text(column, len(WORDS) - 0.5, str(s + column), panel=below, shift=(0, 25), size=12.5, color="black")
                  for column in range(len(WORDS))]
        size, what = f"{change.max():.4f}", ""
        if change.max() > ROUNDING:
            row, column = np.unravel_index(change.argmax(), change.shape)
            what = f"{f'{WORDS[row]} → {WORDS[column]}':18}{before[row, column]:10.4f}{after[row, column]:12.4f}"
            marks += [frame(column - 0.47, column + 0.47, row - 0.47, row + 0.47, panel=panel, color="black", width=3)
                      for panel in (below - len(SCHEMES), below)]
        elif s:
            size = "0 up to rounding"
        lines.append(minus(f"{scheme:22}{size:20}{what}".rstrip()))
        said.append(f"{scheme} {size}")
    see = ("the words and their order are the same: only rotary scores, which know the words and n − m alone, stay"
           if s else "nothing has moved yet: below stands what stands above")
    return View(marks, [*lines, see], (
        f"The sentence has moved {s} places to the right. Largest change of a score since s = 0: {', '.join(said)}."),
        _at_zero())


def slide_explorer() -> Explorer:
    return Explorer(background, slide_view, s=slider(0, LAST, 7, label="s"))
