"""Mistakes that real people made with rotary positions, each with a small input on which it shows."""
import math

import pytest
import torch
from torch import nn

from posenc_lib import MultiHeadAttention, causal_mask, frequencies
from posenc_lib.rotary import Rotary, apply_rotary, convert_projection, rotary_permutation

LAYOUTS = ["interleaved", "half"]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cosines_and_sines(length, d_head, dtype=torch.float32, **settings):
    """Points (1, 0) turned by positions 0, 1, 2, …: their cosines and sines, `[length, pairs]` each."""
    ones = torch.zeros(1, 1, length, d_head, dtype=dtype)
    ones[..., 0::2] = 1
    turned = apply_rotary(ones, **settings)[0, 0]
    return turned[:, 0::2], turned[:, 1::2]


def layer_of(d_model, n_heads, scheme):
    torch.manual_seed(0)
    layer = MultiHeadAttention(d_model, n_heads, scheme).eval()
    with torch.no_grad():
        layer.to_query.weight *= 3                                        # choices sharp enough to differ
    return layer


# Layouts

def test_the_two_layouts_give_different_numbers_and_one_permutation_links_them():
    x, one = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 1, 4), torch.tensor([1])
    assert rotary_permutation(4).tolist() == [0, 2, 1, 3]
    for layout, expected in (("interleaved", [-1.14264, 1.92208, 2.95985, 4.02980]),
                             ("half", [-1.98411, 1.95990, 2.46238, 4.01980])):
        assert apply_rotary(x, one, layout=layout).flatten().tolist() == pytest.approx(expected, abs=5e-6)


def test_a_checkpoint_under_the_wrong_layout_keeps_every_law_and_gives_other_scores():
    """Only known numbers or the checkpoint itself tell; its rows of W_q and W_k, moved head by head, set it right."""
    x, to_query, to_key = random(1, 9, 12).double(), random(24, 12, seed=1).double(), random(24, 12, seed=2).double()

    def scores(to_query, to_key, layout, shift=0):
        q, k = ((x @ weight.mT).unflatten(2, (3, 8)).transpose(1, 2) for weight in (to_query, to_key))
        q, k = (apply_rotary(heads, torch.arange(9) + shift, layout=layout) for heads in (q, k))
        return q @ k.mT

    right, wrong = scores(to_query, to_key, "interleaved"), scores(to_query, to_key, "half")
    torch.testing.assert_close(scores(to_query, to_key, "half", shift=100), wrong, rtol=0, atol=1e-9)
    assert (wrong - right).abs().max() > 1
    converted = (convert_projection(weight, 3, to="half") for weight in (to_query, to_key))
    torch.testing.assert_close(scores(*converted, "half"), right, rtol=0, atol=1e-11)
    whole_matrix = [weight[rotary_permutation(24)] for weight in (to_query, to_key)]     # not head by head
    assert (scores(*whole_matrix, "half") - right).abs().max() > 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_and_angles_are_of_one_layout(layout):
    """Where they are not, scores (5, 3) and (7, 5) differ by more than 17, and the norm at position 1 is not 5.477."""
    q, k = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 1, 4), torch.tensor([4.0, 3, 2, 1]).view(1, 1, 1, 4)

    def turned(x, p):
        return apply_rotary(x, torch.tensor([p]), layout=layout)

    first, second = ((turned(q, m) * turned(k, m - 2)).sum().item() for m in (5, 7))
    assert first == pytest.approx(second, abs=1e-5)
    assert turned(q, 1).norm().item() == pytest.approx(math.sqrt(30), abs=1e-5)


# Precision

def test_angles_of_half_precision_inputs_are_not_half_precision():
    """The angle is 1044.2678; in float16 it would be 1045, whose cosine is -0.41."""
    cos, sin = cosines_and_sines(1858, 32, torch.float16)
    assert (1857 * frequencies(32)[1]).item() == pytest.approx(1044.2678, abs=5e-5)
    assert cos[1857, 1].item() == pytest.approx(0.3067, abs=3e-4)
    assert sin[1857, 1].item() == pytest.approx(math.sin(1044.2678), abs=6e-4)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float16, 2.5e-4), (torch.bfloat16, 0.00196)])
def test_a_narrow_model_has_sines_that_were_rounded_last(dtype, within):
    """Frequencies in bfloat16 would make it 0.71 for 512 positions, and about 2 for 4096."""
    angle = torch.outer(torch.arange(4096.0, dtype=torch.float64), frequencies(512))
    cos, sin = cosines_and_sines(4096, 512, dtype)
    assert max((cos - angle.cos()).abs().max(), (sin - angle.sin()).abs().max()) <= within
    scheme = nn.Sequential(Rotary(512)).to(dtype).float()[0]              # and nothing in it was narrowed
    ones = torch.zeros(1, 1, 4096, 512)
    ones[..., 0::2] = 1
    turned, _ = scheme.rotate(ones, ones, torch.arange(4096)[None], torch.arange(4096)[None])
    assert (turned[0, 0, :, 0::2] - angle.cos()).abs().max() <= 1e-7


def test_positions_that_were_rounded_to_half_precision_are_refused():
    """Position 257 is 256 in bfloat16."""
    position = torch.arange(300)
    assert position.bfloat16()[257] == 256
    with pytest.raises(TypeError, match=r"position .* got torch.bfloat16, .* above 256"):
        apply_rotary(torch.zeros(1, 1, 300, 8), position.bfloat16())


# Lengths, widths, bases

@pytest.mark.parametrize("position", [8191, 8192, 65_536, 10_000_000])
def test_there_is_no_table_that_could_end(position):
    turned = apply_rotary(torch.tensor([1.0, 0, 1, 0]).view(1, 1, 1, 4).double(), torch.tensor([position]))
    expected = [math.cos(position), math.sin(position), math.cos(position / 100), math.sin(position / 100)]
    assert turned.flatten().tolist() == pytest.approx(expected, abs=1e-9)


def test_frequencies_depend_on_width_and_base_only_never_on_a_length():
    x = random(1, 2, 4096, 64)
    for seq in (16, 64, 1000):
        torch.testing.assert_close(apply_rotary(x[:, :, :seq]), apply_rotary(x)[:, :, :seq], rtol=0, atol=1e-6)


def test_positions_run_along_the_sequence_and_are_not_scaled():
    """The third axis of [batch, heads, seq, d_head], and an angle of 3.0 at position 3."""
    x = torch.tensor([1.0, 0]).expand(2, 5, 4, 2)
    turned = apply_rotary(x)
    assert torch.equal(turned, turned[:1, :1].expand_as(x))
    torch.testing.assert_close(torch.atan2(turned[..., 1], turned[..., 0])[0, 0], torch.arange(4.0))


def test_partial_rotary_has_frequencies_over_the_columns_that_turn():
    """64 of 256 columns, as in GPT-J and, half-split, in GPT-NeoX: pair 1 has 0.749894, not 0.930572."""
    assert frequencies(64)[1].item() == pytest.approx(0.749894, abs=5e-7)
    assert frequencies(256)[1].item() == pytest.approx(0.930572, abs=5e-7)
    for layout, (a, b) in (("interleaved", (2, 3)), ("half", (1, 33))):
        x = random(1, 1, 2, 256)
        x[..., [a, b]] = torch.tensor([1.0, 0.0])
        turned = apply_rotary(x, layout=layout, rotary_dim=64)
        assert math.atan2(turned[0, 0, 1, b], turned[0, 0, 1, a]) == pytest.approx(0.749894, abs=1e-6)
        assert torch.equal(turned[..., 64:], x[..., 64:])
        assert (turned[0, 0, 1, :64] - x[0, 0, 1, :64]).abs().min() > 1e-6


def test_partial_rotary_of_few_columns_and_the_sign_of_the_exponent():
    """2 of 4 columns turn by position times 1; of 4 columns the second pair turns by 0.01, not 100; 3 cannot turn."""
    x = random(1, 1, 3, 4)
    partial = apply_rotary(x, rotary_dim=2)
    torch.testing.assert_close(partial[..., :2], apply_rotary(x[..., :2]))
    assert torch.equal(partial[..., 2:], x[..., 2:])
    assert frequencies(4).tolist() == pytest.approx([1, 0.01])
    with pytest.raises(ValueError, match=r"rotary_dim must be even, .* got 3"):
        apply_rotary(x, rotary_dim=3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_base_given_is_the_base_used(layout):
    """500 000 in place of 10 000: the slowest of 64 pairs has a wavelength 47 times as long."""
    assert (frequencies(128)[63] / frequencies(128, 500_000.0)[63]).item() == pytest.approx(47.0, abs=0.05)
    x, position = random(1, 1, 2, 128).double(), torch.tensor([0, 800])
    scheme = Rotary(128, base=500_000.0, layout=layout)
    turned, _ = scheme.rotate(x, x, position[None], position[None])
    a, b = (126, 127) if layout == "interleaved" else (63, 127)
    before, after = (torch.complex(point[..., a], point[..., b])[0, 0, 1] for point in (x, turned))
    assert (after / before).angle().item() == pytest.approx(800 * 500_000 ** (-126 / 128), rel=1e-9)
    assert not torch.allclose(turned, apply_rotary(x, position, layout=layout), atol=1e-2)


# Padding, caches, meta

def test_left_padding_counts_words():
    mask = torch.tensor([[0, 0, 1, 1, 1]])
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    assert position.tolist() == [[0, 0, 0, 1, 2]]
    layer, x = layer_of(24, 3, Rotary(8)), random(1, 5, 24)
    may = mask.bool()[:, None, None] & causal_mask(5)
    with torch.no_grad():
        padded, _ = layer(x, mask=may, query_position=position, key_position=position)
        alone, _ = layer(x[:, 2:], mask=causal_mask(3))
        torch.testing.assert_close(padded[:, 2:], alone, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_constant_offset_is_invisible_but_two_ways_of_counting_are_not():
    """Prefill that counts pads with decoding that counts words: the new query stands two words too near."""
    layer, x = layer_of(24, 3, Rotary(8)), random(1, 6, 24)
    mask = torch.tensor([[False, False, True, True, True, True]])
    may, by_place, by_word = mask[:, None, None] & causal_mask(6), torch.arange(6)[None], mask.cumsum(-1) - 1
    counted = [layer(x, mask=may, query_position=m, key_position=n)[0][:, 5]
               for m, n in ((by_word, by_word), (by_place, by_place), (by_word, by_place))]
    torch.testing.assert_close(counted[1], counted[0], rtol=0, atol=1e-5)
    assert (counted[2] - counted[0]).abs().max() > 1e-2


@pytest.mark.parametrize("layout", LAYOUTS)
@torch.no_grad()
def test_eight_words_at_once_or_five_and_then_three_one_by_one(layout):
    layer, x = layer_of(24, 3, Rotary(8, layout=layout)), random(1, 8, 24)
    full, _ = layer(x, mask=causal_mask(8))
    steps = [layer(x[:, :5], mask=causal_mask(5))[0]]
    for t in (5, 6, 7):
        steps.append(layer(x[:, t : t + 1], x[:, : t + 1], query_position=torch.tensor([t]))[0])
    torch.testing.assert_close(torch.cat(steps, 1), full, rtol=0, atol=1e-5)
    forgotten, _ = layer(x[:, 7:], x)                                     # the query counted from 0 again
    assert (forgotten - full[:, 7:]).abs().max() > 1e-2


def test_a_module_made_on_meta_turns_by_the_formula():
    with torch.device("meta"):
        scheme = nn.Sequential(Rotary(64))
    scheme = scheme.to_empty(device="cpu")[0]
    ones = torch.zeros(1, 1, 2, 64)
    ones[..., 0::2] = 1
    turned, _ = scheme.rotate(ones, ones, torch.arange(2)[None], torch.arange(2)[None])
    angle = torch.atan2(turned[0, 0, 1, 1::2], turned[0, 0, 1, 0::2])
    assert angle[0].item() == pytest.approx(1.0)
    torch.testing.assert_close(angle, frequencies(64).float(), rtol=0, atol=1e-6)
