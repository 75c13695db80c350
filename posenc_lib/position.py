"""The three doors. A scheme of positions is a subclass that overrides the one door it uses."""
from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Position(nn.Module):
    """No positions at all: every door lets things pass unchanged.

    Positions are integers `[seq]` or `[batch, seq]`; those of the queries and those of the keys are separate, since a
    query may meet keys of another sentence or of an earlier step. Both arrive at doors 2 and 3 as `[batch or 1, seq]`.
    """

    def embed(
        self, x: Float[Tensor, "batch seq d_model"], position: Int[Tensor, "#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Door 1, once, before the first layer: the tokens with their positions. `None` means 0, 1, 2, …"""
        return x

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], position: Int[Tensor, "#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Calling a scheme opens its first door."""
        return self.embed(x, position)

    def rotate(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        key: Float[Tensor, "batch heads keys d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> tuple[Float[Tensor, "batch heads queries d_head"], Float[Tensor, "batch heads keys d_head"]]:
        """Door 2, in every layer: queries and keys, turned by their positions before they meet, in their dtype."""
        return query, key

    def score(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "#batch #heads queries keys"] | float:
        """Door 3, in every layer: what is added to the scores `q·k/√d_head`, before mask and softmax; finite numbers.

        `query` is as door 2 left it. An added `q·a` must be divided by `√d_head` here.
        """
        return 0.0

    def value(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "batch heads queries d_head"] | float:
        """Door 3, its second half: what is added to the weighted sum of the values, with the same weights."""
        return 0.0


def offsets(
    query_position: Int[Tensor, "#batch queries"], key_position: Int[Tensor, "#batch keys"]
) -> Int[Tensor, "#batch queries keys"]:
    """How many places after each query each key comes, `n - m`: 1 for the next word, -1 for the one before; int64."""
    return key_position.long()[:, None, :] - query_position.long()[:, :, None]
