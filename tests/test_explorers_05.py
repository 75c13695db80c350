"""The LayerNorm and the Depth explorer: every setting of their controls, and that what they show is so."""
import functools
import itertools
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation
from torch import nn
from torch.nn import functional

from posenc_lib.encoder import Encoder
from posenc_lib.explorers import depth, layer_norm
from posenc_lib.explorers.depth import (
    DEPTHS,
    GRADIENT,
    NORMS,
    RESIDUE,
    DepthRuns,
    Stack,
    depth_explorer,
    depth_runs,
    depth_view,
    measure,
    rank_one_residue,
    rank_residue,
)
from posenc_lib.explorers.layer_norm import CENTRED, EPS, RESULT, VECTOR, X, layer_norm_explorer, layer_norm_view
from posenc_lib.figures import BLUE, GREEN, ORANGE, SKY, book_style
from posenc_lib.marks import Cells, Line, Points, Text

LONGEST_LINE = 117                  # characters that fit under the picture
SHIFTS, SCALES, OUTLIERS = range(-10, 11), [round(0.1 * step, 1) for step in range(1, 31)], range(41)
SWITCHES = list(itertools.product((False, True), NORMS))


@functools.cache
def measured():
    """Two seeds, as deep as the numbers that are claimed need."""
    return depth_runs(seeds=2, depths=(2, 12, 24), bar=False)


def invented(seeds=5, depths=DEPTHS):
    """Runs of the size that the chapter has, with numbers from thin air, in every order of magnitude."""
    random = torch.Generator().manual_seed(0)

    def draw(low, high, columns):
        return low + (high - low) * torch.rand(seeds, columns, generator=random, dtype=torch.float64)

    settings = list(itertools.product((False, True), NORMS, depths))
    return DepthRuns(depths, {setting: 10 ** draw(-30, 12, setting[2]) for setting in settings},
                     {setting: draw(0, 1, setting[2] + 1) for setting in settings})


def depth_of_few():
    return depth_explorer(measured())


def depth_of_five_seeds():
    return depth_explorer(invented())


EXPLORERS = [layer_norm_explorer, depth_of_few]


def every_value(control):
    if hasattr(control, "options"):
        return list(control.options)
    if isinstance(control.value, bool):
        return [False, True]
    values = np.arange(control.min, control.max + control.step / 2, control.step).round(6).tolist()
    return sorted({*values[:: max(1, len(values) // 6)], values[0], values[-1]})


def settings(explorer):
    for values in itertools.product(*map(every_value, explorer.controls.values())):
        yield dict(zip(explorer.controls, values, strict=True))


def of_kind(kind, view, panel, **look):
    return [mark for mark in view.marks if isinstance(mark, kind) and mark.panel == panel
            and all(getattr(mark, name) == value for name, value in look.items())]


def numbers(text):
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]\d+)?", text.replace("−", "-"))]


# Both

@pytest.mark.parametrize("make", [*EXPLORERS, depth_of_five_seeds])
def test_every_setting_gives_finite_marks_lines_that_fit_and_an_alternative_text(make):
    explorer = make()
    for setting in settings(explorer):
        view = explorer.compute(**setting)
        text = re.sub('href="[^"]*"', "", explorer.panels.svg((*view.under, *view.marks)))
        assert "nan" not in text and "inf" not in text
        assert view.alt.endswith(".") and "nan" not in view.alt
        assert view.values and all(line.strip() and len(line) <= LONGEST_LINE for line in view.values)
        shown = view.alt + "".join(view.values)
        assert "-" not in shown and not re.search(r"−0\.0+(?!\d)", shown)         # minus signs, and none before a 0


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_control_changes_picture_and_numbers(make):
    def shown():
        return *explorer.moving.value.rsplit("</svg>", 1), explorer.still()

    explorer = make()
    before = shown()
    for name, control in explorer.controls.items():
        start = control.value
        control.value = next(value for value in reversed(every_value(control)) if value != start)
        assert all(old != new for old, new in zip(before, shown(), strict=True)), name
        assert "alert" not in explorer.moving.value
        control.value = start


@pytest.mark.parametrize("make", [layer_norm_explorer, depth_of_five_seeds])
def test_a_move_sends_less_than_ten_kilobytes(make):
    explorer = make()
    sent = []
    for widget in (explorer.picture, explorer.under, explorer.moving):
        widget.observe(lambda change: sent.append(len(change["new"].encode())), "value")
    moves = 0
    for setting in settings(explorer):
        for name, value in setting.items():
            sent.clear()
            explorer.controls[name].value = value
            moves += bool(sent)
            assert sum(sent) < 10_000
    assert moves > 20


@book_style()
def written(explorer, setting):
    """What is written in the picture, as rectangles in pixels, with the rectangle of the whole."""
    figure = explorer.drawn(explorer.compute(**setting))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    texts = [figure.legends[0]]
    for ax in figure.axes:
        texts += [ax.title, ax.xaxis.label, ax.yaxis.label,
                  *(child for child in ax.get_children() if isinstance(child, Annotation))]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = axis.get_view_interval()
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text.get_window_extent(renderer) for text in texts], figure.bbox


@pytest.mark.parametrize("make", [layer_norm_explorer, depth_of_five_seeds])
def test_no_text_is_cut_off_or_lies_on_another(make):
    explorer = make()
    extremes = [every_value(control)[:: len(every_value(control)) - 1] for control in explorer.controls.values()]
    for values in itertools.product(*extremes):
        boxes, page = written(explorer, dict(zip(explorer.controls, values, strict=True)))
        assert len(boxes) > 20
        for box in boxes:
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        for one, other in itertools.combinations(boxes, 2):
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            assert across < 1 or min(one.y1, other.y1) - max(one.y0, other.y0) < 3          # room above and below too


# LayerNorm, the function

@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3, 7), (5, 0, 6), (64,)])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1, 2])
def test_layer_norm_is_pytorchs(shape, eps):
    x = 3 * torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 5
    mean, variance, result = layer_norm.layer_norm(x, eps)
    torch.testing.assert_close(result, functional.layer_norm(x, shape[-1:], eps=eps), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mean, x.sum(-1) / shape[-1])
    torch.testing.assert_close(variance, (x - x.sum(-1, keepdim=True) / shape[-1]).pow(2).sum(-1) / shape[-1])


def test_layer_norm_of_the_worked_examples_is_biased_and_in_float64():
    for x in ([2, 4, 6, 8], (2.0, 4.0, 6.0, 8.0), np.array([2, 4, 6, 8]), torch.tensor([2, 4, 6, 8])):
        mean, variance, result = layer_norm.layer_norm(x)
        assert mean.item() == 5 and variance.item() == 5 and result.dtype == torch.float64
        np.testing.assert_allclose(result, [-1.3416, -0.4472, 0.4472, 1.3416], atol=5e-5)
    result = layer_norm.layer_norm([1, 0, 0, 0])[2]
    np.testing.assert_allclose(result, [1.73200, -0.57733, -0.57733, -0.57733], atol=5e-6)          # not 1.5, -0.5
    assert layer_norm.layer_norm([3])[2].tolist() == [0]                                            # not NaN
    inside, outside = layer_norm.layer_norm([2, 4, 6, 8], eps=4)[2][-1].item(), 3 / (math.sqrt(5) + 4)
    assert inside == pytest.approx(3 / 3) and inside != pytest.approx(outside)                      # inside the root


@pytest.mark.parametrize(("x", "eps", "error", "message"), [
    (3.0, 1e-5, ValueError, r"x must have shape \[..., d\] with d at least 1, got \[\]"),
    (torch.zeros(2, 0), 1e-5, ValueError, r"x must .* got \[2, 0\]"),
    (X, 0, ValueError, "eps must be a positive, finite number, got 0"),
    (X, -1e-5, ValueError, "eps .* got -1e-05"), (X, "1", TypeError, "eps .* got '1'")])
def test_layer_norm_names_bad_arguments(x, eps, error, message):
    with pytest.raises(error, match=message):
        layer_norm.layer_norm(x, eps)


# LayerNorm, the explorer

def vector(shift, scale, outlier):
    x = torch.tensor(X, dtype=torch.float64) * scale + shift
    x[-1] += outlier
    return x


some_vectors = pytest.mark.parametrize(
    "setting", [(0, 1.0, 0), (-10, 0.1, 0), (10, 3.0, 40), (3, 1.5, 12), (-7, 0.7, 1)])


@some_vectors
def test_layer_norm_draws_the_vector_its_deviations_and_pytorchs_result(setting):
    x = vector(*setting)
    result = functional.layer_norm(x, (4,), eps=EPS)
    deviation = x.std(unbiased=False)
    view = layer_norm_view(*setting)
    for panel, entries, mean, wide in ((VECTOR, x, x.mean(), deviation), (CENTRED, x - x.mean(), 0, deviation),
                                       (RESULT, result, 0, result.std(unbiased=False))):
        dots, = of_kind(Points, view, panel, hollow=False)
        assert (list(dots.x), dots.color) == ([0, 1, 2, 3], BLUE)
        np.testing.assert_allclose(dots.y, entries, atol=1e-9)
        level, = of_kind(Line, view, panel, color=GREEN)
        np.testing.assert_allclose(level.y, [mean, mean], atol=1e-9)
        band, = of_kind(Cells, view, panel)
        np.testing.assert_allclose(band.extent[2:], [mean - wide, mean + wide], atol=1e-9)
        sticks, = of_kind(Line, view, panel, color=layer_norm.GREY)
        ends = np.reshape(sticks.y, (4, 3))[:, :2]
        np.testing.assert_allclose(ends, np.stack([np.full(4, mean), entries], 1), atol=1e-9)
        assert [numbers(text.text) for text in of_kind(Text, view, panel)] == [
            [pytest.approx(entry, rel=6e-4, abs=1e-9)] for entry in entries.tolist()]
    rings, = of_kind(Points, view, RESULT, hollow=True)
    np.testing.assert_allclose(rings.y, functional.layer_norm(torch.tensor(X), (4,), eps=EPS), atol=1e-6)
    assert rings.color == ORANGE and rings.size > of_kind(Points, view, RESULT, hollow=False)[0].size


@some_vectors
def test_layer_norm_says_the_numbers_and_how_they_come_about(setting):
    x = vector(*setting)
    result, itself = (functional.layer_norm(each, (4,), eps=EPS) for each in (x, vector(0, 1, 0)))
    entries, mean, variance, normed, reference, shorter, apart, unbiased = layer_norm_view(*setting).values
    assert numbers(entries) == pytest.approx(x.tolist())
    for line, number in ((mean, x.mean()), (variance, x.var(unbiased=False))):      # the formula is an expression
        formula, shown = re.fullmatch(r"\w+ +=(.*)=([^(]*).*", line.replace("−", "-").replace("²", "**2")).groups()
        assert eval(formula) == pytest.approx(number.item(), abs=1e-4)
        assert float(shown) == pytest.approx(number.item(), abs=5.1e-5)
    assert "biased: ÷ 4" in variance and "un" not in variance
    assert numbers(normed.rsplit("=", 1)[1]) == pytest.approx(result.tolist(), abs=5.1e-5)
    assert numbers(reference.split("gives")[1]) == pytest.approx(
        [*itself.tolist(), (result - itself).abs().max().item()], abs=5.1e-5)
    lost = 100 * (1 - math.sqrt(x.var(unbiased=False) / (x.var(unbiased=False) + 1e-5)))
    assert numbers(shorter) == [0.00001, pytest.approx(lost, rel=0.06)]
    assert numbers(apart.split("stand")[1])[0] == pytest.approx((result[1] - result[0]).item(), abs=5.1e-5)
    assert ("squeezed by the outlier" in apart) == (setting[2] > 0)
    other = (x - x.mean()) / (x.var() + EPS).sqrt()
    assert numbers(unbiased.split("variance")[1]) == pytest.approx([x.var().item(), *other.tolist()], abs=5.1e-5)
    assert unbiased.startswith("unbiased (÷ 3)") and unbiased.endswith("not LayerNorm")


def test_layer_norm_shows_no_minus_before_a_0_that_rounding_left():
    for shift, scale, outlier in ((-10, 0.4, 32), (-10, 1.2, 16), (-10, 1.4, 12)):
        view = layer_norm_view(shift, scale, outlier)
        assert view.values[1].endswith("= 0.0000") and "mean 0.0000" in view.alt


def result_of(shift, scale, outlier):
    dots, = of_kind(Points, layer_norm_view(shift, scale, outlier), RESULT, hollow=False)
    return np.asarray(dots.y)


def test_layer_norm_forgets_shift_altogether_and_scale_up_to_eps():
    itself = result_of(0, 1.0, 0)
    for shift in SHIFTS:
        np.testing.assert_allclose(result_of(shift, 1.0, 0), itself, atol=1e-11)
    for scale in SCALES:
        change = np.abs(result_of(0, scale, 0) - itself).max()
        assert change < 1.4e-4 and (change > 1e-4) == (scale == 0.1)
    assert "largest difference 0.0001" in layer_norm_view(0, 0.1, 0).values[4]            # it can be read at 0.1
    assert "0.01 % shorter" in layer_norm_view(0, 0.1, 0).values[5]
    assert "largest difference 0.0000" in layer_norm_view(0, 0.3, 0).values[4]


def test_layer_norm_of_an_outlier_squeezes_the_others_together():
    gaps = [np.ptp(result_of(0, 1.0, outlier)[:3]) for outlier in OUTLIERS]
    assert all(nearer < farther for farther, nearer in itertools.pairwise(gaps))
    assert gaps[0] == pytest.approx(2 * 0.8944, abs=1e-4) and gaps[-1] == pytest.approx(4 / math.sqrt(365), abs=1e-4)


def test_layer_norm_keeps_every_setting_inside_its_panels():
    axes = layer_norm.background().axes
    for shift, scale, outlier in itertools.product(SHIFTS, SCALES, (0, 1, 20, 40)):
        view = layer_norm_view(shift, scale, outlier)
        for panel, ax in enumerate(axes):
            low, high = ax.get_ylim()
            entries = np.concatenate([points.y for points in of_kind(Points, view, panel)])
            top = ax.transData.transform([(0, high), (0, max(entries))])[:, 1]
            assert low < min(entries) and top[0] - top[1] > 18                            # the numbers are above


def test_layer_norm_begins_with_the_worked_example_in_a_readable_size():
    explorer = layer_norm_explorer()
    assert explorer.setting() == {"shift": 0, "scale": 1.0, "outlier": 0}
    assert [(slider.min, slider.max) for slider in explorer.controls.values()] == [(-10, 10), (0.1, 3.0), (0, 40)]
    assert explorer.controls["scale"].step == 0.1
    place = explorer.panels._places[VECTOR]
    heights = place([0, 1, 2, 3], X)[:, 1]
    assert (np.diff(-heights) > 12).all()                                                 # dots are 8 pixels across


# Depth, the stack

def by_hand(stack, residual, norm, x):
    """The layers' own parts, put together as the six names say."""
    for layer in stack.layers:
        for part, scale in ((lambda x, layer=layer: layer.attention(x)[0], layer.attention_norm),
                            (layer.feed_forward, layer.feed_forward_norm)):
            x = {
                (False, "none"): lambda x, f, g: f(x),
                (False, "pre"): lambda x, f, g: f(g(x)),
                (False, "post"): lambda x, f, g: g(f(x)),
                (True, "none"): lambda x, f, g: x + f(x),
                (True, "pre"): lambda x, f, g: x + f(g(x)),
                (True, "post"): lambda x, f, g: g(x + f(x)),
            }[residual, norm](x, part, scale)
    return functional.layer_norm(x, x.shape[-1:]) if norm == "pre" else x


def some_stack(*setting, seed=0):
    torch.manual_seed(seed)
    return Stack(*setting)


def some_tokens(seed=9):
    return torch.randn(2, 5, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("residual", "norm"), SWITCHES)
def test_the_switches_act_where_they_should(residual, norm):
    stack, x = some_stack(3, residual, norm), some_tokens()
    torch.testing.assert_close(stack(x), by_hand(stack, residual, norm, x), rtol=1e-12, atol=1e-12)
    norms = [module for module in stack.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == {"none": 0, "pre": 7, "post": 6}[norm]
    comparable = [other for other in SWITCHES if norm != "none" or other[1] == "none"]     # without norms to leave out
    assert len({by_hand(stack, *other, x)[0, 0, 0].item() for other in comparable}) == len(comparable)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_with_residual_and_norm_the_stack_is_the_librarys_encoder(norm):
    stack = some_stack(3, True, norm)
    encoder = Encoder(3, 64, 4, 256, dropout=0.0, norm=norm).double()
    encoder.load_state_dict(stack.state_dict())
    outputs = [model(some_tokens()) for model in (stack, encoder)]
    torch.testing.assert_close(*outputs, rtol=1e-12, atol=1e-12)
    for output in outputs:
        (output * some_tokens(4)).sum().backward()
    gradients = [model.layers[0].feed_forward.narrow.weight.grad for model in (stack, encoder)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)
    assert gradients[0].norm() > 1


def test_the_stack_begins_with_the_weights_of_pytorchs_own_layers_and_biases_0():
    def largest(weight):
        return weight.detach().abs().max().item()

    torch.manual_seed(0)
    theirs, wide, narrow = nn.MultiheadAttention(64, 4), torch.empty(256, 64), torch.empty(64, 256)
    for weight in (wide, narrow):
        nn.init.xavier_uniform_(weight)
    layer = some_stack(1, True, "post").layers[0]
    attention, feed_forward = layer.attention, layer.feed_forward
    for linear, like in ((attention.to_query, theirs.in_proj_weight), (attention.to_key, theirs.in_proj_weight),
                         (attention.to_value, theirs.in_proj_weight), (attention.to_output, theirs.out_proj.weight),
                         (feed_forward.widen, wide), (feed_forward.narrow, narrow)):
        assert largest(linear.weight) == pytest.approx(largest(like), rel=2e-3)
        assert linear.weight.std().item() == pytest.approx(like.std().item(), rel=0.03)
        assert not linear.bias.any() and linear.weight.dtype == torch.float64
    first, second = some_stack(1, False, "none"), some_stack(1, True, "pre")
    assert torch.equal(first.layers[0].attention.to_query.weight, second.layers[0].attention.to_query.weight)


def test_rank_one_residue_is_the_share_that_is_not_the_mean():
    x = some_tokens()
    for one, residue in zip(x.numpy(), rank_one_residue(x), strict=True):
        expected = np.sqrt(((one - one.mean(0)) ** 2).sum() / (one ** 2).sum())
        assert residue.item() == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(rank_one_residue(x - x.mean(1, keepdim=True)), torch.ones(2, dtype=torch.float64))
    assert rank_one_residue(torch.ones(3, 4)).item() == 0 and rank_one_residue(torch.zeros(3, 4)).item() == 0


# Depth, what is measured

@pytest.mark.parametrize(("residual", "norm"), [(True, "pre"), (False, "none"), (True, "none")])
def test_measure_gives_the_gradient_of_a_random_linear_loss_and_the_residues(residual, norm):
    """Against the slope of the loss itself along some directions, which knows nothing of gradients."""
    gradient, residue = measure(residual, norm, 2, seed=3)
    torch.manual_seed(3)
    stack = Stack(2, residual, norm)
    x, c = torch.randn(2, 1, 32, 64, dtype=torch.float64)
    assert len(gradient) == 2 and len(residue) == 3
    torch.testing.assert_close(residue, torch.cat([rank_one_residue(state) for state in stack.states(x)]).detach())

    @torch.no_grad()
    def loss():
        return sum(c[0, token] @ stack(x)[0, token] / 8 for token in range(32)).item() / 32

    for layer, norm_shown in zip(stack.layers, gradient, strict=True):
        weight = layer.feed_forward.narrow.weight
        (stack(x) * c / (8 * 32)).sum().backward(inputs=[weight])
        direction = weight.grad / weight.grad.norm()
        slopes = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight += step * direction
                slopes.append(loss())
                weight -= step * direction
        assert (slopes[0] - slopes[1]) / 2e-5 == pytest.approx(norm_shown.item(), rel=1e-5)     # steepest: the norm


def test_depth_runs_are_one_measurement_each():
    runs, before = measured(), torch.get_rng_state()
    assert runs.depths == (2, 12, 24) and len(runs.gradient) == len(runs.residue) == 18
    for (residual, norm), layers, seed in itertools.product(SWITCHES, (2, 12), (0, 1)):
        gradient, residue = measure(residual, norm, layers, seed)
        assert torch.equal(runs.gradient[residual, norm, layers][seed], gradient)
        assert torch.equal(runs.residue[residual, norm, layers][seed], residue)
        assert runs.gradient[residual, norm, layers].shape == (2, layers)
        assert runs.residue[residual, norm, layers].shape == (2, layers + 1)
    assert torch.equal(torch.get_rng_state(), before)


def first_gradient(residual, norm, layers):
    return measured().gradient[residual, norm, layers][:, 0].log10().mean().item()


@pytest.mark.parametrize(("residual", "norm", "expected", "within"), [
    (False, "none", (4e-2, 2e-8, 4e-16), 1), (True, "none", (2, 85, 4e6), 1.5),
    (False, "pre", (2.3, 1.3, 0.7), 0.8), (False, "post", (2.3, 1.3, 0.7), 0.8),
    (True, "post", (0.69, 0.86, 0.61), 0.6), (True, "pre", (0.62, 0.68, 0.66), 0.6)])
def test_the_first_layers_gradient_has_the_order_of_magnitude_that_the_book_tells(residual, norm, expected, within):
    for layers, norm_of_it in zip((2, 12, 24), expected, strict=True):
        assert abs(first_gradient(residual, norm, layers) - math.log10(norm_of_it)) < within


def test_the_residue_falls_without_the_residual_path_and_lasts_longest_before_the_norm():
    runs = measured()
    for norm in NORMS:
        assert (runs.residue[False, norm, 12][:, 4:] < 1e-12).all()
        assert (runs.residue[True, norm, 12] > 0.2).all()
    assert (runs.residue[True, "pre", 24][:, -1] > 1.5 * runs.residue[True, "post", 24][:, -1]).all()
    assert all(0.9 < residue[0, 0] < 1 for residue in runs.residue.values())        # what comes in


@pytest.mark.parametrize(("kind", "low", "high"), [
    ("attention", (0.7, 0.01, 1e-8, 1e-17), (0.9, 0.06, 3e-6, 1e-15)),
    ("attention and FFN", (0.5, 0.005, 1e-8, 1e-17), (0.85, 0.1, 1e-4, 2e-15)),
    ("with skip", (0.95, 0.9, 0.8, 0.7), (0.99, 0.97, 0.95, 0.93))])
def test_rank_residue_is_the_classic_collapse(kind, low, high):
    before = torch.get_rng_state()
    residues = torch.stack([rank_residue(kind, 16, seed) for seed in range(4)])
    assert torch.equal(torch.get_rng_state(), before) and residues.dtype == torch.float64
    assert torch.equal(residues[1, :3], rank_residue(kind, 16, 1)[:3])
    for layer in range(4):
        assert (low[layer] < residues[:, layer]).all() and (residues[:, layer] < high[layer]).all()
    assert ((residues[:, -1] > 0.01) & (residues[:, -1] < 0.4)).all() == (kind == "with skip")


@pytest.mark.parametrize("kind", depth.KINDS)
def test_rank_residue_is_of_the_stack_that_it_names(monkeypatch, kind):
    seen = []
    states = Stack.states
    monkeypatch.setattr(Stack, "states", lambda stack, x: seen.append((stack, x)) or states(stack, x))
    rank_residue(kind, 2, 5)
    (stack, x), = seen
    assert x.shape == (1, 32, 64) and x.std().item() == pytest.approx(1, abs=0.05)
    for layer in stack.layers:
        assert layer.residual == (kind == "with skip") and layer.norm == "none"
        assert (layer.feed_forward is not None) == (kind == "attention and FFN")
    for parameter in stack.parameters():
        if parameter.dim() == 1:
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(1 / 8, rel=0.05)
            assert parameter.abs().max() > 3 / 8                                       # normal, not uniform


@pytest.mark.parametrize(("function", "arguments", "error", "message"), [
    (depth_runs, {"seeds": 0}, ValueError, "seeds must be a whole number of at least 1, got 0"),
    (depth_runs, {"seeds": 1.5}, TypeError, "seeds must be .* got 1.5"),
    (depth_runs, {"depths": (2, 0)}, ValueError, "depth must be a whole number of at least 1, got 0"),
    (depth_runs, {"depths": ()}, ValueError, "depths must name at least one depth, got none"),
    (rank_residue, {"kind": "skip", "depth": 2, "seed": 0}, ValueError,
     "kind must be one of attention, attention and FFN, with skip, got 'skip'"),
    (rank_residue, {"kind": "attention", "depth": 0, "seed": 0}, ValueError, "depth must be .* got 0"),
    (rank_residue, {"kind": "attention", "depth": 2, "seed": -1}, ValueError, "seed must be .* got -1")])
def test_bad_arguments_are_named_before_anything_is_made(monkeypatch, function, arguments, error, message):
    monkeypatch.setattr(depth, "Stack", None)
    with pytest.raises(error, match=message):
        function(**arguments)


# Depth, the explorer

def geometric(seeds):
    return np.exp(np.log(np.asarray(seeds)).mean(0))


def curves(line, depth_shown):
    """Of a line with gaps: layers and heights of each piece."""
    x, y = np.asarray(line.x), np.asarray(line.y)
    pieces = np.split(np.arange(len(x)), np.flatnonzero(np.isnan(x)) + 1)[:-1]
    return [((depth_shown * x[piece[:-1]]).round(9), y[piece[:-1]]) for piece in pieces]


@pytest.mark.parametrize("make", [measured, functools.cache(invented)])
def test_depth_draws_the_seeds_their_mean_and_the_other_settings(make):
    runs = make()
    for (residual, norm), layers in itertools.product(SWITCHES, runs.depths):
        view = depth_view(runs, residual, norm, layers)
        for panel, runs_of, first in ((GRADIENT, runs.gradient, 1), (RESIDUE, runs.residue, 0)):
            here = runs_of[residual, norm, layers].numpy()
            pale, seeds, bold = (of_kind(Line, view, panel, color=color)[0] for color in (depth.PALE, SKY, BLUE))
            others = [geometric(runs_of[other, name, layers]) for other, name in SWITCHES
                      if (other, name) != (residual, norm)]
            for line, expected in ((pale, others), (seeds, here), (bold, [geometric(here)])):
                assert len(curves(line, layers)) == len(expected)
                for (shown, heights), row in zip(curves(line, layers), expected, strict=True):
                    assert shown[0] == first and shown[-1] == layers and (np.diff(shown) >= 1).all()
                    np.testing.assert_allclose(heights, row[shown.astype(int) - first], rtol=1e-9)
                    assert len(shown) == len(row) or len(shown) >= 9
            ends, = of_kind(Points, view, panel)
            np.testing.assert_allclose(ends.y, geometric(here)[[0, -1]], rtol=1e-9)
            assert bold.width > seeds.width


@pytest.mark.parametrize("make", [measured, functools.cache(invented)])
def test_depth_says_the_numbers_of_the_first_and_the_last_layer(make):
    runs = make()
    for (residual, norm), layers in itertools.product(SWITCHES, runs.depths):
        gradient, residue = (run[residual, norm, layers].numpy() for run in (runs.gradient, runs.residue))
        view = depth_view(runs, residual, norm, layers)
        title, *lines = view.values
        assert title == (f"{'with' if residual else 'without'} residual path, norm {norm}, depth {layers}: "
                         f"geometric mean (smallest to largest) over {len(gradient)} seeds")
        names = ["gradient norm, layer 1", f"gradient norm, layer {layers}", f"layer 1 ÷ layer {layers}",
                 f"residue after layer {layers}"]
        expected = [gradient[:, 0], gradient[:, -1], gradient[:, 0] / gradient[:, -1], residue[:, -1]]
        for name, values, line in zip(names, expected, lines, strict=True):
            said, text = line.split(": ", 1)
            assert said == name and numbers(text) == pytest.approx(
                [geometric(values), values.min(), values.max()], rel=0.06)
        assert ("no more than rounding" in lines[-1]) == (residue[:, -1] < 1e-14).all()
        assert lines[0].split()[4] in view.alt and title.split(":")[0] in view.alt


def test_depth_names_each_curve_at_its_end_in_order_and_the_chosen_one_in_its_colour():
    explorer = depth_of_few()
    for (residual, norm), layers in itertools.product(SWITCHES, measured().depths):
        view = depth_view(measured(), residual, norm, layers)
        for panel, expected, chosen in (
                (GRADIENT, {"neither", "residual only", "with a norm"},
                 "with a norm" if norm != "none" else "residual only" if residual else "neither"),
                (RESIDUE, {"no residual", "residual, no norm", "residual, pre", "residual, post"},
                 f"residual, {norm}".replace("none", "no norm") if residual else "no residual")):
            names = of_kind(Text, view, panel, align="left")
            assert {name.text for name in names} == expected
            assert [name.text for name in names if name.color == BLUE] == [chosen]
            heights = [explorer.panels._places[panel]([name.x], [name.y])[0, 1] + name.shift[1] for name in names]
            assert all(low - high > 13 for low, high in itertools.pairwise(heights))      # pixels count downwards
            runs_of = (measured().gradient, measured().residue)[panel]
            last = {name.text: name.y for name in names}
            assert last[chosen] == pytest.approx(geometric(runs_of[residual, norm, layers])[-1], rel=1e-9)
            if panel == RESIDUE:
                for each in NORMS:
                    assert last[f"residual, {each}".replace("none", "no norm")] == pytest.approx(
                        geometric(runs_of[True, each, layers])[-1], rel=1e-9)


def test_depth_numbers_the_layers_below_the_axis():
    for layers, expected in ((1, [0, 1]), (2, [0, 1, 2]), (7, [0, 2, 4, 5, 7]), (48, [0, 12, 24, 36, 48])):
        view = depth_view(invented(1, (layers,)), True, "pre", layers)
        for panel, first in ((GRADIENT, 1), (RESIDUE, 0)):
            numbered = [(mark.text, mark.x) for mark in of_kind(Text, view, panel, align="center")]
            layers_shown = sorted({max(each, first) for each in expected})
            assert numbered == [(str(each), each / layers) for each in layers_shown]


def with_extremes():
    """One seed of one setting is 0, all of another are, a third has overflowed; one depth, two layers."""
    runs = invented(2, (2,))
    runs.gradient[False, "none", 2][0] = 0
    runs.gradient[False, "pre", 2][:] = 0
    runs.gradient[True, "none", 2][:, 0] = math.inf
    runs.residue[True, "none", 2][:, -1] = math.nan
    return runs


def test_depth_shows_0_at_the_bottom_and_what_has_overflowed_at_the_top_and_says_so():
    runs = with_extremes()
    explorer = depth_explorer(runs)
    low, high = runs.ends[GRADIENT]
    assert explorer.background().axes[GRADIENT].get_ylim() == (low, high)
    for residual, norm, height, said in (
            (False, "none", low, r"0 \(0 to \d.*\)"), (True, "none", high, "beyond the largest float"),
            (False, "pre", low, r"0 \(its square is below the smallest float\)")):
        view = depth_view(runs, residual, norm, 2)
        text = explorer.panels.svg(view.marks)
        assert "nan" not in text and "inf" not in text
        bold, = of_kind(Line, view, GRADIENT, color=BLUE)
        assert bold.y[0] == height and re.fullmatch(said, view.values[1].split(": ", 1)[1].strip())
        explorer.drawn(view).draw_without_rendering()
    assert "not defined, the second is 0" in depth_view(runs, False, "pre", 2).values[3]
    assert "beyond the largest float" in depth_view(runs, True, "none", 2).values[-1]


def test_depth_axis_holds_every_gradient_norm_with_ticks_at_whole_powers():
    for runs in (measured(), invented()):
        gradient, residue = depth.background(runs).axes
        every = torch.cat([norms.flatten() for norms in runs.gradient.values()])
        low, high = gradient.get_ylim()
        assert low < every.min() / 10 and high > every.max() * 10 and gradient.get_yscale() == "log"
        ticks = np.log10(gradient.get_yticks())
        assert 0 in ticks and len(ticks) <= 14 and np.allclose(ticks, ticks.round())
        assert residue.get_ylim()[0] < 0 and residue.get_ylim()[1] > 1


def test_depth_explorer_begins_with_neither_and_depth_24():
    explorer = depth_of_few()
    assert explorer.setting() == {"residual": False, "norm": "none", "depth": 24}
    assert list(explorer.controls["norm"].options) == ["none", "pre", "post"]
    assert list(explorer.controls["depth"].options) == [2, 12, 24]
