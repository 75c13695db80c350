"""The encoder: in each layer attention mixes the positions, then a small network works on every position by itself.

Vaswani et al. 2017, "Attention Is All You Need", sections 3.1 and 3.3. There the norm comes after the residual sum
("post"). Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", study it before the sublayer
("pre").
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from posenc_lib.arguments import attention_mask, positions, probability, token_vectors, whole_number
from posenc_lib.attention import MultiHeadAttention
from posenc_lib.position import Position

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class PositionwiseFeedForward(nn.Module):
    """`max(0, x W₁ + b₁) W₂ + b₂`, the same at every position: it widens, cuts off below 0 and narrows again.

    Takes and returns `[batch, seq, d_model]`; between the two it is `d_ff` wide. `dropout` acts in training, after the
    ReLU. Equation (2) of the paper.

    Raises: `TypeError` or `ValueError` naming the argument, for widths that are not whole numbers ≥ 1, or an `x` that
    is not a floating-point `[batch, seq, d_model]`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_model = whole_number("d_model", d_model, at_least=1)
        self.d_ff = whole_number("d_ff", d_ff, at_least=1)
        dropout = probability("dropout", dropout)
        self.widen = nn.Linear(self.d_model, self.d_ff)
        self.narrow = nn.Linear(self.d_ff, self.d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        x = token_vectors("x", x, self.d_model)
        return self.narrow(self.dropout(self.widen(x).relu()))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each added to what came in, with a LayerNorm before or after.

    `forward(x)` takes and returns `[batch, seq, d_model]`. `norm` says where the LayerNorm stands: "pre", before the
    sublayer, so that the path from `x` to the output is a plain sum; or "post", after the sum, as in the paper.

    `position` is the scheme whose doors 2 and 3 the attention opens; door 1 belongs to whoever owns the embedding. In
    `forward`, `mask` is True where a query may attend, as in `MultiHeadAttention`, and `position` are the integers
    `[seq]` or `[batch, seq]` of queries and keys alike, by default 0, 1, 2, …

    `dropout` acts in training at four places: on the attention weights, after the attention, inside the feed-forward
    network, and after it.

    Raises: `ValueError` or `TypeError` naming the argument, for an unknown `norm`, impossible widths, a scheme made
    for another width; and for an `x`, a mask or positions that do not fit.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1,
                 norm: Literal["pre", "post"] = "pre", position: Position | None = None) -> None:
        super().__init__()
        self.norm = _norm_name(norm)
        d_ff = whole_number("d_ff", d_ff, at_least=1)                   # here, before the attention draws its weights
        self.attention = MultiHeadAttention(d_model, n_heads, position, dropout)
        self.d_model, self.n_heads = self.attention.d_model, self.attention.n_heads
        self.feed_forward = PositionwiseFeedForward(self.d_model, d_ff, dropout)
        self.attention_norm = nn.LayerNorm(self.d_model)
        self.feed_forward_norm = nn.LayerNorm(self.d_model)
        self.dropout = nn.Dropout(probability("dropout", dropout))

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        *,
        mask: Bool[Tensor, "*#axes #seq #seq"] | None = None,
        position: Int[Tensor, "*#batch seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        position = _check_input(x, mask, position, self.d_model, self.n_heads)
        if self.norm == "pre":
            x = x + self.attend(self.attention_norm(x), mask, position)
            x = x + self.transform(self.feed_forward_norm(x))
        else:
            x = self.attention_norm(x + self.attend(x, mask, position))
            x = self.feed_forward_norm(x + self.transform(x))
        return x

    def attend(self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "*#axes #seq #seq"] | None,
               position: Int[Tensor, "*#batch seq"] | None) -> Float[Tensor, "batch seq d_model"]:
        """The first sublayer: what attention brings to each position from the others."""
        output, _ = self.attention(x, mask=mask, query_position=position, key_position=position)
        return self.dropout(output)

    def transform(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """The second sublayer: what the feed-forward network makes of each position by itself."""
        return self.dropout(self.feed_forward(x))

    def extra_repr(self) -> str:
        return f"norm={self.norm!r}"


class Encoder(nn.Module):
    """A stack of encoder layers over embedded tokens `[batch, seq, d_model]`; returns the same shape.

    Door 1 of the scheme is opened here, once, before the first layer; doors 2 and 3 in every layer. `position` is

    - a `Position`, shared by all layers (T5). What it learns is one set of parameters, though a `state_dict` lists it
      under every layer, as it does tied weights;
    - a function without arguments that makes one, called once for each layer (Shaw). Door 1 is then that of the first
      layer's scheme, and a scheme of door 1 is better shared: no other layer would use its own;
    - None: no positions.

    With norm "pre" a last LayerNorm, `final_norm`, follows the stack, because the sum grows with depth. With "post"
    each layer has ended with one already, and `final_norm` does nothing. All else is as in `EncoderLayer`.

    Raises: `ValueError` or `TypeError` naming the argument, for `n_layers` below 1, a function that makes no `Position`
    or the same one again, and whatever `EncoderLayer` refuses, before a door opens.
    """

    def __init__(self, n_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1,
                 norm: Literal["pre", "post"] = "pre",
                 position: Position | Callable[[], Position] | None = None) -> None:
        super().__init__()
        n_layers = whole_number("n_layers", n_layers, at_least=1)
        norm, d_ff = _norm_name(norm), whole_number("d_ff", d_ff, at_least=1)             # before a scheme is made
        whole_number("d_model", d_model, at_least=1), whole_number("n_heads", n_heads, at_least=1)
        probability("dropout", dropout)
        schemes = _one_per_layer(position, n_layers)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff, dropout, norm, each) for each in schemes)
        self.d_model, self.n_heads = self.layers[0].d_model, self.layers[0].n_heads
        self.final_norm = nn.LayerNorm(self.d_model) if norm == "pre" else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        *,
        mask: Bool[Tensor, "*#axes #seq #seq"] | None = None,
        position: Int[Tensor, "*#batch seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        counted = _check_input(x, mask, position, self.d_model, self.n_heads)            # once for all layers
        x = self.layers[0].attention.position.embed(x, position)                         # door 1, once
        for layer in self.layers:
            x = layer(x, mask=mask, position=counted)                                    # doors 2 and 3
        return self.final_norm(x)


def _norm_name(norm: object) -> str:
    if not isinstance(norm, str) or norm not in ("pre", "post"):
        raise ValueError(f'norm must be "pre" (before the sublayer) or "post" (after the sum), got {norm!r}')
    return norm


def _one_per_layer(position: object, n_layers: int) -> list[Position | None]:
    if position is None or isinstance(position, Position):        # first, because a Position can be called as well
        return [position] * n_layers
    if not callable(position):
        raise TypeError(f"position must be a Position, a function that makes one, or None, got {position!r}")
    schemes = [position() for _ in range(n_layers)]
    for scheme in schemes:
        if not isinstance(scheme, Position):
            raise TypeError(f"position must make a Position when it is called, but it made {scheme!r}")
    if len(set(schemes)) < n_layers:
        raise ValueError("position must make a new Position at each call, but it gave the same one again: to share "
                         "one among the layers, pass it itself")
    return schemes


def _check_input(x: object, mask: object, position: object, d_model: int, n_heads: int) -> Tensor:
    """The positions as integers `[1 or batch, seq]`; `None` has become 0, 1, 2, …

    Checked here and not only in the attention, so that nothing has been computed and the names are the caller's.
    """
    x = token_vectors("x", x, d_model)
    batch, seq, _ = x.shape
    if mask is not None:
        attention_mask("mask", mask, (batch, n_heads, seq, seq))
    return positions("position", position, x)
