"""What `import posenc_lib` adds to PyTorch's own import, in a new process each time."""
from __future__ import annotations

import subprocess
import sys

from benchmarks.report import median_and_spread, print_table, ratios, take_turns

ROUNDS = 9
IMPORTS = {"torch": "import torch", "torch, posenc_lib": "import torch, posenc_lib",
           "torch, posenc_lib.explorers": "import torch, posenc_lib.explorers"}
TIMED = "import time; started = time.perf_counter(); {}; print(time.perf_counter() - started)"


def seconds_of(line: str) -> float:
    return float(subprocess.check_output([sys.executable, "-c", TIMED.format(line)]))


def run() -> None:
    results = take_turns({name: lambda _round, line=line: seconds_of(line) for name, line in IMPORTS.items()}, ROUNDS)
    rows = []
    for name, times in results.items():
        added = [1000 * (time - torchs) for time, torchs in zip(times, results["torch"], strict=True)]
        rows.append([name, median_and_spread([1000 * time for time in times], "ms"), median_and_spread(added, "ms"),
                     median_and_spread(ratios(times, results["torch"]))])
    print_table("Import in a new process", ["import", "time", "added to torch's", "÷ torch"], rows)
