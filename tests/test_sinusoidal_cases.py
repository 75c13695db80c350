"""Mistakes that real people made with sinusoids, each with a small input on which it shows."""
import pathlib
import re

import pytest
import torch
from torch import nn

from posenc_lib import SinusoidalEncoding, frequencies, sinusoidal_table

CHAPTERS = pathlib.Path(__file__).parents[1] / "chapters"


@pytest.mark.parametrize(("d_model", "row_one"), [
    (1, [0.8414709848]),
    (3, [0.8414709848, 0.5403023059, 0.0021544330]),
    (5, [0.84147098, 0.54030231, 0.02511622, 0.99968454, 0.00063096]),
])
def test_odd_widths_have_one_sine_more_and_the_same_denominator(d_model, row_one):
    torch.testing.assert_close(sinusoidal_table(2, d_model, dtype=torch.float64)[1],
                               torch.tensor(row_one, dtype=torch.float64), rtol=0, atol=5e-9)


def test_width_29_is_made():
    assert sinusoidal_table(10_000, 29).shape == (10_000, 29)


def test_the_exponent_counts_pairs_and_a_pair_shares_it():
    """Not 2 * i with an i that already goes in twos, and not the column number."""
    torch.testing.assert_close(sinusoidal_table(2, 4)[1], torch.tensor([0.84147, 0.54030, 0.00999983, 0.99995]),
                               rtol=0, atol=5e-6)


def test_the_base_is_ten_thousand_in_code_and_in_prose():
    sines = sinusoidal_table(11, 8)[10, 0::2]
    torch.testing.assert_close(sines, torch.tensor([-0.5440, 0.8415, 0.0998, 0.0100]), rtol=0, atol=5e-5)
    prose = (CHAPTERS / "02_sinusoidal_by_hand.md").read_text(encoding="utf-8")
    formulas = re.findall(r"(?<!\d)(\d[\d_]*)(?:\.0)?\s*(?:\^|\*\*)\s*\(?\{?\(?\s*[-−]", prose)
    assert len(formulas) >= 5 and {int(base.replace("_", "")) for base in formulas} == {10_000}


def test_blocks_of_sines_and_cosines_are_a_permutation_of_the_columns():
    interleaved = sinusoidal_table(2, 4)[1]
    to_blocks = torch.arange(4).view(-1, 2).T.flatten()
    assert to_blocks.tolist() == [0, 2, 1, 3]
    torch.testing.assert_close(interleaved[to_blocks], torch.tensor([0.84147, 0.0100, 0.54030, 0.99995]),
                               rtol=0, atol=5e-6)


def test_positions_run_along_the_sequence_not_along_the_batch():
    out = SinusoidalEncoding(4, max_len=10, dropout=0.0)(torch.zeros(2, 5, 4))
    assert torch.equal(out[0], out[1]) and not torch.allclose(out[1, 0], out[1, 4])
    assert SinusoidalEncoding(8, max_len=50)(torch.zeros(64, 50, 8)).shape == (64, 50, 8)


def test_a_checkpoint_loads_into_another_max_len():
    saved = nn.Sequential(SinusoidalEncoding(8, max_len=100), nn.Linear(8, 8)).state_dict()
    nn.Sequential(SinusoidalEncoding(8, max_len=200), nn.Linear(8, 8)).load_state_dict(saved, strict=True)


def test_every_tensor_of_the_module_follows_it():
    module = SinusoidalEncoding(8, max_len=20).double()
    tensors = [value for value in (*vars(module).values(), *module.buffers()) if isinstance(value, torch.Tensor)]
    assert tensors and all(tensor.dtype == torch.float64 for tensor in tensors)
    module.to("meta")
    assert module.table.device.type == "meta"


@pytest.mark.parametrize(("dtype", "within"), [(torch.bfloat16, 0.0021), (torch.float16, 0.0003)])
def test_a_half_precision_table_is_rounded_last(dtype, within):
    exact = sinusoidal_table(512, 512, dtype=torch.float64)
    assert (sinusoidal_table(512, 512, dtype=dtype).double() - exact).abs().max() <= within
    module = SinusoidalEncoding(512, max_len=512).to(dtype)
    module.reset_parameters()
    assert (module.table[0].double() - exact).abs().max() <= within


def test_the_encoding_itself_is_not_scaled():
    torch.testing.assert_close(sinusoidal_table(100, 512).norm(dim=1), torch.full((100,), 16.0))


def test_position_10001_is_not_position_1():
    first, far = sinusoidal_table(2, 512)[1], sinusoidal_table(1, 512, start=10_001)[0]
    assert (first - far).norm() == pytest.approx(23.34, abs=5e-3)
    assert (first - sinusoidal_table(1, 512)[0]).norm() == pytest.approx(3.71, abs=5e-3)


def test_the_table_does_not_depend_on_max_len():
    short, long = SinusoidalEncoding(64, max_len=64), SinusoidalEncoding(64, max_len=4096)
    torch.testing.assert_close(short.table[0, :16], long.table[0, :16], rtol=0, atol=1.5e-7)
    assert frequencies(64).shape == (32,)
