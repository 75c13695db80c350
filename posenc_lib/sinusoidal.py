"""Sinusoidal positions, the first door: one fixed vector per position, added to the token once, before layer one.

Vaswani et al. 2017, "Attention Is All You Need", section 3.5:

    PE(p, 2i)     = sin(p ω_i)
    PE(p, 2i + 1) = cos(p ω_i)        ω_i = base^(-2i / d_model)
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc_lib.arguments import float_dtype, positive_number, probability, table_rows, token_vectors, whole_number
from posenc_lib.position import Position

if TYPE_CHECKING:
    from jaxtyping import Float, Int

BLOCK = 64                  # positions that share one exactly computed hand in `sinusoidal_table`


def frequencies(d_model: int, base: float = 10_000.0) -> Float[Tensor, " pairs"]:
    """How far each pair turns from one position to the next, in radians: `base^(-2i / d_model)`, falling from 1.

    Pair `i` is columns `2i` and `2i + 1`. An odd `d_model` has a last sine without a cosine, so there are
    `ceil(d_model / 2)` frequencies. They are float64, because a position far out multiplies their error.

    Raises: `TypeError` or `ValueError` for a width that is not a whole number ≥ 1 or a base that is not a number ≥ 1.
    """
    d_model = whole_number("d_model", d_model, at_least=1)
    base = positive_number("base", base)
    if base < 1:
        raise ValueError(f"base must be at least 1, so that frequencies fall, got {base:g}")
    pair = torch.arange((d_model + 1) // 2, dtype=torch.float64, device="cpu")
    return torch.exp(pair * (-2 * math.log(base) / d_model))


def sinusoidal_table(
    length: int,
    d_model: int,
    *,
    base: float = 10_000.0,
    start: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length d_model"]:
    """The encodings of positions `start, start + 1, …, start + length - 1`, one row each.

    Instead of a sine and a cosine for every entry it turns clock hands. With `z(p) = sin pω + j cos pω`, written
    `j·exp(-j pω)`, position `64·block + rest` is `z(64·block)·exp(-j rest ω)`: the rotation theorem
    `PE(p + k) = M_k PE(p)` at work. The few angles it needs are float64; in float32 the error stays below 2e-7 at any
    position up to a million. Blocks begin at multiples of 64, so a row does not depend on where its table begins.

    Raises: `TypeError` or `ValueError` naming the argument, for lengths and widths that are not whole numbers ≥ 1,
    a start that is not whole, a base that is not positive or a dtype that is not floating-point.
    """
    length = whole_number("length", length, at_least=1)
    start = whole_number("start", start)
    dtype = float_dtype("dtype", dtype)
    turn = frequencies(d_model, base)

    skipped = start % BLOCK                                                   # rows of the first block before `start`
    rest = torch.arange(BLOCK, dtype=torch.float64, device="cpu")
    block = torch.arange(start - skipped, start + length, BLOCK, dtype=torch.float64, device="cpu")
    exact = torch.complex128 if dtype == torch.float64 else torch.complex64
    turned = torch.exp(-1j * rest[:, None] * turn).to(exact)                  # [64, pairs]
    hands = (1j * torch.exp(-1j * block[:, None] * turn)).to(exact)           # [blocks, pairs]
    hands = (hands[:, None] * turned).flatten(0, 1)[skipped : skipped + length]
    sin_cos = torch.view_as_real(hands).flatten(1)                            # [length, 2 * pairs]: sin, cos, sin, …
    return sin_cos[:, :d_model].to(device=device, dtype=dtype)                # odd width: the last cosine falls off


def shift_matrix(offset: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "d_model d_model"]:
    """The matrix `M_k` with `M_k PE(p) = PE(p + k)` for every position `p`; float64, `offset` may be negative.

    Block-diagonal, one turn per pair. In the order (sin, cos) a block is `[[cos kω, sin kω], [-sin kω, cos kω]]`,
    the transpose of the usual rotation, because the encoding lists the sine first.

    Raises: `ValueError` for an odd `d_model`: its last sine has no cosine beside it, and `sin((p + k)ω)` cannot be
    computed from `sin(pω)` alone.
    """
    offset = whole_number("offset", offset)
    d_model = whole_number("d_model", d_model, at_least=1)
    if d_model % 2:
        raise ValueError(f"d_model must be even for a shift matrix, got {d_model}: the last sine has no cosine partner")
    angle = offset * frequencies(d_model, base)
    sin, cos = angle.sin(), angle.cos()
    blocks = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)     # [pairs, 2, 2]
    return torch.block_diag(*blocks)


class SinusoidalEncoding(Position):
    """Adds the encoding of positions 0, 1, 2, … to the tokens of a sequence, then drops out.

    `embed(x)`, or simply calling it, takes and returns `[batch, seq, d_model]` in the dtype of `x`. Other positions,
    integers `[seq]` or `[batch, seq]`, are a second argument.

    `max_len` is how many rows are kept at hand, not a limit of the formula. The table is a buffer, so it moves with
    the model and is not trained; it is not saved with it (`persistent=False`), because the formula gives it back and
    a model rebuilt with another `max_len` must load an old checkpoint. After `to_empty()` call `reset_parameters()`.

    Raises: `TypeError` or `ValueError` naming the argument, for impossible settings, an `x` that is not a
    floating-point `[batch, seq, d_model]`, a sequence longer than `max_len`, or a position outside the table.
    """

    table: Float[Tensor, "1 max_len d_model"]

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_model = whole_number("d_model", d_model, at_least=1)
        self.max_len = whole_number("max_len", max_len, at_least=1)
        self.dropout = nn.Dropout(probability("dropout", dropout))
        self.register_buffer("table", torch.empty(1, self.max_len, self.d_model), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Writes the table anew, in the dtype and on the device it has."""
        rows = sinusoidal_table(self.max_len, self.d_model, dtype=self.table.dtype)
        self.table.copy_(rows)

    def embed(
        self, x: Float[Tensor, "batch seq d_model"], position: Int[Tensor, "#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        x = token_vectors("x", x, self.d_model)
        rows = table_rows("position", position, x, self.max_len)
        return self.dropout(x + self.table[0, rows].to(x.dtype))

    def _apply(self, fn, recurse=True):
        """Moves the module; in a new dtype the table is written anew, so that `.half().float()` is as good as new."""
        before = self.table.dtype
        super()._apply(fn, recurse)
        if self.table.dtype != before and not self.table.is_meta:
            self.reset_parameters()
        return self

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, max_len={self.max_len}"
