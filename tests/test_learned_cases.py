"""Mistakes that real people made with learned tables, each with a small input on which it shows."""
import pytest
import torch
from torch import nn
from torch.nn import functional

from posenc_lib import LearnedEncoding, stretch


def counted_from_the_padding(ids, padding):
    """RoBERTa's positions: words count on from the padding's number, and the padding has that number itself."""
    word = ids != padding
    return word.long().cumsum(1) * word + padding


def test_index_100_of_99_rows_is_refused_with_both_numbers():
    with pytest.raises(IndexError, match="index out of range in self"):                  # what PyTorch says
        nn.Embedding(99, 4)(torch.tensor([100]))
    encoding = LearnedEncoding(4, max_len=99)
    with pytest.raises(ValueError, match="position must be from 0 to 98, as the table has 99 rows, got 100 to 100"):
        encoding(torch.zeros(1, 1, 4), torch.tensor([100]))
    with pytest.raises(ValueError, match="x has 101 positions but the table has 99 rows: raise max_len to 101"):
        encoding(torch.zeros(1, 101, 4))
    assert encoding(torch.zeros(1, 1, 4), torch.tensor([98])).shape == (1, 1, 4)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_1025_tokens_for_1024_rows_are_refused_on_the_host(device):
    """Not by the device's look-up, which on a GPU ends the process: the meta device has none."""
    encoding = LearnedEncoding(2, max_len=1024).to(device)
    assert encoding(torch.zeros(1, 1024, 2, device=device)).shape == (1, 1024, 2)
    with pytest.raises(ValueError, match="x has 1025 positions but the table has 1024 rows: raise max_len to 1025"):
        encoding(torch.zeros(1, 1025, 2, device=device))


def test_positions_that_begin_after_the_padding_number():
    ids = torch.tensor([[2, 20, 30, 1, 1]])
    position = counted_from_the_padding(ids, padding=1)
    assert position.tolist() == [[2, 3, 4, 1, 1]]
    encoding = LearnedEncoding(4, max_len=5)
    assert torch.equal(encoding(torch.zeros(1, 5, 4), position)[0], encoding.table[[2, 3, 4, 1, 1]])


@pytest.mark.parametrize(("tokens", "padding", "rows"), [(512, 1, 514), (512, 3, 516), (510, 3, 514), (512, 0, 513)])
def test_as_many_rows_as_tokens_are_too_few_by_the_padding_number_and_one(tokens, padding, rows):
    x, position = torch.zeros(1, tokens, 2), counted_from_the_padding(torch.full((1, tokens), 9), padding)
    assert rows == tokens + padding + 1
    assert LearnedEncoding(2, max_len=rows)(x, position).shape == x.shape
    for too_few in {rows - 1, tokens}:
        with pytest.raises(ValueError, match=f"from 0 to {too_few - 1}, as the table has {too_few} rows, got "
                                             f"{padding + 1} to {rows - 1}"):
            LearnedEncoding(2, max_len=too_few)(x, position)


def test_514_rows_hold_512_tokens_with_padding_1_and_510_with_padding_3():
    encoding = LearnedEncoding(2, max_len=514)
    for padding, most in ((1, 512), (3, 510)):
        for tokens in (most, most + 1):
            x, position = torch.zeros(1, tokens, 2), counted_from_the_padding(torch.full((1, tokens), 9), padding)
            if tokens == most:
                assert encoding(x, position).shape == x.shape
            else:
                with pytest.raises(ValueError, match=f"as the table has 514 rows, got {padding + 1} to 514"):
                    encoding(x, position)


def test_a_grid_of_as_many_patches_in_another_shape_is_another_table():
    """2 by 8 patches and 4 by 4 are both 16. By its count the table is left as it was; by its shape it is stretched."""
    torch.manual_seed(0)
    by_count = LearnedEncoding(6, max_len=16)
    old = by_count.table.detach().view(2, 8, 6)
    assert torch.equal(by_count.resize(16).table, by_count.table)
    new = stretch(stretch(old, 4).transpose(0, 1), 4).transpose(0, 1)
    assert new.shape == (4, 4, 6) and (new.reshape(16, 6) - old.reshape(16, 6)).abs().max() > 0.5
    expected = functional.interpolate(old.permute(2, 0, 1)[None], (4, 4), mode="bilinear", align_corners=True)
    torch.testing.assert_close(new, expected[0].permute(1, 2, 0), rtol=0, atol=1e-6)
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert torch.equal(new[corner], old[corner])
