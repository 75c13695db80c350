"""What all benchmarks share: competitors that take turns, medians with their spread, plain tables."""
from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

Measure = Callable[[int], object]      # called with the number of the round


def take_turns(ways: Mapping[str, Measure], rounds: int) -> dict[str, list]:
    """What each way measured in each round; everyone's first turn is a rehearsal, and the order rotates."""
    names = list(ways)
    results = {name: [] for name in names}
    for number in range(-1, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            result = ways[name](number)
            if number >= 0:
                results[name].append(result)
    return results


def seconds(function: Callable[[], object]) -> Measure:
    def measure(_round: int) -> float:
        started = time.perf_counter()
        function()
        return time.perf_counter() - started
    return measure


def median_and_spread(values: Sequence[float], unit: str = "") -> str:
    """Such as "12.3 (11.9 to 12.8) ms": the median, and between which values the middle half lies."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{_short(middle)} ({_short(low)} to {_short(high)}) {unit}".rstrip()


def ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """Round by round, so that a machine busy for a while does not count."""
    return [one / other for one, other in zip(slow, fast, strict=True)]


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], threads: int | None = None) -> None:
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    threads = torch.get_num_threads() if threads is None else threads
    print(f"\n{title}\nPython {platform.python_version()}, torch {torch.__version__}, {threads} thread(s) of "
          f"{os.cpu_count()} processors, {platform.machine()}; ratios within one run, medians (middle half)\n")
    for line in (heads, ["-" * width for width in widths], *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
