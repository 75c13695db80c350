"""Mistakes that real people made with masks, each with a small input on which it shows."""
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from posenc_lib import MultiHeadAttention, attention, causal_mask

EXACT = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(autouse=True)
def same_numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def test_a_sentence_of_nothing_but_padding_is_no_nan():
    """torch's layer answers NaN, and one such sentence spoils the gradients of the whole batch."""
    x = torch.randn(2, 4, 8)
    padding = torch.tensor([[True] * 4, [False] * 4])                            # True: a word
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    output, _ = theirs(x, x, x, key_padding_mask=~padding, need_weights=True)
    assert output[1].isnan().all() and output[0].isfinite().all()
    output.nansum().backward()
    assert theirs.in_proj_weight.grad.isnan().any()

    ours = MultiHeadAttention(8, 2).eval()
    output, weights = ours(x, mask=padding[:, None, None, :])
    assert (weights[1] == 0).all()
    torch.testing.assert_close(output[1], ours.to_output.bias.expand(4, 8), rtol=0, atol=0)
    torch.testing.assert_close(output[0], ours(x[:1])[0][0], **EXACT)
    output.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in ours.parameters())
    assert ours.to_value.weight.grad.abs().max() > 0


def test_a_row_without_any_key_is_zero():
    query, key, value = (torch.randn(2, 3, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, True], [False, False]])
    output, weights = attention(query, key, value, mask)
    assert output[1].tolist() == [0, 0, 0] and weights[1].tolist() == [0, 0] and (output[0] != 0).all()
    torch.testing.assert_close(output, scaled_dot_product_attention(query, key, value, attn_mask=mask), **EXACT)
    output.sum().backward()
    assert all(x.grad.isfinite().all() for x in (query, key, value))
    assert query.grad[1].tolist() == [0, 0, 0]


def test_true_means_may_attend():
    """torch's layer means the opposite: moved there, a causal mask looks ahead, and the last word sees nothing."""
    x = torch.randn(1, 3, 8)
    theirs = nn.MultiheadAttention(8, 1, batch_first=True).eval()
    _, (weights,) = theirs(x, x, x, attn_mask=causal_mask(3))
    assert weights[0, 0] == 0 and weights[0, 1:].sum().item() == pytest.approx(1)
    assert weights[1].tolist() == [0, 0, 1] and weights[2].isnan().all()

    ours, changed = MultiHeadAttention(8, 1).eval(), x.clone()
    changed[0, 1] += 1
    output, ((weights,),) = ours(x, mask=causal_mask(3))
    assert weights[0].tolist() == [1, 0, 0] and weights[1, 2] == 0 and (weights[2] > 0).all()
    difference = (ours(changed, mask=causal_mask(3))[0] - output).abs().amax(-1)[0]
    assert difference[0] == 0 and difference[1] > 1e-3 and difference[2] > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_are_combined_as_booleans_and_filled_in_once(dtype):
    """Added up as the lowest number each, two masks or a mask and a low score overflow to -inf."""
    def added(*numbers):
        return sum(torch.tensor(number, dtype=dtype) for number in numbers)

    lowest = torch.finfo(dtype).min
    assert added(lowest, lowest) == -torch.inf
    if dtype == torch.float16:
        assert added(lowest, -15) == lowest and added(lowest, -16) == -torch.inf
    causal, padding = causal_mask(3), torch.tensor([False, True, True])          # word 0 is padding
    filled = [torch.zeros(3, 3, dtype=dtype).masked_fill(~mask, lowest) for mask in (causal, causal, padding, padding)]
    assert sum(filled)[0].tolist() == [-torch.inf] * 3 and sum(filled)[0].softmax(-1).isnan().all()

    query = torch.full((3, 4), -100.0, dtype=dtype)                              # q·k/√d = -20000 with every key
    key, value = -query, torch.eye(3, 4, dtype=dtype)
    output, weights = attention(query, key, value, causal & padding)
    assert weights.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    assert output.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0]]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_padded_words_keep_their_rows_and_touch_no_other():
    """torch's encoder takes another way in evaluation: its padded rows are 0 there and something else in training."""
    x, padding = torch.randn(2, 6, 8), torch.tensor([[True] * 4 + [False] * 2] * 2)
    block = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(block, 1, enable_nested_tensor=True)
    trained = theirs.train()(x, src_key_padding_mask=~padding)
    with torch.no_grad():
        evaluated = theirs.eval()(x, src_key_padding_mask=~padding)
    assert evaluated.shape == trained.shape == (2, 6, 8)
    assert (evaluated[:, 4:] == 0).all() and trained[:, 4:].abs().max() > 1
    torch.testing.assert_close(evaluated[:, :4], trained[:, :4], rtol=0, atol=1e-5)

    ours, mask = MultiHeadAttention(8, 2), padding[:, None, None, :]
    trained, weights = ours.train()(x, mask=mask)
    with torch.no_grad():
        evaluated, _ = ours.eval()(x, mask=mask)
    assert evaluated.shape == (2, 6, 8) and torch.equal(evaluated, trained)
    assert (weights[..., 4:] == 0).all()
    other = torch.where(padding[..., None], x, 1000 * torch.randn(2, 6, 8))      # whatever the padding holds
    torch.testing.assert_close(ours(other, mask=mask)[0][:, :4], trained[:, :4], **EXACT)
    torch.testing.assert_close(ours(x[:, :4])[0], trained[:, :4], **EXACT)       # as if it were not there


def test_the_mask_comes_before_the_softmax():
    """After it, rows no longer add up to 1; and +inf in place of -inf gives everything to the future, or NaN."""
    query, key = torch.randn(3, 4), torch.randn(3, 4)
    _, weights = attention(query, key, key, causal_mask(3))
    assert weights[0].tolist() == [1, 0, 0]
    torch.testing.assert_close(weights.sum(1), torch.ones(3), **EXACT)
    assert (weights.triu(1) == 0).all() and (weights.tril() > 0).sum() == 6
    late = attention(query, key, key)[1].masked_fill(~causal_mask(3), 0.0)
    assert late[0].sum() < 0.99
    torch.testing.assert_close(late / late.sum(1, keepdim=True), weights, **EXACT)
    assert (query @ key.T).masked_fill(~causal_mask(3), torch.inf).softmax(1)[:2].isnan().any(1).all()
