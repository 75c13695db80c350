"""The book's explorers: their plain functions over the whole grid of their sliders, and each slider's effect."""
import functools
import itertools
import math
import re

import ipywidgets as widgets
import numpy as np
import pytest
import torch

from posenc_lib import LearnedEncoding, SinusoidalEncoding, frequencies, sinusoidal_table, stretch
from posenc_lib.explorers import (
    end_runs,
    offset,
    offset_explorer,
    order,
    order_explorer,
    scale,
    scale_explorer,
    scale_runs,
    sinusoid,
    sinusoid_explorer,
    small_rows,
    table_end,
    table_end_explorer,
    training,
    training_explorer,
    why_waves,
    why_waves_explorer,
)
from posenc_lib.figures import BLUE, GREEN, ORANGE, RED
from posenc_lib.marks import Arrow, Cells, Line, Points, Text
from posenc_lib.small_run import small_run
from posenc_lib.training import SentenceReader, train, which_came_first

run_42 = functools.cache(lambda: small_run(42))
few_scales = functools.cache(lambda: scale_runs(seeds=2, steps=100, bar=False))
few_ends = functools.cache(lambda: end_runs(seeds=2, steps=20, bar=False))


def training_of_42():
    return training_explorer(run_42())


def scale_of_few():
    return scale_explorer(few_scales())


def table_end_of_few():
    return table_end_explorer(few_ends())


EXPLORERS = [sinusoid_explorer, offset_explorer, why_waves_explorer, order_explorer, training_of_42, scale_of_few,
             table_end_of_few]
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


def scale_of_five_seeds():
    """As many numbers as the chapter's own runs have."""
    random = torch.Generator().manual_seed(0)
    accuracy = torch.rand(2, len(scale.RATIOS), 5, 31, generator=random)
    return scale_explorer(scale.ScaleRuns(scale.RATIOS, dict(zip(scale.SCALED, accuracy, strict=True))))


@pytest.mark.parametrize("make", [*EXPLORERS, scale_of_five_seeds])
def test_a_move_sends_less_than_ten_kilobytes(make):
    explorer = make()
    sent = []
    for widget in (explorer.picture, explorer.under, explorer.moving):
        widget.observe(lambda change: sent.append(len(change["new"].encode())), "value")
    for name in ("position", "dimension", "p", "k", "word", "place", "epoch", "scaled", "ratio", "steps",
                 "words"):
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


# Chapter 3: a run epoch by epoch

def marks_in(view, kind, panel, **look):
    """The marks of a kind in a panel, in the order in which they are drawn."""
    return [mark for mark in view.marks if isinstance(mark, kind) and mark.panel == panel
            and all(getattr(mark, name) == value for name, value in look.items())]


def rectangle(line):
    """Left, right, and the smaller and larger vertical end of a frame."""
    return min(line.x), max(line.x), min(line.y), max(line.y)


@functools.cache
def some_runs():
    """The book's run, one with a repeated word, and one with more words than colours."""
    return (run_42(), small_run(3, (0, 1, 2, 3, 0), (1, 2, 3, 0, 4), epochs=120),
            small_run(1, range(9), [*range(1, 9), 0], epochs=60))


@pytest.mark.parametrize("number", range(3))
def test_training_shows_the_state_of_the_run_at_that_epoch(number):
    run = some_runs()[number]
    last = len(run.loss) - 1
    for epoch in (0, 1, 7, 50, last):
        view = training.training_view(run, epoch)
        discs = marks_in(view, Points, training.PLANE, hollow=False)
        np.testing.assert_array_equal([(*disc.x, *disc.y) for disc in discs], run.table[epoch])
        rings = marks_in(view, Points, training.PLANE, hollow=True)
        np.testing.assert_array_equal([(*ring.x, *ring.y) for ring in rings], run.table[0])
        labels = marks_in(view, Text, training.PLANE)
        np.testing.assert_array_equal([(label.x, label.y) for label in labels], run.table[epoch])
        assert [label.text for label in labels] == [str(position) for position in range(len(run.x))]
        for label, way in zip(labels, run.table[epoch] - run.table[0], strict=True):          # ahead, clear of its disc
            along = way if epoch else torch.ones(2)
            assert label.shift[0] * along[0] - label.shift[1] * along[1] > 0 and math.hypot(*label.shift) > 10
        loss, = marks_in(view, Points, training.LOSS)
        assert (*loss.x, *loss.y) == (epoch, run.loss[epoch].item())
        cells, = marks_in(view, Cells, training.PREDICTION)
        np.testing.assert_array_equal(cells.values, run.probability[epoch])
        assert (cells.low, cells.high) == (0, 1)
        said = re.match(r"epoch (\d+): loss (\d\.\d{4}), (\d+) of (\d+) predictions right", view.values[0])
        right = (run.probability[epoch].argmax(-1) == torch.tensor(run.y)).sum().item()
        assert said.groups() == (str(epoch), f"{run.loss[epoch]:.4f}", str(right), str(len(run.y)))
        assert f"loss is {run.loss[epoch]:.4f} and {right} of {len(run.y)}" in view.alt


@pytest.mark.parametrize("number", range(3))
def test_training_trails_are_the_way_from_the_start_in_order(number):
    run = some_runs()[number]
    for epoch in (0, 1, 7, 50, len(run.loss) - 1):
        view = training.training_view(run, epoch)
        trails = marks_in(view, Line, training.PLANE)
        discs = marks_in(view, Points, training.PLANE, hollow=False)
        assert len(trails) == len(discs) == len(run.x)
        for position, (trail, disc) in enumerate(zip(trails, discs, strict=True)):
            way = [tuple(point) for point in run.table[: epoch + 1, position].tolist()]
            points = list(zip(np.asarray(trail.x).tolist(), np.asarray(trail.y).tolist(), strict=True))
            assert points[0] == way[0] and points[-1] == way[-1] and len(points) == min(epoch + 1, training.TRAIL)
            places = [way.index(point) for point in points]
            assert places == sorted(places) and trail.color == disc.color


@pytest.mark.parametrize("number", range(3))
def test_training_frames_the_target_in_red_until_it_is_said(number):
    run, right = some_runs()[number], set()
    for epoch in (0, 5, 20, 50, len(run.loss) - 1):
        frames = marks_in(training.training_view(run, epoch), Line, training.PREDICTION)
        for position, (line, target) in enumerate(zip(frames, run.y, strict=True)):
            assert rectangle(line) == (target - 0.5, target + 0.5, position - 0.5, position + 0.5)
            said = run.probability[epoch, position].argmax().item() == target
            assert (line.color != RED) == said
            right.add(said)
    assert right == {False, True}


def test_training_says_where_the_positions_are_and_how_far_they_went():
    run = run_42()
    for epoch in (0, 100, 500):
        _, where, way = training.training_view(run, epoch).values
        places = [[float(number) for number in pair.split(",")]
                  for pair in re.findall(r"\(([^)]*)\)", where.replace("−", "-"))]
        np.testing.assert_allclose(places, run.table[epoch], atol=5.1e-4)
        gone = [float(number) for number in re.findall(r"\d: (\d\.\d{3})", way)]
        np.testing.assert_allclose(gone, (run.table[epoch] - run.table[0]).norm(dim=1), atol=5.1e-4)


def test_training_starts_at_epoch_100_of_the_run_with_seed_42_and_draws_its_curve():
    explorer = training_explorer()
    slider = explorer.controls["epoch"]
    assert (slider.min, slider.max, slider.value) == (0, 500, 100)
    assert explorer.view.values == training.training_view(run_42(), 100).values
    curve = explorer.background().axes[training.LOSS].lines[0]
    np.testing.assert_array_equal(curve.get_ydata(), run_42().loss)
    np.testing.assert_array_equal(curve.get_xdata(), range(501))


def test_training_keeps_every_point_inside_its_panel():
    for run in some_runs():
        plane, loss, prediction = training.background(run).axes
        (left, right), (bottom, top) = plane.get_xlim(), plane.get_ylim()
        for low, high, way in ((left, right, run.table[..., 0]), (bottom, top, run.table[..., 1])):
            assert low < way.min() and way.max() < high
        assert loss.get_ylim()[0] < run.loss.min() and loss.get_ylim()[1] > run.loss.max()
        seq, vocabulary = run.probability.shape[1:]
        assert prediction.get_xlim() == (-0.5, vocabulary - 0.5) and prediction.get_ylim() == (seq - 0.5, -0.5)


# Chapter 3: how long a token may be

@pytest.fixture
def known_scales():
    accuracy = torch.tensor([[[0.2, 0.4, 1.0, 1.0], [0.2, 0.6, 0.8, 1.0]],
                             [[0.2, 1.0, 1.0, 0.8], [0.0, 0.2, 0.4, 0.6]],
                             [[0.2, 0.2, 0.2, 0.4], [0.2, 0.4, 0.6, 0.8]]])
    return scale.ScaleRuns((0.5, 1, 8), {"tokens": accuracy, "positions": accuracy.flip(0, 1) / 2})


def test_scale_shows_the_runs_at_the_chosen_ratio_and_step(known_scales):
    runs = known_scales
    assert runs.steps == [0, 10, 20, 30]
    for scaled, (row, ratio), (look, steps) in itertools.product(
            ("tokens", "positions"), enumerate(runs.ratios), enumerate(runs.steps)):
        accuracy = runs.accuracy[scaled]
        view = scale.scale_view(runs, scaled, ratio, steps)
        *dots, chosen = marks_in(view, Points, scale.RATIO)
        assert [dot.x for dot in dots] == [[each, each] for each in runs.ratios]
        np.testing.assert_array_equal([dot.y for dot in dots], accuracy[:, :, look])
        mean = accuracy[:, :, look].mean(1)
        line, = marks_in(view, Line, scale.RATIO)
        assert tuple(line.x) == runs.ratios and line.y == pytest.approx(mean.tolist())
        assert (*chosen.x, *chosen.y) == (ratio, pytest.approx(mean[row].item())) and chosen.color == ORANGE
        curves = marks_in(view, Line, scale.STEPS, dashed=False)
        assert [list(curve.x) for curve in curves] == [runs.steps] * 2
        np.testing.assert_array_equal([curve.y for curve in curves], accuracy[row])
        now, = marks_in(view, Line, scale.STEPS, dashed=True)
        assert list(now.x) == [steps, steps]
        low, high = sorted(accuracy[row, :, look].tolist())
        assert view.values[1] == f"accuracy after {steps} steps: {mean[row]:.2f} ({low:.2f} to {high:.2f} over 2 seeds)"
        assert f"made by scaling the {scaled}" in view.alt and f"{steps} steps is {mean[row]:.2f}" in view.alt


@pytest.mark.parametrize(("scaled", "ratio", "tokens", "positions"), [
    ("tokens", 0.5, "N(0, 0.5²)", "N(0, 1)"), ("tokens", 8, "N(0, 8²)", "N(0, 1)"),
    ("positions", 0.5, "N(0, 1)", "N(0, 2²)"), ("positions", 8, "N(0, 1)", "N(0, 0.125²)")])
def test_scale_says_what_was_scaled_and_to_what(known_scales, scaled, ratio, tokens, positions):
    assert scale.scale_view(known_scales, scaled, ratio, 0).values[0] == (
        f"tokens begin as {tokens}, positions as {positions}: tokens are {ratio:g} times as long")


@pytest.mark.parametrize(("scaled", "ratio", "needed", "first"), [
    ("tokens", 0.5, [20, 30], "first at step 20 to 30"),
    ("tokens", 1, [10, math.inf], "first at step 10 to 10 by 1 of 2 seeds"),
    ("tokens", 8, [math.inf] * 2, "by no seed within 30 steps"),
    ("positions", 0.5, [math.inf] * 2, "by no seed within 30 steps")])
def test_scale_says_when_everything_was_right_for_the_first_time(known_scales, scaled, ratio, needed, first):
    assert known_scales.needed(scaled, ratio) == needed
    assert scale.scale_view(known_scales, scaled, ratio, 0).values[2] == f"every case right: {first}"


def test_scale_runs_are_one_learning_curve_each():
    runs = few_scales()
    assert runs.ratios == scale.RATIOS and runs.steps == list(range(0, 101, 10))
    before = torch.get_rng_state()
    for scaled, sizes in (("tokens", lambda ratio: (ratio, 1)), ("positions", lambda ratio: (1, 1 / ratio))):
        assert runs.accuracy[scaled].shape == (len(scale.RATIOS), 2, 11)
        for ratio, seed in ((1 / 16, 0), (1, 1), (64, 0)):
            curve = scale.learning_curve(*sizes(ratio), seed, 100)
            assert torch.equal(curve, runs.accuracy[scaled][scale.RATIOS.index(ratio), seed])
        cases = runs.accuracy[scaled] * 25
        torch.testing.assert_close(cases, cases.round(), rtol=0, atol=1e-4)
    assert torch.equal(torch.get_rng_state(), before)


def test_scale_is_that_of_the_tokens_and_that_of_the_positions():
    """Who sees only the token, or only the place, is right in one of five; long tokens hide the places for long."""
    for sizes in ((1e-6, 1), (1, 1e-6), (1e6, 1), (1, 1e6)):
        assert scale.learning_curve(*sizes, 0, 10)[0].item() == pytest.approx(0.2)
    for sizes, learned in (((1e6, 1), False), ((1, 1e6), False), ((1e-6, 1), True), ((1, 1e-6), True)):
        assert (scale.learning_curve(*sizes, 0, 150)[-1] == 1) == learned
    after_100 = few_scales().accuracy["tokens"][:, :, -1].mean(1)
    assert (after_100[:6] == 1).all() and after_100[-1] < 0.8


def test_scale_does_not_take_one_for_the_other(monkeypatch):
    """The sum is the same with tokens and places exchanged, so no accuracy tells; the first step's logits do."""
    seen, cross_entropy = [], torch.nn.functional.cross_entropy
    monkeypatch.setattr(torch.nn.functional, "cross_entropy",
                        lambda logits, target: seen.append(logits.detach()) or cross_entropy(logits, target))
    for sizes, axis in (((1, 1e-6), 1), ((1e-6, 1), 0)):
        seen.clear()
        scale.learning_curve(*sizes, 0, 1)
        logits = seen[0].view(5, 5, 5)                                        # token, place, class
        assert logits.std(axis).max() < 1e-4 < 1e-2 < logits.std(1 - axis).max()


def test_scale_labels_are_the_ratios():
    runs = few_scales()
    by_ratio, by_step = scale.background(runs).axes
    assert by_ratio.get_xscale() == "log" and by_step.get_xlim() == (0, 100)
    np.testing.assert_array_equal(by_ratio.get_xticks(), runs.ratios)
    labels = [[int(part) for part in label.get_text().split("/")] for label in by_ratio.get_xticklabels()]
    assert [label[0] / label[1] if len(label) == 2 else label[0] for label in labels] == list(runs.ratios)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"seeds": 0}, ValueError, "seeds must be a whole number of at least 1, got 0"),
    ({"steps": 9}, ValueError, "steps must be a whole number of at least 10, got 9"),
    ({"steps": 20.0}, TypeError, "steps must be .* got 20.0"),
    ({"ratios": [1, 0]}, ValueError, "ratio must be a positive, finite number, got 0"),
    ({"ratios": [-2]}, ValueError, "ratio .* got -2"), ({"ratios": ["1"]}, TypeError, "ratio .* got '1'")])
def test_scale_runs_name_bad_arguments_before_they_train(monkeypatch, arguments, error, message):
    monkeypatch.setattr(scale, "learning_curve", None)
    with pytest.raises(error, match=message):
        scale_runs(**arguments, bar=False)


# Chapter 3: the end of the table

@pytest.fixture
def known_ends():
    random = torch.Generator().manual_seed(0)
    return table_end.EndRuns(torch.randn(8, 32, generator=random), {
        scheme: {length: torch.rand(3, generator=random).tolist() for length in table_end.LENGTHS}
        for scheme in ("learned, stretched", "sinusoidal", "sinusoidal, stretched")})


def test_table_end_draws_the_rows_there_are_the_stretched_and_the_computed(known_ends):
    for length in table_end.LENGTHS:
        view = table_end.end_view(known_ends, length)
        learned, stretched, computed = (marks_in(view, Cells, panel)[0] for panel in
                                        (table_end.LEARNED, table_end.STRETCHED, table_end.COMPUTED))
        np.testing.assert_array_equal(learned.values, known_ends.table[: min(length, 8)])
        np.testing.assert_array_equal(stretched.values, stretch(known_ends.table, length))
        np.testing.assert_array_equal(computed.values, sinusoidal_table(length, 32))
        assert learned.extent == (-0.5, 31.5, min(length, 8) - 0.5, -0.5)
        assert stretched.extent == computed.extent == (-0.5, 31.5, length - 0.5, -0.5)
        assert learned.high == -learned.low == stretched.high == -stretched.low == known_ends.table.abs().max()


def test_table_end_refuses_with_the_tables_own_words_and_frames_the_rows_that_are_missing(known_ends):
    for length in table_end.LENGTHS:
        view = table_end.end_view(known_ends, length)
        answer = view.values[0].removeprefix(f"the learned table as it is, {length} words: ")
        frames = marks_in(view, Line, table_end.LEARNED)
        if length <= 8:
            assert answer == f"{length} of its 8 rows are used" and not frames
            assert not marks_in(view, Text, table_end.LEARNED)
            continue
        with pytest.raises(ValueError) as refused:
            LearnedEncoding(32, max_len=8)(torch.zeros(1, length, 32))
        assert answer == f"refused: {refused.value}" and f"has {length} positions" in answer and "8 rows" in answer
        assert answer in view.alt
        assert [rectangle(line) for line in frames] == [(-0.5, 31.5, 7.5, length - 0.5)]
        word, = marks_in(view, Text, table_end.LEARNED)
        assert word.text == "no rows" and 7.5 < word.y < length


def test_table_end_shows_the_accuracies_at_that_length(known_ends):
    schemes = [("learned, stretched", BLUE), ("sinusoidal", ORANGE), ("sinusoidal, stretched", GREEN)]
    for length in table_end.LENGTHS:
        view = table_end.end_view(known_ends, length)
        for (scheme, color), points, line in zip(
                schemes, marks_in(view, Points, table_end.WORTH), view.values[1:], strict=True):
            seeds = known_ends.accuracy[scheme][length]
            assert (list(points.x), list(points.y), points.color) == ([length] * 3, seeds, color)
            assert re.fullmatch(rf"{scheme}: +accuracy (.*)", line)[1] == (
                f"{sum(seeds) / 3:.3f} ({min(seeds):.3f} to {max(seeds):.3f} over 3 seeds)")
            assert view.alt.endswith("The accuracies stand below.")       # as text: twice would be too much for a move
        now, = marks_in(view, Line, table_end.WORTH)
        assert list(now.x) == [length, length]


def test_table_end_draws_the_curves_of_its_runs_and_chance(known_ends):
    *tables, worth = table_end.background(known_ends).axes
    for panel in tables:
        assert panel.get_xlim() == (-0.5, 31.5) and panel.get_ylim() == (31.5, -0.5)
    legend = {text.get_text(): handle.get_color() for text, handle in
              zip(worth.get_legend().get_texts(), worth.get_legend().legend_handles, strict=True)}
    assert list(legend) == list(known_ends.accuracy) and len(set(legend.values())) == 3
    curves = [line for line in worth.lines if len(line.get_xdata()) == 31]
    expected = [(color, seeds) for scheme, color in legend.items()
                for seeds in zip(*known_ends.accuracy[scheme].values(), strict=True)]
    assert [(curve.get_color(), tuple(curve.get_ydata())) for curve in curves] == expected
    assert all(tuple(curve.get_xdata()) == tuple(range(2, 33)) for curve in curves)
    assert [0.5, 0.5] in [list(line.get_ydata()) for line in worth.lines if line.get_linestyle() == "--"]
    slider = table_end_explorer(known_ends).controls["words"]
    assert (slider.min, slider.max) == (2, 32)


def test_table_end_runs_train_at_length_8_and_test_other_rows_at_other_lengths(monkeypatch):
    """What is asked of the models, in place of their accuracy: which weights, which rows, which sentences."""
    asked = []

    def look(model, task):
        asked.append((model, model.position, task.tokens))
        return len(asked) - 1

    monkeypatch.setattr(table_end, "accuracy", look)
    runs = end_runs(seeds=2, steps=3, bar=False)
    for seed in range(2):
        task = which_came_first(seed, length=8)
        learned, sinusoidal = (
            train(lambda scheme=scheme, task=task: SentenceReader(task.vocabulary, task.classes, scheme()), task,
                  seed=seed, steps=3, device="cpu", bar=False)[0]
            for scheme in (lambda: small_rows(32, 8), lambda: SinusoidalEncoding(32, 32, dropout=0.0)))
        assert torch.equal(runs.table, learned.position.table) == (seed == 0)
        for length in table_end.LENGTHS:
            sentences = which_came_first(seed + 1000, length=length, sentences=1000).tokens
            for scheme, trained, rows in (
                    ("learned, stretched", learned, stretch(learned.position.table, length)),
                    ("sinusoidal", sinusoidal, sinusoidal_table(length, 32)),
                    ("sinusoidal, stretched", sinusoidal, stretch(sinusoidal_table(8, 32), length))):
                model, position, tokens = asked[runs.accuracy[scheme][length][seed]]
                assert torch.equal(tokens, sentences) and torch.equal(model.decide[2].weight, trained.decide[2].weight)
                assert torch.equal(position(torch.zeros(1, length, 32))[0], rows)


def test_small_rows_are_a_fiftieth_of_the_usual():
    torch.manual_seed(0)
    usual = LearnedEncoding(32, 8).table
    torch.manual_seed(0)
    torch.testing.assert_close(small_rows(32, 8).table, usual / 50)
    assert small_rows(32, 8).table.requires_grad


def test_end_runs_name_bad_arguments():
    for seeds, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="seeds must be a whole number of at least 1"):
            end_runs(seeds=seeds, bar=False)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        end_runs(seeds=1, steps=0, bar=False)
