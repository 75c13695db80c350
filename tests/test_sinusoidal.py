"""The sinusoidal table, the shift matrix and the module: laws, exact numbers, an outside implementation, bad input."""
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from positional_encodings.torch_encodings import PositionalEncoding1D
from torch import nn

from posenc_lib import SinusoidalEncoding, frequencies, shift_matrix, sinusoidal_table

widths = st.integers(1, 80)
even_widths = st.integers(1, 40).map(lambda half: 2 * half)
positions = st.integers(0, 1_000_000)
bases = st.sampled_from([10.0, 500.0, 10_000.0, 500_000.0])


def by_the_formula(length, d_model, base=10_000.0, start=0):
    """Entry by entry, as the paper writes it, in Python's float64."""
    rows = [[(math.cos if column % 2 else math.sin)(p * base ** (-2 * (column // 2) / d_model))
             for column in range(d_model)] for p in range(start, start + length)]
    return torch.tensor(rows, dtype=torch.float64)


# Laws

@given(length=st.integers(1, 130), d_model=widths, base=bases, start=positions)
def test_table_is_the_formula_at_any_position(length, d_model, base, start):
    expected = by_the_formula(length, d_model, base, start)
    assert (sinusoidal_table(length, d_model, base=base, start=start) - expected).abs().max() <= 2e-7
    exact = sinusoidal_table(length, d_model, base=base, start=start, dtype=torch.float64)
    assert (exact - expected).abs().max() <= 1e-9


def test_error_stays_below_2e_7_up_to_a_million_at_the_papers_width():
    for start in (0, 4_096, 65_536, 999_000):
        angle = torch.outer(torch.arange(start, start + 1000, dtype=torch.float64), frequencies(512))
        truth = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        assert (sinusoidal_table(1000, 512, start=start) - truth).abs().max() <= 2e-7


@given(d_model=widths, start=st.integers(-300, 300), length=st.integers(1, 150), ahead=st.integers(0, 100))
def test_a_row_does_not_depend_on_where_its_table_begins_or_ends(d_model, start, length, ahead):
    long = sinusoidal_table(length + ahead, d_model, start=start)
    short = sinusoidal_table(length, d_model, start=start + ahead)
    torch.testing.assert_close(long[ahead:], short, rtol=0, atol=1.5e-7)


@given(p=st.integers(0, 2000), k=st.integers(-2000, 2000), d_model=even_widths)
def test_rotation_theorem(p, k, d_model):
    here = sinusoidal_table(1, d_model, start=p, dtype=torch.float64)[0]
    there = sinusoidal_table(1, d_model, start=p + k, dtype=torch.float64)[0]
    torch.testing.assert_close(shift_matrix(k, d_model) @ here, there, rtol=0, atol=1e-11)


@given(k=st.integers(-500, 500), other=st.integers(-500, 500), d_model=even_widths)
def test_shift_matrices_are_rotations_that_add_up(k, other, d_model):
    M = shift_matrix(k, d_model)
    torch.testing.assert_close(M @ shift_matrix(other, d_model), shift_matrix(k + other, d_model), rtol=0, atol=1e-11)
    torch.testing.assert_close(M @ M.T, torch.eye(d_model, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(M.T, shift_matrix(-k, d_model), rtol=0, atol=1e-12)


def test_shift_matrix_error_as_stated_in_the_chapter():
    table = sinusoidal_table(1024, 64, dtype=torch.float64)
    for k in (1, 7, 100, 512):
        assert (table[:512] @ shift_matrix(k, 64).T - table[k : k + 512]).abs().max() <= 1e-12
    table = sinusoidal_table(1024, 64)
    assert (table[:512] @ shift_matrix(7, 64).T.float() - table[7:519]).abs().max() <= 5e-7


@given(d_model=even_widths, p=st.integers(0, 500), k=st.integers(-100, 100))
def test_dot_product_depends_on_the_offset_only_and_is_half_the_width_at_zero(d_model, p, k):
    def row(position):
        return sinusoidal_table(1, d_model, start=position, dtype=torch.float64)[0]

    assert row(p) @ row(p + k) == pytest.approx(torch.cos(k * frequencies(d_model)).sum().item(), abs=1e-10)
    assert row(p) @ row(p) == pytest.approx(d_model / 2)


@given(d_model=widths)
def test_every_pair_is_a_point_on_the_unit_circle(d_model):
    pairs = sinusoidal_table(50, d_model)[:, : d_model // 2 * 2].unflatten(1, (-1, 2))
    torch.testing.assert_close(pairs.square().sum(-1), torch.ones(50, d_model // 2))


@given(d_model=widths, base=bases)
def test_frequencies_fall_from_one_by_a_constant_factor(d_model, base):
    omega = frequencies(d_model, base)
    assert omega.dtype == torch.float64 and omega.shape == (math.ceil(d_model / 2),) and omega[0] == 1
    assert (omega[1:] < omega[:-1]).all()
    torch.testing.assert_close(omega[1:] / omega[:-1], torch.full_like(omega[1:], base ** (-2 / d_model)))


# Outside implementations and exact numbers

@pytest.mark.parametrize("d_model", [2, 4, 6, 64, 512])
def test_agrees_with_positional_encodings_for_even_widths(d_model):
    """That package spreads sine and cosine as the paper does; for odd widths it has another denominator."""
    theirs = PositionalEncoding1D(d_model)(torch.zeros(1, 200, d_model))[0]
    torch.testing.assert_close(sinusoidal_table(200, d_model), theirs, rtol=0, atol=2e-5)     # its angles are float32
    ours = SinusoidalEncoding(d_model, dropout=0.0)(torch.zeros(1, 200, d_model))[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


def test_the_hand_calculation():
    expected = [[0, 1, 0, 1], [0.8415, 0.5403, 0.0100, 0.99995], [0.9093, -0.4161, 0.0200, 0.9998]]
    np.testing.assert_allclose(sinusoidal_table(3, 4), expected, atol=5.1e-5)


def test_row_one_at_the_papers_width():
    expected = [0.841, 0.540, 0.822, 0.570, 0.802, 0.597, 0.782, 0.623, 0.762, 0.648]
    np.testing.assert_allclose(sinusoidal_table(2, 512)[1, :10], expected, atol=5.1e-4)


def test_wavelengths():
    assert 1 / frequencies(512)[-1] == pytest.approx(9646.6, abs=0.05)
    assert 2 * math.pi / frequencies(512)[-1] == pytest.approx(60_611.5, abs=0.05)
    assert 2 * math.pi / frequencies(1024)[-1] == pytest.approx(61_711.7, abs=0.05)
    assert 1 / frequencies(20)[-1] == pytest.approx(3981, abs=0.5)


@pytest.mark.parametrize(("d_model", "distance"), [(4, 0.242), (64, 1.47)])
def test_the_closest_two_of_512_positions(d_model, distance):
    table = sinusoidal_table(512, d_model, dtype=torch.float64)
    assert torch.pdist(table).min() == pytest.approx(distance, abs=5e-3)


def test_odd_widths_break_the_constant_diagonals_a_little():
    table = sinusoidal_table(64, 3, dtype=torch.float64)
    products = table @ table.T
    spread = max((products.diagonal(k).max() - products.diagonal(k).min()).item() for k in range(64))
    assert spread == pytest.approx(1.8e-2, abs=5e-4)


# The module

def test_module_adds_the_table_along_the_sequence_and_nothing_along_the_batch():
    out = SinusoidalEncoding(6, max_len=9, dropout=0.0)(torch.zeros(4, 5, 6))
    for sentence in out:
        torch.testing.assert_close(sentence, sinusoidal_table(5, 6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_module_keeps_the_dtype_of_its_input_and_a_good_table(dtype):
    expected = sinusoidal_table(600, 512, dtype=torch.float64)
    out = SinusoidalEncoding(512, max_len=600).eval()(torch.zeros(1, 600, 512, dtype=dtype))
    assert out.dtype == dtype
    assert (out[0].double() - expected).abs().max() <= torch.finfo(dtype).eps / 2 + 2e-7


def test_a_module_that_was_half_for_a_while_is_as_good_as_new():
    module = SinusoidalEncoding(64, max_len=500)
    for narrow in (torch.float16, torch.bfloat16):
        assert torch.equal(module.to(narrow).float().table[0], sinusoidal_table(500, 64))
    torch.testing.assert_close(module.double().table[0], sinusoidal_table(500, 64, dtype=torch.float64))


def test_dropout_only_in_training():
    module, x = SinusoidalEncoding(16, dropout=0.5), torch.ones(8, 100, 16)
    assert 0.45 < (module.train()(x) == 0).float().mean() < 0.55
    torch.testing.assert_close(module.eval()(x), x + sinusoidal_table(100, 16))


def test_gradients_reach_the_input_and_nothing_else():
    module, x = SinusoidalEncoding(4, dropout=0.0), torch.zeros(2, 3, 4, requires_grad=True)
    module(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))
    assert list(module.parameters()) == []


def test_a_model_made_on_meta_gets_its_table_back():
    with torch.device("meta"):
        model = nn.Sequential(SinusoidalEncoding(64, max_len=50, dropout=0.0))
    assert model[0].table.device.type == "meta"
    model.to_empty(device="cpu")
    model[0].reset_parameters()
    torch.testing.assert_close(model(torch.zeros(1, 50, 64))[0], sinusoidal_table(50, 64))


# Bad input

@pytest.mark.parametrize(("d_model", "error"), [(0, ValueError), (-4, ValueError), (2.5, TypeError), ("8", TypeError),
                                                (True, TypeError), (None, TypeError)])
@pytest.mark.parametrize("call", [
    frequencies, lambda d: sinusoidal_table(3, d), lambda d: shift_matrix(1, d), SinusoidalEncoding])
def test_bad_widths_are_named(call, d_model, error):
    with pytest.raises(error, match="d_model must be") as caught:
        call(d_model)
    assert repr(d_model) in str(caught.value)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: sinusoidal_table(0, 8), ValueError, "length must be a whole number of at least 1, got 0"),
    (lambda: sinusoidal_table(-3, 8), ValueError, "length .* got -3"),
    (lambda: sinusoidal_table(2.0, 8), TypeError, "length .* got 2.0"),
    (lambda: sinusoidal_table(2, 8, start=0.5), TypeError, "start .* got 0.5"),
    (lambda: sinusoidal_table(2, 8, base=0), ValueError, "base .* got 0"),
    (lambda: frequencies(8, base=0.5), ValueError, "base must be at least 1, .* got 0.5"),
    (lambda: frequencies(8, base=np.True_), TypeError, "base .* got"),
    (lambda: frequencies(torch.tensor(True)), TypeError, "d_model .* got tensor"),
    (lambda: frequencies(8, base=torch.tensor([1.0, 2.0])), TypeError, "base .* got tensor"),
    (lambda: frequencies(8, base=10**400), TypeError, "base must be"),
    (lambda: sinusoidal_table(2, 8, base=math.inf), ValueError, "base .* got inf"),
    (lambda: sinusoidal_table(2, 8, base="10"), TypeError, "base .* got '10'"),
    (lambda: sinusoidal_table(2, 8, dtype=torch.int64), TypeError, "dtype .* got torch.int64"),
    (lambda: sinusoidal_table(2, 8, dtype="float32"), TypeError, "dtype .* got 'float32'"),
    (lambda: shift_matrix(3, 5), ValueError, "d_model must be even .* got 5"),
    (lambda: shift_matrix(0.5, 4), TypeError, "offset .* got 0.5"),
    (lambda: SinusoidalEncoding(8, max_len=0), ValueError, "max_len .* got 0"),
    (lambda: SinusoidalEncoding(8, max_len="10"), TypeError, "max_len .* got '10'"),
    (lambda: SinusoidalEncoding(8, dropout=1.5), ValueError, "dropout .* got 1.5"),
    (lambda: SinusoidalEncoding(8, dropout="a"), TypeError, "dropout .* got 'a'"),
])
def test_bad_settings_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("x", "error", "message"), [
    (torch.zeros(2, 11, 8), ValueError, "x has 11 positions but the table has 10 rows"),
    (torch.zeros(5, 8), ValueError, r"x must be .*\[batch, seq, 8\], got shape \[5, 8\]"),
    (torch.zeros(2, 3, 5, 8), ValueError, r"got shape \[2, 3, 5, 8\]"),
    (torch.zeros(2, 5, 6), ValueError, r"got shape \[2, 5, 6\]: its last axis is 6 wide"),
    (torch.zeros(2, 5, 8, dtype=torch.int64), TypeError, "got dtype torch.int64"),
    (torch.zeros(2, 5, 8, dtype=torch.bool), TypeError, "got dtype torch.bool"),
    ([[[0.0] * 8]], TypeError, "got list"),
])
def test_bad_sequences_are_named(x, error, message):
    with pytest.raises(error, match=message):
        SinusoidalEncoding(8, max_len=10)(x)


def test_whole_numbers_of_other_libraries_are_welcome():
    assert sinusoidal_table(np.int64(3), np.int32(4)).shape == (3, 4)
    assert frequencies(4, np.float32(100)).tolist() == pytest.approx([1, 0.1])
