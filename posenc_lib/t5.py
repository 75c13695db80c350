"""T5's bias, the third door: one learned number per head and bucket of offsets, added to the score.

Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1;
the buckets are those of its published code. Near offsets have a bucket each, far ones share wider and wider buckets.
"""
from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_lib.arguments import whole_number
from posenc_lib.position import Position, offsets

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def t5_bucket(
    relative_position: Int[Tensor, "*shape"],
    *,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Int[Tensor, "*shape"]:
    """The bucket, 0 … num_buckets - 1, of each offset `key - query`; int64, in the shape of `relative_position`.

    Bidirectional: the lower half of the buckets is for the word itself and keys before it, the upper half for keys
    after it. Otherwise all are for keys up to the word itself, and a key after it, which a causal mask hides anyway,
    falls in bucket 0. The first half of a direction's buckets hold one distance each; the others grow evenly in the
    logarithm of the distance, and the last one takes everything further, from a little before `max_distance` on.

    Raises: `TypeError` for positions that are not integers; `ValueError` for too few buckets, an odd number of them
    for two directions, or a `max_distance` not beyond the distance at which the wide buckets begin.
    """
    starts = _bucket_starts(*_settings(num_buckets, max_distance, bidirectional))
    if not isinstance(relative_position, Tensor):
        raise TypeError(f"relative_position must be an integer tensor, got {type(relative_position).__name__}")
    dtype = relative_position.dtype
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        raise TypeError(f"relative_position must be an integer tensor, key - query, got dtype {dtype}")
    offset = relative_position.long()
    distance = offset.abs() if bidirectional else (-offset).clamp(min=0)
    bucket = torch.bucketize(distance, torch.tensor(starts, device=offset.device), right=True)
    return bucket + (offset > 0) * (num_buckets // 2) if bidirectional else bucket


def _settings(num_buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, int]:
    """The buckets of one direction and the distance at which they end."""
    buckets = whole_number("num_buckets", num_buckets, at_least=4 if bidirectional else 2)
    max_distance = whole_number("max_distance", max_distance, at_least=1)
    if bidirectional:
        if buckets % 2:
            raise ValueError(f"num_buckets must be even when bidirectional, half for each side, got {buckets}")
        buckets //= 2
    if max_distance <= buckets // 2:
        raise ValueError(f"max_distance must be greater than {buckets // 2}, where the wide buckets begin with "
                         f"num_buckets = {num_buckets}, got {max_distance}")
    return buckets, max_distance


@functools.cache
def _bucket_starts(buckets: int, max_distance: int) -> tuple[int, ...]:
    """Where buckets 1, 2, … begin, so that a distance's bucket is how many starts it has reached.

    The formula is `exact + floor(wide · log(distance / exact) / log(max_distance / exact))`. A logarithm rounded down
    at a boundary names the wrong bucket, so the boundaries are found with whole numbers: step j is reached when
    `distance^wide ≥ max_distance^j · exact^(wide - j)`.
    """
    exact = buckets // 2
    wide = buckets - exact
    return *range(1, exact + 1), *(
        bisect.bisect_left(range(max_distance), max_distance**step * exact ** (wide - step), key=lambda n: n**wide)
        for step in range(1, wide))


class T5Bias(Position):
    """Adds to each score a number learned for the head and the bucket of the offset.

    The table `bias` is `[num_buckets, n_heads]`, the shape in which checkpoints keep it, and begins uniform (Xavier).
    As in T5, one instance serves all layers of a stack, and self-attention only: give a cross-attention layer no
    scheme, for offsets between two sentences mean nothing. T5 itself leaves out the 1/√d_head of the score, which
    the attention layer here has; so multiply a checkpoint's query weights by √d_head.

    Raises: what `t5_bucket` raises, `TypeError` or `ValueError` for heads that are not a whole number ≥ 1, and
    `ValueError` for queries with another number of heads.
    """

    def __init__(
        self, n_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.n_heads = whole_number("n_heads", n_heads, at_least=1)
        _settings(num_buckets, max_distance, bidirectional)
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.bias = nn.Parameter(torch.empty(num_buckets, self.n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        nn.init.xavier_uniform_(self.bias)

    def score(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "#batch heads queries keys"]:
        if query.shape[1] != self.n_heads:
            raise ValueError(f"query must have the {self.n_heads} heads this T5Bias was made for, got {query.shape[1]}")
        bucket = t5_bucket(offsets(query_position, key_position), num_buckets=self.num_buckets,
                           max_distance=self.max_distance, bidirectional=self.bidirectional)
        return functional.embedding(bucket, self.bias).permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return (f"n_heads={self.n_heads}, num_buckets={self.num_buckets}, max_distance={self.max_distance}, "
                f"bidirectional={self.bidirectional}")
