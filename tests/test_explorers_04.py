"""The explorers of the rotary chapter: every setting draws, every slider shows, and the numbers are the right ones.

They are held against complex numbers: a pair of columns as a + jb, and turning by pω as a product with exp(j pω).
"""
import cmath
import itertools
import math
import re

import ipywidgets as widgets
import numpy as np
import pytest
import torch

from posenc_lib.explorers import rope, slide
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE
from posenc_lib.marks import Arrow, Cells, Line, Points, Text

EXPLORERS = [rope.rope_explorer, slide.slide_explorer]
BASES = (10, 100, 1_000, 10_000, 100_000)
CORNERS = [(5, 3, 0, 10_000), (0, 0, 1, 10), (40, 0, 0, 1_000), (0, 40, 2, 10), (40, 40, 3, 100), (13, 29, 1, 100_000)]


def grid(control, step=8):
    """Every value of a control, or of one with many every `step`-th, the second and the last."""
    if isinstance(control, widgets.SelectionSlider):
        return list(control.options)
    values = list(range(control.min, control.max + 1))
    return values if len(values) < 9 else sorted({*values[::step], values[1], values[-1]})


def settings(explorer):
    """Every setting of a single slider; of several, which multiply, a grid."""
    controls = explorer.controls
    for values in itertools.product(*(grid(control, 8 if len(controls) > 1 else 1) for control in controls.values())):
        yield dict(zip(controls, values, strict=True))


def plain(line):
    return line.replace("−", "-")


# Both explorers

@pytest.mark.parametrize("make", EXPLORERS)
def test_every_setting_of_the_sliders_gives_finite_marks_and_text_that_fits(make):
    explorer = make()
    widest = int(explorer.panels.width / 8)                             # a monospaced character is 8 pixels wide
    for setting in settings(explorer):
        view = explorer.compute(**setting)
        drawn = re.sub('href="[^"]*"', "", explorer.panels.svg((*view.under, *view.marks)))
        said = "".join((view.alt, *view.values))
        assert not any(word in text for word in ("nan", "inf") for text in (drawn, said))
        assert view.alt and view.values and all(line.strip() for line in view.values)
        assert max(len(re.sub(r"[_^]\{(.*?)\}", r"_(\1)", line)) for line in view.values) <= widest
        assert "-" not in said                                          # a minus sign is a minus sign everywhere


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_picture_and_numbers(make):
    for name in make().controls:
        explorer = make()
        before = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        values = grid(explorer.controls[name])
        explorer.controls[name].value = next(value for value in values if value != explorer.controls[name].value)
        after = *explorer.moving.value.rsplit("</svg>", 1), explorer.still()
        assert all(old != new for old, new in zip(before, after, strict=True)), name
        assert "alert" not in explorer.moving.value


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_move_sends_less_than_ten_kilobytes(make):
    explorer = make()
    for setting in settings(explorer):
        for name, value in setting.items():
            explorer.controls[name].value = value
        assert len((explorer.moving.value + explorer.under.value).encode()) < 10_000        # if all of it changed


# RoPE

def pairs(vector):
    return np.array(vector).reshape(-1, 2) @ (1, 1j)


def omega(base):
    return float(base) ** (-2 * np.arange(4) / 8)


def shares(m, n, base):
    """Re(q̄ k exp(j (n − m)ω)) of each pair."""
    return (pairs(rope.QUERY).conj() * pairs(rope.KEY) * np.exp(1j * (n - m) * omega(base))).real


def marks_of(view, kind, panel, **look):
    return [mark for mark in (*view.under, *view.marks) if isinstance(mark, kind) and mark.panel == panel
            and all(getattr(mark, name) == value for name, value in look.items())]


def test_rope_starts_with_arrows_that_can_be_seen_and_told_apart():
    query, key = pairs(rope.QUERY), pairs(rope.KEY)
    assert min(abs(query).min(), abs(key).min()) > 0.9 and max(abs(query).max(), abs(key).max()) < 1.5
    apart = np.abs(np.angle(key / query))
    assert apart.min() > 0.5 and apart.max() < math.pi - 0.3
    for vector in (query, key):
        assert all(abs(cmath.phase(a / b)) > 0.5 for a, b in itertools.combinations(vector, 2))


@pytest.mark.parametrize("base", BASES)
def test_rope_turns_each_pair_by_position_times_frequency(base):
    for vector in (rope.QUERY, rope.KEY):
        for position in (0, 1, 17, 40, 2.5):
            expected = pairs(vector) * np.exp(1j * position * omega(base))
            np.testing.assert_allclose(rope.turned(vector, position, base)[0] @ (1, 1j), expected, atol=1e-12)


@pytest.mark.parametrize(("m", "n", "pair", "base"), CORNERS)
def test_rope_arrows_end_where_they_should_and_arcs_lead_there(m, n, pair, base):
    view = rope.rope_view(m, n, pair, base)
    for vector, position, color, pale in ((rope.QUERY, m, BLUE, rope.PALE_BLUE), (rope.KEY, n, ORANGE,
                                                                                rope.PALE_ORANGE)):
        before, angle = pairs(vector)[pair], position * omega(base)[pair]
        (thin,), (bold,) = (marks_of(view, Arrow, rope.PLANE, color=ink) for ink in (pale, color))
        assert thin.start == bold.start == (0, 0) and thin.width < bold.width
        assert complex(*thin.end) == pytest.approx(before, abs=1e-12)
        assert complex(*bold.end) == pytest.approx(before * cmath.exp(1j * angle), abs=1e-12)
        (arc,) = marks_of(view, Line, rope.PLANE, color=color)
        way = np.unwrap(np.angle(arc.x + 1j * arc.y))
        assert way[-1] - way[0] == pytest.approx(angle, abs=1e-9)
        assert cmath.exp(1j * way[0]) == pytest.approx(before / abs(before), abs=1e-9)
        assert np.hypot(arc.x, arc.y).max() < abs(before)
    angles = [float(mark.text.split("= ")[1].split(" ")[0]) for mark in marks_of(view, Text, rope.PLANE)]
    assert angles == pytest.approx([m * omega(base)[pair], n * omega(base)[pair]], abs=5e-5)


@pytest.mark.parametrize(("m", "n", "pair", "base"), CORNERS)
def test_rope_dots_are_the_turned_shares_and_rings_the_unturned(m, n, pair, base):
    view = rope.rope_view(m, n, pair, base)
    (dots,), (chosen,) = (marks_of(view, Points, rope.SHARES, color=color) for color in (GREY, GREEN))
    np.testing.assert_allclose(dots.y, shares(m, n, base), atol=1e-12)
    assert (list(chosen.x), list(chosen.y)) == ([pair], [dots.y[pair]]) and not dots.hollow
    rings = rope.background().axes[rope.SHARES].lines[0]
    np.testing.assert_allclose(rings.get_ydata(), shares(0, 0, base), atol=1e-12)
    assert rings.get_markerfacecolor() == "none"
    (sticks,) = marks_of(view, Line, rope.SHARES, color=GREY)
    np.testing.assert_array_equal(np.reshape(sticks.x, (4, 3))[:, 1], range(4))
    np.testing.assert_array_equal(np.reshape(sticks.y, (4, 3))[:, :2], np.stack([np.zeros(4), dots.y], 1))
    low, high = rope.background().axes[rope.SHARES].get_ylim()
    assert low < (np.abs(pairs(rope.QUERY)) * np.abs(pairs(rope.KEY))).max() < high


@pytest.mark.parametrize(("m", "n", "pair", "base"), CORNERS)
def test_rope_the_line_with_the_offset_held_is_flat_and_the_one_with_the_key_held_waves(m, n, pair, base):
    view = rope.rope_view(m, n, pair, base)
    score = shares(m, n, base).sum()
    (flat,), (wave,) = (marks_of(view, Line, rope.SCORE, color=color) for color in (GREEN, GREY))
    np.testing.assert_allclose(flat.y, score, rtol=0, atol=1e-12)
    assert (flat.x[0], flat.x[-1]) == (max(0, m - n), rope.END) and len(flat.x) > 2 and not flat.dashed
    assert np.ptp(wave.y) > 1 and wave.dashed and wave.width < flat.width
    np.testing.assert_allclose(wave.y, [shares(at, n, base).sum() for at in wave.x], atol=1e-12)
    assert (wave.x[0], wave.x[-1]) == (0, rope.END)
    here, farther = marks_of(view, Points, rope.SCORE)
    assert [*here.x, *here.y] == pytest.approx([m, score], abs=1e-12) and not here.hollow
    assert [*farther.x, *farther.y] == pytest.approx([m + 7, score], abs=1e-12) and farther.hollow
    assert rope.rope_view(m, n, (pair + 1) % 4, base).under is view.under


def test_rope_the_score_from_the_turned_vectors_is_the_one_from_the_offset():
    for base, m, n in itertools.product(BASES, range(0, 41, 4), range(0, 41, 4)):
        from_vectors = rope.shares_turned(m, n, base)[0]
        np.testing.assert_allclose(from_vectors, rope.shares_from_offset(n - m, base), rtol=0, atol=1e-12)
        np.testing.assert_allclose(from_vectors, shares(m, n, base), rtol=0, atol=1e-12)
        assert rope.shares_turned(m + 7, n + 7, base).sum() == pytest.approx(from_vectors.sum(), abs=1e-12)


def test_rope_lines_say_the_right_numbers():
    for (m, n), pair, base in itertools.product([(5, 3), (0, 0), (40, 0), (0, 40), (17, 40)], range(4), BASES):
        lines = [plain(line) for line in rope.rope_view(m, n, pair, base).values]
        turn = omega(base)[pair]
        found = re.search(r"= (\S+) rad a position; q turns by .* = (\S+), k by .* = (\S+)$", lines[0])
        assert float(found[1]) == pytest.approx(turn, rel=1e-5)
        assert [float(number) for number in found.groups()[1:]] == pytest.approx([m * turn, n * turn], abs=5e-5)
        assert f"pair {pair}: ω_{{{pair}}} = {base}^{{-2·{pair}/8}}" in lines[0]

        between = pairs(rope.KEY)[pair] / pairs(rope.QUERY)[pair]
        found = re.search(r"before (\S+), after (\S+) = (\S+) \+ \(n - m\)ω_\{\d\}(?: ([+-]) (\d+) · 2π)?; .* = (\S+)$",
                          lines[1])
        before, after, again, moved = (float(found[number]) for number in (1, 2, 3, 6))
        turns = float((found[4] or "+") + (found[5] or "0"))
        assert before == again == pytest.approx(cmath.phase(between), abs=5e-5)
        assert after == pytest.approx(cmath.phase(between * cmath.exp(1j * (n - m) * turn)), abs=5e-5)
        assert moved == pytest.approx((n - m) * turn, abs=5e-5)
        assert after == pytest.approx(before + moved + turns * 2 * math.pi, abs=2e-4)

        found = re.search(r"before (\S+), after (\S+)$", lines[2])
        expected = [shares(0, 0, base)[pair], shares(m, n, base)[pair]]
        assert [float(number) for number in found.groups()] == pytest.approx(expected, abs=5e-5)
        scores = [float(re.search(r"= +(-?\d\S+)", line)[1]) for line in lines[3:6]]
        assert scores == pytest.approx([shares(m, n, base).sum()] * 3, abs=1e-10)
        assert f"n - m = {n - m} alone" in lines[4] and f"m + 7 = {m + 7}, n + 7 = {n + 7}" in lines[5]


# Slide the sentence

def test_slide_rotary_scores_stay_and_the_others_change():
    for s in range(1, slide.LAST + 1):
        change = {scheme: np.abs(slide.scores(scheme, s) - slide.scores(scheme, 0)).max() for scheme in slide.SCHEMES}
        assert change[slide.ROTARY] <= 1e-12
        assert change[slide.SINUSOIDAL] > 0.1 and change[slide.LEARNED] > 0.1


@pytest.mark.parametrize("s", [0, 1, 7, 40])
def test_slide_scores_are_those_computed_by_hand(s):
    layer, schemes = slide.fixed()
    words = torch.stack([slide.embedding(word) for word in "the cat sat on the mat".split()]).numpy()
    place = np.arange(s, s + 6)[:, None]
    angle = place * 10_000.0 ** (-2 * np.arange(8) / 16)
    hands = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(6, 16)
    rows = schemes[slide.LEARNED].table.detach().numpy()[s : s + 6]

    def project(x):
        return [x @ part.weight.detach().numpy().T + part.bias.detach().numpy() for part in (layer.to_query,
                                                                                          layer.to_key)]

    query, key = (x.reshape(6, 8, 2) @ (1, 1j) * np.exp(1j * angle) for x in project(words))
    expected = {slide.ROTARY: (query.conj() @ key.T).real / 4}
    for scheme, added in ((slide.SINUSOIDAL, hands), (slide.LEARNED, rows)):
        query, key = project(words + added)
        expected[scheme] = query @ key.T / 4
    for scheme in slide.SCHEMES:
        found = slide.scores(scheme, s)
        assert found.shape == (6, 6) and found.dtype == np.float64
        np.testing.assert_allclose(found, expected[scheme], rtol=0, atol=1e-12)


def test_slide_learned_rows_are_as_they_begin_and_always_the_same():
    table = slide.fixed()[1][slide.LEARNED].table
    assert table.shape == (46, 16) and abs(float(table.detach().std()) - 1) < 0.1 and "fresh" in slide.LEARNED
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        before = torch.get_rng_state()
        layer, schemes = slide.fixed.__wrapped__()                      # not the cached one
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(schemes[slide.LEARNED].table, table)
    assert torch.equal(layer.to_query.weight, slide.fixed()[0].to_query.weight)


@pytest.mark.parametrize("s", [0, 1, 7, 40])
def test_slide_shows_the_scores_in_one_scale_and_frames_the_largest_change(s):
    view = slide.slide_view(s)
    assert view.under is slide.slide_view(3).under
    above, below = ([mark for mark in marks if isinstance(mark, Cells)] for marks in (view.under, view.marks))
    assert [mark.panel for mark in above + below] == list(range(6))
    for scheme, top, bottom in zip(slide.SCHEMES, above, below, strict=True):
        np.testing.assert_array_equal(top.values, slide.scores(scheme, 0))
        np.testing.assert_array_equal(bottom.values, slide.scores(scheme, s))
    figure = slide.background()
    bar = figure.axes[6].get_ylim()
    assert all((mark.low, mark.high) == (-slide.REACH, slide.REACH) == bar for mark in above + below)
    assert all(scheme in figure.axes[panel].get_title() for panel, scheme in enumerate(slide.SCHEMES))
    for panel in range(6):
        assert [label.get_text() for label in figure.axes[panel].get_yticklabels()] == slide.WORDS
    numbers = [mark.text for mark in view.marks if isinstance(mark, Text)]
    assert numbers == [str(s + place) for place in range(6)] * 3

    frames = {mark.panel: (round(np.mean(mark.y[1:])), round(np.mean(mark.x[1:]))) for mark in view.marks
              if isinstance(mark, Line)}
    expected = {}
    for panel, scheme in enumerate((slide.SINUSOIDAL, slide.LEARNED)):
        change = np.abs(slide.scores(scheme, s) - slide.scores(scheme, 0))
        expected |= {panel: np.unravel_index(change.argmax(), (6, 6)), panel + 3: frames.get(panel)}
    assert frames == (expected if s else {})


@pytest.mark.parametrize("s", [1, 7, 23, 40])
def test_slide_lines_say_the_right_numbers(s):
    lines = [plain(line) for line in slide.slide_view(s).values]
    assert f"positions {s} … {s + 5}" in lines[0]
    for scheme, line in zip(slide.SCHEMES, lines[2:5], strict=True):
        before, after = slide.scores(scheme, 0), slide.scores(scheme, s)
        assert line.startswith(scheme)
        if scheme == slide.ROTARY:
            assert line.endswith("0 up to rounding")
            continue
        size, query, _, key, old, new = line.removeprefix(scheme).split()
        row, column = np.unravel_index(np.abs(after - before).argmax(), (6, 6))
        assert (query, key) == (slide.WORDS[row], slide.WORDS[column])
        expected = [abs(after - before).max(), before[row, column], after[row, column]]
        assert [float(number) for number in (size, old, new)] == pytest.approx(expected, abs=5e-5)


def test_slide_at_zero_claims_no_change():
    lines = slide.slide_view(0).values
    assert [line.split()[-1] for line in lines[2:5]] == ["0.0000"] * 3 and "nothing has moved" in lines[-1]
