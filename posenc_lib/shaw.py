"""Shaw's relative positions, the third door: a learned vector per offset, added to the key and to the value.

Shaw, Uszkoreit & Vaswani 2018, "Self-Attention with Relative Position Representations", equations (3) to (6):

    score(m, n) = q_m · (k_n + a_K[c]) / √d_head
    output(m)   = Σ_n weight(m, n) (v_n + a_V[c])        c = clip(n - m, -K, K)
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc_lib.arguments import whole_number
from posenc_lib.attention import without_autocast
from posenc_lib.position import Position, offsets

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def shaw_index(length: int, max_offset: int) -> Int[Tensor, "length length"]:
    """The table's row for each query (row) and key (column) of one sentence: `clip(n - m, -K, K) + K`, int64.

    `max_offset` is K. The table has `2K + 1` rows; row K is the word itself, everything K or more away shares an end.

    Raises: `TypeError` or `ValueError` for a length that is not a whole number ≥ 1 or a `max_offset` that is not ≥ 0.
    """
    position = torch.arange(whole_number("length", length, at_least=1))[None]
    return _row(position, position, whole_number("max_offset", max_offset, at_least=0))[0]


def _row(query_position: Tensor, key_position: Tensor, max_offset: int) -> Int[Tensor, "#batch queries keys"]:
    return offsets(query_position, key_position).clamp(-max_offset, max_offset) + max_offset


class Shaw(Position):
    """Adds `q·a/√d_head` to the scores and, unless `values=False`, `Σ weight·a` to the outputs.

    `key_table` and `value_table` are `[2 max_offset + 1, d_head]`, shared by all heads; give each layer an instance
    of its own, as the paper does. They begin uniform (Xavier), as in its published code. `max_offset=0` is allowed as
    a control: one vector for every offset, which tells no order. `values=False` leaves `value_table` out; the half
    for the keys may be enough, says the paper (section 4.3).

    No tensor `[queries, keys, d_head]` is made: a query meets the `2K + 1` rows, and each key looks its number up;
    weights of the same row are summed before they meet it. Scores are float32 at least, as in `attention_weights`.

    Raises: `TypeError` or `ValueError` for a width that is not a whole number ≥ 1, a `max_offset` that is not ≥ 0, or
    queries of another width.
    """

    def __init__(self, d_head: int, max_offset: int, *, values: bool = True) -> None:
        super().__init__()
        self.d_head = whole_number("d_head", d_head, at_least=1)
        self.max_offset = whole_number("max_offset", max_offset, at_least=0)
        shape = (2 * self.max_offset + 1, self.d_head)
        self.key_table = nn.Parameter(torch.empty(shape))
        self.value_table = nn.Parameter(torch.empty(shape)) if values else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the tables anew."""
        for table in self.parameters():
            nn.init.xavier_uniform_(table)

    def score(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "batch heads queries keys"]:
        if query.shape[-1] != self.d_head:
            raise ValueError(f"query must be d_head = {self.d_head} wide in each head, got {query.shape[-1]}")
        wide = torch.promote_types(query.dtype, torch.float32)
        with without_autocast(query.device):
            by_row = query.to(wide) @ self.key_table.to(wide).T / math.sqrt(self.d_head)
        row = _row(query_position, key_position, self.max_offset)           # [batch or 1, queries, keys]
        return by_row.gather(-1, row[:, None].expand(*by_row.shape[:3], -1))

    def value(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "batch heads queries d_head"] | float:
        if self.value_table is None:
            return 0.0
        wide = torch.promote_types(weights.dtype, torch.float32)            # a row may gather many small weights
        row = _row(query_position, key_position, self.max_offset)
        by_row = weights.new_zeros(*weights.shape[:3], len(self.value_table), dtype=wide)
        by_row = by_row.scatter_add(-1, row[:, None].expand_as(weights), weights.to(wide))
        with without_autocast(weights.device):
            return (by_row @ self.value_table.to(wide)).to(weights.dtype)

    def extra_repr(self) -> str:
        return f"d_head={self.d_head}, max_offset={self.max_offset}, values={self.value_table is not None}"
