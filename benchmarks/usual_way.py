"""The usual way to make a picture move: `ipywidgets.interact` and a new matplotlib figure at every move."""
from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets
from IPython.display import display

from posenc_lib.explorer import Explorer
from posenc_lib.marks import Panels


def usual_way(make: Callable[[], Explorer]) -> dict[str, widgets.ValueWidget]:
    """Shows the picture of an explorer by `interact`, and returns its sliders; plots must appear inline."""
    explorer = make()
    for control in explorer.controls.values():
        control.unobserve(explorer.move, "value")       # the explorer itself stands still

    def draw(**setting: object) -> None:
        figure = explorer.background()
        Panels(figure)                                  # the same settled layout
        view = explorer.compute(**setting)
        for mark in (*view.under, *view.marks):
            mark.draw(figure.axes[mark.panel])
        display(figure)                                 # as plt.show() does inline: a PNG at the usual resolution

    widgets.interact(draw, **explorer.controls)
    return explorer.controls
