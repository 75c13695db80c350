"""Turning queries and keys, beside copying them and beside Hugging Face, rotary-embedding-torch and x-transformers.

A time is that of q and k together. Where the result's memory comes from matters more than the arithmetic: pages fresh
from the system cost several times what pages at hand cost, and which of them a large tensor gets depends on what the
process did before. So all is measured twice, each time in a process of its own whose malloc (glibc's; another takes no
notice) is told to do the one or the other, for everyone.
"""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.report import median_and_spread, print_table, ratios, seconds, take_turns
from posenc_lib.rotary import apply_rotary

try:
    from rotary_embedding_torch import RotaryEmbedding
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
    from x_transformers import x_transformers
except ImportError as error:
    sys.exit(f"The rotary benchmark needs transformers, rotary-embedding-torch and x-transformers ({error}). "
             f"They are no part of the book's environment: make test-oracles installs them.")

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ((8, 8, 1024, 64), (1, 32, 2048, 128))             # batch, heads, seq, d_head
ROUNDS = 15
MEMORY = {
    "new memory for each result": {"MALLOC_MMAP_THRESHOLD_": str(4 * 2**20)},
    "memory at hand": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**62)},
}
CLONES, HUGGING_FACE = "q.clone(), k.clone()", "Hugging Face, cos and sin ready"


def run() -> None:
    for memory, settings in MEMORY.items():
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "benchmarks.rotary", memory], cwd=ROOT, env=os.environ | settings,
                       check=True)


@torch.no_grad()
def measure(memory: str) -> None:
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for shape in SHAPES:
            q, k = torch.randn(2, *shape)
            compare(f"Rotary positions, q and k {list(shape)} float32, {memory}", q, k)


def compare(title: str, q: Tensor, k: Tensor) -> None:
    ways = ways_to_turn(q, k)
    errors = {name: "" if name == CLONES else largest_error(name, q, turn()[0]) for name, turn in ways.items()}
    results = take_turns({name: seconds(turn) for name, turn in ways.items()}, ROUNDS)
    rows = [[name, median_and_spread([1000 * time for time in times], "ms"),
             median_and_spread(ratios(times, results[CLONES])), median_and_spread(ratios(results[HUGGING_FACE], times)),
             errors[name]] for name, times in results.items()]
    print_table(title, ["way", "time", "÷ two clones", "times faster than Hugging Face", "largest error"], rows)


def ways_to_turn(q: Tensor, k: Tensor) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    seq, d_head = q.shape[-2:]
    position, q_out, k_out = torch.arange(seq), torch.empty_like(q), torch.empty_like(k)
    llama = LlamaRotaryEmbedding(LlamaConfig(hidden_size=d_head, num_attention_heads=1, head_dim=d_head))
    cos, sin = llama(q, position[None])
    lucid = RotaryEmbedding(d_head)                         # keeps its angles after the rehearsal
    angles, scale = x_transformers.RotaryEmbedding(d_head).forward_from_seq_len(seq)
    turn_x = x_transformers.apply_rotary_pos_emb

    def each(turn: Callable[..., Tensor], **settings: object) -> Callable[[], tuple[Tensor, Tensor]]:
        return lambda: (turn(q, **settings), turn(k, **settings))

    return {
        CLONES: each(torch.clone),
        "posenc_lib, interleaved": each(apply_rotary),
        "posenc_lib, interleaved, positions given": each(apply_rotary, position=position),
        "posenc_lib, interleaved, out=": lambda: (apply_rotary(q, out=q_out), apply_rotary(k, out=k_out)),
        "posenc_lib, half": each(apply_rotary, layout="half"),
        HUGGING_FACE: lambda: apply_rotary_pos_emb(q, k, cos, sin),
        "Hugging Face, cos and sin made": lambda: apply_rotary_pos_emb(q, k, *llama(q, position[None])),
        "rotary-embedding-torch, angles kept": each(lucid.rotate_queries_or_keys),
        "x-transformers, angles ready": lambda: (turn_x(q, angles, scale), turn_x(k, angles, scale)),
    }


def largest_error(name: str, q: Tensor, turned: Tensor) -> str:
    half = "half" in name or "Hugging Face" in name
    truth = apply_rotary(q.double(), torch.arange(q.shape[2]), layout="half" if half else "interleaved")
    return f"{(turned - truth).abs().max().item():.1e}"


if __name__ == "__main__":
    measure(sys.argv[1])
