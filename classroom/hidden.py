"""Further cases for every exercise, beyond those of its self-check, and how many of them an answer gets right.

They go where the self-check does not: other sizes, ends of ranges, odd beside even, far positions, steps backwards;
and ask for nothing that the exercise's text does not promise. The exercise's own truth and tolerance judge them.
"""
from __future__ import annotations

from collections.abc import Callable

import torch

import posenc_lib.exercises  # noqa: F401  fills EXERCISES
from classroom.remote import SessionEnded
from posenc_lib.checking import EXERCISES, Wrong, call, compare
from posenc_lib.exercises.chapter_01 import some, true_weights
from posenc_lib.exercises.chapter_02 import two_encodings
from posenc_lib.exercises.chapter_05 import layer_norm
from posenc_lib.exercises.chapter_07 import rotary


def share_right(name: str, answer: Callable) -> tuple[int, int]:
    """How many hidden cases of exercise `name` the answer gets right, and of how many; nothing else is told.

    Whatever is wrong with an answer on one case, raising included, is wrong on that case only. What is no fault of the
    answer's on a case passes through: `SessionEnded`, and all that is no `Exception`, such as `TooLong`.

    Raises: `ValueError` for an exercise that does not exist.
    """
    if name not in HIDDEN:
        raise ValueError(f"there are no hidden cases of exercise {name!r}; there are of {', '.join(HIDDEN)}")

    def asked(*arguments: object) -> object:
        try:
            return answer(*arguments)
        except SessionEnded as ended:
            raise _Through(ended) from None

    try:
        return sum(_is_right(name, asked, case) for case in HIDDEN[name]), len(HIDDEN[name])
    except _Through as through:
        ended = through.ended
    raise ended


class _Through(BaseException):
    """Carries a `SessionEnded` past `call`, for which any `Exception` is the answer's."""

    def __init__(self, ended: SessionEnded) -> None:
        self.ended = ended


def _is_right(name: str, answer: Callable, case: tuple) -> bool:
    try:
        if name == "7.1":
            _names_the_layout(answer, *case)
        else:
            compare(answer, EXERCISES[name], case)
    except (Exception, SystemExit):             # a stub and odd results too; the message has numbers in it: dropped
        return False
    return True


def _names_the_layout(answer: Callable, base: float, d: int) -> None:
    """Words, not numbers: judged as in `layout_is_found`, and both must be told apart."""
    for pairs in ("interleaved", "half"):
        rotate, _ = rotary(pairs, base)
        if call(answer, rotate, d).strip().lower() != pairs:
            raise Wrong("this is the other layout, or none")


# The cases: tuples of arguments, as in `Exercise.cases`. Their seeds begin where those of the self-checks end.

def words(queries: int, keys: int, width: int, n_heads: int, seed: int) -> tuple:
    return some(queries, width, seed=seed), some(keys, width, seed=seed + 1), some(keys, width, seed=seed + 2), n_heads


def moved(*order: int, seed: int) -> tuple:
    query, key = (some(len(order), 6, seed=number).numpy() for number in (seed, seed + 1))
    return torch.tensor(true_weights(query, key), dtype=torch.float32), torch.tensor(order)


def guess(classes: int, width: int, target: int, seed: int, surer: float = 1.0) -> tuple:
    """A matrix, the probabilities of a guess, and what would have been right."""
    return some(classes, width, seed=seed), (surer * some(classes, seed=seed + 1)).softmax(0), target


def spread(*shape: int, eps: float, seed: int, mean: float = -1.5) -> tuple:
    """Vectors of several sizes, γ and β."""
    sizes = torch.linspace(0.5, 2, shape[0]).view(-1, *[1] * (len(shape) - 1)) if len(shape) > 1 else 1.5
    return (mean + sizes * some(*shape, seed=seed), 1 + some(shape[-1], seed=seed + 1), some(shape[-1], seed=seed + 2),
            eps)


def with_an_even_row(eps: float, seed: int) -> tuple:
    """All numbers of one vector are the same: its variance is 0, and only ε keeps the result finite."""
    x, gamma, beta, eps = spread(3, 6, eps=eps, seed=seed)
    x[1] = 1.5
    return x, gamma, beta, eps


def around(*shape: int, order: str, seed: int) -> tuple:
    """An `x`, two sublayers and their norms, none like another."""
    d = shape[-1]
    mix, bend, shift = some(d, d, seed=seed + 1), some(d, d, seed=seed + 2), some(d, seed=seed + 3)
    scales = 1 + 0.5 * some(2, d, seed=seed + 4)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(-2) @ mix.to(x.dtype)                    # each position sees those before it

    def transform(x: torch.Tensor) -> torch.Tensor:
        return (x @ bend.to(x.dtype)).tanh()

    def norm1(x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, scales[0], shift, 1e-5)

    def norm2(x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, scales[1], -2 * shift, 1e-5)

    return some(*shape, seed=seed), attend, transform, norm1, norm2, order


def padded(length: int, *real: int) -> tuple:
    """A mask with so many real tokens at the end of each row."""
    return (torch.arange(length) >= length - torch.tensor(real)[:, None],)


HIDDEN: dict[str, list[tuple]] = {
    "0.1": [(7,), (-12,), (0,), (0.4,), (-0.125,), (1234.5,), (1_000_000,)],
    # A single query, as many keys as queries, odd widths, heads one column wide.
    "1.1": [words(1, 4, 10, 5, seed=101), words(6, 6, 16, 2, seed=104), words(3, 8, 15, 3, seed=107),
            words(2, 9, 14, 7, seed=110), words(4, 5, 6, 6, seed=113), words(5, 6, 20, 1, seed=116)],
    # Two words, all turned round, a circle, one word left where it was.
    "1.2": [moved(1, 0, seed=120), moved(2, 0, 1, seed=122), moved(5, 4, 3, 2, 1, 0, seed=124),
            moved(1, 2, 3, 4, 5, 6, 0, seed=126), moved(3, 1, 4, 9, 5, 2, 6, 8, 7, 0, seed=128)],
    # The smallest width, odd ones, the last dimension of each kind, far positions.
    "2.1": [(4, 0, 2), (17, 1, 2), (50, 7, 9), (50, 8, 9), (123, 64, 128), (300, 3, 6), (1000, 6, 16),
            (4999, 511, 512)],
    # No turn with a frequency, one place, whole turns and more, backwards.
    "2.2": [(1, 1.0), (-1, 1.0), (4, 0.5), (-40, 0.05), (100, 0.01), (7, 1.25), (2000, 0.0003)],
    # From position 0 and to it, one pair, many, more than a whole turn either way.
    "2.3": [two_encodings(*each) for each in ((0, 1, 2), (7, -7, 4), (40, -17, 6), (250, 3, 64), (1000, 500, 16),
                                              (600, -520, 14))],
    # Two classes, one column, a square matrix, the last class, a guess that is nearly sure.
    "3.1": [guess(2, 1, 1, seed=130), guess(6, 6, 3, seed=132), guess(5, 8, 2, seed=134, surer=3.0),
            guess(10, 4, 9, seed=136), guess(50, 16, 0, seed=138), guess(3, 5, 1, seed=140)],
    "3.2": [(4,), (6,), (7,), (10,), (15,)],
    # Two old rows, one column, as many rows as before, fewer, one more, hardly any fewer.
    "3.3": [(some(rows, width, seed=142 + number), length) for number, (rows, width, length) in enumerate((
        (2, 3, 5), (5, 1, 8), (6, 4, 10), (7, 2, 3), (9, 5, 2), (12, 3, 11), (16, 8, 17), (40, 2, 64)))],
    # One word; a table with more rows than there are offsets; one with a row for each and none to spare.
    "4.1": [(1, 3), (2, 1), (5, 4), (12, 4), (9, 20), (30, 7)],
    "4.2": [(some(d, seed=150 + d), position) for d, position in (
        (2, 40), (4, 500), (6, 0), (10, 7), (12, 1), (16, 100), (64, 25))],
    "4.3": [(some(d, seed=220 + d), some(d, seed=290 + d), offset) for d, offset in (
        (2, -4), (4, 1), (10, -1), (12, 200), (16, 25), (32, -60))],
    # One vector, two, many axes, a large ε, a vector of equal numbers.
    "5.1": [spread(6, eps=0.1, seed=330), spread(2, eps=1.0, seed=333), spread(5, 3, eps=1e-5, seed=336, mean=4.0),
            spread(3, 2, 8, eps=0.2, seed=339), spread(2, 3, 4, 5, eps=0.5, seed=342),
            with_an_even_row(eps=1e-3, seed=345)],
    "5.2": [around(*shape, order=order, seed=seed) for shape, seed in (
        ((1, 5, 6), 350), ((3, 2, 8), 360), ((7, 5), 370)) for order in ("pre", "post")],
    # Even widths, so that it may also be counted on a layer with two heads; d_ff not four times as large, and smaller.
    "5.3": [(2, 1), (2, 64), (8, 32), (10, 3), (64, 100), (100, 100), (768, 3072)],
    "6.1": [(-1, 2), (1, 4), (7, 10), (-25, 12), (100, 16), (2, 14)],
    "6.2": [(0, 6), (-1, 2), (17, 4), (2, 10), (-64, 16), (99, 64), (1000, 8)],
    "6.3": [two_encodings(*each) for each in ((0, 5, 4), (9, -9, 2), (30, -25, 12), (1000, 77, 64), (2, 400, 16),
                                              (5, 1, 10))],
    # None of the pairs and all of them; just below a wavelength and just above.
    "6.4": [(6, 2), (7, 2), (135, 6), (136, 6), (1000, 512), (200, 64), (1_000_000, 12)],
    "6.5": [(1.0, 2), (2.0, 512), (0.3, 768), (0.05, 64), (10.0, 128), (0.7, 1024)],
    # A rotate each: its layout, its base, its width. Width 4, half of it odd, a small base and a large one.
    "7.1": [(3.0, 4), (2.0, 16), (50.0, 10), (1e6, 64)],
    # Heads of two rows, where nothing moves; of four, where the way there is the way back; many and large ones.
    "7.2": [(some(heads * d_head, d_in, seed=380 + number), heads) for number, (heads, d_head, d_in) in enumerate((
        (3, 2, 4), (2, 4, 3), (1, 8, 8), (5, 8, 6), (2, 12, 1), (4, 16, 64)))],
    # One token, nothing but padding before it, rows without padding, the longest row in any place.
    "7.3": [padded(1, 1), padded(12, 1), padded(4, 4, 4, 4, 4), padded(6, 6, 1, 3, 6, 2), padded(5, 2, 5),
            padded(9, 3, 4, 8, 5, 1, 7, 2)],
}
