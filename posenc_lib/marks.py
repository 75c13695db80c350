"""Marks: the things a slider moves. Plain data that draws itself twice, as SVG in the live picture and by matplotlib
in the saved one.

Every mark stands in the data coordinates of one panel (`panel=0` is a figure's first axes). Its SVG is made with that
panel's own `transData`, so it lies exactly where matplotlib would have drawn it.
"""
from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_lib.figures import BLUE, DIVERGING, data_url, pixels_png
from posenc_lib.fonts import letters_for

Place = Callable[[object, object], np.ndarray]      # data coordinates x, y -> picture pixels [points, 2], y downwards


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What all marks share: where they stand, their colour, and whether a panel's frame cuts them off."""

    panel: int = 0
    color: str = BLUE
    clipped: ClassVar[bool] = False

    def svg(self, place: Place) -> str:
        raise NotImplementedError

    def draw(self, ax: Axes) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Line(Mark):
    """A line through the points `x`, `y`; `dashed` or solid, `width` in pixels."""

    x: Sequence[float]
    y: Sequence[float]
    width: float = 2.0
    dashed: bool = False
    clipped: ClassVar[bool] = True

    def svg(self, place: Place) -> str:
        dash = ' stroke-dasharray="5 4"' if self.dashed else ""
        style = f'fill="none" stroke="{self.color}" stroke-width="{self.width}"{dash}'
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in place(self.x, self.y))
        runs = re.split(r"\S*(?:nan|inf)\S*", points)                    # a point that is no number leaves a gap
        return "".join(f'<polyline points="{run.strip()}" {style}/>' for run in runs if run.strip())

    def draw(self, ax: Axes) -> None:
        dashes = {"dashes": (5 / self.width, 4 / self.width)} if self.dashed else {}
        ax.plot(self.x, self.y, color=self.color, linewidth=_points(ax, self.width), **dashes)


def frame(left: float, right: float, bottom: float, top: float, **look: object) -> Line:
    """A line around a rectangle."""
    return Line([left, right, right, left, left], [bottom, bottom, top, top, bottom], **look)


@dataclass(frozen=True)
class Points(Mark):
    """Discs of `size` pixels across; `hollow` ones are rings."""

    x: Sequence[float]
    y: Sequence[float]
    size: float = 8.0
    hollow: bool = False

    def svg(self, place: Place) -> str:
        fill = "none" if self.hollow else self.color
        style = f'fill="{fill}" stroke="{self.color}" stroke-width="1.5"'
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{self.size / 2}" {style}/>'
                       for x, y in place(self.x, self.y) if np.isfinite(x + y))

    def draw(self, ax: Axes) -> None:
        ax.plot(self.x, self.y, "o", color=self.color, markersize=_points(ax, self.size), clip_on=False,
                markerfacecolor="none" if self.hollow else self.color, markeredgewidth=_points(ax, 1.5))


@dataclass(frozen=True)
class Arrow(Mark):
    """An arrow from `start` to `end`, each `(x, y)`; `width` in pixels."""

    start: tuple[float, float]
    end: tuple[float, float]
    width: float = 2.5

    def svg(self, place: Place) -> str:
        tail, tip = place(*zip(self.start, self.end, strict=True))
        length = float(np.hypot(*(tip - tail)))
        if length < 0.5:
            return ""
        along = (tip - tail) / length
        across = np.array([-along[1], along[0]])
        head = min(4 * self.width, length)
        neck = tip - head * along
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, neck + across * head / 2.6, neck - across * head / 2.6))
        return (f'<line x1="{tail[0]:.1f}" y1="{tail[1]:.1f}" x2="{neck[0]:.1f}" y2="{neck[1]:.1f}" '
                f'stroke="{self.color}" stroke-width="{self.width}"/><polygon points="{corners}" fill="{self.color}"/>')

    def draw(self, ax: Axes) -> None:
        head = _points(ax, 4 * self.width)
        style = f"-|>,head_length={head},head_width={head / 2.6}"
        shape = {"arrowstyle": style, "mutation_scale": 1, "shrinkA": 0, "shrinkB": 0, "color": self.color,
                 "linewidth": _points(ax, self.width), "joinstyle": "miter"}
        ax.annotate("", xy=self.end, xytext=self.start, arrowprops=shape, annotation_clip=False)


@dataclass(frozen=True)
class Text(Mark):
    """`text` at `(x, y)`, moved by `shift` pixels (right, down) and turned by `angle` degrees, counter-clockwise.

    `align` is "left", "center" or "right": the point of the text that stands there.
    """

    x: float
    y: float
    text: str
    size: float = 12.0
    align: str = "center"
    shift: tuple[float, float] = (0.0, 0.0)
    angle: float = 0.0

    def svg(self, place: Place) -> str:
        x, y = place([self.x], [self.y])[0] + self.shift
        anchor = {"left": "start", "center": "middle", "right": "end"}[self.align]
        turned = f' transform="rotate({-self.angle} {x:.1f} {y:.1f})"' if self.angle else ""
        return (f'<text x="{x:.1f}" y="{y + 0.36 * self.size:.1f}" text-anchor="{anchor}" font-size="{self.size}" '
                f'fill="{self.color}"{turned}>{html.escape(self.text)}</text>')

    def draw(self, ax: Axes) -> None:
        right, down = (_points(ax, shift) for shift in self.shift)
        ax.annotate(self.text, (self.x, self.y), (right, -down), textcoords="offset points", color=self.color,
                    ha=self.align, va="center_baseline", fontsize=_points(ax, self.size), annotation_clip=False,
                    rotation=self.angle, rotation_mode="anchor", parse_math=False)


@dataclass(frozen=True)
class Cells(Mark):
    """`values` `[rows, columns]` as cells coloured from `low` to `high`, row 0 on top, inside `extent`.

    `extent` is (left, right, bottom, top) in data coordinates; by default cell centres are whole numbers, as in
    `imshow`. The picture sent has one pixel a cell and is enlarged by the browser.
    """

    values: np.ndarray
    extent: tuple[float, float, float, float] | None = None
    low: float = -1.0
    high: float = 1.0
    colors: str = DIVERGING
    clipped: ClassVar[bool] = True

    def svg(self, place: Place) -> str:
        left, right, bottom, top = self._extent()
        (x0, y0), (x1, y1) = place([left, right], [top, bottom])
        values = np.ascontiguousarray(self.values, dtype=np.float32)
        if x1 < x0 or y1 < y0:
            raise ValueError(f"extent must be (left, right, bottom, top) as the panel shows them, got {self._extent()}")
        href = _cell_picture(values.tobytes(), values.shape, self.low, self.high, self.colors)
        return (f'<image x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" '
                f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{href}"/>')

    def draw(self, ax: Axes) -> None:
        ax.imshow(self.values, extent=self._extent(), cmap=self.colors, vmin=self.low, vmax=self.high,
                  aspect="auto", interpolation="nearest")

    def _extent(self) -> tuple[float, float, float, float]:
        rows, columns = np.shape(self.values)
        return self.extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)


@functools.lru_cache(maxsize=64)      # a heat map stays the same while another slider moves
def _cell_picture(values: bytes, shape: tuple[int, int], low: float, high: float, colors: str) -> str:
    numbers = np.frombuffer(values, dtype=np.float32).reshape(shape)
    pixels = mpl.colormaps[colors](np.clip((numbers - low) / (high - low), 0, 1), bytes=True)[..., :3]
    return data_url(pixels_png(pixels))


def _points(ax: Axes, pixels: float) -> float:
    """A length in picture pixels as matplotlib's points (1/72 inch)."""
    return pixels * 72 / ax.figure.dpi


class Panels:
    """Where the panels of a figure lie in its picture, once its layout is settled, so that marks can be placed."""

    def __init__(self, figure: Figure) -> None:
        with letters_for(figure):
            figure.draw_without_rendering()           # settles the constrained layout
        figure.set_layout_engine("none")              # and marks drawn later must unsettle neither it
        for ax in figure.axes:                        # nor the limits of the axes
            ax.set_autoscale_on(False)
        self.width, self.height = (float(side * figure.dpi) for side in figure.get_size_inches())
        self._places = [self._place(ax) for ax in figure.axes]
        self._frames = [self._frame(ax) for ax in figure.axes]

    def svg(self, marks: Iterable[Mark]) -> str:
        """The marks as SVG elements in picture pixels; a clipped one inside an `<svg>` the size of its panel."""
        return "".join(self._one(mark) for mark in marks)

    def _one(self, mark: Mark) -> str:
        element = mark.svg(self._places[mark.panel])
        if not mark.clipped:
            return element
        x, y, width, height = self._frames[mark.panel]
        frame = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        return f'<svg {frame} viewBox="{x:.1f} {y:.1f} {width:.1f} {height:.1f}">{element}</svg>'

    def _place(self, ax: Axes) -> Place:
        transform = ax.transData.frozen()             # the axes change no more
        matrix = transform.get_affine().get_matrix()
        upright = np.array([[1, 0], [0, -1]])         # pixels of a page count downwards
        turn, shift = matrix[:2, :2].T @ upright, matrix[:2, 2] * (1, -1) + (0, self.height)

        def place(x: object, y: object) -> np.ndarray:
            points = np.array((x, y), dtype=float).T
            return transform.transform_non_affine(points) @ turn + shift      # the first for logarithmic axes
        return place

    def _frame(self, ax: Axes) -> tuple[float, float, float, float]:
        box = ax.bbox
        return box.x0, self.height - box.y1, box.width, box.height
