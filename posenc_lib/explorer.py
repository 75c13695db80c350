"""The explorer: sliders over a still picture on which marks move.

    def background():                         # drawn by matplotlib, once
        figure, (ax,) = panels()
        ax.set(xlim=(0, 10), ylim=(-1, 1), title="A wave")
        return figure

    def wave(frequency):                      # a plain function of the sliders' values, called at every move
        x = np.linspace(0, 10, 200)
        return View([Line(x, np.sin(frequency * x))], [f"frequency = {frequency:.2f}"], "A sine wave.")

    Explorer(background, wave, frequency=slider(0.1, 3.0, start=1.0))

As the last line of a cell it shows itself: live where there is a kernel, as a picture where there is none. A move
sends only the marks, as SVG, about a kilobyte; the picture under them is sent once.
"""
from __future__ import annotations

import base64
import html
import io
import numbers
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
from IPython.display import display
from matplotlib import image
from matplotlib.figure import Figure

from posenc_lib import figures
from posenc_lib.blame import own_frame
from posenc_lib.marks import Mark, Panels

STACKED = {"grid_area": "1 / 1 / 2 / 2", "width": "auto", "margin": "0"}      # the layers lie on one another
SLIDER_LOOK = {"style": {"description_width": "80px"},
               "layout": {"width": "440px", "max_width": "100%", "margin": "2px"}}
LEAST_WIDTH = 520                   # pixels: below it the picture's text is too small to read, so it scrolls instead
MONOSPACE = "font-family:'DejaVu Sans Mono',Consolas,monospace;font-size:13px;line-height:1.5"
WRAPPED = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"       # JupyterLab's own style cuts words


@dataclass(frozen=True)
class View:
    """What an explorer shows for one setting of its sliders.

    `under` are marks that most moves leave alone, a heat map for example: they lie below `marks`, and are sent again
    only if they changed (not even looked at if the same tuple comes again).

    `values` are lines of exact numbers beside the picture; `^{…}` in them is set as a superscript, `_{…}` as a
    subscript. `alt` is the sentence that stands for the picture where it cannot be seen.
    """

    marks: Sequence[Mark]
    values: Sequence[str] = ()
    alt: str = ""
    under: Sequence[Mark] = ()


class Explorer:
    """Sliders, a still `background`, and `compute`, the function from the sliders' values to a `View`.

    `limits` lets one slider bound another: `limits={"dimension": lambda d_model, **_: d_model - 1}` is called with all
    values and sets the largest value of the slider `dimension`.

    An exception in `compute` is raised when the explorer is made; later it is shown in the explorer, with its line,
    until a value that works is chosen.

    Without a mouse: Tab goes from control to control and, after each slider, to its number, which can be typed over.
    Home, End, Page Up and Page Down move a slider, and so do the arrow keys, but not in Notebook 7, which takes them
    for itself. A drop-down list is opened by Space first. In a window narrower than its picture can bear, an explorer
    scrolls sideways, but by touch or mouse only: there too the arrow keys are Jupyter's.

    To a screen reader the picture is an image whose name is `alt`, and text fields, tick boxes and drop-down lists go
    by their labels. ipywidgets gives sliders no name: the label is text that stands before the slider, only the number
    is spoken, and of a `choice` that is the place in the list, from 0. So `values` and `alt` should say the setting.
    """

    def __init__(self, background: Callable[[], Figure], compute: Callable[..., View], *,
                 limits: Mapping[str, Callable[..., float]] | None = None, **controls: widgets.ValueWidget) -> None:
        for name, control in controls.items():
            if not isinstance(control, widgets.ValueWidget):
                raise TypeError(f"{name} must be a widget with a value, such as slider(0, 10), got {control!r}")
            control.description = control.description or name.replace("_", " ")
            if control.has_trait("tooltip"):                # ipywidgets 8 would write "null" on a slider's label
                control.tooltip = control.tooltip or control.description
        self.background, self.compute, self.controls, self.limits = background, compute, controls, dict(limits or {})
        for name in self.limits:
            if not hasattr(controls.get(name), "max"):
                raise ValueError(f"limits names {name!r}, which is no slider with a largest value")
        with figures.book_style():
            figure = background()
        self.panels = Panels(figure)
        self.picture = widgets.HTML(_still_picture(figures.png(figure)), layout=STACKED)
        self.under = widgets.HTML(layout=STACKED)
        self.moving = widgets.HTML(layout=STACKED)          # marks and values in one, so that a move is one message
        self.view = View(())
        self.box = self._arrange()
        self._moving = False
        self._update()
        for control in controls.values():
            control.observe(self.move, "value")

    def setting(self) -> dict[str, object]:
        """The controls' values by name."""
        return {name: control.value for name, control in self.controls.items()}

    def move(self, _change: object = None) -> None:
        """Brings the picture in line with the controls; an exception in `compute` is shown below the picture."""
        if self._moving:                                    # a limit changed a value while we were at it
            return
        self._moving = True
        try:
            self._update()
        except Exception as error:
            self.moving.value = self._picture_and_text(self.view, _error_text(self.compute, error))
        finally:
            self._moving = False

    def still(self) -> bytes:
        """The picture as a PNG drawn by matplotlib, with the exact values below it: what a saved notebook shows."""
        with figures.book_style():
            figure = self.drawn(self.view)
            lines = [self.state, *(_plain(line) for line in self.view.values)]
            return _stacked(figures.png(figure), figures.png(_page(lines, figure)))

    def drawn(self, view: View) -> Figure:
        """A new background with the marks of `view` on it, all drawn by matplotlib."""
        figure = self.background()
        Panels(figure)                                      # the same settled layout as the live picture
        for mark in (*view.under, *view.marks):
            mark.draw(figure.axes[mark.panel])
        return figure

    def _update(self) -> None:
        for name, limit in self.limits.items():
            self.controls[name].max = limit(**self.setting())
        view = self.compute(**self.setting())
        if not isinstance(view, View):
            raise TypeError(f"{self.compute.__name__} must return a View, got {type(view).__name__}")
        moving = self._picture_and_text(view, self._values_text(view.values))
        if view.under is not self.view.under:
            self.under.value = self._layer(view.under, 'aria-hidden="true"')
        self.moving.value = moving
        self.view = view
        self.state = " · ".join(f"{control.description} {_shown(control.value)}" for control in self.controls.values())

    def _picture_and_text(self, view: View, text: str) -> str:
        return self._layer(view.marks, f'role="img" aria-label="{html.escape(view.alt)}"') + text

    def _values_text(self, lines: Sequence[str]) -> str:
        """The lines, which may be a table: in a narrow window they scroll with the picture and are not wrapped.

        The box around them is as wide as the picture, so that a longer line does not stretch the marks above it.
        """
        text = "\n".join(html.escape(line, quote=False) for line in lines)
        text = re.sub(r"\^\{(.*?)\}", r"<sup>\1</sup>", text)
        text = re.sub(r"_\{(.*?)\}", r"<sub>\1</sub>", text)
        style = f"margin:0 8px;width:max-content;max-width:{self.panels.width - 16:.0f}px;{WRAPPED};{MONOSPACE}"
        return f'<div style="width:0;min-width:100%"><pre aria-live="polite" style="{style}">{text}</pre></div>'

    def _layer(self, marks: Sequence[Mark], role: str) -> str:
        width, height = self.panels.width, self.panels.height
        return (f'<svg {role} viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans,Verdana,sans-serif" '
                f'style="display:block;width:100%;max-width:{width:.0f}px">{self.panels.svg(marks)}</svg>')

    def _arrange(self) -> widgets.Box:
        width = self.panels.width
        columns = f"minmax({min(width, LEAST_WIDTH):.0f}px, {width:.0f}px)"
        layers = widgets.GridBox([self.picture, self.under, self.moving], layout={"grid_template_columns": columns})
        controls = widgets.Box(list(self.controls.values()), layout={"flex_flow": "row wrap"})
        return widgets.VBox([controls, layers])

    def _ipython_display_(self) -> None:
        bundle, metadata = self._repr_mimebundle_()
        display(bundle, raw=True, metadata=metadata)
        if self.view.alt:                       # for the still picture; the live one has its own, kept up to date
            figures.describe(f"At first: {self.view.alt}")

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        width = round(self.panels.width)
        view = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        bundle = {
            "text/plain": f"Explorer with {', '.join(self.controls)}: run this cell to move it.",
            "image/png": base64.b64encode(self.still()).decode(),
            "application/vnd.jupyter.widget-view+json": view,
        }
        return bundle, {"image/png": {"width": width, "alt": self.view.alt}}


def slider(low: float, high: float, start: float | None = None, *, step: float | None = None,
           label: str = "") -> widgets.ValueWidget:
    """A slider from `low` to `high`; whole numbers if both ends are, and no `step` says otherwise."""
    start = low if start is None else start
    if not low <= high:
        raise ValueError(f"low must not be above high, got {low} and {high}")
    if not low <= start <= high:
        raise ValueError(f"start must lie between {low} and {high}, got {start}")
    whole = all(isinstance(number, numbers.Integral) for number in (low, high, start, step or 1))
    kind, step = (widgets.IntSlider, step or 1) if whole else (widgets.FloatSlider, step or (high - low) / 100)
    return kind(min=low, max=high, value=start, step=step, description=label, **SLIDER_LOOK)


def minus(text: str) -> str:
    """`text` with minus signs for hyphens, as its numbers are to be read."""
    return text.replace("-", "−")


def choice(options: Sequence[object], start: object = None, *, label: str = "") -> widgets.SelectionSlider:
    """A slider over a short list of values."""
    return widgets.SelectionSlider(options=list(options), value=options[0] if start is None else start,
                                   description=label, **SLIDER_LOOK)


def _still_picture(png: bytes) -> str:
    return f'<img src="{figures.data_url(png)}" alt="" style="display:block;width:100%">'


def _error_text(compute: Callable, error: Exception) -> str:
    """The error and the line of the file or cell of `compute` that it came from."""
    where = own_frame(compute, error) or traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}\nin {where.name}, line {where.lineno}: {where.line}"
    style = f"margin:4px 8px;padding:6px;border-left:4px solid {figures.RED};{WRAPPED};{MONOSPACE}"
    text += "\nThe picture shows the last setting that worked."
    return f'<pre role="alert" style="{style}">{html.escape(text)}</pre>'


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _plain(line: str) -> str:
    line = re.sub(r"[\^_]\{(.*?)\}", lambda found: found[0][0] + found[1] if len(found[1]) < 2 else
                  f"{found[0][0]}({found[1]})", line)
    return line.replace("\u200b", "")                   # has done its work, and older matplotlib would draw a box


def _page(lines: Sequence[str], over: Figure) -> Figure:
    """Lines of monospaced text as a figure as wide as `over`."""
    line_height = 0.21
    width, height = over.get_size_inches()[0], line_height * (len(lines) + 0.6)
    page = Figure(figsize=(width, height), dpi=over.dpi, facecolor="white")
    for number, line in enumerate(lines):
        page.text(0.1 / width, 1 - (number + 0.3) * line_height / height, line, va="top", family="monospace",
                  fontsize=9.5, parse_math=False, weight="bold" if number == 0 else "normal")
    return page


def _stacked(*pictures: bytes) -> bytes:
    """PNGs of one width, one below the other."""
    return figures.pixels_png(np.vstack([image.imread(io.BytesIO(picture)) for picture in pictures]))
