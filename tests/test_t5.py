"""T5's buckets and bias: known numbers, exact boundaries, laws in the layer, bad input."""
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from posenc_lib import MultiHeadAttention
from posenc_lib.t5 import T5Bias, t5_bucket
from tests.third_door import (
    assert_padding_on_the_left_changes_nothing,
    assert_word_by_word_is_the_whole_sentence,
    layer_of,
    random,
)

N_HEADS, D_HEAD = 3, 4
D_MODEL = N_HEADS * D_HEAD


def t5_bias(**settings):
    scheme = T5Bias(N_HEADS, **settings).double()
    scheme.bias.data = 2 * random(*scheme.bias.shape, seed=50)
    return scheme


def layer_with(scheme):
    return layer_of(D_MODEL, N_HEADS, scheme)


def starts(bucket):
    """The distances 1 … at which a new bucket begins."""
    return [distance for distance in range(1, len(bucket)) if bucket[distance] != bucket[distance - 1]]


# Buckets

def test_buckets_of_offsets_key_minus_query():
    known = {0: 0, -1: 1, -7: 7, -8: 8, -12: 9, -16: 10, -32: 12, -64: 14, -90: 14, -91: 15, -128: 15, -100_000: 15,
             1: 17, 7: 23, 8: 24, 16: 26, 90: 30, 91: 31, 100_000: 31}
    assert t5_bucket(torch.tensor(list(known))).tolist() == list(known.values())


def test_bucket_16_is_never_used():
    """It would hold a key 0 places after the query."""
    assert t5_bucket(torch.arange(-500, 501)).unique().tolist() == [*range(16), *range(17, 32)]


def test_where_the_wide_buckets_begin():
    distance = torch.arange(2000)
    before, after = t5_bucket(-distance), t5_bucket(distance)
    assert starts(before) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert torch.equal(after[1:], before[1:] + 16)
    causal = t5_bucket(-distance, bidirectional=False)
    assert starts(causal) == [*range(1, 17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert causal[16] == 16 and causal[113] == 31


def test_a_causal_bias_puts_keys_after_the_query_in_bucket_0():
    assert (t5_bucket(torch.arange(0, 300), bidirectional=False) == 0).all()


def test_everything_far_shares_the_last_bucket_and_max_distance_moves_it():
    far = torch.arange(91, 50_000, 97)
    assert (t5_bucket(-far) == 15).all() and (t5_bucket(far) == 31).all()
    assert (t5_bucket(-torch.arange(113, 50_000, 97), bidirectional=False) == 31).all()
    assert t5_bucket(torch.tensor([-90, -112])).tolist() == [14, 15]
    assert t5_bucket(torch.tensor([-112]), bidirectional=False).tolist() == [30]
    wider = t5_bucket(torch.tensor([-128, -1_000, -5_000, -40_000]), max_distance=40_000)
    assert wider.tolist() == [10, 12, 14, 15]


SETTINGS = [(32, 128, True), (32, 128, False), (4, 2, True), (2, 7, False), (33, 50, False), (8, 6, True),
            (64, 16_384, True), (256, 512, False), (320, 800, True), (12, 1000, True), (34, 100, True),
            (34, 991, False), (48, 81, False), (24, 889, False)]     # here a float32 logarithm errs at 236, 54 and 621


@pytest.mark.parametrize(("num_buckets", "max_distance", "bidirectional"), SETTINGS)
def test_every_bucket_is_the_formula_in_exact_fractions(num_buckets, max_distance, bidirectional):
    """`floor(wide log(distance/exact) / log(max/exact))` is the last j with `(max/exact)^j ≤ (distance/exact)^wide`."""
    buckets = num_buckets // 2 if bidirectional else num_buckets
    exact, wide = buckets // 2, buckets - buckets // 2
    powers = [Fraction(max_distance, exact) ** step for step in range(wide)]
    of_distance, steps = [], 0
    for distance in range(2001):
        if distance >= exact:
            while steps + 1 < wide and powers[steps + 1] <= Fraction(distance, exact) ** wide:
                steps += 1
        of_distance.append(distance if distance < exact else exact + steps)
    after = [bucket + buckets for bucket in of_distance[1:]] if bidirectional else [0] * 2000
    found = t5_bucket(torch.arange(-2000, 2001), num_buckets=num_buckets, max_distance=max_distance,
                      bidirectional=bidirectional)
    assert found.tolist() == of_distance[::-1] + after


@given(factor=st.integers(2, 9), steps=st.integers(1, 12), buckets_a_step=st.integers(1, 4))
def test_distances_on_a_boundary_are_in_the_bucket_that_begins_there(factor, steps, buckets_a_step):
    """From the exact distances to the end the distance grows by a whole factor `steps` times, each some buckets on."""
    exact = steps * buckets_a_step
    settings = {"num_buckets": 2 * exact, "max_distance": exact * factor**steps, "bidirectional": False}
    boundary = torch.tensor([exact * factor**step for step in range(steps)])
    bucket = t5_bucket(-boundary, **settings)
    assert bucket.tolist() == [exact + step * buckets_a_step for step in range(steps)]
    assert (t5_bucket(1 - boundary, **settings) < bucket).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_integers_and_any_shape(dtype):
    offset = torch.tensor([[[-128, 127], [-1, 0]]], dtype=dtype)
    bucket = t5_bucket(offset)
    assert bucket.tolist() == [[[15, 31], [1, 0]]] and bucket.dtype == torch.int64
    assert t5_bucket(torch.tensor(-9)).shape == () and t5_bucket(torch.zeros(0, 3, dtype=dtype)).shape == (0, 3)


# The bias

def test_each_head_reads_its_own_number_of_the_bucket():
    scheme = t5_bias(num_buckets=8, max_distance=20)
    m, n = torch.tensor([[0, 1, 2], [40, 3, 3]]), torch.tensor([[0, 1, 2, 3], [-1, 9, 60, 3]])
    score = scheme.score(random(2, N_HEADS, 3, D_HEAD), m, n)
    assert score.shape == (2, N_HEADS, 3, 4)
    for b, head, i, j in torch.cartesian_prod(*map(torch.arange, score.shape)).tolist():
        bucket = t5_bucket(n[b, j] - m[b, i], num_buckets=8, max_distance=20)
        assert score[b, head, i, j] == scheme.bias[bucket, head]
    same_for_all = scheme.score(random(2, N_HEADS, 3, D_HEAD), m[:1], n[:1])
    assert same_for_all.shape == (1, N_HEADS, 3, 4) and torch.equal(same_for_all[0], score[0])


def test_settings_reach_the_buckets():
    m, n = torch.tensor([[50]]), torch.arange(100)[None]
    for settings in ({"num_buckets": 8}, {"max_distance": 64}, {"bidirectional": False}):
        scheme = t5_bias(**settings)
        score = scheme.score(random(1, N_HEADS, 1, D_HEAD), m, n)[0, :, 0]
        assert torch.equal(score, scheme.bias[t5_bucket(n[0] - 50, **settings)].T)
        assert not torch.equal(t5_bucket(n - 50, **settings), t5_bucket(n - 50))


@torch.no_grad()
def test_the_bias_is_added_to_the_scaled_product():
    layer, x = layer_with(t5_bias()), random(2, 6, D_MODEL)
    query, key = (part(x).unflatten(2, (N_HEADS, D_HEAD)).transpose(1, 2) for part in (layer.to_query, layer.to_key))
    bucket = t5_bucket(torch.arange(6)[None, :] - torch.arange(6)[:, None])
    weights = (query @ key.mT / 2 + layer.position.bias[bucket].permute(2, 0, 1)).softmax(-1)       # √d_head = 2
    torch.testing.assert_close(layer(x)[1], weights, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_upper_half_is_for_keys_after_the_query():
    layer, x = layer_with(t5_bias()), random(1, 5, D_MODEL)
    layer.position.bias.zero_()
    layer.position.bias[17] = 1000.0                                            # the next word
    assert torch.equal(layer(x)[1][0, 0, :4].argmax(-1), torch.arange(1, 5))
    layer.position.bias[17], layer.position.bias[1] = 0.0, 1000.0               # the word before
    assert torch.equal(layer(x)[1][0, 0, 1:].argmax(-1), torch.arange(4))


@given(shift=st.integers(-10_000, 10_000), seed=st.integers(0, 99))
@torch.no_grad()
def test_only_the_offset_counts(shift, seed):
    layer, x = layer_with(t5_bias()), random(2, 5, D_MODEL, seed=seed)
    position = torch.tensor([[0, 1, 2, 3, 4], [3, 90, 4, 4, 0]])
    here, _ = layer(x, query_position=position, key_position=position)
    moved, _ = layer(x, query_position=position + shift, key_position=position + shift)
    torch.testing.assert_close(moved, here, rtol=0, atol=1e-12)
    assert (layer(x, query_position=position + 1, key_position=position)[0] - here).abs().max() > 1e-3


@torch.no_grad()
def test_a_sentence_read_backwards_is_another_sentence_unless_both_halves_agree():
    layer, x = layer_with(t5_bias()), random(2, 6, D_MODEL)
    assert (layer(x.flip(1))[0] - layer(x)[0].flip(1)).abs().max() > 1e-2
    layer.position.bias[16:] = layer.position.bias[:16].clone()
    torch.testing.assert_close(layer(x.flip(1))[0], layer(x)[0].flip(1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_word_by_word_is_the_whole_sentence_at_once(bidirectional):
    assert_word_by_word_is_the_whole_sentence(layer_with(t5_bias(bidirectional=bidirectional)), 20)


def test_padding_on_the_left_changes_nothing():
    assert_padding_on_the_left_changes_nothing(layer_with(t5_bias()))


@torch.no_grad()
def test_cross_attention_has_no_bias():
    """The model's self-attention shares one bias; its cross-attention is given no scheme and looks at no offset."""
    scheme = t5_bias()
    own, cross = layer_with(scheme), layer_with(None)
    x, memory, elsewhere = random(1, 3, D_MODEL), random(1, 5, D_MODEL, seed=1), torch.tensor([20, 50, 3])
    query, key = (part.unflatten(2, (N_HEADS, D_HEAD)).transpose(1, 2)
                  for part in (cross.to_query(x), cross.to_key(memory)))
    plain = (query @ key.mT / 2).softmax(-1)
    for position in (None, elsewhere):
        torch.testing.assert_close(cross(x, memory, query_position=position)[1], plain, rtol=0, atol=1e-12)
    assert (own(x, memory)[1] - plain).abs().max() > 1e-2                       # the mistake


# The module

def test_one_bias_for_all_layers_is_counted_once():
    scheme = T5Bias(N_HEADS)
    layers = nn.ModuleList(MultiHeadAttention(D_MODEL, N_HEADS, scheme) for _ in range(2))
    plain = nn.ModuleList(MultiHeadAttention(D_MODEL, N_HEADS) for _ in range(2))
    numbers, without = (sum(p.numel() for p in stack.parameters()) for stack in (layers, plain))
    assert numbers - without == 32 * N_HEADS
    layers[1](layers[0](torch.ones(1, 4, D_MODEL))[0])[0].sum().backward()
    assert layers[0].position.bias.grad is layers[1].position.bias.grad is not None


def test_gradients_reach_exactly_the_buckets_in_use():
    layer = layer_with(t5_bias())
    layer(random(2, 4, D_MODEL))[0].square().sum().backward()
    reached = (layer.position.bias.grad != 0).all(1)
    assert reached.nonzero().flatten().tolist() == [0, 1, 2, 3, 17, 18, 19]


def test_the_table_begins_small_and_unlike():
    bias = T5Bias(8).bias
    assert bias.shape == (32, 8) and 0 < bias.abs().max() <= (6 / (32 + 8)) ** 0.5 and len(bias.unique()) > 200


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same():
    saved, other, x = layer_with(t5_bias()), layer_with(T5Bias(N_HEADS)), random(1, 5, D_MODEL)
    assert "position.bias" in saved.state_dict() and not torch.equal(other(x)[0], saved(x)[0])
    other.load_state_dict(saved.state_dict())
    assert torch.equal(other(x)[0], saved(x)[0])


def test_it_is_made_without_memory_and_filled_later():
    with torch.device("meta"):
        scheme = T5Bias(N_HEADS)
    assert scheme.bias.is_meta
    scheme.to_empty(device="cpu")
    scheme.bias.data.fill_(float("nan"))
    scheme.reset_parameters()
    score = scheme.score(torch.ones(1, N_HEADS, 2, D_HEAD), torch.arange(2)[None], torch.arange(2)[None])
    assert score.isfinite().all() and len(score.unique()) == 3 * N_HEADS


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_layer_keeps_the_dtype_and_the_buckets(dtype):
    """A logarithm in bfloat16 would name wrong buckets for distances 16, 32 and 90; the buckets know no dtype."""
    scheme, n = t5_bias().to(dtype), torch.arange(200)[None]
    score = scheme.score(torch.ones(1, N_HEADS, 1, D_HEAD, dtype=dtype), n[:, -1:], n)
    assert torch.equal(score[0, :, 0], scheme.bias[t5_bucket(n[0] - 199)].T)
    output, weights = layer_with(scheme).to(dtype)(random(2, 6, D_MODEL).to(dtype))
    assert output.dtype == weights.dtype == dtype and output.isfinite().all()


def test_autocast_changes_no_score():
    scheme, position = T5Bias(N_HEADS), torch.arange(40)[None]
    score = scheme.score(torch.ones(1, N_HEADS, 40, D_HEAD), position, position)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scheme.score(torch.ones(1, N_HEADS, 40, D_HEAD), position, position), score)
        assert layer_with(t5_bias()).float()(torch.ones(1, 3, D_MODEL))[0].isfinite().all()


# Bad input

ONE = torch.tensor([1])


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: t5_bucket(ONE.float()), TypeError, r"relative_position must be an integer .* got dtype torch\.float32"),
    (lambda: t5_bucket(ONE.bool()), TypeError, r"relative_position must be an integer .* got dtype torch\.bool"),
    (lambda: t5_bucket([1, 2]), TypeError, r"relative_position must be an integer tensor, got list"),
    (lambda: t5_bucket(ONE, num_buckets=3), ValueError, r"num_buckets must be a whole number of at least 4, got 3"),
    (lambda: t5_bucket(ONE, num_buckets=33), ValueError, r"num_buckets must be even when bidirectional.* got 33"),
    (lambda: t5_bucket(ONE, num_buckets=1, bidirectional=False), ValueError,
     r"num_buckets must be a whole number of at least 2, got 1"),
    (lambda: t5_bucket(ONE, num_buckets=32.0), TypeError, r"num_buckets must be .* got 32\.0 \(float\)"),
    (lambda: t5_bucket(ONE, max_distance=8), ValueError,
     r"max_distance must be greater than 8.* num_buckets = 32, got 8"),
    (lambda: t5_bucket(ONE, max_distance=16, bidirectional=False), ValueError,
     r"max_distance must be greater than 16.* num_buckets = 32, got 16"),
    (lambda: t5_bucket(ONE, max_distance=128.0), TypeError, r"max_distance must be .* got 128\.0 \(float\)"),
    (lambda: T5Bias(0), ValueError, r"n_heads must be a whole number of at least 1, got 0"),
    (lambda: T5Bias(None), TypeError, r"n_heads must be .* got None \(NoneType\)"),
    (lambda: T5Bias(2, num_buckets=31), ValueError, r"num_buckets must be even when bidirectional.* got 31"),
    (lambda: T5Bias(2, max_distance=8), ValueError, r"max_distance must be greater than 8.* got 8"),
    (lambda: T5Bias(2).score(torch.ones(1, 1, 3, 4), *[torch.arange(3)[None]] * 2), ValueError,
     r"query must have the 2 heads this T5Bias was made for, got 1"),
])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_least_that_is_allowed():
    assert t5_bucket(torch.arange(-3, 4), num_buckets=4, max_distance=2).tolist() == [1, 1, 1, 0, 3, 3, 3]
    causal = t5_bucket(torch.arange(-3, 4), num_buckets=2, max_distance=2, bidirectional=False)
    assert causal.tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert t5_bucket(-ONE * 9, max_distance=9).tolist() == [15]
