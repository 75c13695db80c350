"""Japanese text in the book's figures: no box with matplotlib-fontja, one message without, other figures unchanged."""

import contextlib
import importlib.util
import logging
import sys
import types
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import font_manager

from posenc_lib import figures, fonts, marks
from posenc_lib.doors import map_of_doors
from posenc_lib.explorer import Explorer, View, slider
from posenc_lib.explorers import order_explorer, sinusoid_explorer

SENTENCE = "猫 が マット の 上 に {座った}"
INSTALL = "pip install matplotlib-fontja"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    """Each test begins as a session does, with no other font of the machine than matplotlib's own and the package's."""
    fonts._said().clear()
    monkeypatch.setattr(fonts, "FAMILIES", ())
    yield
    fonts._said().clear()


@pytest.fixture
def without_package(monkeypatch):
    """As if matplotlib-fontja were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib_fontja" else find(name, *rest)
    )


def labelled():
    """A heat map and bars with Japanese in a title with a formula, a label, tick labels, categories and a legend."""
    figure, (left, right) = figures.panels(1, 1)
    figures.heat_map(left, np.eye(3))
    left.set(title="位置 $p$ と $\\omega_i$ の関係", xlabel="次元 ω × −1", yticks=range(3), yticklabels=list("猫が座"))
    right.bar(["犬", "猫", "cat"], [1, 2, 3], label="凡例")
    right.set_title("太字の題", weight="bold")
    right.legend()
    return figure


def word(text, **look):
    figure = figures.blank(1, 1)
    figure.text(0.2, 0.3, text, fontsize=30, **look)
    return figure


def messages(draw):
    """What is warned of while drawing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw()
    return [str(warning.message) for warning in caught]


def picture_of(explorer):
    bundle, _ = explorer._repr_mimebundle_()
    return bundle["image/png"]


def test_japanese_is_drawn_and_nothing_is_said(caplog):
    assert messages(lambda: figures.png(labelled())) == []
    assert messages(lambda: picture_of(order_explorer(SENTENCE))) == []
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("look", [{}, {"weight": "bold"}, {"family": "monospace"}])
@pytest.mark.parametrize("texts", [("猫", "犬"), ("か", "き"), ("$p$ 猫", "$p$ 犬")])
def test_each_character_has_its_own_shape(texts, look):
    one, other = (figures.png(word(text, **look)) for text in texts)
    assert one != other


def test_without_the_package_they_are_boxes(without_package):
    with pytest.warns(UserWarning, match="drawn as boxes"):
        one, other = (figures.png(word(text)) for text in ("猫", "犬"))
    assert one == other


def test_exactly_one_message_without_the_package(without_package, caplog):
    def draw():
        for _ in range(2):
            assert figures.png(labelled()).startswith(b"\x89PNG")
            assert picture_of(order_explorer(SENTENCE))

    (said,) = messages(draw)
    assert f"`{INSTALL}`" in said
    assert "猫" in said and "run this cell again" in said and "restart" in said
    assert [record.getMessage() for record in caplog.records] == []


def test_the_message_names_the_readers_own_line(without_package):
    with pytest.warns(UserWarning, match="drawn as boxes") as caught:
        picture_of(order_explorer(SENTENCE))
    assert [warning.filename for warning in caught] == [__file__]


def test_colab_is_told_its_own_command(without_package, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    (said,) = messages(lambda: figures.png(labelled()))
    assert f"`%{INSTALL}`" in said


def test_what_the_package_does_not_have_is_not_blamed_on_it():
    (said,) = messages(lambda: figures.png(word("हिन्दी")))
    assert "हिन" in said or "ह" in said
    assert INSTALL not in said and "Install a font that has them" in said


def test_a_layout_before_the_picture_says_it_once_too(without_package):
    def background():
        figure, (ax,) = figures.panels()
        ax.set(title="位置", xlabel="次元")
        return figure

    def draw():
        explorer = Explorer(background, lambda p: View([marks.Text(0.5, 0.5, "語")], ["行"], "A word."), p=slider(0, 3))
        picture_of(explorer)

    (said,) = messages(draw)
    assert INSTALL in said


def test_installed_meanwhile_it_is_used_at_once(monkeypatch):
    with monkeypatch.context() as hidden:
        hidden.setattr(importlib.util, "find_spec", lambda name, *_: None)
        assert len(messages(lambda: figures.png(labelled()))) == 1
    assert messages(lambda: figures.png(labelled())) == []


def test_a_font_that_matplotlib_knows_will_do(without_package, monkeypatch):
    monkeypatch.setattr(fonts, "FAMILIES", ("No such font", "DejaVu Serif", "STIXGeneral"))
    monkeypatch.setattr(fonts, "_characters", lambda file: frozenset("猫" if "Serif" in str(file) else "a "))
    figure = word("a 猫")
    with fonts.letters_for(figure):
        pass
    assert figure.texts[0].get_fontfamily() == ["sans-serif", "DejaVu Serif"]


def test_the_package_is_not_imported_and_sets_nothing():
    before = dict(mpl.rcParams)
    figures.png(labelled())
    assert "matplotlib_fontja" not in sys.modules
    assert dict(mpl.rcParams) == before
    assert "IPAexGothic" in font_manager.get_font_names()


def test_only_text_that_needs_it_gets_another_font():
    figure = labelled()
    figures.png(figure)
    left, right = figure.axes[:2]
    assert left.xaxis.label.get_fontfamily() == ["sans-serif", "IPAexGothic"]
    assert left.title.get_fontfamily() == ["IPAexGothic", "sans-serif"]               # it has a formula
    assert [label.get_fontfamily() for label in right.get_xticklabels()] == [
        ["sans-serif", "IPAexGothic"], ["sans-serif", "IPAexGothic"], ["sans-serif"]]
    assert {tuple(label.get_fontfamily()) for label in left.get_xticklabels()} == {("sans-serif",)}


@pytest.mark.parametrize("family", ["sans-serif", "monospace"])
@pytest.mark.parametrize("text", ["the cat", "ω × −1 … café", "two\nlines é", "é\u200bb"])
def test_no_font_is_looked_for_where_none_is_needed(text, family, monkeypatch):
    def refused(*_):
        raise AssertionError("looked for a font")

    monkeypatch.setattr(fonts, "_families", refused)
    figures.png(word(text, family=family))


def test_other_figures_look_as_before(monkeypatch):
    def pictures():
        return [figures.png(map_of_doors()), picture_of(order_explorer()), picture_of(sinusoid_explorer())]

    with_letters = pictures()
    for module in (figures, marks):
        monkeypatch.setattr(module, "letters_for", lambda figure: contextlib.nullcontext())
    assert pictures() == with_letters


def test_the_other_letters_of_a_japanese_text_look_as_before():
    def left_half(text):
        pixels = figures.image.imread(figures.io.BytesIO(figures.png(word(text, fontweight="normal"))))
        return pixels[:, : pixels.shape[1] // 3]

    assert (left_half("W猫") == left_half("W犬")).all()
    np.testing.assert_array_equal(left_half("W猫")[:, :60], left_half("W")[:, :60])


def test_other_warnings_come_through(without_package):
    def draw():
        with fonts.letters_for(word("猫")):
            warnings.warn("Glyph of another kind", stacklevel=1)
            warnings.warn("Glyph 12345 (\\N{X}) missing from font(s) DejaVu Sans.", RuntimeWarning, stacklevel=1)
            warnings.warn("Glyph 12345 (\\N{X}) missing from font(s) DejaVu Sans.", stacklevel=1)
        warnings.warn("Glyph 12346 (\\N{X}) missing from font(s) DejaVu Sans.", stacklevel=1)

    said = messages(draw)
    assert "drawn as boxes" in said[0]
    assert [text[:11] for text in said[1:]] == ["Glyph of an", "Glyph 12345", "Glyph 12346"]


def test_other_lines_of_the_log_come_through(without_package, caplog):
    log = logging.getLogger("matplotlib.mathtext")

    def draw():
        with fonts.letters_for(word("猫")):
            log.warning("Font %r does not have a glyph for %a", "default", "猫")
            log.warning("Another thing")
        log.warning("Font %r does not have a glyph for %a", "default", "犬")

    messages(draw)
    assert [record.getMessage()[:11] for record in caplog.records] == ["Another thi", "Font 'defau"]
