"""The whole encoder, forward, beside `nn.TransformerEncoder` on its ordinary path.

torch's fast path runs a layer as one fused call in evaluation only. It is off here, so that both do the same: what
remains is that ours computes the weights of every head and returns them.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.report import median_and_spread, print_table, ratios, seconds, take_turns
from posenc_lib.encoder import Encoder

LAYERS, D_MODEL, N_HEADS, D_FF = 6, 512, 8, 2048
BATCH, SEQ, ROUNDS = 8, 128, 21


def torch_encoder() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D_MODEL), enable_nested_tensor=False)


ENCODERS = {
    "nn.TransformerEncoder": torch_encoder,
    "posenc_lib.Encoder": lambda: Encoder(LAYERS, D_MODEL, N_HEADS, D_FF),
}


def run() -> None:
    encoders = {name: make().eval() for name, make in ENCODERS.items()}
    x = torch.randn(BATCH, SEQ, D_MODEL)
    threads_before, fast_before = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        compare(encoders, x)
    torch.backends.mha.set_fastpath_enabled(fast_before)
    torch.set_num_threads(threads_before)


@torch.no_grad()
def compare(encoders: dict[str, nn.Module], x: Tensor) -> None:
    ways = {name: seconds(lambda encoder=encoder: encoder(x)) for name, encoder in encoders.items()}
    results = take_turns(ways, ROUNDS)
    rows = [[name, median_and_spread([1000 * time for time in times], "ms"),
             median_and_spread(ratios(times, results["nn.TransformerEncoder"])),
             str(sum(parameter.numel() for parameter in encoders[name].parameters()))]
            for name, times in results.items()]
    print_table(f"Encoder forward, {LAYERS} layers, d_model = {D_MODEL}, batch {BATCH}, seq {SEQ}",
                ["way", "time", "÷ nn.TransformerEncoder", "parameters"], rows)
