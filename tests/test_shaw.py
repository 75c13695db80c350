"""Shaw's relative positions: the rows, both halves of the door against slow loops, laws in the layer, bad input."""
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_lib import MultiHeadAttention
from posenc_lib.shaw import Shaw, shaw_index
from tests.third_door import (
    assert_padding_on_the_left_changes_nothing,
    assert_word_by_word_is_the_whole_sentence,
    layer_of,
    random,
)

D_HEAD, N_HEADS, CLIP = 5, 3, 2
D_MODEL = D_HEAD * N_HEADS


def shaw(max_offset=CLIP, **settings):
    scheme = Shaw(D_HEAD, max_offset, **settings).double()
    for seed, table in enumerate(scheme.parameters()):
        table.data = random(*table.shape, seed=50 + seed)
    return scheme


def layer_with(scheme):
    return layer_of(D_MODEL, N_HEADS, scheme)


# The rows

def test_the_rows_of_four_words_with_a_clip_of_two():
    index = shaw_index(4, 2)
    assert index.tolist() == [[2, 3, 4, 4], [1, 2, 3, 4], [0, 1, 2, 3], [0, 0, 1, 2]] and index.dtype == torch.int64


def test_a_sentence_longer_than_the_clip_stays_inside_the_table():
    """Without the clip, 11 words would ask a table of 19 rows for rows -1 to 19."""
    index = shaw_index(11, 9)
    assert index.min() == 0 and index.max() == 18
    assert index[0, 9] == index[0, 10] == 18 and index[9, 0] == index[10, 0] == 0
    assert shaw_index(1000, 3).unique().tolist() == list(range(7))


@given(length=st.integers(1, 40), max_offset=st.integers(0, 50))
def test_each_row_is_the_clipped_offset(length, max_offset):
    index = shaw_index(length, max_offset).tolist()
    for m in range(length):
        assert index[m] == [min(max(n - m, -max_offset), max_offset) + max_offset for n in range(length)]


# Both halves against a loop over batch, head, query and key

POSITIONS = {                                                                   # queries' and keys' positions
    "three words, nothing masked": ([[0, 1, 2]], [[0, 1, 2]]),
    "more keys than queries": ([[4, 5]], [[0, 1, 2, 3, 4, 5]]),
    "positions per row": ([[0, 1, 2], [7, 3, 3]], [[0, 1, 2, 3], [-1, 9, 4, 3]]),
    "queries per row, keys the same for all": ([[0, 5], [2, 2]], [[1, 0, 8]]),
    "queries the same for all, keys per row": ([[6]], [[6, 5, 4, 3], [6, 7, 8, 9]]),
}


def row(m, n):
    return min(max(n - m, -CLIP), CLIP) + CLIP


@pytest.mark.parametrize("case", POSITIONS)
def test_the_score_is_the_querys_product_with_the_offsets_vector(case):
    m, n = (torch.tensor(position) for position in POSITIONS[case])
    scheme, query = shaw(), random(2, N_HEADS, m.shape[1], D_HEAD)
    score = scheme.score(query, m, n)
    assert score.shape == (2, N_HEADS, m.shape[1], n.shape[1])
    m, n = m.expand(2, -1).tolist(), n.expand(2, -1).tolist()
    for b, head, i, j in torch.cartesian_prod(*map(torch.arange, score.shape)).tolist():
        vector = scheme.key_table[row(m[b][i], n[b][j])].tolist()
        product = sum(q * a for q, a in zip(query[b, head, i].tolist(), vector, strict=True))
        assert score[b, head, i, j].item() == pytest.approx(product / math.sqrt(D_HEAD), abs=1e-12)


@pytest.mark.parametrize("case", POSITIONS)
def test_the_value_is_the_weighted_sum_of_the_offsets_vectors(case):
    m, n = (torch.tensor(position) for position in POSITIONS[case])
    scheme, weights = shaw(), random(2, N_HEADS, m.shape[1], n.shape[1]).softmax(-1)
    value = scheme.value(weights, m, n)
    assert value.shape == (2, N_HEADS, m.shape[1], D_HEAD)
    m, n = m.expand(2, -1).tolist(), n.expand(2, -1).tolist()
    for b, head, i in torch.cartesian_prod(*map(torch.arange, value.shape[:3])).tolist():
        expected = sum(weight * scheme.value_table[row(m[b][i], place)]
                       for weight, place in zip(weights[b, head, i].tolist(), n[b], strict=True))
        torch.testing.assert_close(value[b, head, i], expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_layer_is_equations_three_and_four():
    """`a` joins the key before the product and the value before the sum; no mask, so both sides are read."""
    layer, x = layer_with(shaw()), random(2, 6, D_MODEL)
    query, key, value = (part(x).unflatten(2, (N_HEADS, D_HEAD))
                         for part in (layer.to_query, layer.to_key, layer.to_value))
    scheme, heads = layer.position, torch.zeros(2, 6, N_HEADS, D_HEAD, dtype=torch.float64)
    for b, head, i in torch.cartesian_prod(torch.arange(2), torch.arange(N_HEADS), torch.arange(6)).tolist():
        scores = torch.stack([query[b, i, head] @ (key[b, j, head] + scheme.key_table[row(i, j)]) for j in range(6)])
        weights = (scores / math.sqrt(D_HEAD)).softmax(0)
        heads[b, i, head] = sum(weights[j] * (value[b, j, head] + scheme.value_table[row(i, j)]) for j in range(6))
    torch.testing.assert_close(layer(x)[0], layer.to_output(heads.flatten(2)), rtol=0, atol=1e-12)


def test_no_tensor_of_queries_keys_and_width_is_made():
    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.numbers = max(self.numbers, result.numel())
            return result

    scheme, position = Shaw(64, 4), torch.arange(32)[None]
    with Largest() as seen:
        scheme.score(torch.ones(1, 1, 32, 64), position, position)
        scheme.value(torch.ones(1, 1, 32, 32), position, position)
    assert 32 * 32 <= seen.numbers <= 32 * 64


# Laws

@given(shift=st.integers(-10_000, 10_000), seed=st.integers(0, 99))
@torch.no_grad()
def test_only_the_offset_counts(shift, seed):
    layer, x = layer_with(shaw()), random(2, 5, D_MODEL, seed=seed)
    position = torch.tensor([[0, 1, 2, 3, 4], [3, 9, 4, 4, 0]])
    here, _ = layer(x, query_position=position, key_position=position)
    moved, _ = layer(x, query_position=position + shift, key_position=position + shift)
    torch.testing.assert_close(moved, here, rtol=0, atol=1e-12)
    assert (layer(x, query_position=position + 1, key_position=position)[0] - here).abs().max() > 1e-3


@torch.no_grad()
def test_beyond_the_clip_all_distances_look_alike():
    scheme, query, here = shaw(), random(1, N_HEADS, 1, D_HEAD), torch.tensor([[0]])
    score = scheme.score(query, here, torch.tensor([[2, 3, 500, -2, -90, 1]]))[0, 0, 0]
    assert score[0] == score[1] == score[2] and score[3] == score[4] and len(score.unique()) == 3


@torch.no_grad()
def test_a_clip_of_zero_tells_no_order():
    layer, x, order = layer_with(shaw(0)), random(2, 5, D_MODEL), torch.tensor([3, 0, 4, 1, 2])
    assert layer.position.key_table.shape == (1, D_HEAD)
    torch.testing.assert_close(layer(x[:, order])[0], layer(x)[0][:, order], rtol=0, atol=1e-12)
    ordered = layer_with(shaw(1))
    assert (ordered(x[:, order])[0] - ordered(x)[0][:, order]).abs().max() > 1e-2


@torch.no_grad()
def test_a_sentence_read_backwards_is_another_sentence():
    layer, x = layer_with(shaw()), random(2, 6, D_MODEL)
    assert (layer(x.flip(1))[0] - layer(x)[0].flip(1)).abs().max() > 1e-2


def test_word_by_word_is_the_whole_sentence_at_once():
    assert_word_by_word_is_the_whole_sentence(layer_with(shaw()), 7)


def test_padding_on_the_left_changes_nothing():
    assert_padding_on_the_left_changes_nothing(layer_with(shaw()))


# The module

def test_without_values_the_second_half_is_left_out():
    scheme = shaw(values=False)
    assert [name for name, _ in scheme.named_parameters()] == ["key_table"]
    assert scheme.value(torch.ones(1, N_HEADS, 2, 2), torch.arange(2)[None], torch.arange(2)[None]) == 0.0
    with torch.no_grad():
        whole, x = shaw(), random(1, 4, D_MODEL)
        whole.value_table.zero_()
        torch.testing.assert_close(layer_with(scheme)(x)[0], layer_with(whole)(x)[0], rtol=0, atol=1e-12)


def test_the_tables_are_shared_by_the_heads_and_begin_small_and_unlike():
    scheme = Shaw(8, 3)
    for table in (scheme.key_table, scheme.value_table):
        assert table.shape == (7, 8) and 0 < table.abs().max() <= math.sqrt(6 / (7 + 8)) and len(table.unique()) > 50
    assert not torch.equal(scheme.key_table, scheme.value_table)


def test_gradients_are_right_and_reach_every_row():
    scheme, position = shaw(), torch.arange(4)[None]
    query, weights = random(2, N_HEADS, 4, D_HEAD).requires_grad_(), random(2, N_HEADS, 4, 4, seed=1).requires_grad_()
    layer_with(scheme)(random(2, 4, D_MODEL))[0].square().sum().backward()
    for table in scheme.parameters():
        assert (table.grad.abs().amax(1) > 0).all()
    assert torch.autograd.gradcheck(lambda q, table: scheme.score(q, position, position), (query, scheme.key_table))
    assert torch.autograd.gradcheck(lambda w, table: scheme.value(w, position, position), (weights, scheme.value_table))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_layer_keeps_the_dtype(dtype):
    layer = layer_with(shaw()).to(dtype)
    output, weights = layer(random(2, 6, D_MODEL).to(dtype))
    assert output.dtype == weights.dtype == dtype and output.isfinite().all()


def test_scores_in_half_precision_do_not_overflow():
    scheme, position = Shaw(8, 1).half(), torch.arange(2)[None]
    scheme.key_table.data.fill_(300)
    score = scheme.score(torch.full((1, 1, 2, 8), 300.0).half(), position, position)
    torch.testing.assert_close(score, torch.full((1, 1, 2, 2), 300 * 300 * 8 / math.sqrt(8)))


def test_a_small_weight_is_not_lost_beside_a_large_one_of_the_same_row():
    """In bfloat16 the sum ½ + 2^-10 would be ½, and the two sides would cancel."""
    scheme = Shaw(1, 1).bfloat16()
    scheme.value_table.data = torch.tensor([[1.0], [0.0], [-1.0]]).bfloat16()
    weights = torch.tensor([[[[0.5, 2**-10, 0.5]]]]).bfloat16()
    value = scheme.value(weights, torch.tensor([[0]]), torch.tensor([[-5, -4, 5]]))
    assert value.item() == 2**-10 and value.dtype == torch.bfloat16


def test_autocast_rounds_nothing():
    scheme, position = Shaw(16, 2), torch.arange(5)[None]
    query, weights = torch.randn(2, 3, 5, 16), torch.rand(2, 3, 5, 5)
    score, value = scheme.score(query, position, position), scheme.value(weights, position, position)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scheme.score(query, position, position), score)
        assert torch.equal(scheme.value(weights, position, position), value)
        assert layer_with(shaw()).float()(torch.ones(1, 3, D_MODEL))[0].isfinite().all()


def test_a_layer_each_or_one_for_both():
    shared, own = Shaw(D_HEAD, CLIP), [Shaw(D_HEAD, CLIP) for _ in range(2)]
    count = 2 * (2 * CLIP + 1) * D_HEAD

    def numbers(*schemes):
        layers = nn.ModuleList(MultiHeadAttention(D_MODEL, N_HEADS, scheme) for scheme in schemes)
        return sum(parameter.numel() for name, parameter in layers.named_parameters() if "table" in name)

    assert numbers(shared, shared) == count and numbers(*own) == 2 * count


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same():
    saved, other, x = layer_with(shaw()), layer_with(Shaw(D_HEAD, CLIP)), random(1, 5, D_MODEL)
    assert not torch.equal(other(x)[0], saved(x)[0])
    other.load_state_dict(saved.state_dict())
    assert torch.equal(other(x)[0], saved(x)[0])


def test_it_is_made_without_memory_and_filled_later():
    with torch.device("meta"):
        scheme = Shaw(8, 2)
    assert scheme.key_table.is_meta
    scheme.to_empty(device="cpu")
    for table in scheme.parameters():
        table.data.fill_(math.nan)
    scheme.reset_parameters()
    assert all(table.isfinite().all() and len(table.unique()) > 30 for table in scheme.parameters())


# Bad input

@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: shaw_index(0, 2), ValueError, r"length must be a whole number of at least 1, got 0"),
    (lambda: shaw_index(4.0, 2), TypeError, r"length must be .* got 4\.0 \(float\)"),
    (lambda: shaw_index(4, -1), ValueError, r"max_offset must be a whole number of at least 0, got -1"),
    (lambda: shaw_index(4, 1.5), TypeError, r"max_offset must be .* got 1\.5 \(float\)"),
    (lambda: Shaw(0, 2), ValueError, r"d_head must be a whole number of at least 1, got 0"),
    (lambda: Shaw("8", 2), TypeError, r"d_head must be .* got '8' \(str\)"),
    (lambda: Shaw(8, -2), ValueError, r"max_offset must be a whole number of at least 0, got -2"),
    (lambda: Shaw(8, True), TypeError, r"max_offset must be .* got True \(bool\)"),
    (lambda: Shaw(8, 2).score(torch.ones(1, 2, 3, 4), *[torch.arange(3)[None]] * 2), ValueError,
     r"query must be d_head = 8 wide in each head, got 4"),
])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
