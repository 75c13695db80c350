"""Schemes pass through the unchanged attention layer: each is one small class here, held against a slow loop.

The loop goes over batch, head, query and key, one number after the other, and writes each scheme's formula out anew.
"""
import math

import pytest
import torch
from torch import nn

from posenc_lib import MultiHeadAttention, Position, SinusoidalEncoding, causal_mask, frequencies
from posenc_lib.training import SentenceReader

D_MODEL, N_HEADS, CLIP = 24, 3, 2
D_HEAD = D_MODEL // N_HEADS
CLOSE = {"rtol": 0, "atol": 1e-5}


# The schemes, one class each

class ALiBi(Position):
    """Press, Smith & Lewis 2022: the further a key, the less it counts; each head at a rate of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("slope", 2.0 ** (-8 * torch.arange(1, N_HEADS + 1) / N_HEADS))

    def score(self, query, query_position, key_position):
        distance = (key_position[:, None, None, :] - query_position[:, None, :, None]).abs()
        return -self.slope[:, None, None] * distance                         # [batch or 1, heads, queries, keys]


class Rotary(Position):
    """Su et al. 2021, interleaved: columns 2i and 2i + 1 are a point, turned by the position times ω_i."""

    def rotate(self, query, key, query_position, key_position):
        return self.turn(query, query_position), self.turn(key, key_position)

    def turn(self, x, position):
        angle = position[:, None, :, None] * frequencies(D_HEAD)             # [batch or 1, 1, seq, pairs]
        sin, cos = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Shaw(Position):
    """Shaw, Uszkoreit & Vaswani 2018: a learned vector per clipped offset, one for the keys and one for the values."""

    def __init__(self):
        super().__init__()
        self.for_key = nn.Parameter(torch.randn(2 * CLIP + 1, D_HEAD))
        self.for_value = nn.Parameter(torch.randn(2 * CLIP + 1, D_HEAD))

    def score(self, query, query_position, key_position):
        vectors = self.for_key[self.row(query_position, key_position)]       # [batch or 1, queries, keys, d_head]
        return torch.einsum("bhqd,bqkd->bhqk", query, vectors) / math.sqrt(D_HEAD)

    def value(self, weights, query_position, key_position):
        vectors = self.for_value[self.row(query_position, key_position)]
        return torch.einsum("bhqk,bqkd->bhqd", weights, vectors)

    def row(self, query_position, key_position):
        return (key_position[:, None, :] - query_position[:, :, None]).clamp(-CLIP, CLIP) + CLIP


# The same, one number after the other

def alibi_bias(scheme, head, query, m, n):
    return -abs(n - m) / 2 ** (8 * (head + 1) / N_HEADS)


def turned(scheme, vector, position):
    """Each pair as a complex number times e^(j·position·ω)."""
    numbers = []
    for pair in range(len(vector) // 2):
        angle = position * 10_000 ** (-2 * pair / len(vector))
        point = complex(vector[2 * pair], vector[2 * pair + 1]) * complex(math.cos(angle), math.sin(angle))
        numbers += [point.real, point.imag]
    return numbers


def shaw_bias(scheme, head, query, m, n):
    vector = scheme.for_key[min(max(n - m, -CLIP), CLIP) + CLIP].tolist()
    return sum(q * a for q, a in zip(query, vector, strict=True)) / D_HEAD ** 0.5


def shaw_extra(scheme, m, n):
    return scheme.for_value[min(max(n - m, -CLIP), CLIP) + CLIP].tolist()


FORMULAS = {
    Position: {},
    ALiBi: {"bias": alibi_bias},
    Rotary: {"turn": turned},
    Shaw: {"bias": shaw_bias, "extra": shaw_extra},
}


def by_loop(layer, x, memory, may, query_position, key_position, *, turn=lambda scheme, vector, position: vector,
            bias=lambda scheme, head, query, m, n: 0.0, extra=lambda scheme, m, n: [0.0] * D_HEAD):
    """Output `[batch, queries, d_model]` and weights `[batch, heads, queries, keys]` of the layer."""
    scheme = layer.position
    query, key, value = layer.to_query(x).tolist(), layer.to_key(memory).tolist(), layer.to_value(memory).tolist()
    joined, weights = torch.zeros_like(x), torch.zeros(len(x), N_HEADS, x.shape[1], memory.shape[1])
    for b in range(len(x)):
        for head in range(N_HEADS):
            columns = slice(head * D_HEAD, (head + 1) * D_HEAD)
            for i, m in enumerate(query_position[b].tolist()):
                q, powers = query[b][i][columns], []
                for j, n in enumerate(key_position[b].tolist()):
                    pairs = zip(turn(scheme, q, m), turn(scheme, key[b][j][columns], n), strict=True)
                    score = sum(one * other for one, other in pairs) / D_HEAD ** 0.5 + bias(scheme, head, q, m, n)
                    powers.append(math.exp(score) if may[b, head, i, j] else 0.0)
                for j, n in enumerate(key_position[b].tolist()):
                    weight = powers[j] / sum(powers) if any(powers) else 0.0
                    weights[b, head, i, j] = weight
                    taken = zip(value[b][j][columns], extra(scheme, m, n), strict=True)
                    joined[b, i, columns] += torch.tensor([weight * (v + a) for v, a in taken])
    return layer.to_output(joined), weights


# The schemes and the loop

def layer_with(make_scheme, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(D_MODEL, N_HEADS, make_scheme())
    with torch.no_grad():
        layer.to_query.weight *= 3                                            # choices sharp enough to differ
    return layer.eval()


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def all_may(*shape):
    return torch.ones(shape, dtype=torch.bool)


# Left padding: sentences of 6, 4 and 1 words that end together
PADDING = torch.tensor([[True] * 6, [False] * 2 + [True] * 4, [False] * 5 + [True]])
ROWS = PADDING.long().cumsum(1) - 1                                           # -1 where there is no word

CASES = {                                        # queries' tokens, keys' tokens, mask, queries' and keys' positions
    "0, 1, 2 by default": (random(2, 6, D_MODEL), random(2, 6, D_MODEL), None, None, None),
    "more queries than keys": (random(2, 7, D_MODEL), random(2, 3, D_MODEL, seed=1), None, None, None),
    "left padding, causal": (
        random(3, 6, D_MODEL), random(3, 6, D_MODEL), PADDING[:, None, None, :] & causal_mask(6), ROWS, ROWS),
    "left padding, the last 2 queries of 6": (
        random(3, 6, D_MODEL)[:, 4:], random(3, 6, D_MODEL), PADDING[:, None, None, :], ROWS[:, 4:], ROWS),
    "queries the same for all, keys per row, in no order": (
        random(2, 2, D_MODEL), random(2, 4, D_MODEL, seed=1), all_may(2, 4), torch.tensor([9, 3]),
        torch.tensor([[5, 0, 3, 9], [2, 8, 8, 40]])),
    "queries per row, keys the same for all, each head with a mask of its own": (
        random(2, 3, D_MODEL), random(2, 4, D_MODEL, seed=1), random(1, N_HEADS, 3, 4) > 0,
        torch.tensor([[5, 0, 3], [2, 8, 8]]), None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("make_scheme", FORMULAS)
@torch.no_grad()
def test_each_scheme_is_its_slow_loop(make_scheme, case):
    x, memory, mask, query_position, key_position = CASES[case]
    layer = layer_with(make_scheme)
    output, weights = layer(x, memory, mask=mask, query_position=query_position, key_position=key_position)
    may = (all_may(1) if mask is None else mask).expand(weights.shape)
    m = (torch.arange(x.shape[1]) if query_position is None else query_position).expand(len(x), -1)
    n = (torch.arange(memory.shape[1]) if key_position is None else key_position).expand(len(x), -1)
    expected, expected_weights = by_loop(layer, x, memory, may, m, n, **FORMULAS[make_scheme])
    torch.testing.assert_close(output, expected, **CLOSE)
    torch.testing.assert_close(weights, expected_weights, **CLOSE)


@pytest.mark.parametrize("make_scheme", [ALiBi, Rotary, Shaw])
@torch.no_grad()
def test_relative_schemes_see_the_offset_only_and_see_it(make_scheme):
    layer, x, positions = layer_with(make_scheme), random(2, 6, D_MODEL), torch.arange(6)
    output, _ = layer(x)
    moved, _ = layer(x, query_position=positions + 50, key_position=positions + 50)
    torch.testing.assert_close(moved, output, **CLOSE)
    for changed in ({"query_position": positions + 1}, {"key_position": positions.flip(0)},
                    {"query_position": torch.stack([positions, positions + 2])}):
        assert (layer(x, **changed)[0] - output).abs().max() > 1e-2


@torch.no_grad()
def test_padding_on_the_left_changes_nothing_when_positions_count_words():
    x, mask = random(3, 6, D_MODEL), PADDING[:, None, None, :] & causal_mask(6)
    for make_scheme in (ALiBi, Rotary, Shaw):
        layer = layer_with(make_scheme)
        output, _ = layer(x, mask=mask, query_position=ROWS, key_position=ROWS)
        for sentence, row, words in zip(x, output, PADDING.sum(1).tolist(), strict=True):
            alone, _ = layer(sentence[None, -words:], mask=causal_mask(words))
            torch.testing.assert_close(row[-words:], alone[0], **CLOSE)


@pytest.mark.parametrize("make_scheme", [ALiBi, Rotary, Shaw])
@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_word_by_word_is_the_whole_sentence_at_once(make_scheme, padded):
    """One query a step against the keys so far; `query_position` says that it is not position 0."""
    layer, x = layer_with(make_scheme), random(3, 6, D_MODEL)
    rows = ROWS if padded else torch.arange(6).expand(3, 6)
    padding = (PADDING if padded else all_may(3, 6))[:, None, None, :]
    whole, _ = layer(x, mask=padding & causal_mask(6), query_position=rows, key_position=rows)
    steps = [layer(x[:, t : t + 1], x[:, : t + 1], mask=padding[..., : t + 1], query_position=rows[:, t : t + 1],
                   key_position=rows[:, : t + 1])[0] for t in range(6)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, **CLOSE)
    forgotten, _ = layer(x[:, 5:], x, mask=padding, key_position=rows)
    assert (forgotten - whole[:, 5:]).abs().max() > 1e-2


def test_gradients_reach_shaws_tables_through_both_halves_of_the_door():
    layer = layer_with(Shaw)
    layer(random(2, 6, D_MODEL))[0].square().sum().backward()
    for table in (layer.position.for_key, layer.position.for_value):
        assert table.grad.isfinite().all() and (table.grad.abs().amax(1) > 0).all()


def test_dropped_weights_take_neither_a_value_nor_shaws_vector():
    """As in the paper's code: a weight that is dropped is dropped for both, else the sum would speak of two choices."""
    layer, x = layer_with(Shaw), random(2, 6, D_MODEL)
    layer.dropout.p = 0.5
    layer.train()
    kept = []
    layer.dropout.register_forward_hook(lambda module, inputs, output: kept.append(output.detach()))
    output, weights = layer(x)
    (used,) = kept
    assert (used == 0).any() and (weights > 0).all()
    offset = (torch.arange(6)[None] - torch.arange(6)[:, None]).clamp(-CLIP, CLIP) + CLIP
    vectors = torch.einsum("bhqk,qkd->bhqd", used, layer.position.for_value[offset])
    heads = used @ layer.split(layer.to_value(x)) + vectors
    torch.testing.assert_close(output, layer.to_output(heads.transpose(1, 2).flatten(2)), **CLOSE)


@pytest.mark.parametrize("make_scheme", [ALiBi, Rotary, Shaw])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_schemes_keep_the_dtype(make_scheme, dtype):
    layer = layer_with(make_scheme).to(dtype)
    output, weights = layer(random(2, 6, D_MODEL).to(dtype), mask=causal_mask(6))
    assert output.dtype == weights.dtype == dtype and output.isfinite().all()


# The sinusoidal encoding: door 1, once

def test_the_sinusoidal_encoding_is_a_position_whose_door_is_embed():
    encoding, x = SinusoidalEncoding(D_MODEL, max_len=50, dropout=0.0), random(3, 6, D_MODEL)
    assert isinstance(encoding, Position)
    table = encoding.table[0]
    for given, rows in ((None, table[:6].expand(3, 6, -1)), (torch.arange(10, 16), table[10:16].expand(3, 6, -1)),
                        (ROWS.clamp(min=0), table[ROWS.clamp(min=0)])):
        torch.testing.assert_close(encoding.embed(x, given), x + rows, rtol=0, atol=0)
        torch.testing.assert_close(encoding(x, given), x + rows, rtol=0, atol=0)


def test_the_sinusoidal_encoding_leaves_the_other_doors_closed():
    plain, x, memory = layer_with(Position), random(3, 6, D_MODEL), random(3, 4, D_MODEL, seed=1)
    layer = layer_with(lambda: SinusoidalEncoding(D_MODEL, dropout=0.0))
    for arguments in ({}, {"query_position": ROWS}, {"key_position": torch.arange(4) + 7, "mask": all_may(6, 4)}):
        for ours, expected in zip(layer(x, memory, **arguments), plain(x, memory, **arguments), strict=True):
            torch.testing.assert_close(ours, expected, rtol=0, atol=0)


def test_door_one_opens_once_and_the_others_in_every_layer():
    class Counting(SinusoidalEncoding):
        def __init__(self):
            super().__init__(D_MODEL, dropout=0.0)
            self.count = {"embed": 0, "rotate": 0, "score": 0, "value": 0}

        def embed(self, x, position=None):
            self.count["embed"] += 1
            return super().embed(x, position)

        def rotate(self, *arguments):
            self.count["rotate"] += 1
            return super().rotate(*arguments)

        def score(self, *arguments):
            self.count["score"] += 1
            return super().score(*arguments)

        def value(self, *arguments):
            self.count["value"] += 1
            return super().value(*arguments)

    counting = Counting()
    SentenceReader(10, 2, counting, d_model=D_MODEL, n_heads=N_HEADS)(torch.zeros(2, 5, dtype=torch.int64))
    assert counting.count == {"embed": 1, "rotate": 1, "score": 1, "value": 1}
    first, second = (MultiHeadAttention(D_MODEL, N_HEADS, counting) for _ in range(2))       # one scheme, shared
    second(first(counting.embed(random(2, 5, D_MODEL)))[0])
    assert counting.count == {"embed": 2, "rotate": 3, "score": 3, "value": 3}
