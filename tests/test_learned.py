"""The learned table: what it adds, how it is trained, saved, moved, stretched, and where it ends."""
import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from posenc_lib import LearnedEncoding, MultiHeadAttention, Position, SinusoidalEncoding, stretch
from posenc_lib.training import SentenceReader

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
lengths = st.integers(1, 40)


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def encoding_with(table, **settings):
    encoding = LearnedEncoding(table.shape[1], len(table), **settings)
    encoding.table = nn.Parameter(table.clone())
    return encoding


def interpolated(table, *size, mode):
    """PyTorch's own: `table` [rows, …, width], its first axes made as long as `size`, first and last point kept."""
    return functional.interpolate(table.movedim(-1, 0)[None], size, mode=mode, align_corners=True)[0].movedim(0, -1)


# What it adds

def test_it_adds_row_p_to_the_token_at_position_p():
    encoding, x = LearnedEncoding(6, max_len=9), random(4, 5, 6)
    for call in (encoding, encoding.embed):
        assert torch.equal(call(x), x + encoding.table[:5])
    assert torch.equal(encoding(random(1, 9, 6)), random(1, 9, 6) + encoding.table)             # to its last row
    assert encoding(x[:, :0]).shape == (4, 0, 6)


def test_other_positions_are_the_same_for_all_or_each_sentences_own():
    encoding, x = LearnedEncoding(6, max_len=9), random(2, 3, 6)
    for position in ([8, 0, 3], [[8, 0, 3]], [[0, 0, 1], [5, 8, 2]]):
        for dtype in (torch.int64, torch.int32, torch.uint8):
            out = encoding(x, torch.tensor(position, dtype=dtype))
            rows = torch.tensor(position).expand(2, 3)
            for sentence, word in np.ndindex(2, 3):
                assert torch.equal(out[sentence, word], x[sentence, word] + encoding.table[rows[sentence, word]])


def test_more_tokens_than_rows_may_share_them_if_it_is_said_which():
    encoding, x = LearnedEncoding(4, max_len=2), random(1, 5, 4)
    assert torch.equal(encoding(x, torch.tensor([0, 1, 0, 1, 0]))[0, 4], x[0, 4] + encoding.table[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("table_dtype", DTYPES)
def test_the_dtype_is_that_of_the_tokens(dtype, table_dtype):
    encoding, x = LearnedEncoding(8, max_len=5).to(table_dtype), random(2, 5, 8, dtype=dtype)
    for out in (encoding(x), encoding(x, torch.arange(5))):
        assert out.dtype == dtype and encoding.table.dtype == table_dtype
        assert torch.equal(out, x + encoding.table.to(dtype))


def test_dropout_only_in_training():
    encoding, x = LearnedEncoding(16, max_len=100, dropout=0.5), torch.ones(8, 100, 16)
    assert 0.45 < (encoding.train()(x) == 0).float().mean() < 0.55
    assert torch.equal(encoding.eval()(x), x + encoding.table)
    assert torch.equal(LearnedEncoding(4, 3).train()(x[:, :3, :4]) == 0, torch.zeros(8, 3, 4, dtype=torch.bool))


def test_rows_begin_as_those_of_an_embedding():
    torch.manual_seed(5)
    encoding = LearnedEncoding(64, max_len=300)
    again = nn.Embedding(300, 64)
    for table in (encoding.table, again.weight):
        assert table.mean().item() == pytest.approx(0, abs=0.03) and table.std().item() == pytest.approx(1, abs=0.03)
    first = encoding.table.detach().clone()
    encoding.reset_parameters()
    assert (encoding.table != first).all() and encoding.table.std().item() == pytest.approx(1, abs=0.03)
    torch.manual_seed(5)
    assert torch.equal(LearnedEncoding(64, max_len=300).table, first)


def test_the_other_doors_stay_closed():
    torch.manual_seed(0)
    layer, x, memory = MultiHeadAttention(24, 3, LearnedEncoding(24, 10)).eval(), random(2, 6, 24), random(2, 4, 24)
    plain = MultiHeadAttention(24, 3, Position()).eval()
    plain.load_state_dict({name: value for name, value in layer.state_dict().items() if "position" not in name})
    for ours, expected in zip(layer(x, memory), plain(x, memory), strict=True):
        assert torch.equal(ours, expected)
    assert layer(random(1, 50, 24))[0].shape == (1, 50, 24)              # no table is looked up here, so none ends


# How it is trained

def test_gradients_reach_the_rows_of_the_sentence_only():
    encoding, x = LearnedEncoding(4, max_len=6), torch.zeros(3, 4, 4, requires_grad=True)
    encoding(x).sum().backward()
    assert encoding.table.grad.tolist() == [[3.0] * 4] * 4 + [[0.0] * 4] * 2
    assert torch.equal(x.grad, torch.ones_like(x))


def test_a_row_gets_the_gradients_of_all_the_tokens_it_was_given_to():
    encoding, scale = LearnedEncoding(2, max_len=6), torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    (encoding(torch.zeros(2, 2, 2), torch.tensor([[0, 2], [2, 5]])) * scale[..., None]).sum().backward()
    assert encoding.table.grad[:, 0].tolist() == [1, 0, 110, 0, 0, 1000]


def test_a_step_moves_the_rows_that_were_reached():
    reader = SentenceReader(10, 2, LearnedEncoding(32, max_len=8))
    before = reader.position.table.detach().clone()
    optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
    functional.cross_entropy(reader(torch.tensor([[1, 2, 3, 4, 5]])), torch.tensor([1])).backward()
    optimizer.step()
    assert ((reader.position.table != before).any(1)).tolist() == [True] * 5 + [False] * 3


# How it is saved, copied and moved

def reader_with_a_table(seed=0):
    torch.manual_seed(seed)
    return SentenceReader(10, 2, LearnedEncoding(32, max_len=8)).eval()


def test_a_table_shared_by_a_model_and_its_attention_is_one_parameter_with_two_names():
    reader = reader_with_a_table()
    assert reader.position is reader.attention.position
    tables = [name for name in reader.state_dict() if name.endswith("table")]
    assert tables == ["position.table", "attention.position.table"]
    assert [name for name, _ in reader.named_parameters() if name.endswith("table")] == ["position.table"]
    plain = SentenceReader(10, 2)
    assert sum(p.numel() for p in reader.parameters()) == sum(p.numel() for p in plain.parameters()) + 8 * 32


def test_saved_and_loaded_it_is_the_same_model_and_still_one_parameter():
    reader, other, tokens = reader_with_a_table(), reader_with_a_table(seed=1), torch.tensor([[1, 2, 3, 4, 5]])
    assert not torch.equal(other(tokens), reader(tokens))
    file = io.BytesIO()
    torch.save(reader.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert torch.equal(other(tokens), reader(tokens))
    assert other.position.table is other.attention.position.table
    assert other.position.table is not reader.position.table


def test_a_table_of_another_length_is_not_loaded():
    saved = LearnedEncoding(4, max_len=6).state_dict()
    assert list(saved) == ["table"]
    with pytest.raises(RuntimeError, match=r"size mismatch for table.*\[6, 4\].*\[7, 4\]"):
        LearnedEncoding(4, max_len=7).load_state_dict(saved)


def test_a_copy_shares_within_itself_and_with_nobody_else():
    reader = reader_with_a_table()
    twin = copy.deepcopy(reader)
    assert twin.position is twin.attention.position and twin.position is not reader.position
    assert torch.equal(twin.position.table, reader.position.table)
    twin.position.table.data.zero_()
    assert (reader.position.table != 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_changes_its_dtype_with_the_model(dtype):
    reader, tokens = reader_with_a_table(), torch.tensor([[1, 2, 3]])
    table = reader.position.table.detach().clone()
    reader.to(dtype)
    assert torch.equal(reader.position.table, table.to(dtype)) and reader(tokens).dtype == dtype
    assert reader.position.table is reader.attention.position.table
    assert isinstance(reader.position.table, nn.Parameter) and reader.position.table.requires_grad


def test_half_and_double_are_meant_too():
    assert LearnedEncoding(4, 3).half().table.dtype == torch.float16
    assert LearnedEncoding(4, 3).double().table.dtype == torch.float64


def test_a_model_made_on_meta_gets_its_rows_by_reset_parameters():
    state = torch.get_rng_state()
    with torch.device("meta"):
        model = nn.Sequential(LearnedEncoding(64, max_len=50))
    assert model[0].table.is_meta and torch.equal(torch.get_rng_state(), state)
    model.to_empty(device="cpu")
    model[0].table.data.fill_(torch.nan)                         # what empty memory may hold
    model[0].reset_parameters()
    assert model(torch.zeros(1, 50, 64)).std().item() == pytest.approx(1, abs=0.06)
    assert model[0].table.requires_grad and model[0].table.is_leaf


def test_it_says_how_large_it_is():
    assert repr(LearnedEncoding(4, max_len=6)).startswith("LearnedEncoding(\n  d_model=4, max_len=6\n")


# Longer and shorter: the rows

@given(old=lengths, new=lengths)
def test_new_rows_stand_evenly_on_the_lines_between_the_old_ones(old, new):
    table = random(old, 3, dtype=torch.float64)
    place = [row * (old - 1) / max(new - 1, 1) for row in range(new)]
    expected = np.stack([np.interp(place, range(old), column) for column in table.T.numpy()], 1)
    np.testing.assert_allclose(stretch(table, new), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(stretch(table.float(), new), expected, rtol=0, atol=5e-5)


@given(old=lengths, new=lengths, width=st.integers(1, 5))
def test_it_is_pytorchs_linear_interpolation_with_aligned_corners(old, new, width):
    table = random(old, width, dtype=torch.float64)
    expected = interpolated(table, new, mode="linear")
    torch.testing.assert_close(stretch(table, new), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(encoding_with(table).resize(new).table.data, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("old", "new"), [(512, 1000), (512, 4096), (2048, 700)])
def test_long_tables_are_read_as_well_as_short_ones(old, new):
    table = random(old, 4, dtype=torch.float64)
    expected = interpolated(table, new, mode="linear")
    torch.testing.assert_close(stretch(table, new), expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(stretch(table.float(), new).double(), expected, rtol=0, atol=5e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_table_in_half_precision_is_rounded_last(dtype):
    table = random(512, 4, dtype=dtype)
    expected = interpolated(table.double(), 1000, mode="linear")
    within = expected.abs() * torch.finfo(dtype).eps / 2 + 5e-4              # in bfloat16 a place would be off by a row
    assert ((stretch(table, 1000).double() - expected).abs() <= within).all()


@given(old=lengths, new=lengths, dtype=st.sampled_from(DTYPES))
def test_the_ends_are_kept_to_the_last_bit(old, new, dtype):
    encoding = encoding_with(random(old, 3, dtype=dtype))
    rows = encoding.resize(new).table
    assert rows.shape == (new, 3) and torch.equal(rows[0], encoding.table[0])
    if new > 1:
        assert torch.equal(rows[-1], encoding.table[-1])


@given(old=lengths, dtype=st.sampled_from(DTYPES))
def test_the_same_length_changes_nothing_and_doubling_keeps_every_row(old, dtype):
    table = random(old, 3, dtype=dtype)
    assert torch.equal(encoding_with(table).resize(old).table, table)
    doubled = encoding_with(table).resize(2 * old - 1).table
    assert torch.equal(doubled[::2], table)
    middle = (table[1:].double() + table[:-1].double()) / 2
    torch.testing.assert_close(doubled[1::2].double(), middle, rtol=0, atol=2 * torch.finfo(dtype).eps)


@given(old=st.integers(2, 40), new=st.integers(2, 40), seed=st.integers(0, 9))
def test_rows_on_a_line_stay_on_it_evenly_spaced(old, new, seed):
    start, way = random(2, 3, seed=seed, dtype=torch.float64)
    share = torch.linspace(0, 1, old, dtype=torch.float64)[:, None]
    expected = start + torch.linspace(0, 1, new, dtype=torch.float64)[:, None] * way
    torch.testing.assert_close(stretch(start + share * way, new), expected, rtol=0, atol=1e-12)


@given(old=st.integers(2, 40), shorter=st.integers(2, 40))
def test_shorter_and_longer_again_keeps_the_ends(old, shorter):
    encoding = encoding_with(random(old, 3))
    there_and_back = encoding.resize(min(shorter, old)).resize(old)
    assert torch.equal(there_and_back.table[[0, -1]], encoding.table[[0, -1]])
    assert there_and_back.max_len == old
    back = encoding.resize(2 * old - 1).resize(old)                       # longer and shorter again is another matter
    torch.testing.assert_close(back.table, encoding.table, rtol=0, atol=1e-5)


def test_one_row_is_repeated_and_one_of_many_is_the_first():
    table = random(1, 4)
    assert torch.equal(stretch(table, 5), table.expand(5, 4))
    assert torch.equal(stretch(random(6, 4), 1), random(6, 4)[:1])


@pytest.mark.parametrize(("grid", "new"), [((2, 8), (4, 4)), ((3, 5), (7, 2)), ((14, 14), (24, 24)), ((1, 6), (4, 3))])
def test_a_grid_is_stretched_axis_by_axis(grid, new):
    table = random(*grid, 5, dtype=torch.float64)
    high = stretch(table, new[0])
    assert high.shape == (new[0], grid[1], 5)
    both = stretch(high.transpose(0, 1), new[1]).transpose(0, 1)
    torch.testing.assert_close(both, interpolated(table, *new, mode="bilinear"), rtol=0, atol=1e-12)


def test_a_table_without_further_axes_is_stretched_too():
    torch.testing.assert_close(stretch(torch.tensor([0.0, 2.0, 3.0]), 5), torch.tensor([0.0, 1.0, 2.0, 2.5, 3.0]))


# Longer and shorter: the encoding

@pytest.mark.parametrize("new", [3, 7, 12])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_the_resized_encoding_is_another_of_the_same_kind(new, dtype, requires_grad, training):
    encoding = LearnedEncoding(4, max_len=7, dropout=0.25).to(dtype).train(training)
    encoding.table.requires_grad_(requires_grad)
    resized = encoding.resize(new)
    assert (resized.d_model, resized.max_len, resized.dropout.p) == (4, new, 0.25)
    assert resized.training == resized.dropout.training == training
    assert resized.table.dtype == dtype and resized.table.device == encoding.table.device
    assert resized.table.requires_grad == requires_grad and resized.table.is_leaf
    assert [name for name, _ in resized.named_parameters()] == ["table"]
    assert resized(torch.zeros(1, new, 4)).shape == (1, new, 4)
    with pytest.raises(ValueError, match=f"x has {new + 1} positions but the table has {new} rows"):
        resized(torch.zeros(1, new + 1, 4))


@pytest.mark.parametrize("new", [1, 7, 12])
def test_the_original_and_the_random_numbers_stay_as_they_are(new):
    encoding = LearnedEncoding(4, max_len=7)
    before, parameter, state = encoding.table.detach().clone(), encoding.table, torch.get_rng_state()
    resized = encoding.resize(new)
    assert torch.equal(torch.get_rng_state(), state)
    resized.table.data.add_(1)
    assert encoding.table is parameter and torch.equal(encoding.table, before) and encoding.max_len == 7
    resized(torch.zeros(1, new, 4)).sum().backward()
    assert encoding.table.grad is None and resized.table.grad.abs().sum() == 4 * new


def test_on_meta_there_is_only_the_shape_to_change():
    with torch.device("meta"):
        resized = LearnedEncoding(4, max_len=7).resize(9)
    assert resized.table.is_meta and resized.table.shape == (9, 4)


# Where it ends; the same for the computed table

TABLES = [lambda: LearnedEncoding(4, max_len=8), lambda: SinusoidalEncoding(4, max_len=8, dropout=0.0)]


class LookUps(TorchFunctionMode):
    """Counts what is done with a table, except asking for its attributes."""

    def __init__(self, table):
        super().__init__()
        self.table, self.count = table, 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function.__name__ != "__get__" and any(argument is self.table for argument in arguments):
            self.count += 1
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("make", TABLES, ids=["learned", "sinusoidal"])
@pytest.mark.parametrize(("tokens", "position", "message"), [
    (9, None, "x has 9 positions but the table has 8 rows: raise max_len to 9"),
    (500, None, "x has 500 positions but the table has 8 rows: raise max_len to 500"),
    (1, [8], "position must be from 0 to 7, as the table has 8 rows, got 8 to 8"),
    (3, [0, 999, 5], "position must be from 0 to 7, as the table has 8 rows, got 0 to 999"),
    (2, [[0, 1], [2, 8]], "position must be from 0 to 7, as the table has 8 rows, got 0 to 8"),
    (3, [0, -1, 5], "position must be from 0 to 7, as the table has 8 rows, got -1 to 5"),
    (2, [-9, 9], "position must be from 0 to 7, as the table has 8 rows, got -9 to 9"),
])
def test_what_lies_outside_the_table_is_refused_before_the_look_up(make, tokens, position, message):
    encoding, x = make(), torch.zeros(2, tokens, 4)
    with LookUps(encoding.table) as looked_up, pytest.raises(ValueError) as refused:
        encoding(x, position if position is None else torch.tensor(position))
    assert str(refused.value) == message and looked_up.count == 0


@pytest.mark.parametrize("make", TABLES, ids=["learned", "sinusoidal"])
@pytest.mark.parametrize("position", [None, torch.arange(3), torch.tensor([[0, 7, 1], [7, 0, 7]])])
def test_what_lies_inside_is_looked_up_once(make, position):
    encoding = make()
    with LookUps(encoding.table) as looked_up:
        encoding(torch.zeros(2, 3, 4), position)
    assert looked_up.count == 1


@pytest.mark.parametrize("make", TABLES, ids=["learned", "sinusoidal"])
def test_it_is_refused_where_there_is_nothing_to_look_up(make):
    """The meta device has shapes and no numbers, so this error can only be the check's own."""
    encoding = make().to("meta")
    assert encoding(torch.zeros(2, 8, 4, device="meta")).shape == (2, 8, 4)
    with pytest.raises(ValueError, match="x has 9 positions but the table has 8 rows: raise max_len to 9"):
        encoding(torch.zeros(2, 9, 4, device="meta"))


# Other bad input

@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: LearnedEncoding(4, 0), ValueError, "max_len must be a whole number of at least 1, got 0"),
    (lambda: LearnedEncoding(4, -3), ValueError, "max_len .* got -3"),
    (lambda: LearnedEncoding(4, 2.0), TypeError, r"max_len .* got 2.0 \(float\)"),
    (lambda: LearnedEncoding(4, True), TypeError, r"max_len .* got True \(bool\)"),
    (lambda: LearnedEncoding(4, "8"), TypeError, r"max_len .* got '8' \(str\)"),
    (lambda: LearnedEncoding(4, None), TypeError, "max_len .* got None"),
    (lambda: LearnedEncoding(0, 8), ValueError, "d_model must be a whole number of at least 1, got 0"),
    (lambda: LearnedEncoding(4.0, 8), TypeError, "d_model .* got 4.0"),
    (lambda: LearnedEncoding(False, 8), TypeError, "d_model .* got False"),
    (lambda: LearnedEncoding("4", 8), TypeError, "d_model .* got '4'"),
    (lambda: LearnedEncoding(4, 8, dropout=1.0), ValueError, "dropout must be a number from 0 to below 1, got 1.0"),
    (lambda: LearnedEncoding(4, 8, dropout=-0.1), ValueError, "dropout .* got -0.1"),
    (lambda: LearnedEncoding(4, 8, dropout="0"), TypeError, "dropout .* got '0'"),
    (lambda: LearnedEncoding(4, 8, dropout=True), TypeError, "dropout .* got True"),
    (lambda: stretch(torch.zeros(3, 2), 0), ValueError, "length must be a whole number of at least 1, got 0"),
    (lambda: stretch(torch.zeros(3, 2), -1), ValueError, "length .* got -1"),
    (lambda: stretch(torch.zeros(3, 2), 2.5), TypeError, "length .* got 2.5"),
    (lambda: stretch(torch.zeros(3, 2), True), TypeError, "length .* got True"),
    (lambda: stretch(torch.zeros(3, 2), "6"), TypeError, "length .* got '6'"),
    (lambda: stretch(torch.zeros(3, 2, dtype=torch.int64), 6), TypeError, r"table must be .* got torch.int64 \[3, 2\]"),
    (lambda: stretch(torch.zeros(3, 2, dtype=torch.bool), 6), TypeError, "table must be .* got torch.bool"),
    (lambda: stretch(torch.zeros(3, 2) + 0j, 6), TypeError, "table must be .* got torch.complex64"),
    (lambda: stretch(torch.zeros(0, 2), 6), ValueError, r"at least one row, got shape \[0, 2\]"),
    (lambda: stretch(torch.tensor(1.0), 6), ValueError, r"at least one row, got shape \[\]"),
    (lambda: stretch([[0.0], [1.0]], 6), TypeError, "table must be .* got list"),
    (lambda: MultiHeadAttention(24, 3, LearnedEncoding(16, 8)), ValueError,
     "position must be made for this layer's d_model = 24, but this LearnedEncoding was made for 16"),
])
def test_bad_settings_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("length", "error", "message"), [
    (0, ValueError, "must be a whole number of at least 1, got 0"), (-2, ValueError, "at least 1, got -2"),
    (2.5, TypeError, "got 2.5"), (True, TypeError, "got True"), ("9", TypeError, "got '9'"), (None, TypeError, "None")])
def test_an_impossible_length_is_named_and_changes_nothing(length, error, message):
    encoding = LearnedEncoding(4, max_len=7)
    before, state = encoding.table.detach().clone(), torch.get_rng_state()
    with pytest.raises(error, match=message):
        encoding.resize(length)
    assert torch.equal(encoding.table, before) and encoding.max_len == 7
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("x", "position", "error", "message"), [
    (torch.zeros(5, 4), None, ValueError, r"x must be .*\[batch, seq, 4\], got shape \[5, 4\]"),
    (torch.zeros(2, 5, 6), None, ValueError, r"got shape \[2, 5, 6\]: its last axis is 6 wide"),
    (torch.zeros(2, 5, dtype=torch.int64), None, TypeError, "got dtype torch.int64: are these token ids"),
    ([[[0.0] * 4]], None, TypeError, "x must be .* got list"),
    (torch.zeros(2, 3, 4), [0, 1, 2], TypeError, r"position must be an integer tensor .*\[3\] or \[2, 3\], got list"),
    (torch.zeros(2, 3, 4), torch.zeros(3), TypeError, "position must be .* got dtype torch.float32"),
    (torch.zeros(2, 3, 4), torch.zeros(3, dtype=torch.bool), TypeError, "position must be .* got dtype torch.bool"),
    (torch.zeros(2, 3, 4), torch.arange(4), ValueError, r"position must be .* got shape \[4\]"),
    (torch.zeros(2, 3, 4), torch.zeros(3, 3, dtype=torch.int64), ValueError, r"position must be .* got shape \[3, 3\]"),
])
def test_bad_sequences_are_named(x, position, error, message):
    with pytest.raises(error, match=message):
        LearnedEncoding(4, max_len=8)(x, position)


def test_whole_numbers_of_other_libraries_are_welcome():
    encoding = LearnedEncoding(np.int64(4), np.int32(6), dropout=np.float32(0.5))
    assert encoding.resize(np.int64(9)).table.shape == stretch(encoding.table, torch.tensor(9)).shape == (9, 4)


def test_its_table_is_a_tensor_that_a_model_sees():
    assert isinstance(LearnedEncoding(4, 6).table, Tensor) and isinstance(LearnedEncoding(4, 6), Position)
    assert [tuple(p.shape) for p in nn.Sequential(LearnedEncoding(4, 6)).parameters()] == [(6, 4)]
