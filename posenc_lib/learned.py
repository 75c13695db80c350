"""Learned positions, the first door: a table of parameters, row `p` added to the token at position `p`.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1; BERT and GPT have theirs from there.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc_lib.arguments import probability, table_rows, token_vectors, whole_number
from posenc_lib.position import Position

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class LearnedEncoding(Position):
    """Adds row 0, 1, 2, … of a table to the tokens of a sequence, then drops out. The rows are trained with the model.

    `embed(x)`, or simply calling it, takes and returns `[batch, seq, d_model]` in the dtype of `x`. Other positions,
    integers `[seq]` or `[batch, seq]`, are a second argument.

    `max_len` is a limit: there is nothing to say about a position without a row. The rows begin as `N(0, 1)`, like
    those of `nn.Embedding`, so that tokens and positions are equally long. Given to a model and to its attention
    layers alike, the table is saved under each of their names, and still is one parameter.

    Raises: `TypeError` or `ValueError` naming the argument, for impossible settings, an `x` that is not a
    floating-point `[batch, seq, d_model]`, a sequence longer than the table, or a position outside it; on every device
    before the rows are looked up.
    """

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_model = whole_number("d_model", d_model, at_least=1)
        self.max_len = whole_number("max_len", max_len, at_least=1)
        self.dropout = nn.Dropout(probability("dropout", dropout))
        self.table = nn.Parameter(torch.empty(self.max_len, self.d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the rows anew."""
        nn.init.normal_(self.table)

    def embed(
        self, x: Float[Tensor, "batch seq d_model"], position: Int[Tensor, "#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        x = token_vectors("x", x, self.d_model)
        rows = table_rows("position", position, x, self.max_len)
        return self.dropout(x + self.table[rows].to(x.dtype))

    def resize(self, max_len: int) -> LearnedEncoding:
        """A longer or shorter encoding, its rows read off the straight lines between these; first and last are kept.

        What a row stands for changes: row `p` of the new table is where the old one was at `p · (old - 1) / (new - 1)`,
        the same *share* of the way. This encoding stays as it is; a subclass gives a plain `LearnedEncoding`. Rows of a
        grid, of image patches for example, are no line: there `stretch` each axis of `[height, width, d_model]`.

        Raises: `TypeError` or `ValueError` for a length that is not a whole number ≥ 1.
        """
        rows = stretch(self.table.detach(), whole_number("max_len", max_len, at_least=1))
        resized = LearnedEncoding.from_rows(rows, self.dropout.p)
        resized.table.requires_grad_(self.table.requires_grad)
        return resized.train(self.training)

    @staticmethod
    def from_rows(rows: Float[Tensor, "max_len d_model"], dropout: float = 0.0) -> LearnedEncoding:
        """An encoding whose table is a copy of `rows`; no random numbers are drawn."""
        with torch.device("meta"):
            encoding = LearnedEncoding(rows.shape[1], len(rows), dropout)
        encoding.table = nn.Parameter(rows.detach().clone())
        return encoding

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, max_len={self.max_len}"


def stretch(table: Float[Tensor, "old ..."], length: int) -> Float[Tensor, "length ..."]:
    """`length` rows, evenly spaced along the lines that join the rows of `table`, from its first to its last.

    A table of one row is repeated; one row made of many is the first.

    Raises: `TypeError` or `ValueError` for a table that is not floating-point rows or a length not ≥ 1.
    """
    length = whole_number("length", length, at_least=1)
    if not isinstance(table, Tensor) or not table.dtype.is_floating_point:
        raise TypeError(f"table must be a floating-point tensor [rows, ...], got {_kind(table)}")
    if table.dim() == 0 or len(table) == 0:
        raise ValueError(f"table must have at least one row, got shape {list(table.shape)}")
    last = len(table) - 1
    wide = torch.promote_types(table.dtype, torch.float32)
    place = torch.linspace(0, last, length, dtype=torch.float64, device="cpu")
    before = place.floor().long()
    share = (place - before).view(-1, *[1] * (table.dim() - 1)).to(table.device, wide)
    before, after = before.to(table.device), (before + 1).clamp(max=last).to(table.device)
    return torch.lerp(table[before].to(wide), table[after].to(wide), share).to(table.dtype)


def _kind(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
