"""The usual way to make a picture move: `ipywidgets.interact` and a new matplotlib figure at every move."""
from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets
from IPython.display import display

from posenc_lib.explorer import Explorer


def sliders(explorer: Explorer) -> dict[str, widgets.ValueWidget]:
    """The controls that slide; not texts and tick boxes."""
    return {name: control for name, control in explorer.controls.items()
            if hasattr(control, "options") or hasattr(control, "max")}


def usual_way(make: Callable[[], Explorer]) -> dict[str, widgets.ValueWidget]:
    """Shows the picture of an explorer by `interact`, and returns its sliders; plots must appear inline."""
    explorer = make()
    for control in explorer.controls.values():
        control.unobserve(explorer.move, "value")       # the explorer itself stands still

    def draw(**setting: object) -> None:
        figure = explorer.drawn(explorer.compute(**setting))
        display(figure)                                 # as plt.show() does inline: a PNG at the usual resolution

    widgets.interact(draw, **explorer.controls)
    return explorer.controls
