"""What the tests of the third door's schemes share: a layer with a scheme, and laws that hold for each of them."""
import torch

from posenc_lib import MultiHeadAttention, causal_mask


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def layer_of(d_model, n_heads, scheme):
    torch.manual_seed(0)
    return MultiHeadAttention(d_model, n_heads, scheme).double().eval()


@torch.no_grad()
def assert_word_by_word_is_the_whole_sentence(layer, length):
    x = random(2, length, layer.d_model)
    whole, _ = layer(x, mask=causal_mask(length))
    for p in range(length):
        step, _ = layer(x[:, p : p + 1], x[:, : p + 1], query_position=torch.tensor([p]))
        torch.testing.assert_close(step[:, 0], whole[:, p], rtol=0, atol=1e-5)
    forgotten, _ = layer(x[:, length - 1 :], x)                                 # query_position is not 0
    assert (forgotten[:, 0] - whole[:, length - 1]).abs().max() > 1e-2


@torch.no_grad()
def assert_padding_on_the_left_changes_nothing(layer):
    x = random(2, 7, layer.d_model)
    words = torch.tensor([[True] * 7, [False] * 3 + [True] * 4])
    position = (words.long().cumsum(1) - 1).clamp(min=0)
    padded, _ = layer(x, mask=words[:, None, None] & causal_mask(7), query_position=position, key_position=position)
    alone, _ = layer(x[1:, 3:], mask=causal_mask(4))
    torch.testing.assert_close(padded[1, 3:], alone[0], rtol=0, atol=1e-12)
