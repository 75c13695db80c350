"""Attention and the layer: torch's own as oracle, the laws of order, rows without a key, half precision, bad input."""
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from posenc_lib import MultiHeadAttention, Position, SinusoidalEncoding, attention, causal_mask

seeds = st.integers(0, 10_000)
EXACT = {"rtol": 0, "atol": 1e-6}


def random(seed):
    """Random numbers of their own: `random(seed)(2, 3)` is a `[2, 3]` tensor, the next call gives others."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator)


def some_of(seed, *shape):
    """A random mask in which every query may attend to at least one key."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(*shape, generator=generator) < 0.6
    return mask.scatter(-1, torch.randint(shape[-1], (*shape[:-1], 1), generator=generator), True)


# torch's own attention

@given(leading=st.sampled_from([(), (3,), (2, 4)]), queries=st.integers(1, 9), keys=st.integers(1, 9),
       width=st.integers(1, 16), value_width=st.integers(1, 16), masked=st.booleans(), seed=seeds)
def test_attention_is_torchs(leading, queries, keys, width, value_width, masked, seed):
    made = random(seed)
    query, key, value = made(*leading, queries, width), made(*leading, keys, width), made(*leading, keys, value_width)
    mask = made(*leading, queries, keys) > 0 if masked else None              # now and then a row without any True
    output, weights = attention(query, key, value, mask)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(output, expected, **EXACT)
    torch.testing.assert_close(weights @ value, expected, **EXACT)


@given(heads=st.sampled_from([1, 2, 3]), seed=seeds, masked=st.booleans())
def test_one_mask_serves_all_batches_and_heads(heads, seed, masked):
    made = random(seed)
    query, key, value = made(2, heads, 4, 5), made(2, heads, 6, 5), made(2, heads, 6, 5)
    mask = made(4, 6) > 0
    output, _ = attention(query, key, value, mask)
    torch.testing.assert_close(output, attention(query, key, value, mask.expand(2, heads, 4, 6))[0], rtol=0, atol=0)
    torch.testing.assert_close(output, scaled_dot_product_attention(query, key, value, attn_mask=mask), **EXACT)


def copied(d_model, n_heads, seed=0):
    """Our layer and torch's with the same weights; torch keeps those of queries, keys and values in one matrix."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ours, theirs = MultiHeadAttention(d_model, n_heads), nn.MultiheadAttention(d_model, n_heads, batch_first=True)
    inward = ours.to_query, ours.to_key, ours.to_value
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in inward]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in inward]))
    theirs.out_proj.load_state_dict(ours.to_output.state_dict())
    return ours.eval(), theirs.eval()


@given(d_head=st.integers(1, 8), n_heads=st.sampled_from([1, 2, 4, 5]), queries=st.integers(1, 7),
       keys=st.integers(1, 7), seed=seeds, which=st.sampled_from(["no mask", "[queries, keys]", "padding", "per head"]))
def test_layer_is_torchs_with_copied_weights(d_head, n_heads, queries, keys, seed, which):
    """torch's True means 'may not', so each mask goes in the other way round there."""
    d_model, made = d_head * n_heads, random(seed)
    ours, theirs = copied(d_model, n_heads, seed)
    query, key, value = made(3, queries, d_model), made(3, keys, d_model), made(3, keys, d_model)
    mask, for_torch = None, {}
    if which == "[queries, keys]":
        mask = some_of(seed, queries, keys)
        for_torch = {"attn_mask": ~mask}
    elif which == "padding":
        padding = some_of(seed, 3, keys)
        mask, for_torch = padding[:, None, None, :], {"key_padding_mask": ~padding}
    elif which == "per head":
        mask = some_of(seed, 3, n_heads, queries, keys)
        for_torch = {"attn_mask": ~mask.flatten(0, 1)}
    output, weights = ours(query, key, value, mask=mask)
    expected, expected_weights = theirs(query, key, value, need_weights=True, average_attn_weights=False, **for_torch)
    torch.testing.assert_close(output, expected, **EXACT)
    torch.testing.assert_close(weights, expected_weights, **EXACT)
    assert weights.shape == (3, n_heads, queries, keys)


def test_key_and_value_default_to_the_query_and_value_to_the_key():
    layer, made = copied(8, 2)[0], random(0)
    x, memory = made(2, 5, 8), made(2, 7, 8)
    for short, long in (((x,), (x, x, x)), ((x, memory), (x, memory, memory))):
        for ours, expected in zip(layer(*short), layer(*long), strict=True):
            assert torch.equal(ours, expected)


# The laws of order

@given(seed=seeds, n_heads=st.sampled_from([1, 2, 4]), order=st.permutations(range(7)), padded=st.booleans())
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_without_positions_the_output_moves_along_with_the_words(dtype, tolerance, seed, n_heads, order, padded):
    x, padding = random(seed)(2, 7, 64).to(dtype), some_of(seed, 2, 7)
    layer = copied(64, n_heads, seed)[0].to(dtype)
    output, weights = layer(x, mask=padding[:, None, None, :] if padded else None)
    moved, moved_weights = layer(x[:, order], mask=padding[:, None, None, order] if padded else None)
    torch.testing.assert_close(moved, output[:, order], rtol=0, atol=tolerance)
    torch.testing.assert_close(moved_weights, weights[:, :, order][..., order], rtol=0, atol=tolerance)    # P A Pᵀ
    torch.testing.assert_close(moved.mean(1), output.mean(1), rtol=0, atol=tolerance)         # the mean forgets order


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("order", [[1, 0, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 6, 2, 4]])
def test_positions_or_a_causal_mask_break_the_symmetry(seed, order):
    x, layer = random(seed)(1, 7, 64), copied(64, 4, seed)[0]
    add = SinusoidalEncoding(64, dropout=0.0)
    for words, moved, mask in ((add(x), add(x[:, order]), None), (x, x[:, order], causal_mask(7))):
        assert (layer(moved, mask=mask)[0] - layer(words, mask=mask)[0][:, order]).abs().max() > 1e-2


def test_a_causal_mask_looks_back_and_not_ahead():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    layer, x = copied(8, 2)[0], random(0)(1, 4, 8)
    output, weights = layer(x, mask=causal_mask(4))
    assert (weights.triu(1) == 0).all() and (weights[:, :, 0, 0] == 1).all()
    changed = x.clone()
    changed[0, 1] += 5
    difference = (layer(changed, mask=causal_mask(4))[0] - output).abs().amax(-1)[0]
    assert difference[0] == 0 and (difference[1:] > 1e-3).all()


# Rows of weights

@given(seed=seeds, masked=st.booleans(), keys=st.integers(0, 6))
def test_a_row_of_weights_adds_up_to_one_or_is_all_zero(seed, masked, keys):
    mask = torch.rand(2, 3, 5, keys, generator=torch.Generator().manual_seed(seed)) < 0.3 if masked else None
    made = random(seed)
    _, weights = copied(6, 3, seed)[0](made(2, 5, 6), made(2, keys, 6), mask=mask)
    may = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    assert (weights[~may] == 0).all() and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), may.any(-1).float(), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (1, 5), (4, 1), (2, 3, 4, 5), (2, 1, 4, 5), (2, 1, 1, 5),
                                   (1, 3, 4, 1), (1, 1, 4, 5)])
def test_a_query_that_may_attend_to_nothing_takes_nothing(dtype, shape):
    """Masks of every accepted shape, in which query 1 of sentence 0, or whatever its row stands for, may do nothing."""
    mask = torch.ones(shape, dtype=torch.bool)
    row = (0,) * (len(shape) - 2) + (min(1, shape[-2] - 1),)
    mask[row] = False
    nothing = ~mask.expand(2, 3, 4, 5).any(-1)
    assert nothing.any()
    made = random(0)
    layer = copied(6, 3)[0].to(dtype)
    query, key = (x.to(dtype).requires_grad_() for x in (made(2, 4, 6), made(2, 5, 6)))
    output, weights = layer(query, key, mask=mask)
    assert (weights[nothing] == 0).all() and weights.isfinite().all() and output.isfinite().all()
    alone = nothing.all(1)                                                    # no head of this query sees anything
    bias = layer.to_output.bias.expand(int(alone.sum()), 6)
    torch.testing.assert_close(output[alone], bias, rtol=0, atol=0)
    with torch.autograd.set_detect_anomaly(True):                             # no NaN on the way back either
        output.square().sum().backward()
    gradients = [query.grad, key.grad, *(weight.grad for weight in layer.parameters())]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (query.grad[alone] == 0).all()

    heads = layer.split(query.detach()), layer.split(key.detach())
    taken, _ = attention(*heads, heads[1], mask)
    assert (taken[nothing] == 0).all() and (taken[~nothing] != 0).any(-1).all()


# Precision and dropout

@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_half_precision_does_not_overflow(dtype, masked):
    """300 · 300 · 64 is far beyond float16's 65504, and the products of a query and a key are as large."""
    query, key, value = (300 * random(0)(3, 2, 2, 5, 64)).to(dtype)
    mask = causal_mask(5) if masked else None
    output, weights = attention(query, key, value, mask)
    assert output.dtype == weights.dtype == dtype
    assert output.isfinite().all() and weights.isfinite().all()
    expected, _ = attention(query.double(), key.double(), value.double(), mask)
    torch.testing.assert_close(output.double(), expected, rtol=3 * torch.finfo(dtype).eps, atol=0.1)

    layer = MultiHeadAttention(64, 2).to(dtype).eval()
    output, weights = layer(query[:, 0] * 2, mask=mask)
    assert output.dtype == weights.dtype == dtype
    assert output.isfinite().all() and weights.isfinite().all()


def test_scores_of_half_precision_are_computed_in_float32():
    """In bfloat16 itself the scores 256 and 257 would be one number, and the keys share alike."""
    query, key = torch.tensor([[16.0, 1.0]]).bfloat16(), torch.tensor([[16.0, 0.0], [16.0, 1.0]]).bfloat16()
    _, weights = attention(query, key, key)
    torch.testing.assert_close(weights[0, 1].item(), 1 / (1 + math.exp(-1 / math.sqrt(2))), rtol=0, atol=3e-3)


class Listening(Position):
    """Does nothing, and remembers what came to each door."""

    def __init__(self):
        super().__init__()
        self.doors, self.positions, self.weights = [], None, None

    def embed(self, x, position=None):
        self.doors.append("embed")
        return x

    def rotate(self, query, key, query_position, key_position):
        self.doors.append("rotate")
        self.positions = query_position, key_position
        return query, key

    def score(self, query, query_position, key_position):
        self.doors.append("score")
        return 0.0

    def value(self, weights, query_position, key_position):
        self.doors.append("value")
        self.weights = weights
        return 0.0


def test_dropout_only_in_training_and_on_the_weights_that_are_used():
    heard = Listening()
    layer, x = MultiHeadAttention(8, 2, heard, dropout=0.5), random(0)(4, 20, 8)
    expected, expected_weights = layer.eval()(x)
    assert torch.equal(heard.weights, expected_weights) and torch.equal(layer(x)[0], expected)
    output, weights = layer.train()(x)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=0)     # returned: without dropout
    used = heard.weights                                                      # what the value door saw as well
    assert 0.4 < (used == 0).float().mean() < 0.6
    torch.testing.assert_close(used[used != 0], 2 * weights[used != 0])
    heads = used @ layer.split(layer.to_value(x))
    torch.testing.assert_close(output, layer.to_output(heads.transpose(1, 2).flatten(2)))
    assert (output - expected).abs().max() > 1e-3


def test_mask_and_positions_may_come_from_the_processor():
    """Masks and positions are often made without a device; `meta` stands for a GPU here."""
    heard = Listening()
    layer, x = MultiHeadAttention(8, 2, heard).to("meta"), torch.zeros(2, 3, 8, device="meta")
    output, weights = layer(x, mask=causal_mask(3), query_position=torch.arange(3))
    assert all(seen.device.type == "meta" for seen in (output, weights, *heard.positions))


# Bad input

@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: MultiHeadAttention(10, 3), ValueError, "n_heads must divide d_model, got n_heads = 3 and d_model = 10"),
    (lambda: MultiHeadAttention(8, 0), ValueError, "n_heads must be a whole number of at least 1, got 0"),
    (lambda: MultiHeadAttention(8, -2), ValueError, "n_heads .* got -2"),
    (lambda: MultiHeadAttention(8, 2.5), TypeError, "n_heads .* got 2.5"),
    (lambda: MultiHeadAttention(8, True), TypeError, "n_heads .* got True"),
    (lambda: MultiHeadAttention(0, 1), ValueError, "d_model .* got 0"),
    (lambda: MultiHeadAttention("8", 1), TypeError, "d_model .* got '8'"),
    (lambda: MultiHeadAttention(8, 2, "rotary"), TypeError, "position must be a Position or None, got str"),
    (lambda: MultiHeadAttention(8, 2, Position), TypeError, "position must be a Position or None, got type"),
    (lambda: MultiHeadAttention(8, 2, nn.Identity()), TypeError, "position .* got Identity"),
    (lambda: MultiHeadAttention(8, 2, dropout=1.0), ValueError, "dropout .* got 1.0"),
    (lambda: MultiHeadAttention(8, 2, dropout="a"), TypeError, "dropout .* got 'a'"),
    (lambda: causal_mask(0), ValueError, "length .* got 0"),
    (lambda: causal_mask(2.0), TypeError, "length .* got 2.0"),
])
def test_bad_settings_are_named_before_a_random_number_is_drawn(call, error, message):
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        call()
    assert torch.equal(torch.get_rng_state(), before)


X, MEMORY = torch.zeros(2, 4, 8), torch.zeros(2, 5, 8)
FITS = r"mask must have shape \[queries, keys\] = \[4, 5\] or \[2, 2, 4, 5\]"
DTYPE = r"mask must be a boolean tensor \(torch.bool\), True = may attend, got"


def ones(*shape, dtype=torch.bool):
    return torch.ones(shape, dtype=dtype)


@pytest.mark.parametrize(("mask", "error", "message"), [
    (ones(4, 5, dtype=torch.float32), TypeError, rf"{DTYPE} dtype torch.float32.* pass mask.bool\(\)"),
    (ones(4, 5, dtype=torch.int64), TypeError, rf"{DTYPE} dtype torch.int64.* pass mask.bool\(\)"),
    (ones(4, 5, dtype=torch.uint8), TypeError, rf"{DTYPE} dtype torch.uint8"),
    (np.ones((4, 5), dtype=bool), TypeError, f"{DTYPE} ndarray"),
    ([[True] * 5] * 4, TypeError, f"{DTYPE} list"),
    (True, TypeError, f"{DTYPE} bool"),
    (ones(2, 5), ValueError, rf"{FITS}.* got \[2, 5\]\. A padding mask \[batch, keys\] goes in as "
                             r"mask\[:, None, None, :\]"),
    (ones(5, 4), ValueError, rf"{FITS}.* got \[5, 4\]"),
    (ones(5), ValueError, rf"{FITS}.* got \[5\]"),
    (ones(2, 4, 5), ValueError, rf"{FITS}.* got \[2, 4, 5\]"),
    (ones(3, 1, 4, 5), ValueError, rf"{FITS}.* got \[3, 1, 4, 5\]"),
    (ones(2, 4, 4, 5), ValueError, rf"{FITS}.* got \[2, 4, 4, 5\]"),
    (ones(1, 2, 2, 4, 5), ValueError, rf"{FITS}.* got \[1, 2, 2, 4, 5\]"),
])
def test_bad_masks_are_named(mask, error, message):
    with pytest.raises(error, match=message):
        MultiHeadAttention(8, 2)(X, MEMORY, mask=mask)
    split = torch.zeros(2, 2, 4, 4), torch.zeros(2, 2, 5, 4)
    with pytest.raises(error, match=message):
        attention(*split, split[1], mask)


def test_the_way_to_write_a_padding_mask_fits_the_axes():
    """What the message proposes is right for as many axes as there are."""
    query, padding = torch.zeros(2, 4, 8), ones(2, 4)[:, :3]
    with pytest.raises(ValueError, match=r"goes in as mask\[:, None, :\]"):
        attention(query, query[:, :3], query[:, :3], padding)
    attention(query, query[:, :3], query[:, :3], padding[:, None, :])
    MultiHeadAttention(8, 2)(query, query[:, :3], mask=padding[:, None, None, :])


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((X[0],), ValueError, r"query must be .*\[batch, seq, 8\], got shape \[4, 8\]"),
    ((X[..., :6],), ValueError, r"query .* got shape \[2, 4, 6\]: its last axis is 6 wide"),
    ((X, MEMORY[..., :6]), ValueError, r"key .* got shape \[2, 5, 6\]: its last axis is 6 wide"),
    ((X, MEMORY, MEMORY[..., :6]), ValueError, r"value .* got shape \[2, 5, 6\]"),
    ((X, MEMORY[:1]), ValueError, "key must have the batch of query, 2, got 1"),
    ((X, MEMORY, MEMORY[:1]), ValueError, "value must have the batch of query, 2, got 1"),
    ((X, MEMORY, X), ValueError, "value must have one row per key, 5, got 4"),
    ((X.long(),), TypeError, "query .* got dtype torch.int64"),
    ((X, MEMORY.int()), TypeError, "key .* got dtype torch.int32"),
    ((X, MEMORY, MEMORY.bool()), TypeError, "value .* got dtype torch.bool"),
    ((X.tolist(),), TypeError, "query .* got list"),
])
def test_bad_tokens_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        MultiHeadAttention(8, 2)(*arguments)


@pytest.mark.parametrize("name", ["query_position", "key_position"])
@pytest.mark.parametrize(("wrong", "error", "message"), [
    (torch.arange(6), ValueError, r"got shape \[6\]"),
    (torch.zeros(3, 4, dtype=torch.int64), ValueError, r"got shape \[3, 4\]"),
    (torch.zeros(4, 1, dtype=torch.int64), ValueError, r"got shape \[4, 1\]"),
    (torch.zeros(2, 4, 1, dtype=torch.int64), ValueError, r"got shape \[2, 4, 1\]"),
    (torch.tensor(3), ValueError, r"got shape \[\]"),
    (torch.arange(4.0), TypeError, "got dtype torch.float32"),
    (torch.ones(4, dtype=torch.bool), TypeError, "got dtype torch.bool"),
    ([0, 1, 2, 3], TypeError, "got list"),
    (0, TypeError, "got int"),
])
def test_bad_positions_are_named(name, wrong, error, message):
    with pytest.raises(error, match=rf"{name} must be an integer tensor of shape \[4\] or \[2, 4\], {message}"):
        MultiHeadAttention(8, 2)(X, **{name: wrong})


def test_self_attention_without_positions_hands_one_and_the_same_tensor_to_every_door():
    """So a scheme that looks for it need not turn, or look up, the same positions twice."""
    class Recording(Position):
        def __init__(self):
            super().__init__()
            self.handed = []

        def rotate(self, query, key, query_position, key_position):
            self.handed.append((query_position, key_position))
            return query, key

        def score(self, query, query_position, key_position):
            self.handed.append((query_position, key_position))
            return 0.0

        def value(self, weights, query_position, key_position):
            self.handed.append((query_position, key_position))
            return 0.0

    position = torch.arange(4) + 3
    for arguments, one_tensor, expected in (
            ({}, True, (range(4), range(4))),
            ({"key": X}, True, (range(4), range(4))),
            ({"value": MEMORY[:, :4], "mask": causal_mask(4)}, True, (range(4), range(4))),
            ({"key": X.clone()}, False, (range(4), range(4))),
            ({"key": MEMORY}, False, (range(4), range(5))),
            ({"query_position": position}, False, (range(3, 7), range(4))),
            ({"key_position": position}, False, (range(4), range(3, 7))),
            ({"query_position": position, "key_position": position + 1}, False, (range(3, 7), range(4, 8)))):
        scheme = Recording()
        MultiHeadAttention(8, 2, scheme)(X, **arguments)
        assert len(scheme.handed) == 3
        for query_position, key_position in scheme.handed:
            assert (query_position is key_position) == one_tensor
            assert [query_position.tolist(), key_position.tolist()] == [[list(numbers)] for numbers in expected]


def test_small_integers_do_not_turn_offsets_around():
    """In uint8 the offset 0 - 1 would be 255."""
    class Offset(Position):
        def score(self, query, query_position, key_position):
            self.offset = key_position[:, None, :] - query_position[:, :, None]
            return 0.0

    for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
        scheme, position = Offset(), torch.arange(4, dtype=dtype)
        MultiHeadAttention(8, 2, scheme)(X, query_position=position, key_position=position)
        assert scheme.offset.tolist() == [[[0, 1, 2, 3], [-1, 0, 1, 2], [-2, -1, 0, 1], [-3, -2, -1, 0]]]
    shifted = SinusoidalEncoding(8, dropout=0.0).embed(X, torch.arange(4, dtype=torch.uint8))
    torch.testing.assert_close(shifted, SinusoidalEncoding(8, dropout=0.0).embed(X), rtol=0, atol=0)


@pytest.mark.parametrize("bad", [
    {"mask": ones(2, 5)}, {"mask": ones(4, 5, dtype=torch.float32)}, {"query_position": torch.arange(5)},
    {"key_position": torch.arange(4)}, {"value": X}, {"value": MEMORY.long()},
])
def test_no_door_opens_and_no_random_number_is_drawn_before_the_error(bad):
    heard = Listening()
    layer = MultiHeadAttention(8, 2, heard, dropout=0.5)
    before = torch.get_rng_state()
    with pytest.raises((TypeError, ValueError)):
        layer(X, MEMORY, **bad)
    assert heard.doors == [] and torch.equal(torch.get_rng_state(), before)
    layer(X, MEMORY)
    assert heard.doors == ["rotate", "score", "value"]        # door 1 belongs to whoever owns the embedding


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((X, MEMORY[..., :6], MEMORY), ValueError, "query and key must be equally wide, got 8 and 6"),
    ((X, MEMORY, X), ValueError, "value must have one row per key: got 4 rows for 5 keys"),
    ((X, MEMORY[:1], MEMORY[:1]), ValueError, r"key must have the leading axes of query, \[2\], got \[1\]"),
    ((X, MEMORY, MEMORY[0]), ValueError, r"value must have the leading axes of query, \[2\], got \[\]"),
    ((X[0, 0], MEMORY[0], MEMORY[0]), ValueError, r"query must be .*\[..., rows, width\], got shape \[8\]"),
    ((X.tolist(), MEMORY, MEMORY), TypeError, "query must be a floating-point tensor .* got list"),
    ((X, MEMORY.numpy(), MEMORY), TypeError, "key must be a floating-point tensor .* got ndarray"),
    ((X.long(), MEMORY.long(), MEMORY.long()), TypeError, r"query must be .* got dtype torch.int64: query.float\(\)"),
    ((X, MEMORY, MEMORY.long()), TypeError, r"value must be .* got dtype torch.int64: value.float\(\)"),
])
def test_bad_arguments_of_the_function_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        attention(*arguments)


def test_whole_numbers_of_other_libraries_are_welcome():
    layer = MultiHeadAttention(np.int64(8), np.int32(2))
    assert layer(X)[1].shape == (2, 2, 4, 4) and causal_mask(np.int64(3)).shape == (3, 3)


@settings(max_examples=20)
@given(seed=seeds)
def test_gradients_are_those_of_torch(seed):
    ours, theirs = copied(12, 3, seed)
    x, mask = random(seed)(2, 5, 12), some_of(seed, 5, 5)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine, mask=mask)[0].square().sum().backward()
    theirs(other, other, other, attn_mask=~mask)[0].square().sum().backward()
    torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.to_output.weight.grad, theirs.out_proj.weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_does_not_overflow_either(dtype):
    query, key = (torch.full((1, 3, 64), 300.0, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", dtype):
        output, weights = attention(query, key, torch.ones(1, 3, 64))
    assert output.isfinite().all() and torch.allclose(weights.float(), torch.full((1, 3, 3), 1 / 3), atol=1e-3)


def test_a_score_without_its_four_axes_is_refused():
    class Flat(Position):
        def score(self, query, query_position, key_position):
            return torch.zeros(2, 5, 5)                             # [batch, queries, keys], and there are two heads

    with pytest.raises(ValueError, match=r"score of Flat must have the four axes .* got shape \[2, 5, 5\]"):
        MultiHeadAttention(8, 2, position=Flat())(torch.zeros(2, 5, 8))


def test_an_empty_sentence_with_positions_is_an_empty_result():
    layer, empty = MultiHeadAttention(8, 2), torch.zeros(2, 0, 8)
    for position in (torch.zeros(0, dtype=torch.long), torch.zeros(2, 0, dtype=torch.long)):
        assert layer(empty, query_position=position)[0].shape == (2, 0, 8)
        assert SinusoidalEncoding(8)(empty, position).shape == (2, 0, 8)


def test_dtypes_that_differ_are_named():
    with pytest.raises(TypeError, match=r"value must have the dtype of query, torch\.float32, got torch\.float64"):
        attention(torch.zeros(2, 4), torch.zeros(3, 4), torch.zeros(3, 4).double())


def test_a_scheme_that_is_called_opens_its_first_door():
    x = torch.randn(1, 3, 8)
    assert torch.equal(Position()(x), x)
