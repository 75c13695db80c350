"""Rotary positions (RoPE), the second door: queries and keys are turned by their positions before they meet.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", equations (14) to (16) and (34).
Two columns of a head are a point (a, b), and position p turns the point of pair i by the angle p ω_i:

    (a, b)  ->  (a cos p ω_i - b sin p ω_i,  a sin p ω_i + b cos p ω_i)        ω_i = base^(-2i / d_head)

A query turned by m and a key turned by n have the product that they would have if only the key were turned, by n - m:
the score knows the offset and nothing else. Which columns make a pair is the *layout*, and there are two of them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc_lib.arguments import float_tensor, whole_number
from posenc_lib.position import Position
from posenc_lib.sinusoidal import frequencies

if TYPE_CHECKING:
    from jaxtyping import Complex, Float, Int, Real

INTERLEAVED, HALF = "interleaved", "half"
BLOCK = 64                  # positions that share one exactly computed turn in `_turns_from_zero`
WITHOUT_FLOAT64 = ("mps",)  # devices on which no angle can be computed


def apply_rotary(
    x: Float[Tensor, "batch heads seq d_head"],
    position: Real[Tensor, "*#batch seq"] | None = None,
    *,
    base: float = 10_000.0,
    layout: str = INTERLEAVED,
    rotary_dim: int | None = None,
    out: Float[Tensor, "batch heads seq d_head"] | None = None,
) -> Float[Tensor, "batch heads seq d_head"]:
    """Queries or keys, each pair of columns turned by its position times ω_i; in the dtype of `x`.

    `position` is 0, 1, 2, … by default, or `[seq]`, or `[batch, seq]`: integers, or float32 or float64 where positions
    are fractions. There is no largest position.

    `layout` says which columns are a pair: "interleaved" (2i, 2i + 1), as in the paper, Meta's Llama and GPT-J; "half"
    (i, i + rotary_dim/2), as in GPT-NeoX and Hugging Face's Llama. A checkpoint works with its own layout only.

    With `rotary_dim` only the first so many columns turn, with ω_i = base^(-2i / rotary_dim); the rest pass unchanged.

    `out` receives the result in place of new memory and is returned. It may be `x` itself; otherwise it must not share
    memory with `x`. It cannot be given while gradients of `x` are recorded.

    Angles are float64, and what is computed from them is float32, or float64 for a float64 `x`: sines and cosines are
    exact to 2e-7 at any position up to a million.

    Raises: `TypeError` or `ValueError` naming the argument, for an `x` that is not floating-point with four axes, an
    odd `d_head` or `rotary_dim`, a `rotary_dim` above `d_head`, an unknown layout, positions of another shape or of a
    float type too narrow to count, or an `out` that does not match `x`.
    """
    x = _heads("x", x)
    rotary_dim = _rotary_dim("d_head, the last axis of x,", x.shape[-1], rotary_dim)
    layout = _layout("layout", layout)
    position = _position("position", position, x)
    if out is not None:
        _check_out(out, x)
    return _turned(x, _turns(x, position, rotary_dim, base), layout, out)


def rotary_permutation(d_head: int) -> Int[Tensor, " d_head"]:
    """The order of columns that takes a head from the interleaved to the half layout; for 4 columns 0, 2, 1, 3.

    `x[..., rotary_permutation(d_head)]` is the half layout of an interleaved `x`, and
    `x[..., rotary_permutation(d_head).argsort()]` the interleaved layout of a half-split one.

    Raises: `TypeError` or `ValueError` for a `d_head` that is not an even whole number ≥ 2.
    """
    d_head = _even("d_head", d_head)
    return torch.arange(d_head, device="cpu").view(-1, 2).T.flatten()


def convert_projection(
    weight: Real[Tensor, "rows ..."], n_heads: int, *, to: str, rotary_dim: int | None = None
) -> Real[Tensor, "rows ..."]:
    """W_q or W_k, or the bias of either, of a checkpoint in the other layout: a new tensor for the layout `to`.

    `weight` is `[n_heads * d_head, d_in]` as in `nn.Linear`, or a bias `[n_heads * d_head]`. Within each head its
    rows change places and no number changes; scores are then the same. Queries and keys must both be converted.
    Values are not turned, so W_v and the output projection stay as they are. Where several queries share a key,
    `n_heads` is the number of key heads for W_k. Give `rotary_dim` where only the first so many columns turn.

    Raises: `TypeError` or `ValueError` naming the argument, for a weight without 1 or 2 axes, heads that do not divide
    its rows, an odd `d_head` or `rotary_dim`, a `rotary_dim` above `d_head`, or an unknown layout.
    """
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a tensor [n_heads * d_head, d_in] or [n_heads * d_head], "
                        f"got {type(weight).__name__}")
    if weight.dim() not in (1, 2):
        raise ValueError(f"weight must have shape [n_heads * d_head, d_in] or [n_heads * d_head], "
                         f"got {list(weight.shape)}")
    n_heads, rows = whole_number("n_heads", n_heads, at_least=1), weight.shape[0]
    if rows % n_heads:
        raise ValueError(f"n_heads must divide the rows of weight, got n_heads = {n_heads} and {rows} rows")
    d_head = rows // n_heads
    rotary_dim = _rotary_dim(f"d_head, the {rows} rows of weight by {n_heads} heads,", d_head, rotary_dim)
    to = _layout("to", to)

    order = torch.arange(d_head, device="cpu")
    to_half = rotary_permutation(rotary_dim)
    order[:rotary_dim] = to_half if to == HALF else to_half.argsort()
    return weight.unflatten(0, (n_heads, d_head))[:, order].flatten(0, 1)


class Rotary(Position):
    """Turns queries and keys by their positions, in every attention layer; values are left as they are.

    The settings are those of `apply_rotary`; `d_head` is the width of one head. The module holds no tensor at all:
    angles come from the formula at every call, so that no cast, no `to_empty()` and no long sequence can spoil them.

    Raises: `TypeError` or `ValueError` naming the argument, for impossible settings, and from `rotate` for queries or
    keys of another width and for positions as in `apply_rotary`.
    """

    def __init__(
        self, d_head: int, *, base: float = 10_000.0, layout: str = INTERLEAVED, rotary_dim: int | None = None
    ) -> None:
        super().__init__()
        self.d_head = _even("d_head", d_head)
        self.rotary_dim = _rotary_dim("d_head", self.d_head, rotary_dim)
        frequencies(self.rotary_dim, base)                  # refuses an impossible base now, not at the first call
        self.base = float(base)
        self.layout = _layout("layout", layout)

    def rotate(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        key: Float[Tensor, "batch heads keys d_head"],
        query_position: Int[Tensor, "#batch queries"],
        key_position: Int[Tensor, "#batch keys"],
    ) -> tuple[Float[Tensor, "batch heads queries d_head"], Float[Tensor, "batch heads keys d_head"]]:
        for name, x in (("query", query), ("key", key)):
            if _heads(name, x).shape[-1] != self.d_head:
                raise ValueError(f"{name} must have heads d_head = {self.d_head} wide, got shape {list(x.shape)}")
        together = query_position is key_position and query.dtype == key.dtype      # a sentence that attends to itself
        query_position = _position("query_position", query_position, query)
        key_position = _position("key_position", key_position, key)

        query_turns = key_turns = _turns(query, query_position, self.rotary_dim, self.base)
        if not together:
            key_turns = _turns(key, key_position, self.rotary_dim, self.base)
        return _turned(query, query_turns, self.layout), _turned(key, key_turns, self.layout)

    def extra_repr(self) -> str:
        return f"d_head={self.d_head}, base={self.base:g}, layout={self.layout!r}, rotary_dim={self.rotary_dim}"


# How far to turn: complex numbers cos pω + j sin pω

def _turns(
    x: Float[Tensor, "batch heads seq d_head"], position: Real[Tensor, "#batch seq"] | None, rotary_dim: int,
    base: float
) -> Complex[Tensor, "#batch 1 seq pairs"]:
    """One for each position and pair, on the device of `x` and as precise as `x` will be turned."""
    omega, dtype = frequencies(rotary_dim, base), _wide(x)
    if position is None:
        turns = _turns_from_zero(x.shape[2], omega, dtype)[None]
    else:
        position = position.to("cpu" if position.device.type in WITHOUT_FLOAT64 else position.device)
        turns = _on_the_circle(position.double()[..., None] * omega.to(position.device), dtype)
    return turns.to(x.device)[:, None]


def _turns_from_zero(
    length: int, omega: Float[Tensor, " pairs"], dtype: torch.dtype
) -> Complex[Tensor, "length pairs"]:
    """Positions 0, 1, 2, … by angle addition: turning by 64·block + rest is turning by 64·block, then by rest."""
    rest = torch.arange(BLOCK, dtype=torch.float64, device="cpu")
    block = torch.arange(0, length, BLOCK, dtype=torch.float64, device="cpu")
    turns = _on_the_circle(torch.cat([rest, block])[:, None] * omega, dtype)
    by_rest, by_block = turns[:BLOCK], turns[BLOCK:]
    return (by_block[:, None] * by_rest).flatten(0, 1)[:length]


def _on_the_circle(angle: Float[Tensor, "*axes"], dtype: torch.dtype) -> Complex[Tensor, "*axes"]:
    """cos + j sin of float64 angles. Rounded here and not before: at p = 1857 a float16 angle is off by 0.7."""
    return torch.complex(angle.cos().to(dtype), angle.sin().to(dtype))


# The turning itself

def _turned(
    x: Float[Tensor, "batch heads seq d_head"], turns: Complex[Tensor, "#batch 1 seq pairs"], layout: str,
    out: Tensor | None = None
) -> Float[Tensor, "batch heads seq d_head"]:
    rotary_dim = 2 * turns.shape[-1]
    turn = _turn_neighbours if layout == INTERLEAVED else _turn_halves
    turning, rest = x[..., :rotary_dim].to(_wide(x)), x[..., rotary_dim:]
    if out is None:
        turned = turn(turning, turns).to(x.dtype)
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned
    target = out[..., :rotary_dim]
    if target.dtype == turning.dtype and _holds_points(target):
        turn(turning, turns, out=target)
    else:
        target.copy_(turn(turning, turns))
    out[..., rotary_dim:] = rest
    return out


def _turn_neighbours(
    x: Float[Tensor, "batch heads seq rotary_dim"], turns: Complex[Tensor, "#batch 1 seq pairs"],
    out: Tensor | None = None
) -> Float[Tensor, "batch heads seq rotary_dim"]:
    """Neighbours in memory are a complex number already, a + jb, and turning is one complex product."""
    if not _holds_points(x):
        x = x.clone(memory_format=torch.contiguous_format)
    points = torch.mul(_points(x), turns, out=None if out is None else _points(out))
    return torch.view_as_real(points).flatten(-2)


def _turn_halves(
    x: Float[Tensor, "batch heads seq rotary_dim"], turns: Complex[Tensor, "#batch 1 seq pairs"],
    out: Tensor | None = None
) -> Float[Tensor, "batch heads seq rotary_dim"]:
    """[a, b] becomes [a cos, b cos], to which [-b sin, a sin] is added in place, half by half."""
    pairs, cos, sin = turns.shape[-1], turns.real, turns.imag.contiguous()
    if out is not None:
        x = x.clone()                                       # `out` may be `x`, whose halves are both needed to the end
    turned = torch.mul(x, torch.cat([cos, cos], -1), out=out)
    turned[..., :pairs].addcmul_(x[..., pairs:], sin, value=-1)
    turned[..., pairs:].addcmul_(x[..., :pairs], sin)
    return turned


def _points(x: Float[Tensor, "*axes columns"]) -> Complex[Tensor, "*axes pairs"]:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _holds_points(x: Tensor) -> bool:
    """Whether neighbours in memory can be read as complex numbers: a number begins at every second place."""
    *strides, last = x.stride()
    return last == 1 and x.storage_offset() % 2 == 0 and all(stride % 2 == 0 for stride in strides)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


# Checks: each returns what it accepts

def _heads(name: str, x: object) -> Tensor:
    expected = "a floating-point tensor of shape [batch, heads, seq, d_head]"
    float_tensor(name, x, expected)
    if x.dim() != 4:
        raise ValueError(f"{name} must be {expected}, got shape {list(x.shape)} with {x.dim()} axes")
    return x


def _even(name: str, value: object) -> int:
    number = whole_number(name, value, at_least=2)
    if number % 2:
        raise ValueError(f"{name} must be even, because columns turn in pairs, got {number}")
    return number


def _rotary_dim(name: str, d_head: int, rotary_dim: object) -> int:
    """How many of the `d_head` columns turn; `name` says to the reader where `d_head` comes from."""
    d_head = _even(name, d_head)
    if rotary_dim is None:
        return d_head
    rotary_dim = _even("rotary_dim", rotary_dim)
    if rotary_dim > d_head:
        raise ValueError(f"rotary_dim must be at most d_head = {d_head}, got {rotary_dim}")
    return rotary_dim


def _layout(name: str, layout: object) -> str:
    if not isinstance(layout, str) or layout not in (INTERLEAVED, HALF):
        raise ValueError(f'{name} must be "{INTERLEAVED}" (pairs 2i, 2i + 1) or "{HALF}" (pairs i, i + rotary_dim/2), '
                         f"got {layout!r}")
    return layout


def _position(name: str, position: object, x: Tensor) -> Tensor | None:
    """`position` as `[1, seq]` or `[batch, seq]`, in its own dtype and on its own device; None stays None."""
    if position is None:
        return None
    batch, _, seq, _ = x.shape
    expected = f"{name} must be integers, or float32 or float64, of shape [{seq}] or [{batch}, {seq}]"
    if not isinstance(position, Tensor):
        raise TypeError(f"{expected}, got {type(position).__name__}")
    dtype = position.dtype
    if dtype.is_complex or dtype == torch.bool:
        raise TypeError(f"{expected}, got dtype {dtype}")
    if dtype.is_floating_point and dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{expected}, got {dtype}, which cannot hold all whole numbers above "
                        f"{2 / torch.finfo(dtype).eps:.0f}: count in integers and leave them so")
    if position.shape not in ((seq,), (1, seq), (batch, seq)):
        raise ValueError(f"{expected}, got shape {list(position.shape)}")
    return position if position.dim() == 2 else position[None]


def _check_out(out: object, x: Tensor) -> None:
    expected = f"out must have the shape, dtype and device of x: {list(x.shape)}, {x.dtype}, {x.device}"
    if not isinstance(out, Tensor):
        raise TypeError(f"{expected}; got {type(out).__name__}")
    if (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        raise ValueError(f"{expected}; got {list(out.shape)}, {out.dtype}, {out.device}")
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise ValueError("out must be None while gradients are recorded, because writing into it would lose them: "
                         "leave it out, or call under torch.no_grad()")
