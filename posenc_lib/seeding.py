"""Random numbers of a seed, for a while."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Within it random numbers are those of `seed`, on the CPU and on `device`; after it the reader's own go on.

    Only these generators are touched: `torch.manual_seed` would seed every device.
    """
    elsewhere = device is not None and device.type != "cpu"
    with torch.random.fork_rng(devices=[device] if elsewhere and device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if elsewhere:
            torch.get_device_module(device).manual_seed(seed)
        yield
