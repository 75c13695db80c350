"""T5's bias and ALiBi against Hugging Face transformers and x-transformers.

Known to differ, so not compared: both libraries take T5's logarithm in float32. It is right for every setting below,
and in a few others wrong for one distance (34 buckets up to 991, causal: 236 is named 27, belongs in 28). Shaw's
scheme is in neither library in the paper's form.
"""
import pytest
import torch
from transformers import T5Config, T5Model
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers.x_transformers import AlibiPositionalBias, RelativePositionBias

from posenc_lib import MultiHeadAttention, Position, causal_mask
from posenc_lib.alibi import Alibi, alibi_slopes
from posenc_lib.t5 import T5Bias, t5_bucket

OFFSETS = torch.arange(-2000, 2001)
CLOSE = {"rtol": 0, "atol": 1e-6}


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# T5

@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [
    (32, 128), (32, 256), (64, 128), (320, 800), (16, 100), (8, 20), (48, 1000)])
def test_buckets(num_buckets, max_distance, bidirectional):
    """32 and 128 are T5's, 320 and 800 those of WavLM."""
    ours = t5_bucket(OFFSETS, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
    transformers = T5Attention._relative_position_bucket(OFFSETS, bidirectional, num_buckets, max_distance)
    x_transformers = RelativePositionBias._relative_position_bucket(
        OFFSETS, causal=not bidirectional, num_buckets=num_buckets, max_distance=max_distance)
    assert torch.equal(ours, transformers) and torch.equal(ours, x_transformers)


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_the_bias_with_a_cache(causal):
    """x-transformers numbers the queries so that the last one meets the last key."""
    theirs, ours = RelativePositionBias(1.0, causal, heads=5), T5Bias(5, bidirectional=not causal)
    ours.bias.copy_(theirs.relative_attention_bias.weight)
    score = ours.score(torch.ones(1, 5, 3, 8), torch.arange(147, 150)[None], torch.arange(150)[None])
    torch.testing.assert_close(score[0], theirs(3, 150), rtol=0, atol=0)


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_attention_with_t5s_weights(causal):
    """Queries times √d_head, since T5 leaves the division out; T5's linear maps have no bias."""
    config = T5Config(d_model=24, d_kv=8, num_heads=3, is_decoder=causal, use_cache=False, attn_implementation="eager")
    torch.manual_seed(0)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    scheme = T5Bias(3, bidirectional=not causal)
    scheme.bias.copy_(theirs.relative_attention_bias.weight)
    ours = MultiHeadAttention(24, 3, scheme).eval()
    for mine, other in ((ours.to_query, theirs.q), (ours.to_key, theirs.k), (ours.to_value, theirs.v),
                        (ours.to_output, theirs.o)):
        mine.weight.copy_(other.weight)
        mine.bias.zero_()
    ours.to_query.weight.mul_(8**0.5)
    x, may = random(2, 150, 24), causal_mask(150) if causal else torch.ones(150, 150, dtype=torch.bool)
    added = torch.zeros(1, 1, 150, 150).masked_fill(~may, torch.finfo(torch.float32).min)
    output, weights = ours(x, mask=may)
    expected, _, expected_weights = theirs(x, mask=added)
    torch.testing.assert_close(output, expected, rtol=0, atol=2e-6)
    torch.testing.assert_close(weights, expected_weights, **CLOSE)


def test_t5_has_one_bias_a_stack_and_none_in_cross_attention():
    config = T5Config(d_model=16, d_kv=4, num_heads=4, d_ff=16, num_layers=3, vocab_size=10)
    tables = [name for name, _ in T5Model(config).named_parameters() if "relative_attention_bias" in name]
    assert tables == [f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
                      for stack in ("encoder", "decoder")]


# ALiBi

@pytest.mark.parametrize("n_heads", range(1, 65))
def test_slopes(n_heads):
    """Position 1 of Bloom's bias is the slope; MPT's, up to a constant, falls to the left by one slope a word."""
    ours = alibi_slopes(n_heads).float()
    bloom = build_alibi_tensor(torch.ones(1, 2), n_heads, torch.float32)[:, 0, 1]
    mpt = build_mpt_alibi_tensor(n_heads, 2)
    x_transformers = torch.tensor(AlibiPositionalBias._get_slopes(n_heads))
    torch.testing.assert_close(ours, bloom, **CLOSE)
    torch.testing.assert_close(ours, mpt[:, 0, 1] - mpt[:, 0, 0], **CLOSE)
    torch.testing.assert_close(ours, x_transformers, **CLOSE)


@pytest.mark.parametrize(("n_heads", "total_heads"), [(8, 8), (4, 8), (6, 7), (12, 12)])
def test_the_bias_with_heads_left_out_and_a_cache(n_heads, total_heads):
    theirs = AlibiPositionalBias(n_heads, total_heads)(5, 9)
    ours = Alibi(n_heads, total_heads=total_heads)
    score = ours.score(torch.ones(1, total_heads, 5, 4), torch.arange(4, 9)[None], torch.arange(9)[None])
    torch.testing.assert_close(score[0], theirs, **CLOSE)


def test_the_bias_with_positions_of_each_row():
    m, n = torch.tensor([[0, 1, 2], [40, 3, 3]]), torch.tensor([[0, 1, 2, 3], [-1, 9, 60, 3]])
    score = Alibi(6).score(torch.ones(2, 6, 3, 4), m, n)
    torch.testing.assert_close(score, AlibiPositionalBias(6).forward_custom_pos(m, n), rtol=1e-6, atol=0)


class Given(Position):
    """A bias that another library computed."""

    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def score(self, query, query_position, key_position):
        return self.bias


@torch.no_grad()
def test_attention_under_a_causal_mask_with_padding_on_the_left():
    """Bloom adds slope·n and MPT slope·(n - last), the same for each query: under this mask all are one."""
    words = torch.tensor([[True] * 7, [False] * 3 + [True] * 4])
    position = (words.long().cumsum(1) - 1).clamp(min=0)
    mask, x = words[:, None, None] & causal_mask(7), random(2, 7, 24)
    bloom = build_alibi_tensor(words.long(), 6, torch.float32).unflatten(0, (2, 6))
    outputs = []
    for scheme in (Alibi(6), Given(bloom), Given(build_mpt_alibi_tensor(6, 7)[None])):
        torch.manual_seed(0)
        layer = MultiHeadAttention(24, 6, scheme).eval()
        outputs.append(layer(x, mask=mask, query_position=position, key_position=position)[0])
    torch.testing.assert_close(outputs[1], outputs[0], **CLOSE)
    torch.testing.assert_close(outputs[2], outputs[0], **CLOSE)
