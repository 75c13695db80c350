"""The explorer's base and its marks, with explorers made here as a reader would make them."""
import base64
import io
import re
import xml.etree.ElementTree as ElementTree

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image

from posenc_lib.explorer import Explorer, View, choice, slider
from posenc_lib.figures import panels
from posenc_lib.marks import Arrow, Cells, Line, Panels, Points, Text


def background():
    figure, (left, right) = panels(1, 1, height=2, width=6)
    left.set(xlim=(0, 10), ylim=(-1, 1), title="left")
    right.set(xlim=(-3, 3), ylim=(8, -8), title="right, upside down")
    return figure


def view(position, panel=0):
    return View([Points([position], [0.5], panel=panel)], [f"position {position}", "10^{−2} and ω_{0}"], "A point.")


def make(compute=view, **controls):
    return Explorer(background, compute, **(controls or {"position": slider(0, 10, 3)}))


def picture_and_text(explorer):
    """The marks' SVG and the text below it, which come in one piece."""
    svg, end, text = explorer.moving.value.rpartition("</svg>")
    return svg + end, text


def svg_of(explorer):
    return ElementTree.fromstring(picture_and_text(explorer)[0])


def numbers_of(element, *names):
    return [float(element.get(name)) for name in names]


def test_a_move_moves_the_mark_and_the_numbers_and_leaves_the_picture():
    explorer = make()
    picture, before = explorer.picture.value, numbers_of(svg_of(explorer).find("circle"), "cx", "cy")
    explorer.controls["position"].value = 9
    after = numbers_of(svg_of(explorer).find("circle"), "cx", "cy")
    assert after[0] > before[0] and after[1] == before[1]
    assert "position 9" in explorer.moving.value and explorer.picture.value == picture


def test_marks_lie_where_matplotlib_draws_them():
    """Each mark drawn by matplotlib covers the pixels that its SVG names."""
    for panel, x, y in [(0, 2.5, -0.5), (1, -2.0, 5.0)]:
        figure = background()
        empty, place = Panels(figure), figure.axes[panel]
        circle = ElementTree.fromstring(empty.svg([Points([x], [y], panel=panel, size=20, color="#ff0000")]))
        Points([x], [y], size=20, color="#ff0000").draw(place)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=4 * figure.dpi)          # finely, since markers snap to whole pixels
        pixels = image.imread(io.BytesIO(buffer.getvalue()))
        red = (pixels[..., 0] > 0.95) & (pixels[..., 1] < 0.05)
        rows, columns = np.nonzero(red)
        centre = [(pixel.mean() + 0.5) / 4 for pixel in (columns, rows)]
        assert centre == pytest.approx(numbers_of(circle, "cx", "cy"), abs=0.3)


@pytest.mark.parametrize("mark", [
    Line([0, 5, 10], [0, 1, 0], dashed=True), Points([1, 2], [0, 0], hollow=True), Arrow((0, 0), (5, 0.5)),
    Text(5, 0, "p < N & 'q'"), Cells(np.array([[1.0, -1.0], [0.0, 0.5]]), extent=(0, 10, -1, 1))])
def test_every_mark_is_valid_svg_and_changes_the_drawn_picture(mark):
    figure = background()
    where = Panels(figure)
    ElementTree.fromstring(f"<svg>{where.svg([mark])}</svg>")
    explorer = make(lambda position: View([mark] if position else []))
    with_mark = explorer.still()
    explorer.controls["position"].value = 0
    assert with_mark != explorer.still()


def test_text_is_escaped_everywhere():
    hostile = '<script>alert("1")</script>'
    explorer = make(lambda position: View([Text(1, 0, hostile)], [hostile], hostile))
    assert "<script" not in explorer.moving.value and hostile not in explorer.moving.value
    assert svg_of(explorer).get("aria-label") == hostile and svg_of(explorer).get("role") == "img"


def test_cells_show_each_value_at_its_place():
    values = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    element = make(lambda position: View([], under=[Cells(values, extent=(0, 10, -1, 1))])).under.value
    href = re.search(r'base64,([^"]+)"', element)[1]
    pixels = image.imread(io.BytesIO(base64.b64decode(href)))[..., :3]
    assert pixels.shape[:2] == values.shape
    red, blue = pixels[..., 0] - pixels[..., 2], pixels[..., 2] - pixels[..., 0]
    assert (red[values == 1] > 0.2).all() and (blue[values == -1] > 0.2).all()
    assert np.abs(red[values == 0]).max() < 0.02


def test_what_lies_under_is_sent_again_only_when_it_changed():
    def sent_at_a_move(under_at):
        explorer = make(lambda position: View([Points([position], [0])], under=under_at(position)))
        sent = []
        explorer.under.observe(sent.append, "value")
        explorer.controls["position"].value = 5
        return len(sent)

    same = (Cells(np.eye(2), extent=(0, 10, -1, 1)),)
    assert sent_at_a_move(lambda position: same) == 0                              # the same tuple
    assert sent_at_a_move(lambda position: (Cells(np.eye(2), extent=(0, 10, -1, 1)),)) == 0               # an equal one
    assert sent_at_a_move(lambda position: (Cells(np.eye(2) * position / 10, extent=(0, 10, -1, 1)),)) == 1


def test_marks_lie_right_on_logarithmic_axes_too():
    figure, (ax,) = panels(height=2, width=6)
    ax.set(xscale="log", yscale="log", xlim=(1, 1000), ylim=(1, 100))
    where = Panels(figure)
    x, y, width, height = where._frames[0]
    circle = ElementTree.fromstring(where.svg([Points([10], [10])]))
    assert numbers_of(circle, "cx", "cy") == pytest.approx([x + width / 3, y + height / 2], abs=0.06)


def test_lines_are_cut_at_their_panel_and_text_is_not():
    panels_ = Panels(background())
    clipped = ElementTree.fromstring(panels_.svg([Line([-100, 100], [0, 0])]))
    assert clipped.tag == "svg" and clipped.find("polyline") is not None
    assert ElementTree.fromstring(panels_.svg([Text(-1, 0, "outside")])).tag == "text"


def test_an_arrow_without_length_draws_nothing():
    assert Panels(background()).svg([Arrow((1, 0), (1, 0))]) == ""


def test_superscripts_and_subscripts_of_the_numbers():
    assert "10<sup>−2</sup> and ω<sub>0</sub>" in make().moving.value


def test_an_error_is_shown_with_its_line_and_goes_away():
    def fails_at_7(position):
        if position == 7:
            raise ZeroDivisionError("seven & out")
        return view(position)

    explorer = make(fails_at_7)
    before = picture_and_text(explorer)[0]
    explorer.controls["position"].value = 7
    picture, text = picture_and_text(explorer)
    assert "ZeroDivisionError: seven &amp; out" in text and "fails_at_7" in text and "raise ZeroDivisionError" in text
    assert 'role="alert"' in text and picture == before
    assert explorer.still()                                   # still shows the last setting that worked
    explorer.controls["position"].value = 8
    assert "ZeroDivisionError" not in explorer.moving.value and picture_and_text(explorer)[0] != before


def test_an_error_at_the_start_is_raised():
    with pytest.raises(KeyError, match="missing"):
        make(lambda position: {}["missing"])


def test_one_slider_bounds_another_and_the_picture_agrees_with_both():
    seen = []

    def compute(width, column):
        seen.append((width, column))
        return view(column)

    explorer = Explorer(background, compute, limits={"column": lambda width, **_: width - 1},
                        width=slider(1, 10, 8), column=slider(0, 9, 7))
    assert explorer.controls["column"].max == 7
    explorer.controls["width"].value = 4
    assert explorer.setting() == {"width": 4, "column": 3} and seen[-1] == (4, 3)
    assert all(column < width for width, column in seen)


def test_bundle_is_constant_text_a_picture_and_the_live_view():
    explorer = make()
    bundle, metadata = explorer._repr_mimebundle_()
    assert bundle["text/plain"] == "Explorer with position: run this cell to move it."
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.box.model_id
    pixels = image.imread(io.BytesIO(base64.b64decode(bundle["image/png"])))
    assert pixels.shape[1] == 2 * metadata["image/png"]["width"] == 1200
    assert metadata["image/png"]["alt"] == "A point."
    assert bundle["image/png"] == make()._repr_mimebundle_()[0]["image/png"]


def test_the_still_picture_has_the_values_below_it():
    few = make(lambda position: View([], ["one line"]))
    many = make(lambda position: View([], ["one line"] * 5))
    heights = [image.imread(io.BytesIO(explorer.still())).shape[0] for explorer in (few, many)]
    assert heights[1] > heights[0] + 100


def test_any_widget_with_a_value_is_a_control():
    explorer = Explorer(background, lambda on, word: view(len(word) if on else 0),
                        on=widgets.Checkbox(value=True), word=widgets.Text("abc"))
    explorer.controls["word"].value = "abcdef"
    assert "position 6" in explorer.moving.value
    explorer.controls["on"].value = False
    assert "position 0" in explorer.moving.value


def test_what_is_no_control_is_named():
    with pytest.raises(TypeError, match=r"position must be a widget with a value, such as slider\(0, 10\), got 3"):
        Explorer(background, view, position=3)


def test_slider_kinds():
    assert isinstance(slider(0, 10), widgets.IntSlider) and isinstance(slider(0.0, 1.0), widgets.FloatSlider)
    assert isinstance(slider(0, 1, step=0.1), widgets.FloatSlider)
    assert choice([1, 10, 100], 10).value == 10
    with pytest.raises(ValueError, match="start must lie between 0 and 10, got 11"):
        slider(0, 10, 11)


def test_a_point_that_is_no_number_leaves_a_gap_as_in_matplotlib():
    where = Panels(background())
    lines = ElementTree.fromstring(f"<svg>{where.svg([Line(range(5), [0, 1, np.nan, 1, 0])])}</svg>")
    assert len(lines.findall(".//polyline")) == 2
    points = ElementTree.fromstring(f"<svg>{where.svg([Points([1, 2], [0.0, np.nan])])}</svg>")
    assert len(points.findall("circle")) == 1


def test_cells_upside_down_are_refused():
    with pytest.raises(ValueError, match=r"extent must be \(left, right, bottom, top\) as the panel shows them"):
        make(lambda position: View([Cells(np.eye(2), extent=(0, 10, 1, -1))]))


def test_the_look_is_the_books_whatever_the_reader_has_set_for_other_figures():
    expected = make().still()
    with mpl.rc_context({"savefig.bbox": "tight", "text.color": "white", "axes.facecolor": "black", "font.size": 20}):
        assert make().still() == expected


def test_the_line_shown_with_an_error_is_of_the_readers_function():
    def compute(position):
        if position == 7:
            np.concatenate([1, 2])
        return view(position)

    explorer = make(compute)
    explorer.controls["position"].value = 7
    assert "np.concatenate([1, 2])" in explorer.moving.value and "in compute, line" in explorer.moving.value


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: make(lambda position: None), TypeError, "must return a View, got NoneType"),
    (lambda: Explorer(background, view, limits={"place": lambda **_: 3}, position=slider(0, 5)), ValueError,
     "limits names 'place', which is no slider"),
    (lambda: slider(5, 1), ValueError, "low must not be above high, got 5 and 1"),
])
def test_what_cannot_work_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
