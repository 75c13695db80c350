"""The book's explorers, one file each: a still background, a plain function from slider values to a `View`."""
from posenc_lib.explorers.bias import bias_explorer
from posenc_lib.explorers.depth import depth_explorer, depth_runs
from posenc_lib.explorers.layer_norm import layer_norm_explorer
from posenc_lib.explorers.layouts import layouts_explorer
from posenc_lib.explorers.offset import offset_explorer
from posenc_lib.explorers.order import order_explorer
from posenc_lib.explorers.rope import rope_explorer
from posenc_lib.explorers.scale import scale_explorer, scale_runs
from posenc_lib.explorers.sinusoid import sinusoid_explorer
from posenc_lib.explorers.slide import slide_explorer
from posenc_lib.explorers.table_end import end_runs, small_rows, table_end_explorer
from posenc_lib.explorers.training import training_explorer
from posenc_lib.explorers.why_waves import why_waves_explorer

__all__ = [
    "bias_explorer", "depth_explorer", "depth_runs", "end_runs", "layer_norm_explorer", "layouts_explorer",
    "offset_explorer", "order_explorer", "rope_explorer", "scale_explorer", "scale_runs", "sinusoid_explorer",
    "slide_explorer", "small_rows", "table_end_explorer", "training_explorer", "why_waves_explorer",
]
