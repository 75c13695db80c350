"""Rotary positions: laws, a slow loop, frozen numbers, precision, gradients, the layer with caches, bad input."""
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_lib import MultiHeadAttention, attention, causal_mask, frequencies
from posenc_lib.rotary import Rotary, apply_rotary, convert_projection, rotary_permutation

LAYOUTS = ["interleaved", "half"]
layouts = st.sampled_from(LAYOUTS)
even_widths = st.integers(1, 20).map(lambda half: 2 * half)
seeds = st.integers(0, 1000)
CLOSE = {"rtol": 0, "atol": 1e-5}
ROUNDING = {"rtol": 0, "atol": 1e-6}              # memory in another order may be rounded in another order


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def columns(pair, layout, rotary_dim):
    return (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + rotary_dim // 2)


def by_loop(x, position, layout="interleaved", rotary_dim=None, base=10_000.0):
    """Number by number, as complex numbers in Python's float64; `position` is a list of lists, one row per batch."""
    rotary_dim, result = rotary_dim or x.shape[-1], x.to(torch.float64, copy=True)
    for batch, head, place in torch.cartesian_prod(*map(torch.arange, x.shape[:3])).tolist():
        vector = x[batch, head, place].tolist()
        for pair in range(rotary_dim // 2):
            a, b = columns(pair, layout, rotary_dim)
            angle = position[batch][place] * base ** (-2 * pair / rotary_dim)
            point = complex(vector[a], vector[b]) * complex(math.cos(angle), math.sin(angle))
            result[batch, head, place, a], result[batch, head, place, b] = point.real, point.imag
    return result


def row(*numbers, dtype=torch.float64):
    return torch.tensor(numbers, dtype=dtype).view(1, 1, 1, -1)


def at(x, position, **settings):
    """The one vector `x` `[1, 1, 1, d_head]` at the one position."""
    return apply_rotary(x, torch.tensor([position]), **settings)


# The formula

@given(data=st.data(), batch=st.integers(1, 3), heads=st.integers(1, 3), seq=st.integers(1, 5), d_head=even_widths,
       layout=layouts, base=st.sampled_from([100.0, 10_000.0, 500_000.0]), per_row=st.booleans(), seed=seeds)
def test_it_is_the_slow_loop(data, batch, heads, seq, d_head, layout, base, per_row, seed):
    rotary_dim = 2 * data.draw(st.integers(1, d_head // 2))
    numbers = st.lists(st.integers(-50, 100_000), min_size=seq, max_size=seq)
    position = data.draw(st.lists(numbers, min_size=batch, max_size=batch)) if per_row else [data.draw(numbers)]
    x = random(batch, heads, seq, d_head, seed=seed, dtype=torch.float64)
    given_position = torch.tensor(position if per_row else position[0])
    turned = apply_rotary(x, given_position, layout=layout, rotary_dim=rotary_dim, base=base)
    expected = by_loop(x, position if per_row else position * batch, layout, rotary_dim, base)
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seq", [0, 1, 63, 64, 65, 300])
def test_positions_count_from_zero_by_default(seq, dtype, layout):
    x = random(2, 3, seq, 8, dtype=dtype)
    atol = 1e-6 if dtype == torch.float32 else 1e-12
    for position in (torch.arange(seq), torch.arange(seq).expand(2, seq), torch.arange(seq)[None]):
        torch.testing.assert_close(apply_rotary(x, layout=layout), apply_rotary(x, position, layout=layout),
                                   rtol=0, atol=atol)


def test_known_numbers_of_both_layouts():
    x = row(1, 2, 3, 4)
    torch.testing.assert_close(at(x, 1), row(-1.14264, 1.92208, 2.95985, 4.02980), rtol=0, atol=5e-6)
    torch.testing.assert_close(at(x, 1, layout="half"), row(-1.98411, 1.95990, 2.46238, 4.01980), rtol=0, atol=5e-6)
    for layout in LAYOUTS:
        assert torch.equal(at(x, 0, layout=layout), x)


def test_each_row_of_the_batch_has_its_own_positions():
    x, position = random(2, 3, 4, 6), torch.tensor([[5, 0, 3, 9], [2, 8, 8, 40]])
    turned = apply_rotary(x, position)
    for number in range(2):
        alone = apply_rotary(x[number : number + 1], position[number])
        torch.testing.assert_close(turned[number : number + 1], alone, **ROUNDING)
    assert not torch.allclose(turned, apply_rotary(x, position[0]), atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
                                   torch.uint32, torch.uint64, torch.float32, torch.float64])
def test_positions_may_be_integers_of_any_kind_or_wide_floats(dtype):
    x, position = random(1, 2, 3, 8), torch.tensor([0, 100, 127])
    torch.testing.assert_close(apply_rotary(x, position.to(dtype)), apply_rotary(x, position), rtol=0, atol=0)


@given(p=st.floats(-100, 100), layout=layouts)
def test_a_fraction_of_a_position_is_that_fraction_of_the_turn(p, layout):
    x = row(1, 2, 3, 4)
    twice = at(at(x, p / 2, layout=layout), p / 2, layout=layout)
    whole = apply_rotary(x, torch.tensor([p], dtype=torch.float64), layout=layout)
    torch.testing.assert_close(twice, whole, rtol=0, atol=1e-4)                        # p / 2 came as a float32
    assert whole[0, 0, 0, 0].item() == pytest.approx(math.cos(p) - (2 if layout == "interleaved" else 3) * math.sin(p))


# Laws

@given(m=st.integers(900, 1100), n=st.integers(900, 1100), shift=st.integers(-900, 900), layout=layouts, seed=seeds,
       rotary_dim=st.sampled_from([None, 2, 24, 62]))
def test_scores_depend_on_the_offset_only(m, n, shift, layout, seed, rotary_dim):
    settings = {"layout": layout, "rotary_dim": rotary_dim}
    for dtype, within in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        q, k = (random(1, 1, 1, 64, seed=seed + number, dtype=dtype) for number in (0, 1001))
        score = at(q, m, **settings) @ at(k, n, **settings).mT
        moved = at(q, m + shift, **settings) @ at(k, n + shift, **settings).mT
        only_the_key = q @ at(k, n - m, **settings).mT
        assert (score - moved).abs().max() <= within and (score - only_the_key).abs().max() <= within


def test_scores_do_depend_on_the_offset():
    q = k = torch.ones(1, 1, 1, 8)
    scores = [(at(q, 1000) @ at(k, 1000 + offset).mT).item() for offset in range(8)]
    assert max(scores[1:]) < scores[0] - 0.25 and len({round(score, 3) for score in scores}) == 8


@given(p=st.integers(-1000, 100_000), d_head=even_widths, layout=layouts, seed=seeds)
def test_norms_are_kept_pair_by_pair(p, d_head, layout, seed):
    x = random(1, 1, 1, d_head, seed=seed, dtype=torch.float64)
    turned = at(x, p, layout=layout)
    for pair in range(d_head // 2):
        both = list(columns(pair, layout, d_head))
        torch.testing.assert_close(turned[..., both].norm(), x[..., both].norm(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(apply_rotary(turned, torch.tensor([-p]), layout=layout), x, rtol=0, atol=1e-9)


@given(p=st.integers(0, 5000), seed=seeds, d_head=even_widths, base=st.sampled_from([100.0, 10_000.0]))
def test_one_permutation_links_the_layouts(p, seed, d_head, base):
    x, to_half = random(1, 2, 1, d_head, seed=seed, dtype=torch.float64), rotary_permutation(d_head)
    interleaved = at(x, p, base=base)
    half = at(x[..., to_half], p, base=base, layout="half")
    torch.testing.assert_close(half, interleaved[..., to_half], rtol=0, atol=1e-12)
    torch.testing.assert_close(half[..., to_half.argsort()], interleaved, rtol=0, atol=1e-12)


def test_permutations():
    assert rotary_permutation(2).tolist() == [0, 1]
    assert rotary_permutation(4).tolist() == [0, 2, 1, 3]
    assert rotary_permutation(8).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert rotary_permutation(8).argsort().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def mixed(x, p, *, turned_halves):
    """What must not be done: the columns of one layout with the angles of the other."""
    angle = p * frequencies(x.shape[-1])
    if turned_halves:
        partner = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1)
        angle = angle.repeat_interleave(2)
    else:
        partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
        angle = angle.repeat(2)
    return x * angle.cos() + partner * angle.sin()


@pytest.mark.parametrize(("turned_halves", "first", "second", "norm"), [
    (True, -16.19, 5.73, 5.863), (False, -8.81, 8.41, 4.963)])
def test_layouts_mixed_in_one_function_break_both_laws_and_ours_does_not(turned_halves, first, second, norm):
    q, k = row(1, 2, 3, 4), row(4, 3, 2, 1)

    def score(m, n):
        return (mixed(q, m, turned_halves=turned_halves) * mixed(k, n, turned_halves=turned_halves)).sum().item()

    assert score(5, 3) == pytest.approx(first, abs=5e-3) and score(7, 5) == pytest.approx(second, abs=5e-3)
    assert mixed(q, 1, turned_halves=turned_halves).norm().item() == pytest.approx(norm, abs=5e-4)
    for layout in LAYOUTS:
        ours = [(at(q, m, layout=layout) * at(k, m - 2, layout=layout)).sum().item() for m in (5, 7)]
        assert ours[0] == pytest.approx(ours[1], abs=1e-12)
        assert at(q, 1, layout=layout).norm().item() == pytest.approx(5.477, abs=5e-4)


# Partial rotary

@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_columns_that_do_not_turn_pass_unchanged(dtype, layout):
    x = random(2, 3, 70, 10, dtype=dtype)
    x[0, 0, 0, 4:] = torch.tensor([math.inf, -math.inf, math.nan, -0.0, 0.0, 1.0], dtype=dtype)
    turned = apply_rotary(x, layout=layout, rotary_dim=4)
    torch.testing.assert_close(turned[..., 4:], x[..., 4:], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(turned[..., 4:].signbit(), x[..., 4:].signbit())
    torch.testing.assert_close(turned[..., :4], apply_rotary(x[..., :4], layout=layout))


# Where the numbers lie in memory

def strange_memory():
    """The same numbers [2, 3, 5, 8] as they may lie: as the layer makes them, at odd places, every second one, …"""
    x = random(2, 3, 5, 8)
    as_the_layer_has_it = x.transpose(1, 2).contiguous().transpose(1, 2)
    odd_start = torch.cat([torch.zeros(1), x.flatten()])[1:].view(x.shape)
    odd_rows = torch.nn.functional.pad(x, (0, 1))[..., :-1]
    every_second = torch.stack([x, x], -1).flatten(-2)[..., ::2]
    columns_first = x.mT.contiguous().mT
    return x, [x, as_the_layer_has_it, odd_start, odd_rows, every_second, columns_first]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [6, 8])
@pytest.mark.parametrize("number", range(6))
def test_memory_of_any_order_is_read_and_written(number, rotary_dim, layout):
    plain, places = strange_memory()
    x = places[number]
    expected = apply_rotary(plain, layout=layout, rotary_dim=rotary_dim)
    assert torch.equal(x, plain)
    torch.testing.assert_close(apply_rotary(x, layout=layout, rotary_dim=rotary_dim), expected, **ROUNDING)
    assert torch.equal(x, plain)                                                  # and is left as it was
    assert apply_rotary(plain, layout=layout, rotary_dim=rotary_dim, out=x) is x  # its memory as a place to write
    torch.testing.assert_close(x, expected, **ROUNDING)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_key_repeated_for_many_heads(layout):
    key = random(2, 1, 5, 8).expand(2, 4, 5, 8)
    torch.testing.assert_close(apply_rotary(key, layout=layout), apply_rotary(key.contiguous(), layout=layout),
                               **ROUNDING)


# out

@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_out_receives_the_result_and_may_be_x_itself(dtype, rotary_dim, layout):
    x, settings = random(2, 3, 70, 8, dtype=dtype), {"layout": layout, "rotary_dim": rotary_dim}
    expected, kept = apply_rotary(x, **settings), x.clone()
    out = torch.full_like(x, math.nan)
    assert apply_rotary(x, out=out, **settings) is out and torch.equal(x, kept)
    torch.testing.assert_close(out, expected)
    assert apply_rotary(x, out=x, **settings) is x
    torch.testing.assert_close(x, expected)
    x = kept.clone()
    apply_rotary(x, out=x.view(x.shape), **settings)                              # another name of the same memory
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_may_be_a_place_in_a_cache_and_writes_nowhere_else(layout):
    x, cache = random(2, 3, 1, 8), torch.full((2, 3, 10, 8), 7.0)
    apply_rotary(x, torch.tensor([4]), layout=layout, out=cache[:, :, 4:5])
    torch.testing.assert_close(cache[:, :, 4:5], apply_rotary(x, torch.tensor([4]), layout=layout), **ROUNDING)
    assert (cache[:, :, :4] == 7).all() and (cache[:, :, 5:] == 7).all()


def test_out_takes_no_new_memory_of_its_size():
    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, function, types, arguments=(), settings=None):
            result = function(*arguments, **settings or {})
            if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in known:
                self.numbers = max(self.numbers, result.numel())
            return result

    x, out = random(4, 8, 64, 8), torch.empty(4, 8, 64, 8)
    known = {tensor.untyped_storage().data_ptr() for tensor in (x, out)}
    with Largest() as seen:
        apply_rotary(x, out=out)
    assert 0 < seen.numbers <= 64 * 8                                             # the turns, not the heads


@pytest.mark.parametrize(("out", "error", "message"), [
    (torch.empty(1, 2, 3, 4), ValueError, r"out must have the shape, .* \[1, 2, 3, 8\], .*; got \[1, 2, 3, 4\]"),
    (torch.empty(1, 2, 3, 8, dtype=torch.float64), ValueError, r"out must .* torch.float32, cpu; got .* torch.float64"),
    (torch.empty(1, 2, 3, 8, device="meta"), ValueError, r"out must .*; got \[1, 2, 3, 8\], torch.float32, meta"),
    ([0.0], TypeError, "out must .*; got list"),
    (torch.empty(1, 2, 3, 8, requires_grad=True), ValueError, "out must be None while gradients are recorded"),
])
def test_an_out_that_does_not_match_is_named(out, error, message):
    with pytest.raises(error, match=message):
        apply_rotary(torch.zeros(1, 2, 3, 8), out=out)


def test_out_is_refused_while_gradients_are_recorded_and_untouched():
    x, out = random(1, 2, 3, 8).requires_grad_(), torch.zeros(1, 2, 3, 8)
    with pytest.raises(ValueError, match="out must be None while gradients are recorded"):
        apply_rotary(x, out=out)
    with pytest.raises(ValueError, match="base"):
        apply_rotary(x.detach(), out=out, base=0)
    assert (out == 0).all()
    with torch.no_grad():
        torch.testing.assert_close(apply_rotary(x, out=out), apply_rotary(x), **ROUNDING)


# Gradients

@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("position", [None, torch.tensor([7, 0, 1000]), torch.tensor([[0.5, 1, 2], [9, 9, 80]])])
def test_gradients(position, rotary_dim, layout):
    def turn(x):
        return apply_rotary(x, position, layout=layout, rotary_dim=rotary_dim)

    x = random(2, 2, 3, 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(turn, x) and torch.autograd.gradgradcheck(turn, x)
    assert torch.autograd.gradcheck(turn, x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_gradient_is_turned_back(dtype, layout):
    x, gradient = random(2, 3, 5, 8, dtype=dtype).requires_grad_(), random(2, 3, 5, 8, seed=1, dtype=dtype)
    apply_rotary(x, torch.arange(5), layout=layout).backward(gradient)
    assert x.grad.dtype == dtype
    torch.testing.assert_close(x.grad, apply_rotary(gradient, -torch.arange(5), layout=layout))


# Precision, devices, autocast

@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_numbers_are_turned_as_well_as_they_can_be_held(dtype, layout):
    """Each result is the float64 one, rounded: half a unit in the last place, and a little for the float32 product."""
    x = random(1, 2, 3000, 64, dtype=dtype)
    truth = apply_rotary(x.double(), layout=layout)
    for position in (None, torch.arange(3000), torch.arange(3000.0)):
        turned = apply_rotary(x, position, layout=layout)
        assert turned.dtype == dtype
        error = (turned.double() - truth).abs() - torch.finfo(dtype).eps / 2 * truth.abs()
        assert error.max() <= 1e-6


@pytest.mark.parametrize("start", [0, 4_000, 60_000, 1_000_000])
def test_sines_and_cosines_are_exact_to_2e_7_far_out(start):
    """Turned ones and zeros are the cosines and sines themselves."""
    position, ones = torch.arange(start, start + 500), torch.zeros(1, 1, start + 500 if start < 1e5 else 500, 128)
    ones[..., 0::2] = 1
    angle = torch.outer(position.double(), frequencies(128))
    turned = [apply_rotary(ones[:, :, :500], position)]
    if start < 1e5:
        turned.append(apply_rotary(ones)[:, :, start:])
    for result in turned:
        assert (result[0, 0, :, 0::2] - angle.cos()).abs().max() <= 2e-7
        assert (result[0, 0, :, 1::2] - angle.sin()).abs().max() <= 2e-7


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing(narrow, layout):
    x, position = random(1, 2, 3000, 64), torch.arange(3000)
    for given_position in (None, position):
        expected = apply_rotary(x, given_position, layout=layout)
        with torch.autocast("cpu", dtype=narrow):
            turned = apply_rotary(x, given_position, layout=layout)
        assert turned.dtype == torch.float32 and torch.equal(turned, expected)


class Float64Elsewhere(TorchDispatchMode):
    """Watches for float64 numbers on a device other than the CPU, as not every device has them."""

    def __init__(self):
        super().__init__()
        self.devices, self.found = set(), []

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        result = function(*arguments, **settings or {})
        if isinstance(result, torch.Tensor):
            self.devices.add(result.device.type)
            if result.device.type != "cpu" and result.dtype in (torch.float64, torch.complex128):
                self.found.append(str(function))
        return result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("position", [None, torch.arange(5)])
def test_angles_are_made_on_the_cpu_for_another_device_and_leave_it_narrow(position, layout):
    x = torch.empty(2, 3, 5, 8, device="meta")
    with Float64Elsewhere() as watch:
        turned = apply_rotary(x, position, layout=layout, rotary_dim=6)
    assert turned.device.type == "meta" and turned.shape == x.shape
    assert watch.devices == {"cpu", "meta"} and watch.found == []


def test_a_default_device_does_not_lead_the_angles_astray():
    x = random(1, 1, 100, 8)
    with torch.device("meta"):
        turned, permutation = apply_rotary(x), rotary_permutation(8)
        converted = convert_projection(torch.ones(8, 2, device="cpu"), 1, to="half")
    torch.testing.assert_close(turned, apply_rotary(x), **ROUNDING)
    assert permutation.device.type == converted.device.type == "cpu"


# Conversion

@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int8])
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_conversion_moves_rows_within_each_head_and_back_exactly(rotary_dim, dtype):
    weight = (10 * random(24, 5)).to(dtype)
    kept, half = weight.clone(), convert_projection(weight, 3, to="half", rotary_dim=rotary_dim)
    order = [0, 2, 4, 6, 1, 3, 5, 7] if rotary_dim is None else [0, 2, 1, 3, 4, 5, 6, 7]
    rows = [8 * head + place for head in range(3) for place in order]
    assert half.dtype == dtype and torch.equal(half, weight[rows])
    assert torch.equal(convert_projection(half, 3, to="interleaved", rotary_dim=rotary_dim), weight)
    bias = weight[:, 0]
    assert torch.equal(convert_projection(bias, 3, to="half", rotary_dim=rotary_dim), half[:, 0])
    assert torch.equal(weight, kept) and half.data_ptr() != weight.data_ptr()


def test_conversion_returns_a_new_tensor_even_where_nothing_moves():
    weight = random(4, 3)
    same = convert_projection(weight, 2, to="half")
    assert torch.equal(same, weight) and same.data_ptr() != weight.data_ptr()


def test_conversion_as_hugging_face_writes_it():
    weight = random(4 * 6, 5)
    expected = weight.view(4, 3, 2, 5).transpose(1, 2).reshape(24, 5)
    assert torch.equal(convert_projection(weight, 4, to="half"), expected)


@pytest.mark.parametrize("rotary_dim", [None, 4])
@torch.no_grad()
def test_a_converted_layer_attends_as_before_and_an_unconverted_one_does_not(rotary_dim):
    settings, x = {"rotary_dim": rotary_dim}, random(2, 9, 24)
    layer = sharp_layer(Rotary(8, **settings))
    other = MultiHeadAttention(24, 3, Rotary(8, layout="half", **settings)).eval()
    other.load_state_dict(layer.state_dict())
    output, weights = layer(x)
    assert (other(x)[1] - weights).abs().max() > 1e-2
    for projection in (other.to_query, other.to_key):
        projection.weight.copy_(convert_projection(projection.weight, 3, to="half", **settings))
        projection.bias.copy_(convert_projection(projection.bias, 3, to="half", **settings))
    torch.testing.assert_close(other(x)[1], weights, rtol=0, atol=1e-6)
    torch.testing.assert_close(other(x)[0], output, rtol=0, atol=2e-6)


def test_keys_shared_by_several_queries_are_converted_by_their_own_heads():
    """Four heads of queries and two of keys, each 6 wide."""
    to_query, to_key, x = random(24, 5, dtype=torch.float64), random(12, 5, seed=1, dtype=torch.float64), random(
        1, 7, 5, seed=2, dtype=torch.float64)

    def scores(to_query, to_key, layout):
        q, k = ((x @ weight.mT).unflatten(2, (-1, 6)).transpose(1, 2) for weight in (to_query, to_key))
        q, k = apply_rotary(q, layout=layout), apply_rotary(k, layout=layout)
        return q @ k.repeat_interleave(2, 1).mT

    half = scores(convert_projection(to_query, 4, to="half"), convert_projection(to_key, 2, to="half"), "half")
    torch.testing.assert_close(half, scores(to_query, to_key, "interleaved"), rtol=0, atol=1e-12)


# The module in the layer

def sharp_layer(scheme, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(24, 3, scheme)
    with torch.no_grad():
        layer.to_query.weight *= 3                                                # choices sharp enough to differ
    return layer.eval()


SCHEMES = {
    "interleaved": lambda: Rotary(8),
    "half": lambda: Rotary(8, layout="half", base=500.0),
    "half of the columns": lambda: Rotary(8, rotary_dim=4),
}
each_scheme = pytest.mark.parametrize("make_scheme", SCHEMES.values(), ids=SCHEMES)


@each_scheme
def test_the_module_turns_queries_and_keys_with_its_settings(make_scheme):
    scheme, query, key = make_scheme(), random(2, 3, 4, 8), random(2, 3, 6, 8, seed=1)
    settings = {"layout": scheme.layout, "base": scheme.base, "rotary_dim": scheme.rotary_dim}
    m, n = torch.tensor([[9, 3, 4, 5]]), torch.tensor([[0, 1, 2, 3, 4, 5], [7, 7, 7, 8, 9, 60]])
    turned_query, turned_key = scheme.rotate(query, key, m, n)
    torch.testing.assert_close(turned_query, apply_rotary(query, m, **settings), rtol=0, atol=0)
    torch.testing.assert_close(turned_key, apply_rotary(key, n, **settings), rtol=0, atol=0)


def test_the_module_opens_no_other_door_and_holds_no_tensor():
    scheme, x, position = Rotary(8), random(2, 3, 8), torch.arange(3)[None]
    assert torch.equal(scheme(x), x)
    assert scheme.score(x[None], position, position) == scheme.value(x[None], position, position) == 0.0
    assert scheme.state_dict() == {} and not [*scheme.parameters(), *scheme.buffers()]
    assert not any(isinstance(value, torch.Tensor) for value in vars(scheme).values())
    assert repr(Rotary(8, base=500, layout="half", rotary_dim=6)) == (
        "Rotary(d_head=8, base=500, layout='half', rotary_dim=6)")


class Counting(TorchDispatchMode):
    cosines = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        self.cosines += function is torch.ops.aten.cos.default
        return function(*arguments, **settings or {})


def test_turns_are_computed_once_when_queries_and_keys_have_the_same_positions():
    scheme, x, position = Rotary(8), random(2, 3, 4, 8), torch.tensor([4, 5, 6, 9])
    row = position[None]
    for other, cosines in ((row, 1), (row.clone(), 2)):
        with Counting() as seen:
            query, key = scheme.rotate(x, x, row, other)
        assert seen.cosines == cosines
        assert torch.equal(query, key) and torch.equal(query, apply_rotary(x, position))
    query, key = scheme.rotate(x, x.double(), position[None], position[None])
    assert torch.equal(query, apply_rotary(x, position)) and torch.equal(key, apply_rotary(x.double(), position))


@each_scheme
@torch.no_grad()
def test_the_layer_sees_the_offset_and_nothing_else(make_scheme):
    layer, x, position = sharp_layer(make_scheme()), random(2, 6, 24), torch.arange(6)
    output, _ = layer(x)
    torch.testing.assert_close(layer(x, query_position=position + 50, key_position=position + 50)[0], output, **CLOSE)
    assert (layer(x, query_position=position + 1)[0] - output).abs().max() > 1e-2
    assert (layer(x, query_position=position.flip(0), key_position=position.flip(0))[0] - output).abs().max() > 1e-2


@each_scheme
@torch.no_grad()
def test_a_model_made_on_meta_turns_as_any_other(make_scheme):
    layer, x = sharp_layer(make_scheme()), random(2, 6, 24)
    with torch.device("meta"):
        empty = nn.Sequential(MultiHeadAttention(24, 3, make_scheme()))
    empty.to_empty(device="cpu")
    empty[0].load_state_dict(layer.state_dict(), strict=True)
    assert torch.equal(empty.eval()(x)[0], layer(x)[0])


@each_scheme
@torch.no_grad()
def test_a_layer_that_was_narrow_for_a_while_turns_as_before(make_scheme):
    x, position = random(1, 3, 5000, 8), torch.arange(5000)[None]
    expected, _ = make_scheme().rotate(x, x, position, position)
    layer = sharp_layer(make_scheme())
    for narrow in (torch.float16, torch.bfloat16):
        layer.to(narrow)
        output, weights = layer(random(2, 6, 24).to(narrow), mask=causal_mask(6))
        assert output.dtype == weights.dtype == narrow and output.isfinite().all()
        assert torch.equal(layer.position.rotate(x, x, position, position)[0], expected)       # still narrow
        assert torch.equal(layer.float().position.rotate(x, x, position, position)[0], expected)


def test_gradients_reach_the_projections_of_queries_and_keys():
    layer = sharp_layer(Rotary(8))
    layer(random(2, 6, 24))[0].square().sum().backward()
    for projection in (layer.to_query, layer.to_key):
        assert projection.weight.grad.isfinite().all() and projection.weight.grad.abs().max() > 1e-3


# Word by word, with a cache

def word_counts(longest):
    return st.lists(st.integers(1, longest), min_size=1, max_size=3)


def padded_on_the_left(words, longest):
    """Mask `[batch, longest]`, True for a word, and positions: words counted from 0, pads filled with 0."""
    mask = torch.arange(longest) >= longest - torch.tensor(words)[:, None]
    return mask, (mask.long().cumsum(1) - 1).clamp(min=0)


@each_scheme
@given(words=word_counts(8), prefill=st.integers(1, 8), seed=seeds)
@torch.no_grad()
def test_word_by_word_with_all_tokens_kept_is_the_full_pass(make_scheme, words, prefill, seed):
    """One pass over the first words, then one word a step; the keys of all tokens are computed and turned anew."""
    layer, x = sharp_layer(make_scheme()), random(len(words), 8, 24, seed=seed)
    mask, position = padded_on_the_left(words, 8)
    may = mask[:, None, None] & causal_mask(8)
    full, _ = layer(x, mask=may, query_position=position, key_position=position)
    parts = [slice(0, prefill), *(slice(t, t + 1) for t in range(prefill, 8))]
    steps = [layer(x[:, now], x[:, : now.stop], mask=may[:, :, now, : now.stop], query_position=position[:, now],
                   key_position=position[:, : now.stop])[0] for now in parts]
    torch.testing.assert_close(torch.cat(steps, 1), full, **CLOSE)


@each_scheme
@given(words=word_counts(8), prefill=st.integers(1, 8), seed=seeds)
@torch.no_grad()
def test_word_by_word_with_a_cache_of_turned_keys_is_the_full_pass(make_scheme, words, prefill, seed):
    """Keys are turned once, when their word comes, and written into the cache; they are never touched again."""
    scheme = make_scheme()
    layer, x = sharp_layer(scheme), random(len(words), 8, 24, seed=seed)
    mask, position = padded_on_the_left(words, 8)
    may = mask[:, None, None] & causal_mask(8)
    full, _ = layer(x, mask=may, query_position=position, key_position=position)
    settings = {"layout": scheme.layout, "base": scheme.base, "rotary_dim": scheme.rotary_dim}
    keys, values = torch.full((2, len(words), 3, 8, 8), math.nan)
    steps = []
    for now in (slice(0, prefill), *(slice(t, t + 1) for t in range(prefill, 8))):
        query = apply_rotary(layer.split(layer.to_query(x[:, now])), position[:, now], **settings)
        apply_rotary(layer.split(layer.to_key(x[:, now])), position[:, now], out=keys[:, :, now], **settings)
        values[:, :, now] = layer.split(layer.to_value(x[:, now]))
        seen = slice(0, now.stop)
        heads, _ = attention(query, keys[:, :, seen], values[:, :, seen], may[:, :, now, seen])
        steps.append(layer.to_output(heads.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(torch.cat(steps, 1), full, **CLOSE)


@each_scheme
@given(words=word_counts(8), seed=seeds)
@torch.no_grad()
def test_a_row_padded_on_the_left_equals_the_row_alone(make_scheme, words, seed):
    layer, x = sharp_layer(make_scheme()), random(len(words), 8, 24, seed=seed)
    mask, position = padded_on_the_left(words, 8)
    padded, _ = layer(x, mask=mask[:, None, None] & causal_mask(8), query_position=position, key_position=position)
    for sentence, result, count in zip(x, padded, words, strict=True):
        alone, _ = layer(sentence[None, -count:], mask=causal_mask(count))
        torch.testing.assert_close(result[-count:], alone[0], **CLOSE)


# Bad input

x = torch.zeros(2, 3, 5, 8)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: apply_rotary([[1.0]]), TypeError, r"x must be .*\[batch, heads, seq, d_head\], got list"),
    (lambda: apply_rotary(x.long()), TypeError, "x must be a floating-point tensor .*, got dtype torch.int64"),
    (lambda: apply_rotary(x.to(torch.complex64)), TypeError, "x must be .*, got dtype torch.complex64"),
    (lambda: apply_rotary(x[0]), ValueError, r"x must be .*, got shape \[3, 5, 8\] with 3 axes"),
    (lambda: apply_rotary(x[None]), ValueError, r"got shape \[1, 2, 3, 5, 8\] with 5 axes"),
    (lambda: apply_rotary(x[..., :7]), ValueError, "d_head, the last axis of x, must be even, .* got 7"),
    (lambda: apply_rotary(x[..., :0]), ValueError, "d_head, the last axis of x, must be .* at least 2, got 0"),
    (lambda: apply_rotary(x, rotary_dim=3), ValueError, "rotary_dim must be even, .* got 3"),
    (lambda: apply_rotary(x, rotary_dim=10), ValueError, "rotary_dim must be at most d_head = 8, got 10"),
    (lambda: apply_rotary(x, rotary_dim=0), ValueError, "rotary_dim must be .* at least 2, got 0"),
    (lambda: apply_rotary(x, rotary_dim=0.5), TypeError, "rotary_dim must be a whole number .* got 0.5"),
    (lambda: apply_rotary(x, layout="neox"), ValueError, "layout must be .interleaved. .* or .half. .*, got 'neox'"),
    (lambda: apply_rotary(x, layout=None), ValueError, "layout must be .interleaved. .* or .half. .*, got None"),
    (lambda: apply_rotary(x, base=0), ValueError, "base must be a positive, finite number, got 0"),
    (lambda: apply_rotary(x, base="1e4"), TypeError, "base must be .*, got '1e4'"),
    (lambda: apply_rotary(x, torch.arange(4)), ValueError,
     r"position must be .* of shape \[5\] or \[2, 5\], got shape \[4\]"),
    (lambda: apply_rotary(x, torch.zeros(3, 5)), ValueError, r"position must be .*, got shape \[3, 5\]"),
    (lambda: apply_rotary(x, torch.zeros(5, 2)), ValueError, r"position must be .*, got shape \[5, 2\]"),
    (lambda: apply_rotary(x, torch.tensor(3)), ValueError, r"position must be .*, got shape \[\]"),
    (lambda: apply_rotary(x, torch.zeros(2, 1, 5)), ValueError, r"position must be .*, got shape \[2, 1, 5\]"),
    (lambda: apply_rotary(x, [0, 1, 2, 3, 4]), TypeError, "position must be integers, or float32 .*, got list"),
    (lambda: apply_rotary(x, 3), TypeError, "position must be .*, got int"),
    (lambda: apply_rotary(x, torch.ones(5, dtype=torch.bool)), TypeError, "position must be .*, got dtype torch.bool"),
    (lambda: apply_rotary(x, torch.ones(5, dtype=torch.complex64)), TypeError, "position .* dtype torch.complex64"),
    (lambda: apply_rotary(x, torch.arange(5).bfloat16()), TypeError,
     "got torch.bfloat16, which cannot hold all whole numbers above 256"),
    (lambda: apply_rotary(x, torch.arange(5).half()), TypeError,
     "got torch.float16, which cannot hold all whole numbers above 2048"),
    (lambda: rotary_permutation(5), ValueError, "d_head must be even, .* got 5"),
    (lambda: rotary_permutation(0), ValueError, "d_head must be .* at least 2, got 0"),
    (lambda: rotary_permutation(4.0), TypeError, "d_head must be a whole number .* got 4.0"),
    (lambda: convert_projection(x[0, 0], 0, to="half"), ValueError, "n_heads must be .* at least 1, got 0"),
    (lambda: convert_projection(x[0, 0], -2, to="half"), ValueError, "n_heads must be .* at least 1, got -2"),
    (lambda: convert_projection(x[0, 0], 2.0, to="half"), TypeError, "n_heads must be a whole number .* got 2.0"),
    (lambda: convert_projection(x[0, 0], 2, to="half"), ValueError,
     "n_heads must divide the rows of weight, got n_heads = 2 and 5 rows"),
    (lambda: convert_projection(torch.zeros(6, 4), 2, to="half"), ValueError,
     "d_head, the 6 rows of weight by 2 heads, must be even, .* got 3"),
    (lambda: convert_projection(torch.zeros(0, 4), 2, to="half"), ValueError, "d_head, .* at least 2, got 0"),
    (lambda: convert_projection(torch.zeros(8, 4), 2, to="half", rotary_dim=3), ValueError, "rotary_dim .* got 3"),
    (lambda: convert_projection(torch.zeros(8, 4), 2, to="half", rotary_dim=6), ValueError,
     "rotary_dim must be at most d_head = 4, got 6"),
    (lambda: convert_projection(torch.zeros(8, 4), 2, to="llama"), ValueError,
     "to must be .interleaved. .* or .half. .*, got 'llama'"),
    (lambda: convert_projection(x, 2, to="half"), ValueError, r"weight must have shape .*, got \[2, 3, 5, 8\]"),
    (lambda: convert_projection(nn.Linear(4, 8), 2, to="half"), TypeError, "weight must be a tensor .*, got Linear"),
    (lambda: Rotary(7), ValueError, "d_head must be even, .* got 7"),
    (lambda: Rotary(0), ValueError, "d_head must be .* at least 2, got 0"),
    (lambda: Rotary("8"), TypeError, "d_head must be .* got '8'"),
    (lambda: Rotary(8, rotary_dim=10), ValueError, "rotary_dim must be at most d_head = 8, got 10"),
    (lambda: Rotary(8, rotary_dim=5), ValueError, "rotary_dim must be even, .* got 5"),
    (lambda: Rotary(8, layout="GPT-J"), ValueError, "layout must be .interleaved. .* or .half. .*, got 'GPT-J'"),
    (lambda: Rotary(8, base=0.5), ValueError, "base must be at least 1, .* got 0.5"),
    (lambda: Rotary(8, base=math.nan), ValueError, "base must be .* got nan"),
])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"query": x[..., :6]}, ValueError, r"query must have heads d_head = 8 wide, got shape \[2, 3, 5, 6\]"),
    ({"key": x[..., :6]}, ValueError, r"key must have heads d_head = 8 wide, got shape \[2, 3, 5, 6\]"),
    ({"key": x[0]}, ValueError, r"key must be .*, got shape \[3, 5, 8\] with 3 axes"),
    ({"query_position": torch.arange(4)[None]}, ValueError, r"query_position must be .*, got shape \[1, 4\]"),
    ({"key_position": torch.zeros(1, 5, dtype=torch.bool)}, TypeError, "key_position must be .*, got dtype torch.bool"),
    ({"key_position": torch.zeros(1, 5, dtype=torch.half)}, TypeError, "key_position must be .* above 2048"),
])
def test_the_module_names_what_does_not_fit(arguments, error, message):
    position = torch.arange(5)[None]
    good = {"query": x, "key": x, "query_position": position, "key_position": position}
    with pytest.raises(error, match=message):
        Rotary(8).rotate(**good | arguments)
