"""The encoder layer and the stack: torch's own as oracle, counted parameters, open doors, dropout, norms, bad input."""
import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from posenc_lib import MultiHeadAttention, Position, SinusoidalEncoding, causal_mask
from posenc_lib.encoder import Encoder, EncoderLayer, PositionwiseFeedForward

D_MODEL, N_HEADS, D_FF, BATCH, SEQ = 12, 3, 20, 4, 6
NORMS = ["pre", "post"]
EXACT = {"rtol": 0, "atol": 1e-5}
seeds = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def same_numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def lively(module):
    """The module with norms and biases that are not the 1 and 0 they start from, so that one left out is seen."""
    with torch.no_grad():
        for each in module.modules():
            if isinstance(each, nn.LayerNorm):
                each.weight.uniform_(0.5, 2.0)
                each.bias.normal_()
    return module


def layer(norm="pre", dropout=0.0, position=None):
    return lively(EncoderLayer(D_MODEL, N_HEADS, D_FF, dropout, norm, position))


def stack(norm="pre", dropout=0.0, position=None, n_layers=3):
    return lively(Encoder(n_layers, D_MODEL, N_HEADS, D_FF, dropout, norm, position))


def tokens(*shape):
    return torch.randn(*(shape or (BATCH, SEQ, D_MODEL)))


# torch's own encoder with the same weights

PARTS = {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2", "attention.to_output": "self_attn.out_proj",
         "attention_norm": "norm1", "feed_forward_norm": "norm2"}


def for_torch(ours, get):
    """What `get` finds at each parameter of our layer, by the names of torch's, which has queries to values in one."""
    named = {f"{theirs}.{kind}": get(ours.get_submodule(name).get_parameter(kind))
             for name, theirs in PARTS.items() for kind in ("weight", "bias")}
    inward = ours.attention.to_query, ours.attention.to_key, ours.attention.to_value
    for kind in ("weight", "bias"):
        named[f"self_attn.in_proj_{kind}"] = torch.cat([get(part.get_parameter(kind)) for part in inward])
    return named


def twin_of_layer(ours, norm):
    """Of which norm order it is, the test says; what ours says of itself might be wrong."""
    theirs = nn.TransformerEncoderLayer(ours.d_model, ours.n_heads, ours.feed_forward.d_ff, ours.dropout.p,
                                        batch_first=True, norm_first=norm == "pre")
    theirs.load_state_dict(for_torch(ours, torch.Tensor.detach), strict=True)
    return theirs


def twin_of_stack(ours, norm):
    """For "pre" torch is asked for a norm at the end; it adds none by itself."""
    first, last = twin_of_layer(ours.layers[0], norm), copy.deepcopy(ours.final_norm) if norm == "pre" else None
    theirs = nn.TransformerEncoder(first, len(ours.layers), last, enable_nested_tensor=False)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        other.load_state_dict(for_torch(mine, torch.Tensor.detach), strict=True)
    return theirs


WORDS = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 3 + [True] * 3, [True] + [False] * 5])
MASKS = {                                                   # ours, where True is 'may', and torch's, where it is 'not'
    "no mask": (None, {}),
    "causal": (causal_mask(SEQ), {"mask": ~causal_mask(SEQ)}),
    "padding": (WORDS[:, None, None, :], {"src_key_padding_mask": ~WORDS}),
    # On the right only: a word on the left padding would see nothing, which is NaN in torch.
    "causal and padding": (causal_mask(SEQ) & WORDS[[0, 1, 3, 1], None, None, :],
                           {"mask": ~causal_mask(SEQ), "src_key_padding_mask": ~WORDS[[0, 1, 3, 1]]}),
}


@pytest.mark.parametrize("which", MASKS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [layer, stack])
def test_forward_and_gradients_are_torchs(make, norm, which, training):
    ours = make(norm).train(training)
    theirs = (twin_of_layer if make is layer else twin_of_stack)(ours, norm).train(training)
    mask, (x, goal) = MASKS[which][0], tokens(2, BATCH, SEQ, D_MODEL)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    keys = {"mask": "src_mask"} if make is layer else {}
    output = ours(mine, mask=mask)
    expected = theirs(other, **{keys.get(name, name): value for name, value in MASKS[which][1].items()})
    torch.testing.assert_close(output, expected, **EXACT)

    (output * goal).sum().backward()
    (expected * goal).sum().backward()
    torch.testing.assert_close(mine.grad, other.grad, **EXACT)
    pairs = [(ours, theirs)] if make is layer else list(zip(ours.layers, theirs.layers, strict=True))
    compared = 0
    for our_layer, their_layer in pairs:
        gradients = for_torch(our_layer, lambda parameter: parameter.grad)
        assert gradients.keys() == dict(their_layer.named_parameters()).keys()
        for name, parameter in their_layer.named_parameters():
            torch.testing.assert_close(gradients[name], parameter.grad, **EXACT, msg=lambda m, n=name: f"{n}: {m}")
            compared += parameter.numel()
    if make is stack and norm == "pre":
        for kind in ("weight", "bias"):
            gradient = getattr(ours.final_norm, kind).grad
            torch.testing.assert_close(gradient, getattr(theirs.norm, kind).grad, **EXACT)
            compared += gradient.numel()
    assert compared == sum(parameter.numel() for parameter in ours.parameters())          # none was left out


@pytest.mark.parametrize("which", MASKS)
@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_evaluation_without_gradients_is_torchs_fast_path_on_the_real_words(norm, which, monkeypatch):
    """What torch puts in padded rows there it does not say. It takes that path for an even number of heads only."""
    fast, fused = [], torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", lambda *all: fast.append(1) or fused(*all))
    ours, x = lively(Encoder(3, D_MODEL, 2, D_FF, norm=norm)).eval(), tokens()
    mask, for_theirs = MASKS[which]
    real = ~for_theirs.get("src_key_padding_mask", torch.zeros(BATCH, SEQ, dtype=torch.bool))
    output, expected = ours(x, mask=mask), twin_of_stack(ours, norm).eval()(x, **for_theirs)
    assert len(fast) == 3
    torch.testing.assert_close(output[real], expected[real], **EXACT)


@settings(max_examples=25)
@given(d_head=st.integers(1, 6), n_heads=st.integers(1, 4), d_ff=st.integers(1, 30), n_layers=st.integers(1, 4),
       batch=st.integers(1, 3), seq=st.integers(1, 7), norm=st.sampled_from(NORMS), seed=seeds)
def test_every_size_is_torchs(d_head, n_heads, d_ff, n_layers, batch, seq, norm, seed):
    torch.manual_seed(seed)
    ours = lively(Encoder(n_layers, d_head * n_heads, n_heads, d_ff, 0.0, norm)).double()
    x = tokens(batch, seq, d_head * n_heads).double()
    torch.testing.assert_close(ours(x), twin_of_stack(ours, norm).double()(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_sinusoidal_positions_before_torchs_encoder_are_ours_inside(norm):
    ours, x = stack(norm, position=SinusoidalEncoding(D_MODEL, dropout=0.0)), tokens()
    torch.testing.assert_close(ours(x), twin_of_stack(ours, norm)(ours.layers[0].attention.position(x)), **EXACT)


def test_the_two_norm_orders_differ():
    x, pre = tokens(), layer("pre")
    post = layer("post")
    post.load_state_dict(pre.state_dict())
    assert (pre(x) - post(x)).abs().max() > 0.1


@pytest.mark.parametrize("make", [EncoderLayer, lambda *sizes: Encoder(2, *sizes)])
def test_pre_norm_and_a_little_dropout_are_the_default(make):
    module = make(D_MODEL, N_HEADS, D_FF)
    assert PositionwiseFeedForward(D_MODEL, D_FF).dropout.p == 0.1
    assert {each.norm for each in module.modules() if isinstance(each, EncoderLayer)} == {"pre"}
    assert {each.p for each in module.modules() if isinstance(each, nn.Dropout)} == {0.1}


# How many parameters, counted on a device that keeps no numbers

def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("make", "expected"), [
    (lambda: PositionwiseFeedForward(512, 2048), 2_099_712),
    (lambda: EncoderLayer(512, 8, 2048).attention, 1_050_624),
    (lambda: EncoderLayer(512, 8, 2048, norm="pre"), 3_152_384),
    (lambda: EncoderLayer(512, 8, 2048, norm="post"), 3_152_384),
    (lambda: Encoder(6, 512, 8, 2048, norm="post"), 18_914_304),
    (lambda: Encoder(6, 512, 8, 2048, norm="pre"), 18_915_328),
    (lambda: Encoder(6, 512, 8, 2048, position=SinusoidalEncoding(512)), 18_915_328),
])
def test_parameters_of_the_papers_base_model(make, expected):
    with torch.device("meta"):
        assert count(make()) == expected


def test_parameters_tensor_by_tensor():
    with torch.device("meta"):
        one = EncoderLayer(512, 8, 2048)
    by_part = {name: count(part) for name, part in one.named_children()}
    assert by_part == {"attention": 4 * (512 * 512 + 512), "feed_forward": 512 * 2048 + 2048 + 2048 * 512 + 512,
                       "attention_norm": 2 * 512, "feed_forward_norm": 2 * 512, "dropout": 0}
    shapes = {name: tuple(parameter.shape) for name, parameter in one.feed_forward.named_parameters()}
    assert shapes == {"widen.weight": (2048, 512), "widen.bias": (2048,), "narrow.weight": (512, 2048),
                      "narrow.bias": (512,)}
    assert f"{by_part['feed_forward'] / count(one):.1%}" == "66.6%"


# The feed-forward network

def test_the_feed_forward_network_is_its_formula():
    network, x = PositionwiseFeedForward(D_MODEL, D_FF).eval(), tokens()
    hidden = x @ network.widen.weight.T + network.widen.bias
    assert (hidden < 0).any() and (hidden > 0).any()
    expected = hidden.clamp(min=0) @ network.narrow.weight.T + network.narrow.bias
    torch.testing.assert_close(network(x), expected, **EXACT)


def test_each_position_goes_through_the_same_network_alone():
    network, x, order = PositionwiseFeedForward(D_MODEL, D_FF).eval(), tokens(), [3, 0, 5, 1, 4, 2]
    output = network(x)
    torch.testing.assert_close(network(x[:, order]), output[:, order], **EXACT)
    torch.testing.assert_close(network(x[2:3, 4:5])[0, 0], output[2, 4], **EXACT)
    changed = x.clone()
    changed[:, 2] += 1
    difference = (network(changed) - output).abs().amax((0, 2))
    assert difference[2] > 1e-2 and difference[[0, 1, 3, 4, 5]].max() <= 1e-6


# The laws of order

@settings(max_examples=20)
@given(order=st.permutations(range(7)), norm=st.sampled_from(NORMS), padded=st.booleans(), seed=seeds)
def test_without_positions_the_output_moves_along_with_the_words(order, norm, padded, seed):
    torch.manual_seed(seed)
    encoder, x = Encoder(2, 64, 4, 128, 0.0, norm).double(), tokens(2, 7, 64).double()
    words = (torch.rand(2, 7) < 0.6) if padded else torch.ones(2, 7, dtype=torch.bool)
    output = encoder(x, mask=words[:, None, None, :])
    moved = encoder(x[:, order], mask=words[:, None, None, order])
    torch.testing.assert_close(moved, output[:, order], rtol=0, atol=1e-12)
    torch.testing.assert_close(moved.mean(1), output.mean(1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(5))
def test_sinusoidal_positions_or_a_causal_mask_break_the_symmetry(norm, seed):
    torch.manual_seed(seed)
    x, order = tokens(1, 7, 64), [6, 5, 4, 3, 2, 1, 0]
    for position, mask in ((SinusoidalEncoding(64, dropout=0.0), None), (None, causal_mask(7))):
        encoder = Encoder(2, 64, 4, 128, 0.0, norm, position)
        assert (encoder(x[:, order], mask=mask) - encoder(x, mask=mask)[:, order]).abs().max() > 1e-2


def test_a_causal_mask_holds_through_all_layers():
    encoder, x = stack(), tokens()
    changed = x.clone()
    changed[:, 3] = tokens(BATCH, D_MODEL)                                   # not + 1, which a norm takes away again
    difference = (encoder(changed, mask=causal_mask(SEQ)) - encoder(x, mask=causal_mask(SEQ))).abs().amax((0, 2))
    assert (difference[:3] == 0).all() and (difference[3:] > 1e-3).all()


# Doors

class Recording(Position):
    """Writes down which door was opened and with which positions; it changes what passes, so that it can be told."""

    def __init__(self):
        super().__init__()
        self.doors, self.seen = [], []

    def embed(self, x, position=None):
        self.doors.append("embed")
        self.seen.append(position)
        return x + 1

    def rotate(self, query, key, query_position, key_position):
        self.doors.append("rotate")
        self.seen += [query_position, key_position]
        return query, key

    def score(self, query, query_position, key_position):
        self.doors.append("score")
        return 0.0

    def value(self, weights, query_position, key_position):
        self.doors.append("value")
        return 0.0


IN_A_LAYER = ["rotate", "score", "value"]


@pytest.mark.parametrize("norm", NORMS)
def test_door_one_opens_once_before_the_stack_and_the_others_in_every_layer(norm):
    scheme, x = Recording(), tokens()
    encoder = stack(norm, position=scheme)
    assert all(each.attention.position is scheme for each in encoder.layers)
    output = encoder(x)
    assert scheme.doors == ["embed", *(3 * IN_A_LAYER)]
    for each in encoder.layers:
        each.attention.position = Position()
    torch.testing.assert_close(output, encoder(x + 1), rtol=0, atol=0)


def test_of_a_factorys_schemes_only_the_first_opens_door_one():
    made = []

    def factory():
        made.append(Recording())
        return made[-1]

    encoder, x = stack(position=factory), tokens()
    assert len(made) == len({id(scheme) for scheme in made}) == 3
    assert [each.attention.position for each in encoder.layers] == made
    output = encoder(x)
    assert [scheme.doors for scheme in made] == [["embed", *IN_A_LAYER], IN_A_LAYER, IN_A_LAYER]
    for each in encoder.layers:
        each.attention.position = Position()
    torch.testing.assert_close(output, encoder(x + 1), rtol=0, atol=0)


def test_a_class_is_a_factory_too():
    encoder = stack(position=Recording)
    assert len({id(each.attention.position) for each in encoder.layers}) == 3


def test_a_bare_layer_leaves_door_one_to_others():
    scheme = Recording()
    layer(position=scheme)(tokens())
    assert scheme.doors == IN_A_LAYER


def test_given_positions_reach_every_door():
    scheme, given_positions = Recording(), torch.arange(SEQ).expand(BATCH, -1) + 7
    encoder = stack(position=scheme)
    encoder(tokens(), position=given_positions)
    assert len(scheme.seen) == 1 + 2 * 3 and all(torch.equal(seen, given_positions) for seen in scheme.seen)
    scheme.seen.clear()
    encoder(tokens())
    assert scheme.seen[0] is None and all(seen.tolist() == [list(range(SEQ))] for seen in scheme.seen[1:])


class Clipped(Position):
    """A learned number for each head and clipped offset: a small scheme of door 3 that states what it is made for."""

    def __init__(self, n_heads=N_HEADS):
        super().__init__()
        self.n_heads = n_heads
        self.bias = nn.Parameter(torch.randn(n_heads, 5))

    def score(self, query, query_position, key_position):
        offset = (key_position[:, None, :] - query_position[:, :, None]).clamp(-2, 2) + 2
        return self.bias[:, offset].transpose(0, 1)                           # [batch or 1, heads, queries, keys]


@pytest.mark.parametrize("norm", NORMS)
def test_a_relative_scheme_sees_offsets_in_every_layer_and_left_padding_changes_nothing(norm):
    encoder, x, position = stack(norm, position=Clipped), tokens(), torch.arange(SEQ)
    output = encoder(x)
    torch.testing.assert_close(encoder(x, position=position + 50), output, **EXACT)
    assert (encoder(x, position=position.flip(0)) - output).abs().max() > 1e-2
    words = WORDS.flip(1)[[0, 1, 3]]                                          # sentences that end together
    rows = words.long().cumsum(1) - 1
    padded = encoder(x[:3], mask=words[:, None, None, :], position=rows)
    for sentence, row, length in zip(x, padded, words.sum(1).tolist(), strict=False):
        torch.testing.assert_close(row[-length:], encoder(sentence[None, -length:])[0], **EXACT)


def test_a_shared_scheme_is_one_set_of_parameters_and_is_loaded_as_such():
    shared, own = stack(position=Clipped()), stack(position=Clipped)
    none = count(stack())
    assert count(shared) == none + 5 * N_HEADS and count(own) == none + 3 * 5 * N_HEADS
    tables = [f"layers.{number}.attention.position.bias" for number in range(3)]
    for trained in (shared, own):
        saved, x = trained.state_dict(), tokens()
        assert [name for name in saved if "position" in name] == tables
        fresh = stack(position=Clipped() if trained is shared else Clipped)
        assert not torch.equal(fresh(x), trained(x))
        assert fresh.load_state_dict(saved, strict=True).missing_keys == []
        assert torch.equal(fresh(x), trained(x))
    of_layers = [each.attention.position.bias for each in shared.layers]
    assert all(bias is of_layers[0] for bias in of_layers)
    together = copy.deepcopy(shared).double()
    assert count(together) == count(shared) and together.layers[0].attention.position.bias.dtype == torch.float64


def test_a_shared_table_gathers_the_gradients_of_all_layers():
    shared, own, x = stack(position=Clipped()), stack(position=Clipped), tokens()
    own.load_state_dict(shared.state_dict())
    for encoder in (shared, own):
        encoder(x).square().sum().backward()
    gathered = sum(each.attention.position.bias.grad for each in own.layers)
    torch.testing.assert_close(shared.layers[0].attention.position.bias.grad, gathered, rtol=1e-4, atol=1e-4)


# Residual path and norms

def silenced(module):
    """Both sublayers give 0."""
    with torch.no_grad():
        for each in module.modules():
            if isinstance(each, EncoderLayer):
                for last in (each.attention.to_output, each.feed_forward.narrow):
                    last.weight.zero_()
                    last.bias.zero_()
    return module


def test_sublayers_of_zero_leave_the_residual_path():
    x = tokens()
    assert torch.equal(silenced(layer("pre"))(x), x)
    encoder = silenced(stack("pre"))
    torch.testing.assert_close(encoder(x), encoder.final_norm(x), rtol=0, atol=0)
    encoder.final_norm = nn.Identity()
    assert torch.equal(encoder(x), x)
    post = silenced(layer("post"))
    torch.testing.assert_close(post(x), post.feed_forward_norm(post.attention_norm(x)), rtol=0, atol=0)


def test_the_second_sublayer_starts_from_the_sum_of_the_first():
    """Not x + f₂(x + f₁(x)), which would lose f₁ from the path."""
    one, x = layer("pre"), tokens()
    with torch.no_grad():
        one.feed_forward.narrow.weight.zero_()
        one.feed_forward.narrow.bias.zero_()
    torch.testing.assert_close(one(x), x + one.attend(one.attention_norm(x), None, None), **EXACT)
    assert (one(x) - x).abs().max() > 1e-2


def test_a_final_norm_ends_pre_norm_and_post_norm_has_none():
    """torch's whole `nn.Transformer` ends post-norm with two norms, one after the other."""
    assert nn.Transformer(8, 2, 1, 1, 16, batch_first=True).encoder.norm is not None
    for norm, kind in (("pre", nn.LayerNorm), ("post", nn.Identity)):
        encoder, x = stack(norm), tokens()
        last = []
        encoder.layers[-1].register_forward_hook(lambda module, inputs, output, last=last: last.append(output))
        output = encoder(x)
        assert type(encoder.final_norm) is kind
        assert torch.equal(output, last[0]) == (norm == "post")
        assert torch.equal(output, encoder.final_norm(last[0]))
    fresh = Encoder(3, D_MODEL, N_HEADS, D_FF).eval()(100 * tokens())          # norms of weight 1 and bias 0
    torch.testing.assert_close(fresh.mean(-1), torch.zeros(BATCH, SEQ), **EXACT)
    torch.testing.assert_close(fresh.var(-1, correction=0), torch.ones(BATCH, SEQ), rtol=0, atol=1e-3)


def norms_of(norm):
    encoder = Encoder(1, 4, 2, 8, norm=norm)
    return [each for each in encoder.modules() if isinstance(each, nn.LayerNorm)]


@pytest.mark.parametrize(("vector", "expected", "unbiased"), [
    ([2.0, 4, 6, 8], [-1.3416, -0.4472, 0.4472, 1.3416], [-1.1619, -0.3873, 0.3873, 1.1619]),
    ([1.0, 0, 0, 0], [1.73200, -0.57733, -0.57733, -0.57733], [1.5, -0.5, -0.5, -0.5]),
])
def test_the_norm_divides_by_the_biased_variance(vector, expected, unbiased):
    x = torch.tensor(vector)
    for norm in NORMS:
        assert len(norms_of(norm)) == (3 if norm == "pre" else 2)
        for each in norms_of(norm):
            torch.testing.assert_close(each(x), torch.tensor(expected), rtol=0, atol=6e-5)
    torch.testing.assert_close((x - x.mean()) / x.std(), torch.tensor(unbiased), rtol=0, atol=6e-5)


def test_epsilon_is_inside_the_root_and_a_width_of_one_is_no_nan():
    x = torch.tensor([0.002, 0.004, 0.006, 0.008])                           # variance 5e-6, as small as epsilon
    for each in norms_of("pre"):
        torch.testing.assert_close(each(x), (x - 0.005) / 1.5e-5 ** 0.5, rtol=0, atol=1e-5)
    assert torch.tensor([[3.0]]).std(-1, correction=0).item() == 0
    assert Encoder(2, 1, 1, 4)(tokens(2, 3, 1)).isfinite().all()


# Dropout

def dropped(module):
    """The dropout modules in the order in which they act, each with its last input and output."""
    seen = []
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.register_forward_hook(lambda drop, inputs, output: seen.append((drop, inputs[0], output)))
    return seen


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_acts_at_its_four_places_in_training(norm):
    one, x = layer(norm, dropout=0.5).train(), tokens()
    seen = dropped(one)
    output = one(x)
    places = [one.attention.dropout, one.dropout, one.feed_forward.dropout, one.dropout]
    assert [drop for drop, _, _ in seen] == places
    assert [tuple(before.shape) for _, before, _ in seen] == [
        (BATCH, N_HEADS, SEQ, SEQ), (BATCH, SEQ, D_MODEL), (BATCH, SEQ, D_FF), (BATCH, SEQ, D_MODEL)]
    for _, before, after in seen:
        assert 0.3 < (after == 0)[before != 0].float().mean() < 0.7
    (_, _, weights), (_, attended, brought), (_, hidden, kept), (_, transformed, made) = seen
    assert (hidden >= 0).all() and (hidden == 0).any()                        # after the ReLU
    torch.testing.assert_close(transformed, one.feed_forward.narrow(kept), **EXACT)
    value = one.attention.split(one.attention.to_value(one.attention_norm(x) if norm == "pre" else x))
    torch.testing.assert_close(attended, one.attention.to_output((weights @ value).transpose(1, 2).flatten(2)), **EXACT)
    expected = (x + brought + made if norm == "pre" else
                one.feed_forward_norm(one.attention_norm(x + brought) + made))
    torch.testing.assert_close(output, expected, **EXACT)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("make", [layer, stack])
def test_in_training_the_same_seed_drops_the_same_numbers_as_torch(make, norm):
    """One sentence, because torch holds several in another order in memory, and draws in that order."""
    ours, x, outputs = make(norm, dropout=0.3), tokens(1, SEQ, D_MODEL), []
    theirs = (twin_of_layer if make is layer else twin_of_stack)(ours, norm)
    for one in (ours.train(), theirs.train()):
        torch.manual_seed(1)
        outputs.append(one(x))
    torch.testing.assert_close(*outputs, **EXACT)
    assert (outputs[0] - ours.eval()(x)).abs().max() > 1e-2


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("make", [layer, stack])
def test_dropout_is_off_in_evaluation_and_the_same_for_the_same_seed(make, norm):
    module, x = make(norm, dropout=0.3), tokens()
    without = make(norm, dropout=0.0)
    without.load_state_dict(module.state_dict())
    assert torch.equal(module.eval()(x), without.train()(x))
    module.train()
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(module(x))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    assert (runs[0] - without(x)).abs().max() > 1e-2


# Rows without a key, precision, devices

@pytest.mark.parametrize("norm", NORMS)
def test_a_sentence_of_nothing_but_padding_is_finite_both_ways_and_touches_no_other(norm):
    encoder, x = stack(norm), tokens().requires_grad_()
    mask = torch.ones(BATCH, 1, 1, SEQ, dtype=torch.bool)
    mask[1] = False
    output = encoder(x, mask=mask)
    assert output.isfinite().all()
    torch.testing.assert_close(output[[0, 2, 3]], encoder(x[[0, 2, 3]]), **EXACT)
    with torch.autograd.set_detect_anomaly(True):
        output.square().sum().backward()
    assert all(each.grad.isfinite().all() for each in (x, *encoder.parameters()))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("dtype", "within"), [(torch.float16, 0.02), (torch.bfloat16, 0.2), (torch.float64, 1e-5)])
def test_other_precisions_give_nearly_the_same(norm, dtype, within):
    encoder, x = stack(norm, position=SinusoidalEncoding(D_MODEL, dropout=0.0)).eval(), tokens()
    expected = encoder(x, mask=causal_mask(SEQ))
    output = encoder.to(dtype)(x.to(dtype), mask=causal_mask(SEQ))
    assert output.dtype == dtype and all(parameter.dtype == dtype for parameter in encoder.parameters())
    torch.testing.assert_close(output.float(), expected, rtol=0, atol=within)


def test_an_encoder_made_on_meta_gets_its_numbers_back():
    with torch.device("meta"):
        encoder = Encoder(2, D_MODEL, N_HEADS, D_FF, 0.0, position=SinusoidalEncoding(D_MODEL, dropout=0.0))
    x, mask, position = tokens(), causal_mask(SEQ), torch.arange(SEQ)
    assert encoder(x.to("meta"), mask=mask, position=position.to("meta")).shape == x.shape
    assert {tensor.device.type for tensor in (*encoder.parameters(), *encoder.buffers())} == {"meta"}
    encoder.to_empty(device="cpu")
    for module in encoder.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    saved = Encoder(2, D_MODEL, N_HEADS, D_FF, 0.0, position=SinusoidalEncoding(D_MODEL, dropout=0.0))
    assert not torch.equal(encoder(x), saved(x)) and encoder(x).isfinite().all()
    encoder.load_state_dict(saved.state_dict(), strict=True)
    assert torch.equal(encoder(x, mask=mask, position=position), saved(x, mask=mask))


def test_an_empty_sentence_is_an_empty_result():
    for shape in ((2, 0, D_MODEL), (0, 5, D_MODEL)):
        assert stack(position=Clipped())(torch.zeros(shape)).shape == shape


# Bad input

class Made(Position):
    """A scheme that states what it is made for."""

    def __init__(self, **stated):
        super().__init__()
        for name, value in stated.items():
            setattr(self, name, value)


NOT_A_NORM = r'norm must be "pre" \(before the sublayer\) or "post" \(after the sum\), got'


@pytest.mark.parametrize("make", [
    lambda d_model=8, n_heads=2, d_ff=16, **more: EncoderLayer(d_model, n_heads, d_ff, **more),
    lambda d_model=8, n_heads=2, d_ff=16, **more: Encoder(3, d_model, n_heads, d_ff, **more),
])
@pytest.mark.parametrize(("bad", "error", "message"), [
    ({"norm": "both"}, ValueError, f"{NOT_A_NORM} 'both'"),
    ({"norm": "Pre"}, ValueError, f"{NOT_A_NORM} 'Pre'"),
    ({"norm": None}, ValueError, f"{NOT_A_NORM} None"),
    ({"norm": True}, ValueError, f"{NOT_A_NORM} True"),
    ({"d_ff": 0}, ValueError, "d_ff must be a whole number of at least 1, got 0"),
    ({"d_ff": -5}, ValueError, "d_ff .* got -5"),
    ({"d_ff": 2.5}, TypeError, "d_ff .* got 2.5"),
    ({"d_ff": True}, TypeError, "d_ff .* got True"),
    ({"d_model": 0}, ValueError, "d_model .* got 0"),
    ({"n_heads": 3}, ValueError, "n_heads must divide d_model, got n_heads = 3 and d_model = 8"),
    ({"dropout": 1.0}, ValueError, "dropout .* got 1.0"),
    ({"dropout": "a"}, TypeError, "dropout .* got 'a'"),
    ({"position": "rotary"}, TypeError, "position must be a Position"),
    ({"position": SinusoidalEncoding(6)}, ValueError,
     "position must be made for this layer's d_model = 8, but this SinusoidalEncoding was made for 6"),
    ({"position": Made(d_head=8)}, ValueError, "position must .* d_head = 4, but this Made was made for 8"),
    ({"position": Made(n_heads=4)}, ValueError, "position must .* n_heads = 2, but this Made was made for 4"),
    ({"position": Made(n_heads=2, total_heads=4)}, ValueError, "n_heads = 2, but this Made was made for 4"),
])
def test_bad_settings_are_named_before_a_random_number_is_drawn(make, bad, error, message):
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        make(**bad)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("stated", [
    {}, {"d_model": 8}, {"d_head": 4}, {"n_heads": 2}, {"n_heads": 2, "total_heads": None},
    {"n_heads": 1, "total_heads": 2}, {"d_model": 8, "d_head": 4, "n_heads": 2, "total_heads": 2},
    {"d_model": None, "d_head": None, "n_heads": None},
])
def test_a_scheme_made_for_this_width_is_welcome(stated):
    scheme = Made(**stated)
    assert MultiHeadAttention(8, 2, scheme).position is scheme
    Encoder(2, 8, 2, 16, position=scheme)
    Encoder(2, 8, 2, 16, position=lambda: Made(**stated))


def test_the_bare_attention_layer_refuses_a_scheme_for_another_width_too():
    for message, stated in (("d_model = 8, .* for 6", {"d_model": 6}), ("d_head = 4, .* for 8", {"d_head": 8}),
                            ("n_heads = 2, .* for 4", {"n_heads": 4}), ("n_heads = 2, .* for 3", {"total_heads": 3})):
        before = torch.get_rng_state()
        with pytest.raises(ValueError, match=f"position must be made for this layer's {message}"):
            MultiHeadAttention(8, 2, Made(**stated))
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("bad", "error", "message"), [
    (0, ValueError, "n_layers must be a whole number of at least 1, got 0"),
    (-1, ValueError, "n_layers .* got -1"),
    (2.0, TypeError, "n_layers .* got 2.0"),
    (True, TypeError, "n_layers .* got True"),
    ("6", TypeError, "n_layers .* got '6'"),
])
def test_bad_numbers_of_layers_are_named(bad, error, message):
    with pytest.raises(error, match=message):
        Encoder(bad, 8, 2, 16)


SHARED = Made()


@pytest.mark.parametrize(("position", "error", "message"), [
    (3, TypeError, "position must be a Position, a function that makes one, or None, got 3"),
    (lambda: None, TypeError, "position must make a Position when it is called, but it made None"),
    (nn.Identity, TypeError, r"position must make a Position .* made Identity\(\)"),
    (lambda: Made(d_model=6), ValueError, "this layer's d_model = 8, but this Made was made for 6"),
    (lambda: SHARED, ValueError, "position must make a new Position at each call, .* pass it itself"),
])
def test_bad_factories_are_named(position, error, message):
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        Encoder(2, 8, 2, 16, position=position)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("bad", [{"n_layers": 0}, {"d_ff": 0}, {"norm": "both"}])
def test_no_scheme_is_made_before_the_error(bad):
    made = []
    with pytest.raises(ValueError, match=next(iter(bad))):
        Encoder(**{"n_layers": 2, "d_model": 8, "n_heads": 2, "d_ff": 16, "position": lambda: made.append(1), **bad})
    assert made == []


@pytest.mark.parametrize(("d_model", "d_ff", "dropout", "error", "message"), [
    (0, 8, 0.1, ValueError, "d_model must be a whole number of at least 1, got 0"),
    (4, 0, 0.1, ValueError, "d_ff must be a whole number of at least 1, got 0"),
    (4, "8", 0.1, TypeError, "d_ff .* got '8'"),
    (4, 8, -0.1, ValueError, "dropout .* got -0.1"),
])
def test_bad_settings_of_the_feed_forward_network_are_named(d_model, d_ff, dropout, error, message):
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        PositionwiseFeedForward(d_model, d_ff, dropout)
    assert torch.equal(torch.get_rng_state(), before)


X = torch.zeros(2, 5, 8)


@pytest.mark.parametrize("make", [
    lambda: PositionwiseFeedForward(8, 16), lambda: EncoderLayer(8, 2, 16), lambda: Encoder(2, 8, 2, 16)])
@pytest.mark.parametrize(("x", "error", "message"), [
    (X[0], ValueError, r"x must be .*\[batch, seq, 8\], got shape \[5, 8\]"),
    (X[..., :6], ValueError, r"x must be .* got shape \[2, 5, 6\]: its last axis is 6 wide"),
    (X.long(), TypeError, "x must be .* got dtype torch.int64: are these token ids before the embedding"),
    (X.tolist(), TypeError, "x must be .* got list"),
])
def test_bad_tokens_are_named(make, x, error, message):
    with pytest.raises(error, match=message):
        make()(x)


@pytest.mark.parametrize("make", [
    lambda scheme: EncoderLayer(8, 2, 16, 0.5, position=scheme), lambda scheme: Encoder(2, 8, 2, 16, 0.5,
                                                                                      position=scheme)])
@pytest.mark.parametrize(("bad", "error", "message"), [
    ({"mask": torch.ones(5, 5)}, TypeError, r"mask must be a boolean tensor .* True = may attend, got dtype"),
    ({"mask": [[True] * 5] * 5}, TypeError, "mask must be a boolean tensor .* got list"),
    ({"mask": torch.ones(2, 5, dtype=torch.bool)}, ValueError,
     r"mask must have shape \[queries, keys\] = \[5, 5\] or \[2, 2, 5, 5\].* mask\[:, None, None, :\]"),
    ({"mask": torch.ones(2, 5, 5, dtype=torch.bool)}, ValueError, r"mask must have shape .* got \[2, 5, 5\]"),
    ({"mask": torch.ones(2, 4, 5, 5, dtype=torch.bool)}, ValueError, r"mask .* got \[2, 4, 5, 5\]"),
    ({"position": torch.arange(6)}, ValueError, r"^position must be .*\[5\] or \[2, 5\], got shape \[6\]"),
    ({"position": torch.arange(5.0)}, TypeError, "^position must be .* got dtype torch.float32"),
    ({"position": [0, 1, 2, 3, 4]}, TypeError, "^position must be .* got list"),
])
def test_bad_masks_and_positions_are_named_before_a_door_opens_or_a_number_is_drawn(make, bad, error, message):
    scheme = Recording()
    module = make(scheme).train()
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        module(X, **bad)
    assert scheme.doors == [] and torch.equal(torch.get_rng_state(), before)
