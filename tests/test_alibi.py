"""ALiBi: the slopes, the published forms, laws in the layer, bad input."""
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc_lib import Position, causal_mask
from posenc_lib.alibi import Alibi, alibi_slopes
from tests.third_door import (
    assert_padding_on_the_left_changes_nothing,
    assert_word_by_word_is_the_whole_sentence,
    layer_of,
    random,
)

N_HEADS, D_HEAD = 6, 4
D_MODEL = N_HEADS * D_HEAD


def layer_with(scheme):
    return layer_of(D_MODEL, N_HEADS, scheme)


def bias(scheme, query_position, key_position, dtype=torch.float64):
    query = torch.ones(1, scheme.total_heads, len(query_position), 1, dtype=dtype)
    return scheme.score(query, torch.tensor([query_position]), torch.tensor([key_position]))


# Slopes

@pytest.mark.parametrize(("n_heads", "first", "last"), [
    (1, [2**-8], [2**-8]),
    (2, [2**-4, 2**-8], [2**-8]),
    (8, [0.5, 0.25], [0.0078125, 0.00390625]),
    (16, [2**-0.5, 0.5], [2**-8]),
    (3, [0.0625, 0.00390625, 0.25], [0.25]),
    (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125], [0.125]),
    (10, [0.5, 0.25], [0.00390625, 2**-0.5, 2**-1.5]),
    (12, [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625], [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
])
def test_known_slopes_in_their_order(n_heads, first, last):
    slopes = alibi_slopes(n_heads)
    assert slopes.shape == (n_heads,) and slopes.dtype == torch.float64
    assert slopes[: len(first)].tolist() == pytest.approx(first, rel=1e-12)
    assert slopes[-len(last):].tolist() == pytest.approx(last, rel=1e-12)


def test_printed_slopes_of_twelve_and_ten_heads():
    assert [round(slope, 6) for slope in alibi_slopes(12)[8:].tolist()] == [0.707107, 0.353553, 0.176777, 0.088388]
    assert [round(slope, 6) for slope in alibi_slopes(10)[8:].tolist()] == [0.707107, 0.353553]
    assert alibi_slopes(12)[0].item() != pytest.approx(0.629961, abs=1e-3)             # 2^(-8/12)


@given(n_heads=st.integers(1, 200))
def test_slopes_are_those_of_the_power_below_then_every_other_of_the_power_above(n_heads):
    lower = 2 ** math.floor(math.log2(n_heads))
    below, above = ([2 ** (-8 * (head + 1) / power) for head in range(power)] for power in (lower, 2 * lower))
    assert alibi_slopes(n_heads).tolist() == pytest.approx((below + above[::2])[:n_heads], rel=1e-12)
    assert len(alibi_slopes(n_heads).unique()) == n_heads


# The bias

def test_each_score_loses_slope_times_distance():
    m, n = torch.tensor([[0, 1, 2], [40, 3, 3]]), torch.tensor([[0, 1, 2, 3], [-1, 9, 60, 3]])
    score = Alibi(N_HEADS).score(random(2, N_HEADS, 3, D_HEAD), m, n)
    assert score.shape == (2, N_HEADS, 3, 4)
    for b, head, i, j in torch.cartesian_prod(*map(torch.arange, score.shape)).tolist():
        distance = abs(n[b, j].item() - m[b, i].item())
        assert score[b, head, i, j].item() == pytest.approx(-alibi_slopes(N_HEADS)[head].item() * distance, rel=1e-12)


def test_the_heads_beyond_n_heads_have_no_slope():
    score = bias(Alibi(4, total_heads=8), [0, 1, 2, 3, 4], [0, 1, 2])
    assert score.shape == (1, 8, 5, 3)
    torch.testing.assert_close(score[:, :4], bias(Alibi(4), [0, 1, 2, 3, 4], [0, 1, 2]), rtol=0, atol=0)
    assert (score[:, 4:] == 0).all() and (score[0, :4, 4, 0] < 0).all()


def test_the_published_forms_agree_under_a_causal_mask_and_only_there():
    """Slope ½, four words: rows of slope·n, -slope·(m - n) and -slope·|m - n|."""
    m, n = torch.arange(4.0)[:, None], torch.arange(4.0)[None, :]
    forms = [0.5 * n.expand(4, 4), -0.5 * (m - n), bias(Alibi(8), [0, 1, 2, 3], [0, 1, 2, 3], torch.float32)[0, 0]]
    masked = [form.masked_fill(~causal_mask(4), -math.inf).softmax(-1) for form in forms]
    free = [form.softmax(-1) for form in forms]
    torch.testing.assert_close(masked[1], masked[0])
    torch.testing.assert_close(masked[2], masked[0])
    torch.testing.assert_close(free[1], free[0])
    assert (free[2] - free[0]).abs().max() > 0.1


class SlopeTimesKeyPosition(Position):
    """The form many programs use: the same for every query."""

    def score(self, query, query_position, key_position):
        return alibi_slopes(N_HEADS)[:, None, None] * key_position[:, None, None, :]


class SlopeTimesOffset(Position):
    """The paper's figure without its mask: it goes on rising after the query."""

    def score(self, query, query_position, key_position):
        offset = key_position[:, None, None, :] - query_position[:, None, :, None]
        return alibi_slopes(N_HEADS)[:, None, None] * offset


@pytest.mark.parametrize("form", [SlopeTimesKeyPosition, SlopeTimesOffset])
@torch.no_grad()
def test_a_layer_takes_the_published_forms_for_one_under_a_causal_mask_only(form):
    ours, theirs, x = layer_with(Alibi(N_HEADS)), layer_with(form()), random(2, 6, D_MODEL)
    torch.testing.assert_close(theirs(x, mask=causal_mask(6))[0], ours(x, mask=causal_mask(6))[0], rtol=0, atol=1e-12)
    assert (theirs(x)[0] - ours(x)[0]).abs().max() > 1e-2


@torch.no_grad()
def test_the_layer_adds_the_bias_to_the_scaled_product():
    layer, x = layer_with(Alibi(N_HEADS)), random(2, 7, D_MODEL)
    query, key = (part(x).unflatten(2, (N_HEADS, D_HEAD)).transpose(1, 2) for part in (layer.to_query, layer.to_key))
    distance = (torch.arange(7)[None, :] - torch.arange(7)[:, None]).abs()
    weights = (query @ key.mT / 2 - alibi_slopes(N_HEADS)[:, None, None] * distance).softmax(-1)     # √d_head = 2
    torch.testing.assert_close(layer(x)[1], weights, rtol=0, atol=1e-12)


# Laws

@given(shift=st.integers(-10_000, 10_000), seed=st.integers(0, 99))
@torch.no_grad()
def test_only_the_offset_counts(shift, seed):
    layer, x = layer_with(Alibi(N_HEADS)), random(2, 5, D_MODEL, seed=seed)
    position = torch.tensor([[0, 1, 2, 3, 4], [3, 9, 4, 4, 0]])
    here, _ = layer(x, query_position=position, key_position=position)
    moved, _ = layer(x, query_position=position + shift, key_position=position + shift)
    torch.testing.assert_close(moved, here, rtol=0, atol=1e-12)
    assert (layer(x, query_position=position + 1, key_position=position)[0] - here).abs().max() > 1e-3


@torch.no_grad()
def test_without_a_mask_a_sentence_read_backwards_gives_its_outputs_backwards():
    """Two layers deep, with residuals: an encoder with ALiBi alone cannot tell left from right. It does know order."""
    first, second, x = layer_with(Alibi(N_HEADS)), layer_with(Alibi(N_HEADS)), random(2, 6, D_MODEL)

    def encoder(x):
        x = x + first(x)[0]
        return x + second(x)[0]

    torch.testing.assert_close(encoder(x.flip(1)), encoder(x).flip(1), rtol=0, atol=1e-12)
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    assert (encoder(x[:, order]) - encoder(x)[:, order]).abs().max() > 1e-2
    causal = first(x.flip(1), mask=causal_mask(6))[0] - first(x, mask=causal_mask(6))[0].flip(1)
    assert causal.abs().max() > 1e-2


def test_word_by_word_is_the_whole_sentence_at_once():
    assert_word_by_word_is_the_whole_sentence(layer_with(Alibi(N_HEADS)), 7)


def test_padding_on_the_left_changes_nothing():
    assert_padding_on_the_left_changes_nothing(layer_with(Alibi(N_HEADS)))


# The module

def test_there_is_nothing_to_learn_and_nothing_to_save():
    scheme = Alibi(N_HEADS)
    assert not list(scheme.parameters()) and not scheme.state_dict()
    layer_with(scheme).load_state_dict(layer_with(None).state_dict())           # a checkpoint without it fits


def test_gradients_pass_to_the_words():
    layer, x = layer_with(Alibi(N_HEADS)), random(1, 4, D_MODEL).requires_grad_()
    layer(x)[0].square().sum().backward()
    assert (x.grad.abs().amax(-1) > 0).all() and layer.to_query.weight.grad.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casts_do_not_spoil_the_slopes_or_far_distances(dtype):
    """In float16 a distance of 70 000 would be infinite and the slope 2^-½ off by 1e-4."""
    score = bias(Alibi(N_HEADS + 6).to(dtype), [0], [1, 70_000], dtype)
    assert score.dtype == torch.float32
    for column, distance in enumerate([1, 70_000]):
        torch.testing.assert_close(score[0, :, 0, column].double(), -alibi_slopes(12) * distance, rtol=1e-7, atol=0)
    back = bias(Alibi(N_HEADS + 6).to(dtype).double(), [0], [1, 70_000])
    torch.testing.assert_close(back[0, :, 0, 1], -alibi_slopes(12) * 70_000, rtol=1e-15, atol=0)
    output, weights = layer_with(Alibi(N_HEADS)).to(dtype)(random(2, 6, D_MODEL).to(dtype))
    assert output.dtype == weights.dtype == dtype and output.isfinite().all()


def test_autocast_changes_no_score():
    plain = bias(Alibi(12), [1000], [0, 3], torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(bias(Alibi(12), [1000], [0, 3], torch.float32), plain)
        assert layer_with(Alibi(N_HEADS)).float()(torch.ones(1, 3, D_MODEL))[0].isfinite().all()


def test_made_without_memory_it_works_at_once():
    with torch.device("meta"):
        scheme = Alibi(4, total_heads=5)
    scheme.to_empty(device="cpu")
    torch.testing.assert_close(bias(scheme, [3], [0]), bias(Alibi(4, total_heads=5), [3], [0]), rtol=0, atol=0)


def test_one_for_all_layers_or_one_each_is_the_same():
    shared, x = Alibi(N_HEADS), random(1, 4, D_MODEL)
    assert torch.equal(layer_with(shared)(layer_with(shared)(x)[0])[0],
                       layer_with(Alibi(N_HEADS))(layer_with(Alibi(N_HEADS))(x)[0])[0])


# Bad input

@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: alibi_slopes(0), ValueError, r"n_heads must be a whole number of at least 1, got 0"),
    (lambda: alibi_slopes(8.0), TypeError, r"n_heads must be .* got 8\.0 \(float\)"),
    (lambda: Alibi(0), ValueError, r"n_heads must be a whole number of at least 1, got 0"),
    (lambda: Alibi("8"), TypeError, r"n_heads must be .* got '8' \(str\)"),
    (lambda: Alibi(8, total_heads=4), ValueError, r"total_heads must be at least n_heads = 8, got 4"),
    (lambda: Alibi(8, total_heads=8.5), TypeError, r"total_heads must be .* got 8\.5 \(float\)"),
    (lambda: Alibi(2, total_heads=3).score(torch.ones(1, 1, 3, 4), *[torch.arange(3)[None]] * 2), ValueError,
     r"query must have the 3 heads this Alibi was made for, got 1"),
])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
