"""Rotary positions against rotary-embedding-torch, Hugging Face transformers and x-transformers.

All of them make frequencies and angles in float32: at a position p an angle is off by up to about p · 1e-7, while ours
are float64. So they are compared to 1e-6 over the first 8 positions and, farther out, to what their own angles are
worth; given exact frequencies or sines, they agree to 1e-6 and better at every position.
A module of rotary-embedding-torch keeps the angles of its first call, whatever the dtype, so each comparison makes a
new one.
"""
import pytest
import torch
from rotary_embedding_torch import RotaryEmbedding
from transformers import GPTJConfig, GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from x_transformers import x_transformers

from posenc_lib import MultiHeadAttention, Position, causal_mask, frequencies
from posenc_lib.rotary import Rotary, apply_rotary, convert_projection

NEAR, FAR = 8, 1000
widths = pytest.mark.parametrize(("d_head", "rotary_dim"), [(64, 64), (64, 32), (64, 16), (8, 8), (128, 128)])
bases = pytest.mark.parametrize("base", [10_000.0, 500_000.0])


def random(*shape, seed=0):
    """Numbers from -1 to 1, so that an angle's error is about the result's."""
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 1


def assert_agree(ours, theirs, position):
    position = position[..., None, :, None] if position.dim() == 2 else position[:, None]
    allowed = 1e-6 + torch.where(position < NEAR, 0, 2e-7 * position)
    assert ((ours - theirs).abs() <= allowed).all()


# rotary-embedding-torch and x-transformers: interleaved

@widths
@bases
@torch.no_grad()
def test_rotary_embedding_torch(d_head, rotary_dim, base):
    x = random(2, 3, FAR, d_head)
    theirs = RotaryEmbedding(rotary_dim, theta=base).rotate_queries_or_keys(x)
    assert_agree(apply_rotary(x, base=base, rotary_dim=rotary_dim), theirs, torch.arange(FAR))


@torch.no_grad()
def test_rotary_embedding_torch_from_another_position_on():
    x = random(2, 3, 5, 64)
    theirs = RotaryEmbedding(64).rotate_queries_or_keys(x, offset=7)
    assert_agree(apply_rotary(x, torch.arange(7, 12)), theirs, torch.arange(7, 12))


@widths
@torch.no_grad()
def test_rotary_embedding_torch_with_exact_frequencies_agrees_far_out(d_head, rotary_dim):
    x = random(2, 3, 8000, d_head).double()
    theirs = RotaryEmbedding(rotary_dim, custom_freqs=frequencies(rotary_dim)).double().rotate_queries_or_keys(x)
    torch.testing.assert_close(apply_rotary(x, rotary_dim=rotary_dim), theirs, rtol=0, atol=1e-10)


@widths
@bases
@torch.no_grad()
def test_x_transformers(d_head, rotary_dim, base):
    x = random(2, 3, FAR, d_head)
    angles, scale = x_transformers.RotaryEmbedding(rotary_dim, base=base).forward_from_seq_len(FAR)
    theirs = x_transformers.apply_rotary_pos_emb(x, angles, scale)
    assert_agree(apply_rotary(x, base=base, rotary_dim=rotary_dim), theirs, torch.arange(FAR))


@torch.no_grad()
def test_x_transformers_with_positions_of_each_row():
    x, position = random(2, 3, 4, 64), torch.tensor([[0, 0, 1, 2], [9, 3, 40, 700]])
    angles, scale = x_transformers.RotaryEmbedding(64)(position)
    assert_agree(apply_rotary(x, position), x_transformers.apply_rotary_pos_emb(x, angles, scale), position)


# transformers: Llama and GPT-NeoX half-split, GPT-J interleaved

PER_ROW = torch.stack([torch.arange(FAR), torch.arange(FAR).flip(0)])
positions = pytest.mark.parametrize("position", [torch.arange(FAR), PER_ROW], ids=["one for all", "per row"])


@pytest.mark.parametrize("d_head", [8, 64, 128])
@bases
@positions
@torch.no_grad()
def test_llama(d_head, base, position):
    q, k = random(2, 3, FAR, d_head), random(2, 1, FAR, d_head, seed=1)
    config = LlamaConfig(hidden_size=3 * d_head, num_attention_heads=3, head_dim=d_head,
                         rope_parameters={"rope_type": "default", "rope_theta": base})
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, position.expand(2, -1))
    for x, theirs in zip((q, k), llama.apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        assert_agree(apply_rotary(x, position, base=base, layout="half"), theirs, position)


@pytest.mark.parametrize("d_head", [8, 64, 128])
@bases
@torch.no_grad()
def test_llama_with_exact_sines_agrees_far_out(d_head, base):
    x, angle = random(2, 3, 8000, d_head), torch.outer(torch.arange(8000.0).double(), frequencies(d_head, base))
    cos, sin = (wave.repeat(1, 2).float()[None] for wave in (angle.cos(), angle.sin()))
    theirs, _ = llama.apply_rotary_pos_emb(x, x, cos, sin)
    torch.testing.assert_close(apply_rotary(x, base=base, layout="half"), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("factor", [0.25, 0.5, 1.0])
@positions
@torch.no_grad()
def test_gpt_neox_turns_the_first_columns_in_halves(factor, position):
    q, k = random(2, 3, FAR, 64), random(2, 3, FAR, 64, seed=1)
    config = GPTNeoXConfig(hidden_size=192, num_attention_heads=3, rope_parameters={
        "rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": factor})
    cos, sin = gpt_neox.GPTNeoXRotaryEmbedding(config)(q, position.expand(2, -1))
    for x, theirs in zip((q, k), gpt_neox.apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        assert_agree(apply_rotary(x, position, layout="half", rotary_dim=int(64 * factor)), theirs, position)


@pytest.mark.parametrize("rotary_dim", [16, 64])
@positions
@torch.no_grad()
def test_gpt_j_turns_the_first_columns_by_neighbours(rotary_dim, position):
    x = random(2, 3, FAR, 64)
    config = GPTJConfig(n_embd=192, n_head=3, rotary_dim=rotary_dim)
    sin, cos = gptj.GPTJRotaryEmbedding(config)(x, position.expand(2, -1))
    theirs = gptj.apply_rotary_pos_emb(x[..., :rotary_dim].transpose(1, 2), sin, cos).transpose(1, 2)
    assert_agree(apply_rotary(x, position, rotary_dim=rotary_dim)[..., :rotary_dim], theirs, position)


# Whole attention layers with the weights of another library's

@torch.no_grad()
def layer_with_weights_of(projections, scheme):
    layer = MultiHeadAttention(24, 3, scheme).eval()
    for ours, theirs in zip((layer.to_query, layer.to_key, layer.to_value, layer.to_output), projections, strict=True):
        ours.weight.copy_(theirs.weight)
        ours.bias.zero_()
    return layer


def assert_attends_alike(layer, theirs, angles, x):
    mask = causal_mask(x.shape[1])
    added = torch.zeros(1, 1, *mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    output, weights = layer(x, mask=mask)
    expected, expected_weights = theirs(x, position_embeddings=angles, attention_mask=added)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=2e-6)
    torch.testing.assert_close(output, expected, rtol=0, atol=2e-6)
    layer.position = Position()                                             # the turns do matter to these weights
    assert (layer(x, mask=mask)[1] - weights).abs().max() > 0.1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@torch.no_grad()
def test_attention_with_llamas_weights_as_they_are_and_converted(layout):
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=24, num_attention_heads=3, attn_implementation="eager")
    theirs, x = llama.LlamaAttention(config, layer_idx=0).eval(), random(2, 16, 24)
    theirs.q_proj.weight.mul_(6)
    layer = layer_with_weights_of((theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj),
                                  Rotary(8, layout=layout))
    if layout == "interleaved":
        for projection in (layer.to_query, layer.to_key):
            projection.weight.copy_(convert_projection(projection.weight, 3, to="interleaved"))
    angles = llama.LlamaRotaryEmbedding(config)(x, torch.arange(16)[None])
    assert_attends_alike(layer, theirs, angles, x)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@torch.no_grad()
def test_attention_with_gpt_js_weights_as_they_are_and_converted(layout):
    torch.manual_seed(0)
    config = GPTJConfig(n_embd=24, n_head=3, rotary_dim=4, attn_implementation="eager")
    theirs, x = gptj.GPTJAttention(config, layer_idx=0).eval(), random(2, 16, 24)
    theirs.q_proj.weight.mul_(6)
    layer = layer_with_weights_of((theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj),
                                  Rotary(8, rotary_dim=4, layout=layout))
    if layout == "half":
        for projection in (layer.to_query, layer.to_key):
            projection.weight.copy_(convert_projection(projection.weight, 3, to="half", rotary_dim=4))
    angles = gptj.GPTJRotaryEmbedding(config)(x, torch.arange(16)[None])
    assert_attends_alike(layer, theirs, angles, x)
