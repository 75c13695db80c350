"""What goes between the grader and a student's process: frames of a JSON header and an npz archive, never pickle.

    frame    = two lengths of 4 bytes (big-endian), the header, the archive
    header   = {"op": what this is, ...plain fields, "values": {name: value}}
    value    = null, true, a number, a string, or a list that begins with what it is: ["list", ...], ["tuple", ...],
               ["dict", [key, value], ...], ["tensor", number, dtype], ["array", number], ["scalar", number],
               ["function", number, name], ["ellipsis"], ["opaque", type, repr]

The grader trusts nothing that it reads: a frame is refused by its lengths before memory is taken for it, an array by
the sizes that its archive states before it is unpacked, and each array stands for one value only.
"""
from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from collections.abc import Callable

import numpy as np
import torch

LENGTHS = struct.Struct(">II")
FRAME = 64 << 20                                # bytes of a whole frame
HEADER = 4 << 20                                # bytes of its JSON
ARRAYS = 256                                    # in one frame
ELEMENTS = 8_000_000                            # of all its arrays, which the grader turns into float64
DEPTH = 20                                      # of lists in lists
DIGITS = 4_000                                  # of an integer, below what json reads
UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # controls, of direction too
KINDS = "biufc"                                 # NumPy's kinds of numbers; no objects, no text
VIA_FLOAT = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"}  # unknown to NumPy
NATIVE = {"bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"}


class Refused(ValueError):
    """A frame that is too large, or is no frame."""


class Opaque:
    """Stands for a value that does not travel; looks like it in a message."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


def plain(text: object, most: int) -> str:
    """A string from the other side, fit for a terminal and a file: no control characters, no halves of characters."""
    if not isinstance(text, str):
        raise Refused(f"a text was due, got {type(text).__name__}")
    if len(text) > most:
        text = text[:most] + "…"
    text = text.encode("utf-8", "replace").decode()
    return UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def dump(message: dict, values: dict[str, object] | None = None,
         reference: Callable[[Callable], int] | None = None) -> bytes:
    """One frame. `reference` gives a function the number by which it is called back; without it none travels.

    Raises: `Refused` if the values are too large.
    """
    arrays: list[np.ndarray] = []
    encoded = {name: _encode(value, arrays, reference, DEPTH) for name, value in (values or {}).items()}
    header = json.dumps({**message, "values": encoded}).encode()
    if sum(array.nbytes for array in arrays) > FRAME or len(arrays) > ARRAYS or len(header) > HEADER:
        raise Refused(f"the values are too large to be sent: {len(arrays)} arrays of "
                      f"{sum(array.nbytes for array in arrays):,} bytes in all, and {len(header):,} bytes beside them")
    archive = io.BytesIO()
    if arrays:
        np.savez(archive, **{f"a{number}": array for number, array in enumerate(arrays)})
    _lengths_fit(len(header), archive.tell())
    return LENGTHS.pack(len(header), archive.tell()) + header + archive.getvalue()


def read(receive: Callable[[int], bytes], function: Callable[[int, str], Callable] | None = None
         ) -> tuple[dict, dict[str, object]]:
    """The next frame's message and values.

    `receive(n)` gives exactly n bytes, `function(number, name)` a stand-in for a function.
    Raises: `Refused` for whatever is no frame; what `receive` raises.
    """
    lengths = LENGTHS.unpack(receive(LENGTHS.size))
    _lengths_fit(*lengths)
    header, archive = (receive(length) for length in lengths)
    try:
        message = json.loads(header)
        arrays = _unpacked(archive) if archive else {}
        values = {name: _decode(value, arrays, function, DEPTH) for name, value in message.pop("values").items()}
    except Refused:
        raise
    except Exception as error:                  # whatever is wrong with bytes from outside, it is no frame
        raise Refused(f"what came is no frame: {type(error).__name__}") from None
    return message, values


def _lengths_fit(header: int, archive: int) -> None:
    if header > HEADER or header + archive > FRAME:
        raise Refused(f"a frame of {header + archive:,} bytes is too large")


def _unpacked(archive: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz, after every size that it states has been held against the bytes that are there."""
    end = archive[-22:]                         # the end of a zip's directory, when no comment follows
    if end[:4] != b"PK\5\6" or end[20:] != b"\0\0" or archive[-42:-38] == b"PK\6\7":
        raise Refused("the archive is none that this sends")
    if int.from_bytes(end[12:16], "little") > 100 * ARRAYS:
        raise Refused("the archive's directory is too long")
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        entries = opened.infolist()
        if (len(entries) > ARRAYS or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
                or sum(entry.file_size for entry in entries) > len(archive)):
            raise Refused("the archive's entries are more than its bytes")
        elements = 0
        for entry in entries:
            with opened.open(entry) as file:
                version = np.lib.format.read_magic(file)
                shape, _, dtype = {(1, 0): np.lib.format.read_array_header_1_0,
                                   (2, 0): np.lib.format.read_array_header_2_0}[version](file)
            elements += math.prod(shape)
            if dtype.kind not in KINDS or min(shape, default=0) < 0 or elements > ELEMENTS or (
                    math.prod(shape) * dtype.itemsize > entry.file_size):
                raise Refused(f"an array of shape {list(shape)} and type {dtype} is not taken")
    with np.load(io.BytesIO(archive), allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def _encode(value: object, arrays: list, reference: Callable | None, depth: int) -> object:
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int and value.bit_length() < 3 * DIGITS:
        return value
    if value is Ellipsis:
        return ["ellipsis"]
    try:
        if isinstance(value, torch.Tensor):
            name = str(value.dtype).removeprefix("torch.")
            tensor = value.detach().cpu()
            array = (tensor.float() if name in VIA_FLOAT else tensor.resolve_conj().resolve_neg()).numpy()
            return ["tensor", _kept(array, arrays), name]
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in KINDS:
            return ["scalar" if isinstance(value, np.generic) else "array", _kept(np.asarray(value), arrays)]
        if isinstance(value, bool | int | float | str) and not isinstance(value, np.generic) and kind is not int:
            base = next(base for base in (bool, int, float, str) if isinstance(value, base))
            return _encode(base(value), arrays, reference, depth - 1) if depth else _opaque(value)
        if isinstance(value, list | tuple) and depth:
            return ["list" if isinstance(value, list) else "tuple",
                    *(_encode(each, arrays, reference, depth - 1) for each in value)]
        if isinstance(value, dict) and depth and all(type(key) is str for key in value):
            return ["dict", *([key, _encode(each, arrays, reference, depth - 1)] for key, each in value.items())]
    except (TypeError, RuntimeError, NotImplementedError):      # a tensor that has no array, sparse or quantized
        return _opaque(value)
    if reference is not None and callable(value):
        return ["function", reference(value), str(getattr(value, "__name__", "function"))]
    return _opaque(value)


def _kept(array: np.ndarray, arrays: list) -> int:
    arrays.append(array)
    return len(arrays) - 1


def _opaque(value: object) -> list:
    try:
        shown = repr(value)[:200]
    except Exception:                           # a repr of the student's own; what it raises is of no interest here
        shown = object.__repr__(value)
    return ["opaque", type(value).__name__, shown]


def _decode(value: object, arrays: dict, function: Callable | None, depth: int) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise Refused("a value is no JSON object")
        return value
    if not depth:
        raise Refused("lists in lists are too deep")
    kind, *rest = value
    if kind in ("list", "tuple"):
        inner = [_decode(each, arrays, function, depth - 1) for each in rest]
        return inner if kind == "list" else tuple(inner)
    if kind == "dict":
        return {str(key): _decode(each, arrays, function, depth - 1) for key, each in rest}
    if kind in ("tensor", "array", "scalar"):
        array = arrays.pop(f"a{rest[0]:d}")     # once: a list of one array many times over would be a bomb
        if kind != "tensor":
            return array if kind == "array" else array[()]
        if rest[1] not in VIA_FLOAT | NATIVE:
            raise Refused("there is no such type of tensor")
        return torch.from_numpy(array).to(getattr(torch, rest[1]))
    if kind == "function" and function is not None:
        return function(int(rest[0]), str(rest[1]))
    if kind == "ellipsis":
        return ...
    if kind == "opaque":
        name = plain(rest[0], 60)
        return type(name if name.isidentifier() else "object", (Opaque,), {})(plain(rest[1], 200))
    raise Refused("there is no such kind of value")
