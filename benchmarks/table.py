"""The sinusoidal table of 5000 positions by 512 dimensions, and the module that holds it, beside the usual ways."""
from __future__ import annotations

import math

import torch
from positional_encodings.torch_encodings import PositionalEncoding1D
from torch import Tensor, nn

from benchmarks.report import median_and_spread, print_table, ratios, seconds, take_turns
from posenc_lib import SinusoidalEncoding, sinusoidal_table

LENGTH, D_MODEL, ROUNDS = 5000, 512, 31


def recipe_table() -> Tensor:
    """The common PyTorch recipe, as it stands in many tutorials."""
    pe = torch.zeros(LENGTH, D_MODEL)
    position = torch.arange(0, LENGTH, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, D_MODEL, 2).float() * (-math.log(10000.0) / D_MODEL))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


class RecipeModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("pe", recipe_table().unsqueeze(0))


def float64_table() -> Tensor:
    """The formula in float64, rounded to float32 at the end."""
    return true_table().float()


def true_table() -> Tensor:
    position = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    angle = position * 10000.0 ** (-torch.arange(0, D_MODEL, 2, dtype=torch.float64) / D_MODEL)
    pe = torch.empty(LENGTH, D_MODEL, dtype=torch.float64)
    pe[:, 0::2] = angle.sin()
    pe[:, 1::2] = angle.cos()
    return pe


def positional_encodings_table() -> Tensor:
    """Of a new module each time, because it keeps its table."""
    return PositionalEncoding1D(D_MODEL)(torch.zeros(1, LENGTH, D_MODEL))[0]


TABLES = {
    "common recipe": recipe_table,
    "posenc_lib.sinusoidal_table": lambda: sinusoidal_table(LENGTH, D_MODEL),
    "float64, then cast": float64_table,
    "positional-encodings": positional_encodings_table,
}
MODULES = {
    "common recipe": RecipeModule,
    "posenc_lib.SinusoidalEncoding": lambda: SinusoidalEncoding(D_MODEL, LENGTH),
}


def run() -> None:
    truth = true_table()
    errors = {name: f"{(make() - truth).abs().max().item():.1e}" for name, make in TABLES.items()}
    threads_before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        compare(f"Sinusoidal table, {LENGTH} × {D_MODEL}", TABLES, errors)
        compare(f"Making the module, {LENGTH} × {D_MODEL}", MODULES)
    torch.set_num_threads(threads_before)


def compare(title: str, ways: dict, errors: dict[str, str] | None = None) -> None:
    results = take_turns({name: seconds(make) for name, make in ways.items()}, ROUNDS)
    rows = []
    for name, times in results.items():
        row = [name, median_and_spread([1000 * time for time in times], "ms"),
               median_and_spread(ratios(times, results["common recipe"]))]
        rows.append([*row, errors[name]] if errors else row)
    heads = ["way", "time", "÷ common recipe"]
    print_table(title, [*heads, "largest error"] if errors else heads, rows)
