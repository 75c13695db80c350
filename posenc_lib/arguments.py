"""Checks of arguments: each returns the value it accepts or names the argument, the value and what was expected."""
from __future__ import annotations

import math
import operator

import torch
from torch import Tensor


def whole_number(name: str, value: object, at_least: int | None = None) -> int:
    """`value` as an `int`. A float, a string or a bool is a `TypeError`, a number below `at_least` a `ValueError`."""
    expected = "a whole number" if at_least is None else f"a whole number of at least {at_least}"
    try:
        if _is_truth_value(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {expected}, got {value!r} ({type(value).__name__})") from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be {expected}, got {number}")
    return number


def positive_number(name: str, value: object) -> float:
    """`value` as a finite `float` above 0."""
    number = _number(name, value, "a positive, finite number")
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive, finite number, got {value!r}")
    return number


def probability(name: str, value: object) -> float:
    """`value` as a `float` from 0 up to, but not including, 1."""
    number = _number(name, value, "a number from 0 to below 1")
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be a number from 0 to below 1, got {value!r}")
    return number


def _number(name: str, value: object, expected: str) -> float:
    try:
        if _is_truth_value(value) or isinstance(value, str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise TypeError(f"{name} must be {expected}, got {value!r} ({type(value).__name__})") from None


def _is_truth_value(value: object) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def float_dtype(name: str, value: object) -> torch.dtype:
    """`value` if it is one of torch's floating-point dtypes."""
    if not isinstance(value, torch.dtype):
        raise TypeError(f"{name} must be a torch dtype such as torch.float32, got {value!r}")
    if not value.is_floating_point:
        raise TypeError(f"{name} must be a floating-point dtype such as torch.float32, got {value}")
    return value


def token_vectors(name: str, x: object, d_model: int) -> Tensor:
    """`x` if it is a floating-point tensor of shape `[batch, seq, d_model]`."""
    expected = f"a floating-point tensor of shape [batch, seq, {d_model}]"
    float_tensor(name, x, expected, "are these token ids before the embedding?")
    if x.dim() != 3:
        raise ValueError(f"{name} must be {expected}, got shape {list(x.shape)} with {x.dim()} axes")
    if x.shape[-1] != d_model:
        raise ValueError(f"{name} must be {expected}, got shape {list(x.shape)}: its last axis is {x.shape[-1]} wide")
    return x


def vectors(name: str, value: object) -> Tensor:
    """`value` if it is a floating-point tensor of shape `[…, rows, width]`."""
    expected = "a floating-point tensor of shape [..., rows, width]"
    float_tensor(name, value, expected, f"{name}.float() makes it one")
    if value.dim() < 2 or value.shape[-1] == 0:
        raise ValueError(f"{name} must be {expected}, got shape {list(value.shape)}")
    return value


def float_tensor(name: str, value: object, expected: str, advice: str = "") -> None:
    """Raises `TypeError` if `value` is no floating-point tensor; `advice` is for a tensor of another kind."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")
    if not value.dtype.is_floating_point:
        raise TypeError(f"{name} must be {expected}, got dtype {value.dtype}{f': {advice}' if advice else ''}")


def positions(name: str, value: object, x: Tensor) -> Tensor:
    """`value` as int64 `[1, seq]` or `[batch, seq]` on the device of `x` `[batch, seq, …]`; None is 0, 1, 2, …"""
    batch, seq = x.shape[:2]
    if value is None:
        return torch.arange(seq, device=x.device)[None]
    expected = f"an integer tensor of shape [{seq}] or [{batch}, {seq}]"
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool:
        raise TypeError(f"{name} must be {expected}, got dtype {value.dtype}")
    if value.shape not in ((seq,), (1, seq), (batch, seq)):
        raise ValueError(f"{name} must be {expected}, got shape {list(value.shape)}")
    # int64, because offsets are negative too: uint8 would make 255 of -1.
    value = value.to(x.device, torch.int64)
    return value if value.dim() == 2 else value[None]


def table_rows(name: str, value: object, x: Tensor, rows: int) -> Tensor | slice:
    """What takes the rows of a table of `rows` rows for the tokens of `x`: `value` as `positions` has it, or 0, 1, …

    A row that is not there is a `ValueError` here, where it can be said; on a GPU the look-up would end the process.
    """
    if value is None:
        seq = x.shape[1]
        if seq > rows:
            raise ValueError(f"x has {seq} positions but the table has {rows} rows: raise max_len to {seq}")
        return slice(seq)
    position = positions(name, value, x)
    if value.numel() and not value.is_meta:                 # where `value` is: on `x`'s device it may not be readable
        low, high = (bound.item() for bound in value.long().aminmax())
        if low < 0 or high >= rows:
            raise ValueError(f"{name} must be from 0 to {rows - 1}, as the table has {rows} rows, got {low} to {high}")
    return position


def attention_mask(name: str, value: object, shape: tuple[int, ...]) -> Tensor:
    """`value` if it is boolean and fits scores of `shape` `[…, queries, keys]`: as many axes, or the last two only."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        seen = f"dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a boolean tensor (torch.bool), True = may attend, got {seen}. If yours holds "
                        f"1 for 'may attend' and 0 for 'may not', pass {name}.bool()")
    fits = value.dim() in (2, len(shape)) and all(
        have in (1, want) for have, want in zip(reversed(value.shape), reversed(shape), strict=False))
    if not fits:
        padding = f". A padding mask [batch, keys] goes in as {name}[:, {'None, ' * (len(shape) - 2)}:]"
        raise ValueError(f"{name} must have shape [queries, keys] = {list(shape[-2:])} or {list(shape)}, an axis of 1 "
                         f"standing for 'the same for all', got {list(value.shape)}{padding * (len(shape) > 2)}")
    return value
