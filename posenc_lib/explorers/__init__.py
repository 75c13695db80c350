"""The book's explorers, one file each: a still background, a plain function from slider values to a `View`."""
from posenc_lib.explorers.offset import offset_explorer
from posenc_lib.explorers.order import order_explorer
from posenc_lib.explorers.sinusoid import sinusoid_explorer
from posenc_lib.explorers.why_waves import why_waves_explorer

__all__ = ["offset_explorer", "order_explorer", "sinusoid_explorer", "why_waves_explorer"]
