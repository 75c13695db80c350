"""The small run: its known losses, what it does and does not prove about positions, its states, bad input."""
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from posenc_lib.small_run import small_run

SENTENCE, FOLLOWING = (0, 1, 2, 3, 0), (1, 2, 3, 0, 4)              # the cat sat on the, cat sat on the mat
KEPT = {"E and P": {}, "E only": {"positions": False}, "P only": {"tokens": False}}
SEEDS = range(10)


def by_hand(seed, x=(0, 1, 2, 3, 4), y=(1, 2, 3, 4, 0), epochs=500, learning_rate=0.1):
    """The loop as many introductions print it, with a batch of one: losses, states of P, gradients of E and of P."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        E = nn.Embedding(max(*x, *y) + 1, 2)
        P = nn.Parameter(torch.randn(len(x), 2))
        linear = nn.Linear(2, E.num_embeddings)
    given, target = torch.tensor([x]), torch.tensor([y])
    optimizer = torch.optim.SGD([E.weight, P, linear.weight, linear.bias], lr=learning_rate)
    losses, tables, gradients = [], [P.detach().clone()], []
    for _ in range(epochs):
        logits = linear(E(given) + P.unsqueeze(0))
        loss = functional.cross_entropy(logits.reshape(-1, E.num_embeddings), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        tables.append(P.detach().clone())
        gradients.append((E.weight.grad.clone(), P.grad.clone()))
    return losses, tables, gradients


@pytest.fixture(scope="module")
def run():
    return small_run(42)


# The run that many introductions show

@pytest.mark.parametrize(("epoch", "loss"), [(0, "1.558"), (100, "0.156"), (200, "0.053"), (300, "0.029"),
                                             (400, "0.019"), (499, "0.0140"), (500, "0.0139")])
def test_losses_at_seed_42(run, epoch, loss):
    assert f"{run.loss[epoch]:.{len(loss) - 2}f}" == loss


def test_all_five_predictions_are_right_in_the_end_and_were_not_at_the_start(run):
    assert run.accuracy == 1 and (run.x, run.y) == ((0, 1, 2, 3, 4), (1, 2, 3, 4, 0))
    assert (run.probability[0].argmax(-1) == torch.tensor(run.y)).sum() < 5


@pytest.mark.parametrize(("seed", "sentence", "following", "learning_rate"), [
    (42, (0, 1, 2, 3, 4), (1, 2, 3, 4, 0), 0.1), (7, (0, 1, 2, 3, 4), (1, 2, 3, 4, 0), 0.3),
    (1, SENTENCE, FOLLOWING, 0.1), (3, (2, 0, 2), (5, 1, 0), 0.1)])
def test_it_is_the_loop_written_out(seed, sentence, following, learning_rate):
    losses, tables, _ = by_hand(seed, sentence, following, 60, learning_rate)
    run = small_run(seed, sentence, following, epochs=60, learning_rate=learning_rate)
    torch.testing.assert_close(run.loss[:60], torch.tensor(losses), rtol=0, atol=1e-5)
    torch.testing.assert_close(run.table, torch.stack(tables), rtol=0, atol=1e-5)
    assert run.probability.shape == (61, len(sentence), max(*sentence, *following) + 1)


# What it proves about positions

def test_gradients_of_e_and_p_are_equal_to_the_last_bit_in_every_epoch(run):
    losses, tables, gradients = by_hand(42)
    assert len(gradients) == 500 and all(torch.equal(E, P) for E, P in gradients)
    assert all(P.abs().max() > 0 for _, P in gradients)
    torch.testing.assert_close(run.loss[:500], torch.tensor(losses), rtol=0, atol=1e-5)
    torch.testing.assert_close(run.table, torch.stack(tables), rtol=0, atol=1e-4)


def test_a_word_that_stands_twice_gets_the_sum_of_two_gradients():
    for E, P in by_hand(42, SENTENCE, FOLLOWING, epochs=20)[2]:
        torch.testing.assert_close(E[0], P[0] + P[4])
        torch.testing.assert_close(E[1:4], P[1:4])
        assert not torch.allclose(E, P, atol=1e-3) and E[4].abs().max() == 0


@pytest.mark.parametrize("kept", KEPT)
def test_either_table_alone_does_what_both_do(kept):
    for seed in SEEDS:
        run = small_run(seed, **KEPT[kept])
        assert run.accuracy == 1 and run.loss[-1] < run.loss[0] / 5, seed


def test_one_table_with_twice_the_learning_rate_has_the_same_losses(run):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        M = nn.Parameter(nn.Embedding(5, 2).weight.data + torch.randn(5, 2))
        linear = nn.Linear(2, 5)
    optimizer = torch.optim.SGD([{"params": [M], "lr": 0.2}, {"params": linear.parameters(), "lr": 0.1}])
    for epoch in range(500):
        loss = functional.cross_entropy(linear(M), torch.tensor(run.y))
        assert loss.item() == pytest.approx(run.loss[epoch].item(), abs=1e-4), epoch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize(("kept", "accuracy"), [("E and P", 1.0), ("E only", 0.8), ("P only", 1.0)])
def test_a_repeated_word_needs_its_positions(kept, accuracy):
    floor = 2 / 5 * math.log(2)                                     # one half each for cat and mat, at two of five
    for seed in SEEDS:
        run = small_run(seed, SENTENCE, FOLLOWING, **KEPT[kept])
        assert run.accuracy == pytest.approx(accuracy), seed
        assert (run.loss > floor).all() == (kept == "E only")


def test_a_table_that_is_left_out_is_zero_and_says_nothing():
    assert small_run(0, positions=False, epochs=50).table.abs().max() == 0
    assert small_run(0, tokens=False, epochs=50).table.abs().max() > 0
    one, other = (small_run(0, x, (1, 2, 3, 4, 0), tokens=False, epochs=50) for x in ((0, 1, 2, 3, 4), (4, 4, 2, 0, 1)))
    assert torch.equal(one.loss, other.loss) and torch.equal(one.table, other.table)
    blind = small_run(0, tokens=False, positions=False)
    assert (blind.probability == blind.probability[:, :1]).all()
    assert blind.loss[-1].item() == pytest.approx(math.log(5), abs=1e-3)


# Its states

@pytest.mark.parametrize(("sentence", "following"), [((0, 1, 2, 3, 4), (1, 2, 3, 4, 0)), ((2, 0, 2), (5, 1, 0))])
def test_row_e_is_the_state_in_which_epoch_e_begins(sentence, following):
    long, short = (small_run(5, sentence, following, epochs=epochs) for epochs in (30, 12))
    assert long.table.shape == (31, len(sentence), 2) and long.loss.shape == (31,) and len(short.loss) == 13
    for ours, theirs in ((short.table, long.table), (short.loss, long.loss), (short.probability, long.probability)):
        assert torch.equal(ours, theirs[:13])
        assert not torch.equal(theirs[12], theirs[13])
    right = long.probability[:, range(len(following)), following]
    torch.testing.assert_close(long.loss, -right.log().mean(1))
    torch.testing.assert_close(long.probability.sum(-1), torch.ones(31, len(sentence)))
    assert not long.table.requires_grad and not long.loss.requires_grad and not long.probability.requires_grad


def test_accuracy_is_that_after_the_last_update():
    for epochs in (1, 5, 20, 38):
        run = small_run(42, epochs=epochs)
        right = [guess == word for guess, word in zip(run.probability[-1].argmax(-1).tolist(), run.y, strict=True)]
        assert run.accuracy == pytest.approx(sum(right) / 5)
    assert small_run(42, epochs=1).accuracy < 1 == small_run(42, epochs=200).accuracy


def test_a_seed_is_a_run_and_the_readers_random_numbers_stay_as_they_are():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = small_run(3, epochs=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(small_run(3, epochs=5).loss, one.loss)
    assert not torch.equal(small_run(4, epochs=5).loss, one.loss)


def test_it_runs_on_the_cpu_whatever_device_is_the_default():
    expected = small_run(3, epochs=5)
    with torch.device("meta"):
        run = small_run(3, epochs=5)
    assert run.table.device.type == "cpu" and torch.equal(run.loss, expected.loss)


def test_tokens_may_be_tensors_lists_and_large():
    expected = small_run(0, SENTENCE, FOLLOWING, epochs=5)
    run = small_run(0, torch.tensor(SENTENCE), list(FOLLOWING), epochs=5)
    assert torch.equal(run.loss, expected.loss) and (run.x, run.y) == (SENTENCE, FOLLOWING)
    assert small_run(0, [9], [0], epochs=1).probability.shape == (2, 1, 10)


# Bad input

@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"x": (0, 1), "y": (1, 2, 3)}, ValueError, r"x and y must be equally long and not empty, got 2 and 3 tokens"),
    ({"x": (), "y": ()}, ValueError, r"x and y must be equally long and not empty, got 0 and 0 tokens"),
    ({"x": (0, -1), "y": (1, 0)}, ValueError, r"x\[1\] must be a whole number of at least 0, got -1"),
    ({"x": (0, 1), "y": (-2, 0)}, ValueError, r"y\[0\] must be a whole number of at least 0, got -2"),
    ({"x": (0.0, 1.0), "y": (1, 0)}, TypeError, r"x\[0\] must be a whole number .* got 0.0"),
    ({"x": (True, 1), "y": (1, 0)}, TypeError, r"x\[0\] must be a whole number .* got True"),
    ({"x": "the", "y": "cat"}, TypeError, r"x\[0\] must be a whole number .* got 't'"),
    ({"x": torch.tensor([[0, 1]]), "y": torch.tensor([[1, 0]])}, TypeError, r"x\[0\] must be a whole number"),
    ({"seed": 1.5}, TypeError, "seed must be a whole number, got 1.5"),
    ({"seed": "42"}, TypeError, "seed must be a whole number, got '42'"),
    ({"epochs": 0}, ValueError, "epochs must be a whole number of at least 1, got 0"),
    ({"epochs": 2.0}, TypeError, "epochs must be .* got 2.0"),
    ({"learning_rate": 0}, ValueError, "learning_rate must be a positive, finite number, got 0"),
    ({"learning_rate": math.nan}, ValueError, "learning_rate .* got nan"),
    ({"learning_rate": "0.1"}, TypeError, "learning_rate .* got '0.1'"),
])
def test_bad_arguments_are_named_and_change_nothing(arguments, error, message):
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        small_run(**{"seed": 0, **arguments})
    assert torch.equal(torch.get_rng_state(), before)
