"""Positional encodings for Transformers, small enough to read.

Order can enter at three doors: the input, the queries and keys, the scores. Each scheme is one file here.
Explorers are in `posenc_lib.explorers`, the look of figures in `posenc_lib.figures`.
"""
from posenc_lib.attention import MultiHeadAttention, attention, causal_mask
from posenc_lib.checking import check
from posenc_lib.position import Position
from posenc_lib.sinusoidal import SinusoidalEncoding, frequencies, shift_matrix, sinusoidal_table

__all__ = [
    "MultiHeadAttention", "Position", "SinusoidalEncoding", "attention", "causal_mask", "check", "frequencies",
    "shift_matrix", "sinusoidal_table",
]
__version__ = "0.1.0"
