"""The Bias and the Layouts explorer: every setting of their sliders, and that what they show is so."""
import itertools
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.path import Path

from posenc_lib.explorers import bias, layouts
from posenc_lib.explorers.bias import LIMIT, OFFSETS, bias_explorer, bias_view
from posenc_lib.explorers.layouts import KEY, LAYOUTS, X, layouts_explorer, layouts_view, mixed
from posenc_lib.figures import ORANGE
from posenc_lib.marks import Cells, Line, Points, Text

EXPLORERS = [bias_explorer, layouts_explorer]
HEADS = range(8)
LONGEST_LINE = 117                  # characters that fit under the picture


def every_value(control):
    return list(control.options) if hasattr(control, "options") else range(control.min, control.max + 1)


def settings(explorer):
    for values in itertools.product(*map(every_value, explorer.controls.values())):
        yield dict(zip(explorer.controls, values, strict=True))


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def last_number(line):
    return numbers(line.split("=")[-1].split("(")[0])[-1]


def of_kind(kind, marks, **look):
    return [mark for mark in marks if isinstance(mark, kind) and all(getattr(mark, a) == b for a, b in look.items())]


# Both

@pytest.mark.parametrize("make", EXPLORERS)
def test_every_setting_gives_finite_marks_lines_that_fit_and_an_alternative_text(make):
    explorer = make()
    for setting in settings(explorer):
        view = explorer.compute(**setting)
        text = re.sub('href="[^"]*"', "", explorer.panels.svg((*view.under, *view.marks)))
        assert "nan" not in text and "inf" not in text
        assert view.alt.endswith(".") and "nan" not in view.alt
        assert view.values and all(line.strip() and len(line) <= LONGEST_LINE for line in view.values)
        assert "-" not in view.alt + "".join(view.values)               # all minus signs are minus signs


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_picture_and_numbers(make):
    for name in make().controls:
        explorer = make()
        control = explorer.controls[name]
        before = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        control.value = next(value for value in reversed(every_value(control)) if value != control.value)
        after = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        assert all(old != new for old, new in zip(before, after, strict=True)), name
        assert "alert" not in explorer.moving.value


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_move_of_any_slider_sends_less_than_ten_kilobytes(make):
    explorer = make()
    sent = []
    for widget in (explorer.picture, explorer.under, explorer.moving):
        widget.observe(lambda change: sent.append(len(change["new"].encode())), "value")
    moves = 0
    for control in explorer.controls.values():
        for value in every_value(control):
            sent.clear()
            control.value = value
            moves += bool(sent)
            assert sum(sent) < 10_000
    assert moves >= sum(len(every_value(control)) - 1 for control in explorer.controls.values())


@pytest.mark.parametrize(("make", "slider"), [(bias_explorer, "k"), (layouts_explorer, "p")])
def test_what_lies_under_is_not_sent_again_when_only_the_marker_moves(make, slider):
    explorer = make()
    sent, under = [], explorer.view.under
    explorer.under.observe(sent.append, "value")
    for value in every_value(explorer.controls[slider]):
        explorer.controls[slider].value = value
        assert explorer.view.under is under
    assert not sent and explorer.under.value


@pytest.mark.parametrize("make", EXPLORERS)
def test_the_saved_picture_has_its_panels_where_the_live_one_has_them(make):
    explorer = make()
    drawn = explorer.drawn(explorer.view)
    drawn.draw_without_rendering()
    for ax, frame in zip(drawn.axes, explorer.panels._frames, strict=True):
        x, y, width, height = frame
        np.testing.assert_allclose((ax.bbox.x0, ax.bbox.y1), (x, explorer.panels.height - y), atol=0.01)
        np.testing.assert_allclose((ax.bbox.width, ax.bbox.height), (width, height), atol=0.01)


# Bias

def t5_bucket_by_logarithm(k):
    """16 buckets, 8 a side: 4 for one distance each, 4 that grow with the logarithm up to distance 32."""
    distance = abs(k)
    wide = 4 + math.floor(4 * math.log(distance / 4) / math.log(32 / 4) + 1e-12) if distance >= 4 else distance
    return min(wide, 7) + 8 * (k > 0)


def expected_bias(scheme, head, k):
    """The number, and what decides which offsets share it."""
    if scheme == "ALiBi":
        return -(2.0 ** -(head + 1)) * abs(k), abs(k)
    if scheme == "T5":
        bucket = t5_bucket_by_logarithm(k)
        return bias.schemes()["T5"].bias[bucket, head].item(), bucket
    row = max(-4, min(4, k)) + 4
    query, vector = bias.queries()[head].tolist(), bias.schemes()["Shaw"].key_table[row].tolist()
    return sum(a * b for a, b in zip(query, vector, strict=True)) / math.sqrt(8), row


@pytest.mark.parametrize("scheme", LIMIT)
def test_the_matrix_holds_the_number_of_each_offset(scheme):
    for head in HEADS:
        cells, = of_kind(Cells, bias_view(scheme, head, 0).under)
        assert cells.values.shape == (24, 24) and cells.panel == bias.MATRIX
        for m, n in itertools.product(range(24), repeat=2):
            assert cells.values[m, n] == pytest.approx(expected_bias(scheme, head, n - m)[0], abs=1e-6)


@pytest.mark.parametrize("scheme", LIMIT)
def test_curve_marker_and_lines_show_the_same_number(scheme):
    for head, k in itertools.product(HEADS, OFFSETS.tolist()):
        view = bias_view(scheme, head, k)
        number = expected_bias(scheme, head, k)[0]
        marker, = of_kind(Points, view.marks)
        assert marker.x == [k] and marker.y[0] * LIMIT[scheme] == pytest.approx(number, abs=1e-6)
        *_, curve = of_kind(Line, view.under)
        assert curve.y[list(curve.x).index(k - 0.5) + (k > -23)] * LIMIT[scheme] == pytest.approx(number, abs=1e-6)
        assert last_number(view.values[1]) == pytest.approx(number, abs=5e-5)
        assert numbers(view.values[-1])[0] == pytest.approx(math.exp(number), abs=5e-5)


@pytest.mark.parametrize("scheme", LIMIT)
def test_orange_and_the_line_name_the_offsets_that_share_the_number(scheme):
    for k in OFFSETS.tolist():
        view = bias_view(scheme, 2, k)
        group = expected_bias(scheme, 2, k)[1]
        sharing = [other for other in OFFSETS.tolist() if expected_bias(scheme, 2, other)[1] == group]
        orange, = of_kind(Line, view.marks, color=ORANGE)
        assert orange.x[np.isfinite(orange.y)][::2].tolist() == [other - 0.5 for other in sharing]
        line = view.values[-2]
        assert set(numbers(line)) == {sharing[0], sharing[-1]} and ("alone" in line) == (len(sharing) == 1)
        assert ("beyond" in line) == (scheme != "ALiBi" and bool({-23, 23} & set(sharing)))


def test_each_scheme_explains_its_number_in_its_own_terms():
    assert "2^{−4} = 1/16 = 0.0625; distance |−5| = 5" in bias_view("ALiBi", 3, -5).values[0]
    assert bias_view("ALiBi", 3, -5).values[1] == "bias = −slope · |k| = −0.0625 · 5 = −0.3125"
    for k in OFFSETS.tolist():
        rule, number, *_ = bias_view("T5", 6, k).values
        assert numbers(rule)[:2] == [k, t5_bucket_by_logarithm(k)] and "not trained" in number
        assert f"bucket {t5_bucket_by_logarithm(k)}, head 6" in number
        rule, number, query, *_ = bias_view("Shaw", 6, k).values
        clipped = max(-4, min(4, k))
        assert numbers(rule)[:5] == [k, -4, 4, clipped, clipped + 4] and "not trained" in rule
        assert numbers(number)[0] / math.sqrt(8) == pytest.approx(last_number(number), abs=5e-5)
        assert "depends on the query" in query


def test_t5_has_several_buckets_that_are_shared_within_the_words():
    buckets = [t5_bucket_by_logarithm(k) for k in range(-23, 1)]
    assert sorted(set(buckets)) == list(range(8)) and sum(buckets.count(bucket) > 1 for bucket in range(8)) == 4


def test_the_outline_is_around_the_diagonal_of_the_offset_and_seen_on_every_colour():
    centres = np.array(list(itertools.product(range(24), repeat=2)))                    # x = key, y = query
    for k in OFFSETS.tolist():
        rim, line = of_kind(Line, bias_view("T5", 0, k).marks, panel=bias.MATRIX)
        inside = centres[Path(np.transpose([line.x, line.y])).contains_points(centres)]
        assert len(inside) == 24 - abs(k) and set(inside[:, 0] - inside[:, 1]) == {k}
        assert (rim.x, rim.y) == (line.x, line.y)
        assert (rim.color, line.color) == ("white", "black") and rim.width > line.width + 2


@pytest.mark.parametrize("scheme", LIMIT)
def test_one_scale_for_all_heads_holds_every_number_and_is_labelled(scheme):
    largest = max(abs(expected_bias(scheme, head, k)[0]) for head in HEADS for k in OFFSETS.tolist())
    assert LIMIT[scheme] * 0.75 < largest <= LIMIT[scheme]
    for head in HEADS:
        under = bias_view(scheme, head, 0).under
        cells, = of_kind(Cells, under)
        assert (cells.low, cells.high) == (-LIMIT[scheme], LIMIT[scheme])
        scale = of_kind(Text, under, align="right", color="black")
        assert [numbers(mark.text)[0] for mark in scale] == [mark.y * LIMIT[scheme] for mark in scale]
        assert [mark.y for mark in scale] == [-1, -0.5, 0, 0.5, 1]


def test_the_grey_lines_are_the_heads_of_alibi():
    *grey, _ = of_kind(Line, bias_view("ALiBi", 0, 0).under)
    for head, line in zip(HEADS, grey, strict=True):
        ends = -(2.0 ** -(head + 1)) * 23 / LIMIT["ALiBi"]
        assert (line.x, line.y) == ([-23, 0, 23], pytest.approx([ends, 0, ends]))


def test_making_the_tables_leaves_the_readers_random_numbers_alone():
    bias.schemes.cache_clear()
    bias.queries.cache_clear()
    torch.manual_seed(1)                                    # a state in which no earlier call can have left it
    before = torch.get_rng_state()
    tables = [bias.schemes()["T5"].bias, bias.schemes()["Shaw"].key_table, bias.queries()]
    assert torch.equal(torch.get_rng_state(), before)
    bias.schemes.cache_clear()
    bias.queries.cache_clear()
    again = [bias.schemes()["T5"].bias, bias.schemes()["Shaw"].key_table, bias.queries()]
    assert all(torch.equal(*pair) for pair in zip(tables, again, strict=True))


# Layouts

OMEGA = [1, 0.1, 0.01, 0.001]
PARTNERS = {"interleaved": [(0, 1), (2, 3), (4, 5), (6, 7)], "half": [(0, 4), (1, 5), (2, 6), (3, 7)]}
PARTNERS["mixed"] = PARTNERS["half"]
COLUMN_OMEGA = {"interleaved": [0, 0, 1, 1, 2, 2, 3, 3], "half": [0, 1, 2, 3, 0, 1, 2, 3],
                "mixed": [0, 0, 1, 1, 2, 2, 3, 3]}


def turned(x, position, layout):
    """Column by column, each with its own angle."""
    result = [0.0] * 8
    for a, b in PARTNERS[layout]:
        at_a, at_b = (position * OMEGA[COLUMN_OMEGA[layout][column]] for column in (a, b))
        result[a] = x[a] * math.cos(at_a) - x[b] * math.sin(at_a)
        result[b] = x[b] * math.cos(at_b) + x[a] * math.sin(at_b)
    return result


def score(p, k, layout):
    query, key = turned(X.tolist(), p, layout), turned(KEY.tolist(), p + k, layout)
    return sum(a * b for a, b in zip(query, key, strict=True))


def test_mixed_is_the_known_mistake():
    query, key = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[4.0, 3, 2, 1]])
    for positions, expected in (((5, 3), -16.19), ((7, 5), 5.73)):
        at_m, at_n = (mixed(x, torch.tensor([p])) for x, p in zip((query, key), positions, strict=True))
        assert float((at_m * at_n).sum()) == pytest.approx(expected, abs=5e-3)
    assert float(mixed(query, torch.tensor([1])).norm()) == pytest.approx(5.863, abs=5e-4)
    assert float(query.norm()) == pytest.approx(5.477, abs=5e-4)


def test_dots_and_lines_are_the_turned_vectors_and_their_norms():
    for p, k in ((0, 0), (1, -20), (7, 3), (33, 20), (60, -7)):
        view = layouts_view(p, k)
        assert numbers(view.values[0]) == pytest.approx([*X.tolist(), float(X.norm())], abs=5e-5)
        for panel, layout in enumerate(("interleaved", "half", "mixed")):
            expected = turned(X.tolist(), p, layout)
            dots = of_kind(Points, view.marks, panel=panel)
            assert [dot.x for dot in dots] == [[column] for column in range(8)]
            assert [dot.y[0] for dot in dots] == pytest.approx(expected, abs=1e-12)
            line = view.values[1 + panel]
            assert line.startswith(layout)
            assert numbers(line) == pytest.approx([*expected, math.hypot(*expected)], abs=5e-5)


def test_partners_and_nobody_else_have_the_same_colour_as_ring_dot_and_bracket():
    figure = layouts.background()
    for panel, layout in enumerate(LAYOUTS):
        dots = of_kind(Points, layouts_view(5, 0).marks, panel=panel)
        colors = [dot.color for dot in dots]
        rings, brackets = ([line for line in figure.axes[panel].lines if line.get_marker() == marker]
                           for marker in ("o", "|"))
        for a, b in PARTNERS[layout]:
            assert colors[a] == colors[b] and colors.count(colors[a]) == 2
            ring, bracket = (next(line for line in lines if list(line.get_xdata()) == [a, b])
                             for lines in (rings, brackets))
            assert ring.get_color() == bracket.get_color() == colors[a] and ring.get_markerfacecolor() == "none"
            np.testing.assert_array_equal(ring.get_ydata(), X[[a, b]])
        assert len(rings) == len(brackets) == 4


def test_the_omega_under_each_column_is_the_one_that_turns_it():
    figure = layouts.background()
    for panel, layout in enumerate(LAYOUTS):
        for column, label in enumerate(figure.axes[panel].get_xticklabels()):
            number, omega = label.get_text().split("\nω")
            unit = torch.eye(8, dtype=torch.float64)[column]
            at_40 = layouts.turned(unit, torch.tensor([40]), layout)[0]
            assert int(number) == column
            assert float(at_40[column]) == pytest.approx(math.cos(40 * OMEGA["₀₁₂₃".index(omega)]), abs=1e-12)


def test_scores_curves_and_spreads_are_those_of_query_at_p_and_key_at_p_plus_k():
    for k in (-20, -1, 0, 3, 20):
        expected = {layout: [score(p, k, layout) for p in range(61)] for layout in LAYOUTS}
        for line, layout in zip(layouts_view(0, k).under, LAYOUTS, strict=True):
            assert line.panel == layouts.SCORE and line.color == LAYOUTS[layout]
            np.testing.assert_array_equal(line.x, range(61))
            np.testing.assert_allclose(line.y, expected[layout], atol=1e-12)
        for p in (0, 1, 30, 60):
            view = layouts_view(p, k)
            assert numbers(view.values[4]) == pytest.approx([p, p + k, *(expected[name][p] for name in LAYOUTS)],
                                                            abs=5e-5)
            markers = of_kind(Points, view.marks, panel=layouts.SCORE)
            assert [(dot.x, dot.y[0], dot.color) for dot in markers] == [
                ([p], pytest.approx(expected[name][p]), LAYOUTS[name]) for name in LAYOUTS]
            spreads = [max(expected[name]) - min(expected[name]) for name in LAYOUTS]
            assert numbers(view.values[5])[-3:] == pytest.approx(spreads, abs=5e-5)


def test_both_layouts_keep_norm_and_law_and_mixed_breaks_them():
    for k in range(-20, 21):
        *right, wrong = numbers(layouts_view(9, k).values[5])[-3:]
        assert right == [0, 0] and wrong > 5
    for p in range(61):
        *right, wrong = layouts_view(p, 3).values[1:4]
        assert all(line.endswith(", kept") for line in right)
        assert wrong.endswith(", NOT kept") == (p > 0)


def test_the_last_line_says_that_the_two_layouts_differ_except_where_x_is_not_turned():
    assert "x is not turned" in layouts_view(0, 5).values[-1]
    for p in range(1, 61):
        view = layouts_view(p, 0)
        one, other = (numbers(line)[:8] for line in view.values[1:3])
        assert one != other and "give different numbers: use the checkpoint's" in view.values[-1]


def test_every_dot_and_score_lies_inside_its_panel():
    for p, k in itertools.product(range(61), (-20, -10, 0, 10, 20)):
        for dot in of_kind(Points, layouts_view(p, k).marks):
            assert abs(dot.y[0]) < (layouts.SCORE_LIMIT if dot.panel == layouts.SCORE else layouts.ENTRY_LIMIT)
