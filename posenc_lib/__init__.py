"""Positional encodings for Transformers, small enough to read.

Order can enter at three doors: the input, the queries and keys, the scores. Each scheme is one file here.
Explorers are in `posenc_lib.explorers`, the look of figures in `posenc_lib.figures`.
"""
from posenc_lib.alibi import Alibi, alibi_slopes
from posenc_lib.attention import MultiHeadAttention, attention, causal_mask
from posenc_lib.checking import check, solved
from posenc_lib.encoder import Encoder, EncoderLayer, PositionwiseFeedForward
from posenc_lib.learned import LearnedEncoding, stretch
from posenc_lib.position import Position, offsets
from posenc_lib.rotary import Rotary, apply_rotary, convert_projection, rotary_permutation
from posenc_lib.shaw import Shaw, shaw_index
from posenc_lib.sinusoidal import SinusoidalEncoding, frequencies, shift_matrix, sinusoidal_table
from posenc_lib.t5 import T5Bias, t5_bucket

__all__ = [
    "Alibi", "Encoder", "EncoderLayer", "LearnedEncoding", "MultiHeadAttention", "Position", "PositionwiseFeedForward",
    "Rotary", "Shaw", "SinusoidalEncoding", "T5Bias", "alibi_slopes", "apply_rotary", "attention", "causal_mask",
    "check", "convert_projection", "frequencies", "offsets", "rotary_permutation", "shaw_index", "shift_matrix",
    "sinusoidal_table", "solved", "stretch", "t5_bucket",
]
__version__ = "0.1.0"
