"""The book's explorers: their plain functions over the whole grid of their sliders, and each slider's effect."""
import itertools
import math
import re

import ipywidgets as widgets
import numpy as np
import pytest
import torch

from posenc_lib import frequencies, sinusoidal_table
from posenc_lib.explorers import (
    offset,
    offset_explorer,
    order,
    order_explorer,
    sinusoid,
    sinusoid_explorer,
    why_waves,
    why_waves_explorer,
)
from posenc_lib.marks import Arrow, Cells, Points, Text

EXPLORERS = [sinusoid_explorer, offset_explorer, why_waves_explorer, order_explorer]
SENTENCES = ["the cat sat on the mat", "hello", "a b c d e f g h i j k l", "<i>dog</i> bites $man$ & more"]


def grid(control):
    """Every value of a control, or nine of them if there are more."""
    if isinstance(control, widgets.SelectionSlider):
        return list(control.options)
    if isinstance(control, widgets.Checkbox):
        return [False, True]
    if isinstance(control, widgets.Text):
        return SENTENCES
    values = np.arange(control.min, control.max + control.step, control.step).tolist()
    return sorted({*values[:: max(1, len(values) // 8)], values[0], values[-1]})


def number_at_the_end(line):
    return float(line.replace("−", "-").split("= ")[-1].split(" ")[0])


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_setting_of_the_sliders_gives_finite_marks_and_an_alternative_text(make):
    explorer = make()
    names = list(explorer.controls)
    for values in itertools.product(*(grid(control) for control in explorer.controls.values())):
        setting = dict(zip(names, values, strict=True))
        if any(setting[name] > limit(**setting) for name, limit in explorer.limits.items()):
            continue
        view = explorer.compute(**setting)
        text = re.sub('href="[^"]*"', "", explorer.panels.svg((*view.under, *view.marks)))
        assert "nan" not in text and "inf" not in text
        assert view.alt and view.values and all(line.strip() for line in view.values)


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_picture_and_numbers(make):
    for name in make().controls:
        explorer = make()
        control = explorer.controls[name]
        before = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        values = grid(control)
        control.value = next(value for value in reversed(values) if value != control.value)
        after = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        assert all(old != new for old, new in zip(before, after, strict=True)), name
        assert "alert" not in explorer.moving.value


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_move_sends_less_than_ten_kilobytes(make):
    explorer = make()
    sent = []
    for widget in (explorer.picture, explorer.under, explorer.moving):
        widget.observe(lambda change: sent.append(len(change["new"].encode())), "value")
    for name in ("position", "dimension", "p", "k", "word", "place"):
        for value in grid(explorer.controls[name]) if name in explorer.controls else []:
            sent.clear()
            explorer.controls[name].value = value
            assert sum(sent) < 10_000


@pytest.mark.parametrize("d_model", [1, 2, 3, 8, 15, 64])
def test_sinusoid_shows_exactly_the_librarys_entry(d_model):
    for base in (10.0, 10_000.0):
        table = sinusoidal_table(sinusoid.LENGTH, d_model, base=base)
        for position, dimension in itertools.product((0, 1, 17, 31), range(d_model)):
            view = sinusoid.sinusoid_view(position, dimension, d_model, base)
            expected = table[position, dimension].item()
            assert number_at_the_end(view.values[-1]) == pytest.approx(expected, abs=1e-6)
            assert f"PE({position}, {dimension})" in view.values[-1]
            frequency = frequencies(d_model, base)[dimension // 2].item()
            assert number_at_the_end(view.values[1]) == pytest.approx(frequency, rel=1e-5)
            assert number_at_the_end(view.values[2]) == pytest.approx(position * frequency, rel=1e-5)
            cells, = (mark for mark in view.under if isinstance(mark, Cells))
            np.testing.assert_array_equal(cells.values, table)
            hand, = (mark for mark in view.marks if isinstance(mark, Arrow))
            assert hand.end[dimension % 2 == 0] == pytest.approx(expected, abs=1e-6)


def test_sinusoid_numbers_every_dimension_or_evenly_spaced_ones():
    for d_model in range(1, 65):
        view = sinusoid.sinusoid_view(0, 0, d_model, 10_000.0)
        ticks = [int(mark.text) for mark in view.under if isinstance(mark, Text) and mark.panel == sinusoid.ROW]
        assert ticks[0] == 0 and len(ticks) <= 9 and len(set(np.diff(ticks))) <= 1


def test_sinusoid_dimension_stays_inside_the_width():
    explorer = sinusoid_explorer()
    explorer.controls["dimension"].value = 15
    explorer.controls["d_model"].value = 5
    assert explorer.controls["dimension"].value == 4 and "PE(3, 4)" in explorer.moving.value


@pytest.mark.parametrize(("p", "k"), [(0, 0), (5, 3), (60, -30), (0, -10), (31, 30)])
def test_offset_dots_and_rings_coincide_and_are_the_librarys(p, k):
    view = offset.offset_view(p, k)
    expected = sinusoidal_table(1, offset.D_MODEL, start=p + k)[0]
    dots, rings = (mark for mark in view.marks if isinstance(mark, Points) and mark.panel == offset.ENTRIES)
    np.testing.assert_allclose(dots.y, expected, atol=1e-6)
    np.testing.assert_allclose(rings.y, expected, atol=1e-6)
    assert rings.hollow and not dots.hollow
    product = torch_product(p, k)
    assert number_at_the_end(view.values[-1]) == pytest.approx(product, abs=5e-5)
    angles = [number_at_the_end(mark.text) for mark in view.marks if isinstance(mark, Text)]
    np.testing.assert_allclose(angles, k * frequencies(offset.D_MODEL), atol=5e-4)


def torch_product(p, k):
    rows = [sinusoidal_table(1, offset.D_MODEL, start=position)[0] for position in (p, p + k)]
    return float(rows[0] @ rows[1])


def test_offset_curve_is_the_same_for_every_p():
    def curve(p):
        return next(mark.y for mark in offset.offset_view(p, 0).marks if mark.panel == offset.SIMILARITY)

    for p in (1, 20, 60):
        np.testing.assert_allclose(curve(p), curve(0), atol=1e-10)


def test_why_waves_tells_the_truth_in_each_row():
    for position in range(why_waves.LAST + 1):
        number, fraction, binary, hands = why_waves.why_waves_view(position).values[1:]
        assert number.split()[1:] == [str(position), "1"]
        assert (f"nothing if N = {why_waves.SHORT}" in fraction) == (position >= why_waves.SHORT)
        assert f"{position / why_waves.LONG:.3f} if N = {why_waves.LONG}" in fraction
        assert int(binary.split()[1], 2) == position
        if position < why_waves.LAST:
            flips = bin(position ^ (position + 1)).count("1")
            assert re.search(rf"√{flips} = {math.sqrt(flips):.3f}: {flips} digits? flip", binary)
        step = math.sqrt(sum(2 - 2 * math.cos(speed) for speed in why_waves.SPEEDS))
        assert f"{step:.3f}, the same everywhere" in hands


def test_order_moves_a_word_and_keeps_the_others_in_order():
    for length in (1, 2, 5):
        for word, place in itertools.product(range(length), repeat=2):
            new = order.moved(length, word, place)
            assert new[place] == word and sorted(new) == list(range(length))
            assert [number for number in new if number != word] == sorted(set(range(length)) - {word})


@pytest.mark.parametrize("sentence", SENTENCES)
def test_order_without_positions_and_mask_the_output_only_moves_along(sentence):
    count = len(order.words_of(sentence))
    for word, place in itertools.product(range(count), repeat=2):
        view = order.order_view(sentence, word, place, False, False)
        assert "EQUAL" in view.values[-1]
        weights_apart, apart = (float(line.split()[-1]) for line in view.values[2:4])
        assert weights_apart < 1e-12 and apart < 1e-12


@pytest.mark.parametrize(("positions", "causal"), [(True, False), (False, True), (True, True)])
def test_order_with_positions_or_mask_the_order_is_noticed(positions, causal):
    view = order.order_view("the cat sat on the mat", 1, 5, positions, causal)
    assert "DIFFERENT" in view.values[-1] and float(view.values[3].split()[-1]) > 1e-2
    unmoved = order.order_view("the cat sat on the mat", 2, 2, positions, causal)
    assert "EQUAL" in unmoved.values[-1]


def test_order_shows_the_layers_own_numbers():
    words = ("dog", "bites", "man")
    weights, output = order.attend(words, True, True)
    x = torch.stack([order.embedding(word) for word in words]) + sinusoidal_table(3, 16, dtype=torch.float64)
    layer = order.layer()
    query, key, value = (part(x) for part in (layer.to_query, layer.to_key, layer.to_value))
    scores = (query @ key.T / 4).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    np.testing.assert_allclose(weights, scores.softmax(1).detach(), atol=1e-12)
    np.testing.assert_allclose(output, layer.to_output(scores.softmax(1) @ value).detach(), atol=1e-12)
    view = order.order_view("dog bites man", 0, 2, True, True)
    cells = [mark for mark in view.under if isinstance(mark, Cells)]
    np.testing.assert_allclose(cells[0].values, weights, atol=1e-12)
    assert (cells[0].low, cells[0].high) == (0, 1)
    np.testing.assert_array_equal(cells[1].values, output)


def test_order_takes_what_is_typed_as_text_and_says_when_nothing_is():
    explorer = order_explorer()
    explorer.controls["sentence"].value = "<img src=x onerror=alert(1)> two"
    assert "<img" not in explorer.moving.value + explorer.under.value and "two" in explorer.moving.value
    explorer.controls["sentence"].value = "  "
    assert "sentence has no word: type at least one" in explorer.moving.value
    explorer.controls["sentence"].value = "猫 two three"
    assert "猫 two three" in explorer.moving.value and explorer.controls["word"].max == 2


def test_order_repeated_words_have_equal_rows():
    weights, output = order.attend(tuple("the cat sat on the mat".split()), False, False)
    np.testing.assert_allclose(output[0], output[4], atol=1e-12)
    np.testing.assert_allclose(weights[0], weights[4], atol=1e-12)
