"""Attention: every query looks at every key and takes the values in proportion. It knows no order by itself.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2. Order enters through a `Position`, or through a mask.
"""
from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc_lib.arguments import attention_mask, positions, probability, token_vectors, vectors, whole_number
from posenc_lib.position import Position

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def causal_mask(length: int) -> Bool[Tensor, "length length"]:
    """True where a query (row) may attend to a key (column): to itself and to what stands before it.

    Raises: `TypeError` or `ValueError` for a length that is not a whole number ≥ 1.
    """
    length = whole_number("length", length, at_least=1)
    return torch.ones(length, length, dtype=torch.bool).tril()


def attention(
    query: Float[Tensor, "... queries d_head"],
    key: Float[Tensor, "... keys d_head"],
    value: Float[Tensor, "... keys d_value"],
    mask: Bool[Tensor, "*#axes #queries #keys"] | None = None,
) -> tuple[Float[Tensor, "... queries d_value"], Float[Tensor, "... queries keys"]]:
    """`softmax(q kᵀ / √d) v` and the weights. `mask` is True where a query may attend; equation (1) of the paper.

    A query that may attend to nothing has weights 0 and output 0.

    Raises: `TypeError` for numbers that are not floating-point or a mask that is not boolean, `ValueError` for shapes
    that do not fit together.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        vectors(name, x)
        if x.dtype != query.dtype:
            raise TypeError(f"{name} must have the dtype of query, {query.dtype}, got {x.dtype}")
        if x.shape[:-2] != query.shape[:-2]:
            raise ValueError(f"{name} must have the leading axes of query, {list(query.shape[:-2])}, "
                             f"got {list(x.shape[:-2])}")
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(f"value must have one row per key: got {value.shape[-2]} rows for {key.shape[-2]} keys")
    weights = attention_weights(query, key, mask)
    return weights @ value, weights


def attention_weights(
    query: Float[Tensor, "... queries d_head"],
    key: Float[Tensor, "... keys d_head"],
    mask: Bool[Tensor, "*#axes #queries #keys"] | None = None,
    bias: Float[Tensor, "... queries keys"] | float = 0.0,
) -> Float[Tensor, "... queries keys"]:
    """How much each query takes from each key: rows of softmax(q kᵀ / √d + bias), in the dtype of `query`.

    Scores are float32 at least, under autocast too, so that half precision does not overflow.
    """
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must be equally wide, got {query.shape[-1]} and {key.shape[-1]}")
    wide = torch.promote_types(query.dtype, torch.float32)
    with without_autocast(query.device):
        scores = query.to(wide) @ key.to(wide).mT / math.sqrt(query.shape[-1]) + bias
    if mask is None:
        return scores.softmax(-1).to(query.dtype)
    may = attention_mask("mask", mask, scores.shape).to(scores.device)
    # The lowest finite number, not -inf: a row without any True would become NaN. It becomes 0 in the second step.
    weights = scores.masked_fill(~may, torch.finfo(wide).min).softmax(-1)
    return weights.masked_fill(~may, 0.0).to(query.dtype)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """Within it, autocast does not choose the dtype of a product."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def _check_width(position: Position | None, d_model: int, n_heads: int) -> None:
    """What a scheme says it was made for must be the layer's. `total_heads` counts those it leaves alone as well."""
    total_heads = getattr(position, "total_heads", None)
    heads = getattr(position, "n_heads", None) if total_heads is None else total_heads
    for name, made_for, needed in (("d_model", getattr(position, "d_model", None), d_model),
                                   ("d_head", getattr(position, "d_head", None), d_model // n_heads),
                                   ("n_heads", heads, n_heads)):
        if made_for not in (None, needed):
            raise ValueError(f"position must be made for this layer's {name} = {needed}, but this "
                             f"{type(position).__name__} was made for {made_for}")


class MultiHeadAttention(nn.Module):
    """Attention in `n_heads` parts of the width, each with its own view of the tokens.

    `forward(query, key, value)` takes `[batch, seq, d_model]` and returns the output, as wide, and the weights
    `[batch, heads, queries, keys]`. `key` defaults to `query` (self-attention) and `value` to `key`. `position` is the
    scheme whose doors 2 and 3 are opened here; door 1 is opened once, before the first layer, by whoever owns the
    embedding.

    `mask` is True where a query may attend: `[queries, keys]` (two axes are always these), or four axes, `[batch,
    heads, queries, keys]`, each of which may be 1. A query that may attend to nothing has weights 0, and of its
    output only the bias of `to_output` remains.

    `query_position` and `key_position` are integers `[seq]` or `[batch, seq]` and default to 0, 1, 2, …, each
    by itself: who gives the queries of self-attention other positions gives them to the keys too.

    `dropout` acts in training, on the weights that are used; those that are returned are without it.

    Raises: `ValueError` or `TypeError` naming the argument, for heads that do not divide the width, a scheme made for
    another width, masks that are not boolean or do not fit, batches or widths that differ, positions of another shape.
    """

    def __init__(self, d_model: int, n_heads: int, position: Position | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_model = whole_number("d_model", d_model, at_least=1)
        self.n_heads = whole_number("n_heads", n_heads, at_least=1)
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads must divide d_model, got n_heads = {n_heads} and d_model = {d_model}")
        if not isinstance(position, Position | None):
            raise TypeError(f"position must be a Position or None, got {type(position).__name__}")
        _check_width(position, self.d_model, self.n_heads)
        dropout = probability("dropout", dropout)
        self.position = Position() if position is None else position
        self.to_query, self.to_key, self.to_value, self.to_output = (
            nn.Linear(self.d_model, self.d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Float[Tensor, "batch queries d_model"],
        key: Float[Tensor, "batch keys d_model"] | None = None,
        value: Float[Tensor, "batch keys d_model"] | None = None,
        *,
        mask: Bool[Tensor, "*#axes #queries #keys"] | None = None,
        query_position: Int[Tensor, "*#batch queries"] | None = None,
        key_position: Int[Tensor, "*#batch keys"] | None = None,
    ) -> tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries keys"]]:
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            token_vectors(name, x, self.d_model)
            if x.shape[0] != query.shape[0]:
                raise ValueError(f"{name} must have the batch of query, {query.shape[0]}, got {x.shape[0]}")
        if value.shape[1] != key.shape[1]:
            raise ValueError(f"value must have one row per key, {key.shape[1]}, got {value.shape[1]}")
        together = key is query and key_position is query_position      # one tensor, so that a scheme computes once
        query_position = positions("query_position", query_position, query)
        key_position = query_position if together else positions("key_position", key_position, key)
        if mask is not None:                                # before a door opens: a scheme may keep what it has seen
            attention_mask("mask", mask, (len(query), self.n_heads, query.shape[1], key.shape[1]))

        q, k, v = self.split(self.to_query(query)), self.split(self.to_key(key)), self.split(self.to_value(value))
        q, k = self.position.rotate(q, k, query_position, key_position)                          # door 2
        score = self.position.score(q, query_position, key_position)                             # door 3
        if isinstance(score, Tensor) and score.dim() != 4:  # [batch, queries, keys] could pass for [heads, …]
            raise ValueError(f"score of {type(self.position).__name__} must have the four axes [batch, heads, queries, "
                             f"keys], each of which may be 1, got shape {list(score.shape)}")
        weights = attention_weights(q, k, mask, score)
        taken = self.dropout(weights)
        heads = taken @ v + self.position.value(taken, query_position, key_position)             # door 3, second half
        return self.to_output(heads.transpose(1, 2).flatten(2)), weights

    def split(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch heads seq d_head"]:
        """Cuts the width into heads and puts the heads before the sequence."""
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)
