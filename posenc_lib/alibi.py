"""ALiBi, the third door: the further a key, the lower its score, and each head falls at a slope of its own.

Press, Smith & Lewis 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
section 3; the slopes for other than 2, 4, 8, … heads are those of its published code.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc_lib.arguments import whole_number
from posenc_lib.position import Position, offsets

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def alibi_slopes(n_heads: int) -> Float[Tensor, " heads"]:
    """How much each head takes off per word of distance; float64.

    For a power of two, `2^(-8(h+1)/n_heads)` for head h: with 8 heads ½, ¼, … 1/256. For other numbers the slopes of
    the power of two below, and then every other slope of the power above, which fall between those. So they do not
    fall from head to head: keep the order, because a trained head counts on its slope.

    Raises: `TypeError` or `ValueError` for heads that are not a whole number ≥ 1.
    """
    n_heads = whole_number("n_heads", n_heads, at_least=1)
    lower = 2 ** (n_heads.bit_length() - 1)                                   # the greatest power of two up to n_heads
    whole = torch.arange(1, lower + 1, dtype=torch.float64, device="cpu")     # 1, 2, 3, …
    between = whole[: n_heads - lower] - 0.5                                  # ½, 1½, 2½, …
    return 2 ** (torch.cat([whole, between]) * (-8 / lower))


class Alibi(Position):
    """Adds `-slope·|n - m|` to each score. There is nothing to learn.

    With `total_heads`, the first `n_heads` of that many have the slopes of `alibi_slopes(n_heads)` and the others
    slope 0, so they see no distance.

    A softmax row ignores a constant. So under a causal mask, where n ≤ m, this is the same as `slope·n`, a form that
    many programs use; without that mask it is not. Without a mask the bias is the same to the left and to the right:
    read backwards, the sentence gives the same outputs backwards, and an encoder with this alone cannot tell the two
    directions apart.

    The slopes are computed at each call, in float32 at least, so no cast of the model can spoil them.

    Raises: `TypeError` or `ValueError` for heads that are not a whole number ≥ 1, fewer `total_heads` than `n_heads`,
    or queries with another number of heads.
    """

    def __init__(self, n_heads: int, *, total_heads: int | None = None) -> None:
        super().__init__()
        self.n_heads = whole_number("n_heads", n_heads, at_least=1)
        self.total_heads = self.n_heads if total_heads is None else whole_number("total_heads", total_heads)
        if self.total_heads < self.n_heads:
            raise ValueError(f"total_heads must be at least n_heads = {n_heads}, got {total_heads}")

    def score(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "#batch heads queries keys"]:
        if query.shape[1] != self.total_heads:
            raise ValueError(f"query must have the {self.total_heads} heads this Alibi was made for, "
                             f"got {query.shape[1]}")
        slopes = torch.zeros(self.total_heads, dtype=torch.float64, device="cpu")
        slopes[: self.n_heads] = alibi_slopes(self.n_heads)
        slopes = slopes.to(query.device, torch.promote_types(query.dtype, torch.float32))
        distance = offsets(query_position, key_position).abs()[:, None]       # [batch or 1, 1, queries, keys]
        return slopes[:, None, None] * -distance

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, total_heads={self.total_heads}"
