"""The tasks keep their promises, the loop is the same from the same seed, order is learned only where it can enter."""
import io
import math
import pathlib
import sys

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from torch import nn

from posenc_lib import Rotary, SinusoidalEncoding, causal_mask
from posenc_lib.progress import progress
from posenc_lib.training import SentenceReader, Task, accuracy, pick_device, train, which_came_first, who_did_it

ROOT = pathlib.Path(__file__).parents[1]
TASKS = [which_came_first, who_did_it]


# Tasks

@pytest.mark.parametrize("make_task", TASKS)
def test_a_task_is_made_from_its_seed_and_from_nothing_else(make_task):
    before = torch.get_rng_state()
    task, again, other = make_task(3), make_task(3), make_task(4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(task.tokens, again.tokens) and torch.equal(task.target, again.target)
    assert not torch.equal(task.tokens, other.tokens)


@pytest.mark.parametrize("make_task", TASKS)
def test_classes_are_balanced_among_the_sentences_for_training_and_for_testing(make_task):
    task = make_task(0)
    assert len(task.tokens) == len(task.target) == 2000 and task.boundary == 1600 and task.classes == 2
    for part in (task.target[: task.boundary], task.target[task.boundary :]):
        assert set(part.tolist()) == {0, 1} and 0.4 < part.float().mean() < 0.6
    assert task.tokens.dtype == task.target.dtype == torch.int64
    assert task.tokens.min() >= 0 and task.tokens.max() == task.vocabulary - 1


@pytest.mark.parametrize(("length", "vocabulary"), [(8, 12), (2, 3), (5, 3), (20, 50)])
def test_which_came_first_holds_both_words_once_and_says_which(length, vocabulary):
    task = which_came_first(1, length=length, vocabulary=vocabulary, sentences=500)
    assert task.tokens.shape == (500, length) and task.vocabulary == vocabulary
    for sentence, target in zip(task.tokens.tolist(), task.target.tolist(), strict=True):
        assert sentence.count(0) == sentence.count(1) == 1
        assert target == (0 if sentence.index(0) < sentence.index(1) else 1)
        assert max(sentence) < vocabulary
    places = {(sentence.index(0), sentence.index(1)) for sentence in task.tokens.tolist()}
    if length <= 8:
        assert len(places) == length * (length - 1)                # every pair of places occurs


@pytest.mark.parametrize(("names", "verbs"), [(6, 4), (3, 7), (20, 10)])
def test_who_did_it_names_two_and_says_which_does_it(names, verbs):
    there_are = names * (names - 1) * verbs
    task = who_did_it(1, names=names, verbs=verbs, sentences=there_are)
    assert task.tokens.shape == (there_are, 3) and task.vocabulary == names + verbs
    for (first, verb, second), target in zip(task.tokens.tolist(), task.target.tolist(), strict=True):
        assert first != second and max(first, second) < names <= verb < names + verbs
        assert target == (0 if first < second else 1)
    assert len({tuple(sentence) for sentence in task.tokens.tolist()}) == there_are      # all of them, none twice


@pytest.mark.parametrize("make_task", TASKS)
def test_twins_have_the_same_words_and_opposite_classes_and_are_on_one_side(make_task):
    task = make_task(2, sentences=502)
    assert task.boundary % 2 == 0 and 300 < task.boundary < 500
    for one, other in zip(task.tokens[0::2].tolist(), task.tokens[1::2].tolist(), strict=True):
        assert sorted(one) == sorted(other) and one != other
    assert (task.target[0::2] != task.target[1::2]).all()


def test_no_test_sentence_of_who_did_it_was_trained_on():
    task = who_did_it(0)
    seen = set(map(tuple, task.tokens[: task.boundary].tolist()))
    assert not seen & set(map(tuple, task.tokens[task.boundary :].tolist()))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: which_came_first(0, length=1), ValueError, "length must be a whole number of at least 2, got 1"),
    (lambda: which_came_first(0, length=8.0), TypeError, "length .* got 8.0"),
    (lambda: which_came_first(0, vocabulary=2), ValueError, "vocabulary .* at least 3, got 2"),
    (lambda: which_came_first(0, sentences=9), ValueError, "sentences .* at least 10, got 9"),
    (lambda: which_came_first(0.5), TypeError, "seed must be a whole number, got 0.5"),
    (lambda: who_did_it(0, names=1), ValueError, "names must be a whole number of at least 2, got 1"),
    (lambda: who_did_it(0, verbs=0), ValueError, "verbs .* at least 1, got 0"),
    (lambda: who_did_it(0, sentences=0), ValueError, "sentences .* at least 10, got 0"),
    (lambda: who_did_it(0, sentences=11), ValueError, "sentences must be an even number, .* got 11"),
    (lambda: which_came_first(0, sentences=101), ValueError, "sentences must be an even number, .* got 101"),
    (lambda: who_did_it(0, names=3, verbs=2), ValueError, "sentences must be at most 12, .* 3 names .* got 2000"),
    (lambda: who_did_it(None), TypeError, "seed must be a whole number, got None"),
    (lambda: train(reader(None), who_did_it(0), seed="1"), TypeError, "seed must be a whole number, got '1'"),
    (lambda: train(reader(None), who_did_it(0), seed=0, steps=0), ValueError, "steps .* at least 1, got 0"),
    (lambda: train(reader(None), who_did_it(0), seed=0, batch=0), ValueError, "batch .* at least 1, got 0"),
    (lambda: train(reader(None), who_did_it(0), seed=0, learning_rate=0), ValueError, "learning_rate .* got 0"),
    (lambda: SentenceReader(10, 2, "sinusoidal"), TypeError, "position must be a Position or None, got str"),
    (lambda: SentenceReader(10, 2, n_heads=5), ValueError, "n_heads must divide d_model, got n_heads = 5 and d_model"),
])
def test_settings_that_cannot_work_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


# The loop

def reader(make_position, vocabulary=30):
    return lambda: SentenceReader(vocabulary, 2, make_position() if make_position else None)


def sinusoidal():
    return SinusoidalEncoding(32, max_len=20)                      # with its dropout, so that chance enters each step


def test_a_run_is_the_same_from_the_same_seed_and_leaves_other_random_numbers_alone():
    task = which_came_first(0, sentences=100)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    model, history = train(reader(sinusoidal), task, seed=5, steps=60)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again, same_history = train(reader(sinusoidal), task, seed=5, steps=60)
    assert history == same_history
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    other, other_history = train(reader(sinusoidal), task, seed=6, steps=60)
    assert other_history != history and not torch.equal(other.embedding.weight, model.embedding.weight)


@pytest.mark.parametrize(("steps", "rows"), [(1, [1]), (50, [50]), (101, [50, 100, 101])])
def test_history_is_a_plain_table(steps, rows):
    task = who_did_it(0, sentences=50)
    model, history = train(reader(None), task, seed=0, steps=steps, batch=4)
    assert [row["step"] for row in history] == rows
    for row in history:
        assert list(row) == ["step", "loss", "accuracy"]
        assert type(row["loss"]) is type(row["accuracy"]) is float
        assert math.isfinite(row["loss"]) and 0 <= row["accuracy"] <= 1
    assert history[-1]["accuracy"] == accuracy(model, task) and not model.training


class Watched(nn.Module):
    """Sentence number n is the token n. Answers class 1 from sentence `turn` on, and remembers what it was shown."""

    def __init__(self, turn=0):
        super().__init__()
        self.turn, self.scale, self.trained, self.tested = turn, nn.Parameter(torch.ones(())), [], []

    def forward(self, tokens):
        (self.trained if self.training else self.tested).extend(tokens[:, 0].tolist())
        one = (tokens[:, 0] >= self.turn).float()
        return self.scale * torch.stack([1 - one, one], 1)


NUMBERED = Task(torch.arange(50)[:, None], torch.arange(50) % 2, vocabulary=50, classes=2)


def test_the_last_fifth_is_never_trained_on_and_alone_is_tested():
    model, history = train(Watched, NUMBERED, seed=0, steps=50, batch=16)
    assert NUMBERED.boundary == 40
    assert set(model.trained) == set(range(40)) and len(model.trained) == 50 * 16
    assert model.tested == list(range(40, 50)) and len(history) == 1


def test_accuracy_is_the_share_of_right_answers_and_keeps_the_mode():
    halves = Task(NUMBERED.tokens, (NUMBERED.tokens[:, 0] >= 47).long(), 50, 2)
    for turn, share in ((47, 1.0), (45, 0.8), (50, 0.7)):
        assert accuracy(Watched(turn), halves) == pytest.approx(share)
    assert accuracy(Watched(47).train(), halves) == 1
    for mode in (True, False):
        model = Watched(47).train(mode)
        accuracy(model, halves)
        assert model.training is mode and model.trained == []
    model = reader(sinusoidal)().train()                           # its dropout is off while it is tested
    task = which_came_first(0, sentences=500)
    assert len({accuracy(model, task) for _ in range(5)}) == 1


@pytest.mark.parametrize(("value", "loss"), [(math.nan, "nan"), (-math.inf, "inf")])
def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(value, loss):
    class Breaks(Watched):
        def forward(self, tokens):
            answer = super().forward(tokens)
            if len(self.trained) == 3 * 16:
                return answer.masked_fill(torch.tensor([True, False]), value)
            return answer

    made = []

    def make_model():
        made.append(Breaks())
        return made[0]

    before = torch.get_rng_state()
    with pytest.raises(FloatingPointError, match=rf"the loss is {loss} at step 3: .*learning_rate than 0\.01"):
        train(make_model, NUMBERED, seed=0, steps=10, batch=16, learning_rate=0.01)
    assert len(made[0].trained) == 3 * 16 and made[0].scale.isfinite()        # step 3 has changed nothing
    assert torch.equal(torch.get_rng_state(), before)


def test_a_learning_rate_that_is_far_too_large_is_found_out():
    with pytest.raises(FloatingPointError, match=r"at step \d+: try a smaller learning_rate than 1e\+30"):
        train(reader(None), who_did_it(0, sentences=50), seed=0, steps=20, learning_rate=1e30)


@pytest.mark.parametrize("make_task", TASKS)
def test_order_is_learned_with_positions_and_only_with_them(make_task):
    task = make_task(0)
    _, without = train(reader(None), task, seed=0, steps=150)
    _, with_positions = train(reader(sinusoidal), task, seed=0, steps=300)
    assert abs(without[-1]["accuracy"] - 0.5) <= 0.01             # right on one of each two twins
    assert with_positions[-1]["accuracy"] >= 0.98


def test_without_positions_the_reader_answers_the_same_for_every_order():
    model, tokens = reader(None)().eval(), which_came_first(0, sentences=50).tokens
    torch.testing.assert_close(model(tokens.flip(1)), model(tokens), rtol=0, atol=1e-6)
    model = reader(sinusoidal)().eval()
    assert (model(tokens.flip(1)) - model(tokens)).abs().max() > 1e-3


def causal_reader(causal, make_position=lambda: None):
    torch.manual_seed(0)
    return SentenceReader(30, 2, make_position(), **({} if causal is None else {"causal": causal})).eval()


@torch.no_grad()
def seen_in(model, tokens):
    """The rows that attention gives, and what is averaged over the sentence and decided on."""
    rows, pooled = [], []
    hooks = [model.attention.register_forward_hook(lambda module, inputs, output: rows.append(output[0])),
             model.decide.register_forward_pre_hook(lambda module, inputs: pooled.append(inputs[0]))]
    model(tokens)
    for hook in hooks:
        hook.remove()
    (row,), (mean,) = rows, pooled
    return row, mean


@pytest.mark.parametrize("make_position", [lambda: None, lambda: Rotary(8)])
def test_a_causal_reader_looks_back_only_and_its_answer_comes_from_there(make_position):
    tokens = torch.randint(30, (4, 9), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[:, 5:] = (tokens[:, 5:] + 1) % 30
    for causal in (True, False):
        model = causal_reader(causal, make_position)
        (rows, pooled), (others, _), (alone, _) = (seen_in(model, each) for each in (tokens, changed, tokens[:, :5]))
        apart = [(rows[:, :5] - others[:, :5]).abs().max(), (rows[:, :5] - alone).abs().max()]
        assert max(apart) < 1e-6 if causal else min(apart) > 1e-3
        torch.testing.assert_close(pooled, (model.embedding(tokens) + rows).mean(1))
        expected = model.attention(model.embedding(tokens), mask=causal_mask(9) if causal else None)[0]
        torch.testing.assert_close(rows, expected, rtol=0, atol=0)


def test_a_mask_alone_tells_the_reader_the_order():
    tokens = which_came_first(0, sentences=50).tokens
    order = torch.tensor([3, 1, 0, 2, 6, 7, 5, 4])
    for causal, differs in ((True, True), (False, False)):
        model = causal_reader(causal)
        assert ((model(tokens[:, order]) - model(tokens)).abs().max() > 1e-3) == differs


def test_a_reader_is_not_causal_unless_asked_and_its_weights_do_not_depend_on_that():
    tokens = which_came_first(0, sentences=50).tokens
    default, off, on = (causal_reader(causal) for causal in (None, False, True))
    assert (default.causal, off.causal, on.causal) == (False, False, True)
    torch.testing.assert_close(default(tokens), off(tokens), rtol=0, atol=0)
    assert (on(tokens) - off(tokens)).abs().max() > 1e-3
    for one, other in zip(off.parameters(), on.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_device_is_one_that_is_there(monkeypatch):
    assert torch.zeros(2, device=pick_device()).sum() == 0
    for cuda, mps, expected in ((True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"),
                                (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert pick_device() == torch.device(expected)


# Progress

class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(written):
    """What a terminal shows after all this was written: a carriage return goes back to the start of the line."""
    lines = [[]]
    column = 0
    for character in written:
        if character == "\n":
            lines.append([])
        if character in "\r\n":
            column = 0
            continue
        lines[-1][column : column + 1] = character
        column += 1
    return "\n".join("".join(line).rstrip() for line in lines)


def test_on_a_terminal_the_bar_is_shown_and_then_gone(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    seen = []
    for item in progress(range(5), "counting"):
        assert "counting" in screen(terminal.getvalue())
        seen.append(item)
    assert seen == [0, 1, 2, 3, 4]
    assert "/5 " in terminal.getvalue()
    assert list(progress((word for word in "abc"), "spelling")) == ["a", "b", "c"]            # a length not known
    assert "spelling" in terminal.getvalue()
    assert screen(terminal.getvalue()) == ""
    assert capsys.readouterr().out == ""


def test_in_a_file_or_when_not_wanted_there_is_no_bar(monkeypatch):
    for written, shown in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", written)
        assert list(progress(range(5), "counting", shown=shown)) == [0, 1, 2, 3, 4]
        train(reader(None), who_did_it(0, sentences=20), seed=0, steps=2, bar=shown)
        assert written.getvalue() == ""


def test_a_run_shows_its_bar_on_a_terminal_and_takes_it_away(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    train(reader(None), who_did_it(0, sentences=20), seed=0, steps=2)
    assert "training" in terminal.getvalue() and screen(terminal.getvalue()) == ""


def test_in_a_notebook_the_bar_is_a_widget_that_leaves_no_text():
    cells = [
        "from posenc_lib.progress import progress\nseen = list(progress(range(5), 'counting'))",
        "from posenc_lib.training import SentenceReader, train, who_did_it\n"
        "def run(**options):\n"
        "    return train(lambda: SentenceReader(30, 2), who_did_it(0, sentences=20), seed=0, steps=3, **options)\n"
        "model, history = run()",
        "quiet = list(progress('ab', 'spelling', shown=False))\nmodel, history = run(bar=False)",
        "print(seen, quiet, history[-1]['step'])",
        "from ipywidgets import IntSlider\nslider, views = IntSlider(), get_ipython().kernel.comm_manager.comms\n"
        "print(slider.model_id in views, *views)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3", extra_arguments=["--log-level=ERROR"],
                   resources={"metadata": {"path": ROOT}}).execute()
    *bars, quiet, values, (still_open,) = (cell.outputs for cell in notebook.cells)
    assert quiet == [] and values[0].text == "[0, 1, 2, 3, 4] ['a', 'b'] 3\n"
    for (output,) in bars:
        assert output.output_type == "display_data"
        assert list(output.data) == ["application/vnd.jupyter.widget-view+json"]
        assert output.data["application/vnd.jupyter.widget-view+json"]["model_id"] not in still_open.text
    assert still_open.text.startswith("True ")                               # a view that is open would be found
