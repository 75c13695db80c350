"""Chapters in a real JupyterLab: every cell runs, every slider moves its explorer by keyboard and tells the truth."""
import cmath
import functools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from posenc_lib import LearnedEncoding, check, checking, frequencies, shift_matrix, sinusoidal_table
from posenc_lib.explorers import (
    bias,
    bias_explorer,
    layouts,
    layouts_explorer,
    offset,
    offset_explorer,
    order,
    rope,
    rope_explorer,
    scale,
    sinusoid_explorer,
    slide,
    slide_explorer,
    table_end,
    training,
    why_waves,
    why_waves_explorer,
)
from posenc_lib.explorers.depth import measure
from posenc_lib.small_run import SmallRun, small_run
from tests.jupyter_browser import ROOT, LiveExplorer, Notebook, eventually, jupyterlab

# Each changes the value if the slider does not start at its low end; and the slider ends where there is much to see.
KEYS = ("Home", "ArrowRight", "End", "ArrowLeft")
BROKEN_WIDGET = re.compile(r"model not found|error displaying widget|error creating widget", re.IGNORECASE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with jupyterlab(tmp_path_factory.mktemp("book")) as lab:
        yield lab


@pytest.fixture(scope="module")
def chapter_02_run(lab):
    notebook = lab.open("02_sinusoidal_by_hand")
    notebook.run_all()
    return notebook


@pytest.fixture
def chapter_02(chapter_02_run):
    yield chapter_02_run
    assert chapter_02_run.errors == []


def assert_all_ran(notebook: Notebook) -> None:
    code_cells = [cell for cell in notebook.cells() if cell["cell_type"] == "code"]
    assert [output for cell in code_cells for output in cell["outputs"] if output["output_type"] == "error"] == []
    assert code_cells and all(cell["execution_count"] for cell in code_cells)
    assert not BROKEN_WIDGET.search(notebook.page.locator(".jp-Notebook").text_content())


def assert_key_moves(explorer: LiveExplorer, name: str, key: str, truth: Callable[[str, dict], None]) -> None:
    """Pressing the key moves readout and picture, and soon the values shown are those of the setting shown."""
    background, picture, readout = explorer.background(), explorer.picture(), explorer.readouts()[name]
    explorer.press(name, key)

    def moved():
        readouts = explorer.readouts()
        assert readouts[name] != readout, f"{name} stays at {readout} after {key}"
        truth(explorer.values(), {slider: number_or_word(text) for slider, text in readouts.items()})
        assert explorer.picture() != picture, f"the picture of {name} = {readouts[name]} is that of {readout}"

    eventually(moved)
    assert explorer.background() == background
    assert explorer.alert().count() == 0


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def number_or_word(text: str) -> float | str:
    return text if text[:1].isalpha() else number(text)


def number_at_the_end(line: str) -> float:
    return number(line.split("= ")[-1].split(" ")[0])


def numbers_in_brackets(line: str) -> list[float]:
    return [number(text) for text in re.search(r"\[(.*)\]", line)[1].split()]


def sinusoid_truth(text, setting):
    position, dimension, d_model = (int(setting[name]) for name in ("position", "dimension", "d_model"))
    assert dimension < d_model
    _, frequency, angle, entry = text.split("\n")
    expected = frequencies(d_model, setting["base"])[dimension // 2].item()
    assert number_at_the_end(frequency) == pytest.approx(expected, rel=1e-5)
    assert number_at_the_end(angle) == pytest.approx(position * expected, rel=1e-5)
    assert entry.startswith(f"PE({position}, {dimension}) = ")
    table = sinusoidal_table(position + 1, d_model, base=setting["base"])
    assert number_at_the_end(entry) == pytest.approx(table[position, dimension].item(), abs=1e-6)


def offset_truth(text, setting):
    p, k = int(setting["p"]), int(setting["k"])
    here, there = (sinusoidal_table(1, offset.D_MODEL, start=position)[0] for position in (p, p + k))
    moved = shift_matrix(k, offset.D_MODEL) @ here.double()
    shown_here, shown_there, shown_moved, _, product = text.split("\n")
    assert numbers_in_brackets(shown_here) == pytest.approx(here.tolist(), abs=6e-5)
    assert numbers_in_brackets(shown_there) == pytest.approx(there.tolist(), abs=6e-5)
    assert numbers_in_brackets(shown_moved) == pytest.approx(moved.tolist(), abs=6e-5)
    assert number_at_the_end(product) == pytest.approx(float(here @ there), abs=6e-5)


def why_waves_truth(text, setting):
    position = int(setting["position"])
    _, itself, fraction, binary, hands = text.split("\n")
    assert itself.split()[1] == str(position)
    assert f"{position / why_waves.LONG:.3f} if N = {why_waves.LONG}" in fraction
    short = f"{position / why_waves.SHORT:.3f}" if position < why_waves.SHORT else "nothing"
    assert f"{short} if N = {why_waves.SHORT}" in fraction
    assert binary.split()[1] == f"{position:0{why_waves.BITS}b}"
    for speed in why_waves.SPEEDS:
        assert f"{position * speed:.1f} rad" in hands
    step = math.sqrt(sum(2 - 2 * math.cos(speed) for speed in why_waves.SPEEDS))
    assert f"{step:.3f}, the same everywhere" in hands


EXPLORERS = {
    "why_waves_explorer(": (why_waves_explorer, why_waves_truth, ["position"]),
    "sinusoid_explorer(": (sinusoid_explorer, sinusoid_truth, ["position", "dimension", "d_model", "base"]),
    "offset_explorer(": (offset_explorer, offset_truth, ["p", "k"]),
}
SLIDERS = [(cell, name) for cell, (_, _, names) in EXPLORERS.items() for name in names]


PICTURES = {
    "00_start_here": ["Explorer("],
    "01_ordering_problem": ["order_explorer("],
    "02_sinusoidal_by_hand": list(EXPLORERS),
    "03_learned_embeddings": ["training_explorer(", "table_end_explorer(", "scale_explorer("],
    "04_relative_and_rotary": ["bias_explorer(", "rope_explorer(", "slide_explorer("],
    "05_encoder_layer": ["layer_norm_explorer(", "depth_explorer("],
    "06_exercises": ['show(fig, "Squared distance', 'show(fig, "Heat maps'],            # it has no explorer
    "07_rotary_in_practice": ["layouts_explorer("],
}


def test_every_chapter_is_looked_at_as_saved():
    assert list(PICTURES) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("name", PICTURES)
def test_a_chapter_as_saved_shows_its_pictures(lab, name):
    notebook = lab.open(name)
    notebook.trust()
    for cell in PICTURES[name]:
        picture = notebook.cell(cell).locator(".jp-OutputArea-output img")
        picture.wait_for()
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 1000
        assert notebook.cell(cell).get_by_role("slider").count() == 0
    assert not BROKEN_WIDGET.search(notebook.page.locator(".jp-Notebook").text_content())
    assert notebook.errors == []
    notebook.page.close()


def test_all_cells_of_chapter_02_run(chapter_02):
    assert_all_ran(chapter_02)


@pytest.mark.parametrize("cell", EXPLORERS)
def test_the_page_has_the_explorers_sliders_and_every_one_is_tried_here(chapter_02, cell):
    make, _, names = EXPLORERS[cell]
    assert list(make().controls) == chapter_02.explorer(cell).names() == names


@pytest.mark.parametrize(("cell", "name"), SLIDERS)
def test_slider_moves_by_keyboard_and_shows_the_librarys_values(chapter_02, cell, name):
    explorer, truth = chapter_02.explorer(cell), EXPLORERS[cell][1]
    for key in KEYS:
        assert_key_moves(explorer, name, key, truth)


@pytest.mark.parametrize("cell", EXPLORERS)
def test_sliders_are_reached_by_tab(chapter_02, cell):
    explorer = chapter_02.explorer(cell)
    chapter_02.cell(cell).locator(".jp-InputPrompt").click()
    reached = []
    for _ in range(30):
        chapter_02.page.keyboard.press("Tab")
        reached += [name for name in explorer.names() if explorer.has_focus(name)]
    assert reached == explorer.names()


def test_a_clicked_slider_takes_the_arrow_keys(chapter_02):
    explorer = chapter_02.explorer("offset_explorer(")
    explorer.handle("k").click()
    readout = number(explorer.readouts()["k"])
    chapter_02.page.keyboard.press("ArrowLeft")
    eventually(lambda: offset_truth(explorer.values(), {"p": number(explorer.readouts()["p"]), "k": readout - 1}))


BREAKS_AT_ONE = """
from posenc_lib.explorer import Explorer, View, slider
from posenc_lib.figures import panels
from posenc_lib.marks import Points

def a_dot(place):
    if place == 1:
        raise ValueError("there is no dot at 1")
    return View([Points([place / 3], [0.5])], [f"a dot at {place}"], f"A dot at {place}.")

Explorer(lambda: panels(height=1)[0], a_dot, place=slider(0, 3))
"""


def test_an_exception_while_computing_is_shown_until_a_value_works(chapter_02):
    chapter_02.run(BREAKS_AT_ONE)
    explorer = chapter_02.explorer("Explorer(")
    first = explorer.picture()
    assert explorer.values() == "a dot at 0" and explorer.alert().count() == 0

    explorer.press("place", "ArrowRight")
    explorer.alert().wait_for()
    assert "ValueError: there is no dot at 1" in explorer.alert().text_content()
    assert 'raise ValueError("there is no dot at 1")' in explorer.alert().text_content()
    assert explorer.picture() == first

    explorer.press("place", "ArrowRight")
    explorer.alert().wait_for(state="detached")
    assert explorer.values() == "a dot at 2" and explorer.picture() != first


def test_the_explorer_of_chapter_00_moves(lab):
    notebook = lab.open("00_start_here")
    notebook.run_all()
    assert_all_ran(notebook)
    explorer = notebook.explorer("Explorer(")
    name, = explorer.names()
    for key in KEYS:
        values = explorer.values()

        def changed(text, setting, values=values):
            assert text != values

        assert_key_moves(explorer, name, key, changed)
    assert notebook.errors == []
    notebook.page.close()


@pytest.fixture(scope="module")
def chapter_01(lab):
    notebook = lab.open("01_ordering_problem")
    notebook.run_all()
    return notebook


@pytest.mark.slow
def test_all_cells_of_chapter_01_run(chapter_01):
    assert_all_ran(chapter_01)
    assert chapter_01.errors == []


@pytest.mark.slow
def test_a_sentence_is_typed_a_word_moved_and_positions_and_mask_ticked(chapter_01):
    """Each step by keyboard; the page must show what the explorer's plain function gives for that setting."""
    explorer = chapter_01.explorer("order_explorer(")
    keyboard = chapter_01.page.keyboard
    setting = {"sentence": order.SENTENCE, "word": 1, "place": 5, "positions": False, "causal": False}

    def shows(**changed):
        before = explorer.picture() if changed else None
        setting.update(changed)

        def agreed():
            assert explorer.values().splitlines() == list(order.order_view(**setting).values)
            assert explorer.picture() != before
        return lambda: eventually(agreed)

    shows()()
    settled = shows(word=2)
    explorer.press("word", "ArrowRight")
    settled()
    settled = shows(place=4)
    explorer.press("moved to", "ArrowLeft")
    settled()
    for name, label in [("positions", "positions"), ("causal", "causal mask")]:
        settled = shows(**{name: True})
        explorer.press(label, "Space")
        settled()
    assert "DIFFERENT" in explorer.values()

    typed = "<b>dog</b> bites the man"
    settled = shows(sentence=typed, place=3)
    explorer.output.locator("input[type=text]").fill(typed)
    keyboard.press("Enter")
    settled()
    assert explorer.output.locator("b").count() == 0 and explorer.alert().count() == 0
    assert chapter_01.errors == []


# Chapter 3: its explorers show runs that were trained in its own cells

@dataclass
class Trained:
    """What the page must show: the run with seed 42, made here, and the numbers of the runs in the chapter's kernel."""

    run: SmallRun
    scales: scale.ScaleRuns
    ends: table_end.EndRuns


NUMBERS = """
import json
print(json.dumps({
    "ratios": scales.ratios, "scales": {scaled: curves.tolist() for scaled, curves in scales.accuracy.items()},
    "table": runs.table.tolist(), "ends": runs.accuracy}))
"""


@pytest.fixture(scope="module")
def chapter_03_run(lab):
    notebook = lab.open("03_learned_embeddings")
    notebook.run_all()
    return notebook


@pytest.fixture
def chapter_03(chapter_03_run):
    yield chapter_03_run
    assert chapter_03_run.errors == []


@pytest.fixture(scope="module")
def trained(chapter_03_run):
    chapter_03_run.run(NUMBERS)
    found = json.loads("".join("".join(output["text"]) for output in chapter_03_run.cells()[-1]["outputs"]))
    scales = scale.ScaleRuns(tuple(found["ratios"]), {
        scaled: torch.tensor(curves) for scaled, curves in found["scales"].items()})
    ends = table_end.EndRuns(torch.tensor(found["table"]), {
        scheme: {int(length): seeds for length, seeds in each.items()} for scheme, each in found["ends"].items()})
    return Trained(small_run(42), scales, ends)


def training_truth(trained, text, setting):
    epoch = int(setting["epoch"])
    assert text.startswith(f"epoch {epoch}: loss {trained.run.loss[epoch]:.4f}, ")
    places = re.findall(r"\(([^)]*)\)", text.splitlines()[1])
    shown = torch.tensor([[number(part) for part in place.split(",")] for place in places])
    torch.testing.assert_close(shown, trained.run.table[epoch], rtol=0, atol=6e-4)
    assert text.splitlines() == list(training.training_view(trained.run, epoch).values)


def scale_truth(trained, text, setting):
    scaled, ratio, steps = setting["scaled"], setting["ratio"], int(setting["steps"])
    seeds = trained.scales.accuracy[scaled][trained.scales.ratios.index(ratio), :, steps // scale.EVERY]
    assert f"tokens are {ratio:g} times as long" in text
    spread = f"{seeds.min():.2f} to {seeds.max():.2f} over {len(seeds)} seeds"
    assert f"after {steps} steps: {seeds.mean():.2f} ({spread})" in text
    assert text.splitlines() == list(scale.scale_view(trained.scales, scaled, ratio, steps).values)


def table_end_truth(trained, text, setting):
    words = int(setting["words"])
    if words > table_end.N:
        with pytest.raises(ValueError) as refused:
            LearnedEncoding(table_end.D_MODEL, table_end.N)(torch.zeros(1, words, table_end.D_MODEL))
        assert f"{words} words: refused: {refused.value}" in text
    else:
        assert "refused" not in text
    for scheme, by_length in trained.ends.accuracy.items():
        mean = sum(by_length[words]) / len(by_length[words])
        assert re.search(rf"^{scheme}: +accuracy {mean:.3f} ", text, re.MULTILINE)
    assert text.splitlines() == list(table_end.end_view(trained.ends, words).values)


LEARNED = {
    "training_explorer(": (training_truth, {"epoch": KEYS}),
    "scale_explorer(": (scale_truth, {"scaled": ("ArrowRight", "Home", "End", "ArrowLeft"), "ratio": KEYS,
                                      "steps": KEYS}),
    "table_end_explorer(": (table_end_truth, {"words": KEYS}),
}


@pytest.mark.slow
def test_all_cells_of_chapter_03_run(chapter_03):
    assert_all_ran(chapter_03)


@pytest.mark.slow
@pytest.mark.parametrize("cell", LEARNED)
def test_every_slider_of_chapter_03_is_tried_here_and_reached_by_tab(chapter_03, cell):
    explorer, names = chapter_03.explorer(cell), list(LEARNED[cell][1])
    assert explorer.names() == names
    chapter_03.cell(cell).locator(".jp-InputPrompt").click()
    reached = []
    for _ in range(30):
        chapter_03.page.keyboard.press("Tab")
        reached += [name for name in names if explorer.has_focus(name)]
    assert reached == names


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "name"), [(cell, name) for cell, (_, keys) in LEARNED.items() for name in keys])
def test_slider_of_chapter_03_moves_by_keyboard_and_shows_the_numbers_of_its_run(chapter_03, trained, cell, name):
    truth, keys = LEARNED[cell]
    explorer = chapter_03.explorer(cell)
    for key in keys[name]:
        assert_key_moves(explorer, name, key, lambda text, setting: truth(trained, text, setting))


@pytest.mark.slow
def test_the_epoch_is_walked_through_and_the_points_move_on(chapter_03, trained):
    explorer, pictures = chapter_03.explorer("training_explorer("), []
    explorer.press("epoch", "Home")
    eventually(lambda: training_truth(trained, explorer.values(), {"epoch": 0}))
    for epoch in range(1, 8):
        assert_key_moves(explorer, "epoch", "ArrowRight",
                         lambda text, setting: training_truth(trained, text, setting))
        assert explorer.readouts()["epoch"] == str(epoch)
        pictures.append(explorer.picture())
    assert len(set(pictures)) == 7


# Chapters 4 and 7: what is shown is computed anew, a pair of columns as a complex number a + jb

FROM_LOW_END = ("End", "ArrowLeft", "Home", "ArrowRight")        # for a slider that starts at its low end


def turned(vector, position, base=10_000.0):
    """Pair i times exp(j·position·ω_i)."""
    pairs = np.array(vector, dtype=float).reshape(-1, 2) @ (1, 1j)
    return pairs * np.exp(1j * position * base ** (-np.arange(len(pairs)) / len(pairs)))


def slide_scores(s):
    """q·k/√d of the sentence from position s on, `[6, 6]`, for each scheme; one head, 16 wide."""
    layer, schemes = slide.fixed()
    words = torch.stack([slide.embedding(word) for word in slide.WORDS]).numpy()
    place = np.arange(s, s + 6)[:, None]
    hands = np.exp(1j * place * 10_000.0 ** (-np.arange(8) / 8))
    added = {slide.SINUSOIDAL: np.stack([hands.imag, hands.real], -1).reshape(6, 16),
             slide.LEARNED: schemes[slide.LEARNED].table.detach().numpy()[s : s + 6], slide.ROTARY: 0}
    scores = {}
    for scheme, rows in added.items():
        query, key = ((words + rows) @ part.weight.detach().numpy().T + part.bias.detach().numpy()
                      for part in (layer.to_query, layer.to_key))
        if scheme == slide.ROTARY:
            query, key = (x.reshape(6, 8, 2) @ (1, 1j) * hands for x in (query, key))
        scores[scheme] = (query.conj() @ key.T).real / 4
    return scores


def slide_truth(text, setting):
    s = int(setting["s"])
    before, after = slide_scores(0), slide_scores(s)
    lines = text.split("\n")
    assert f"at positions {s} … {s + 5}," in lines[0]
    for scheme, line in zip(slide.SCHEMES, lines[2:5], strict=True):
        said = line.removeprefix(scheme).strip()
        change = np.abs(after[scheme] - before[scheme])
        if s == 0 or scheme == slide.ROTARY:
            assert change.max() < 1e-12 and said == ("0 up to rounding" if s else "0.0000")
            continue
        size, query, _, key, old, new = said.split()
        row, column = np.unravel_index(change.argmax(), (6, 6))
        assert (query, key) == (slide.WORDS[row], slide.WORDS[column])
        expected = [change.max(), before[scheme][row, column], after[scheme][row, column]]
        assert [number(shown) for shown in (size, old, new)] == pytest.approx(expected, abs=6e-5)
    assert ("nothing has moved yet" in lines[-1]) == (s == 0)


def t5_bucket_by_logarithm(k):
    """16 buckets, 8 a side: one each for the distances 0 to 3, four that grow with the logarithm up to distance 32."""
    near = min(abs(k), 4)
    far = math.floor(4 * math.log(abs(k) / 4, 8) + 1e-12) if abs(k) >= 4 else 0
    return min(near + far, 7) + 8 * (k > 0)


def bias_truth(text, setting):
    scheme, head, k = setting["scheme"], int(setting["head"]), int(setting["offset k"])
    group = {"ALiBi": abs, "T5": t5_bucket_by_logarithm, "Shaw": lambda k: min(max(k, -4), 4) + 4}[scheme]
    if scheme == "ALiBi":
        expected = -abs(k) / 2 ** (head + 1)
    elif scheme == "T5":
        expected = bias.schemes()["T5"].bias[group(k), head].item()
    else:
        query, row = bias.queries()[head].tolist(), bias.schemes()["Shaw"].key_table[group(k)].tolist()
        expected = sum(a * b for a, b in zip(query, row, strict=True)) / math.sqrt(8)
    _, line, *_, sharing, factor = text.split("\n")
    assert number_at_the_end(line) == pytest.approx(expected, abs=6e-5)
    alike = [other for other in range(-23, 24) if group(other) == group(k)]
    assert {int(number(shown)) for shown in re.findall(r"[−\d]+", sharing)} == {alike[0], alike[-1]}
    assert number(re.match("ebias = (.*?):", factor)[1]) == pytest.approx(math.exp(expected), abs=6e-5)


def rope_truth(text, setting):
    m, n, pair, base = (int(setting[name]) for name in ("m", "n", "pair", "base"))
    query, key = turned(rope.QUERY, m, base), turned(rope.KEY, n, base)
    shares, unturned = (query.conj() * key).real, (turned(rope.QUERY, 0).conj() * turned(rope.KEY, 0)).real
    omega = base ** (-pair / 4)
    turning, angle, share, *scores, _ = text.split("\n")
    assert turning.startswith(f"pair {pair}: ")
    shown = re.match(rf"pair {pair}: ω{pair} = .* = (\S+) rad .* by m.* = (\S+), k by n.* = (\S+)$", turning).groups()
    assert number(shown[0]) == pytest.approx(omega, rel=1e-5)
    assert [number(each) for each in shown[1:]] == pytest.approx([m * omega, n * omega], abs=6e-5)
    between = number(re.search(r"after (\S+) = ", angle)[1])
    assert between == pytest.approx(cmath.phase(key[pair] / query[pair]), abs=6e-5)
    shown = re.match(rf"share of pair {pair}: before (\S+), after (\S+)$", share).groups()
    assert [number(each) for each in shown] == pytest.approx([unturned[pair], shares[pair]], abs=6e-5)
    shown = [number(re.search(r"= +(\S+)  ", line)[1]) for line in scores]
    assert shown == pytest.approx([shares.sum()] * 3, abs=1e-9)
    assert f"from n − m = {n - m} alone".replace("-", "−") in scores[1]
    assert f"m + 7 = {m + 7}, n + 7 = {n + 7}" in scores[2]


def turned_in_each_layout(vector, position):
    """Neighbours as pairs; i and i + 4 as pairs; and those with the angles of the first, which is no rotation."""
    neighbours = turned(vector, position)
    halves = turned(np.reshape(vector, (2, 4)).T.ravel(), position)
    angle = np.repeat(position * 10_000.0 ** (-np.arange(4) / 4), 2)
    mixed = vector * np.cos(angle) + np.concatenate([-vector[4:], vector[:4]]) * np.sin(angle)
    return {"interleaved": np.stack([neighbours.real, neighbours.imag], 1).ravel(),
            "half": np.concatenate([halves.real, halves.imag]), "mixed": mixed}


def layouts_truth(text, setting):
    p, k = int(setting["position p"]), int(setting["offset k"])
    x, key = layouts.X.numpy(), layouts.KEY.numpy()
    here = turned_in_each_layout(x, p)
    lines = text.split("\n")
    for line, (layout, vector) in zip(lines[:4], {"x": x, **here}.items(), strict=True):
        assert line.split()[0] == layout
        assert numbers_in_brackets(line) == pytest.approx(vector.tolist(), abs=6e-5)
        assert number(re.search(r"norm ([\d.]+)", line)[1]) == pytest.approx(np.linalg.norm(vector), abs=6e-5)
    assert [line.split(", ")[-1] for line in lines[1:4]] == ["kept", "kept", "NOT kept" if p else "kept"]
    along = [(turned_in_each_layout(x, at), turned_in_each_layout(key, at + k)) for at in range(61)]
    scores = {layout: [float(query[layout] @ other[layout]) for query, other in along] for layout in here}
    assert lines[4].startswith(f"score, query at {p}, key at {p + k}:".replace("-", "−"))
    for layout, each in scores.items():
        shown = [number(re.search(rf"{layout} (\S+)", line)[1]) for line in lines[4:6]]
        assert shown == pytest.approx([each[p], max(each) - min(each)], abs=6e-5)


RELATIVE = {
    "04_relative_and_rotary": {
        "bias_explorer(": (bias_explorer, bias_truth, {"scheme": FROM_LOW_END, "head": KEYS, "offset k": KEYS}),
        "rope_explorer(": (rope_explorer, rope_truth, {"m": KEYS, "n": KEYS, "pair": FROM_LOW_END, "base": KEYS}),
        "slide_explorer(": (slide_explorer, slide_truth, {"s": KEYS})},
    "07_rotary_in_practice": {
        "layouts_explorer(": (layouts_explorer, layouts_truth, {"position p": KEYS, "offset k": KEYS})},
}
RELATIVE_EXPLORERS = [(chapter, cell) for chapter, cells in RELATIVE.items() for cell in cells]


@pytest.fixture(scope="module")
def relative_runs(lab):
    runs = {chapter: lab.open(chapter) for chapter in RELATIVE}
    for notebook in runs.values():
        notebook.run_all()
    return runs


@pytest.fixture
def relative(relative_runs):
    yield relative_runs
    assert [notebook.errors for notebook in relative_runs.values()] == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", RELATIVE)
def test_all_cells_of_chapters_04_and_07_run(relative, chapter):
    assert_all_ran(relative[chapter])


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "cell"), RELATIVE_EXPLORERS)
def test_every_slider_of_chapters_04_and_07_is_tried_here_and_reached_by_tab(relative, chapter, cell):
    notebook, (make, _, keys) = relative[chapter], RELATIVE[chapter][cell]
    explorer = notebook.explorer(cell)
    assert explorer.names() == list(keys) == [control.description for control in make().controls.values()]
    notebook.cell(cell).locator(".jp-InputPrompt").click()
    reached = []
    for _ in range(30):
        notebook.page.keyboard.press("Tab")
        reached += [name for name in keys if explorer.has_focus(name)]
    assert reached == list(keys)


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "cell", "name"), [
    (chapter, cell, name) for chapter, cell in RELATIVE_EXPLORERS for name in RELATIVE[chapter][cell][2]])
def test_slider_of_chapters_04_and_07_moves_by_keyboard_and_shows_the_right_numbers(relative, chapter, cell, name):
    _, truth, keys = RELATIVE[chapter][cell]
    explorer = relative[chapter].explorer(cell)
    for key in keys[name]:
        assert_key_moves(explorer, name, key, truth)


@pytest.mark.slow
def test_each_scheme_of_the_bias_explorer_shows_its_own_numbers_for_heads_and_offsets(relative):
    explorer = relative["04_relative_and_rotary"].explorer("bias_explorer(")
    for choice, scheme in (("End", "Shaw"), ("Home", "ALiBi"), ("ArrowRight", "T5")):
        assert_key_moves(explorer, "scheme", choice, bias_truth)
        assert explorer.readouts()["scheme"] == scheme
        for name in ("head", "offset k"):
            for key in KEYS:
                assert_key_moves(explorer, name, key, bias_truth)


# Chapter 5: LayerNorm by hand, the deep stacks measured anew

@pytest.fixture(scope="module")
def last_runs(lab):
    """Chapters 5 and 6, which run at the same time: a kernel takes one core for a minute."""
    notebooks = [lab.open(name) for name in ("05_encoder_layer", "06_exercises")]
    for notebook in notebooks:
        notebook.start_all()
    for notebook in notebooks:
        notebook.wait_for_end()
    return notebooks


@pytest.fixture
def chapter_05(last_runs):
    yield last_runs[0]
    assert last_runs[0].errors == []


def normed(x, divided_by):
    """Variance of four numbers and their LayerNorm, for the biased variance divided by 4."""
    mean = sum(x) / 4
    variance = sum((entry - mean) ** 2 for entry in x) / divided_by
    return variance, [(entry - mean) / math.sqrt(variance + 1e-5) for entry in x]


def layer_norm_truth(text, setting):
    x = [entry * setting["scale"] + setting["shift"] for entry in (2, 4, 6, 8)]
    x[3] += setting["outlier"]
    (variance, result), (_, itself), (unbiased, other) = normed(x, 4), normed([2, 4, 6, 8], 4), normed(x, 3)
    lines = text.split("\n")
    assert numbers_in_brackets(lines[0]) == pytest.approx(x, rel=1e-5, abs=1e-9)
    assert number_at_the_end(lines[1]) == pytest.approx(sum(x) / 4, abs=6e-5)
    assert number_at_the_end(lines[2]) == pytest.approx(variance, abs=6e-5)
    assert numbers_in_brackets(lines[3]) == pytest.approx(result, abs=6e-5)
    assert numbers_in_brackets(lines[4].split("gives")[1]) == pytest.approx(itself, abs=6e-5)
    change = max(abs(one - another) for one, another in zip(result, itself, strict=True))
    assert number(lines[4].split()[-1]) == pytest.approx(change, abs=6e-5)
    shorter = 100 * (1 - math.sqrt(variance / (variance + 1e-5)))
    assert number(re.search(r"(\S+) % shorter", lines[5])[1]) == pytest.approx(shorter, rel=0.06)
    assert number(re.search(r"stand (\S+) apart", lines[6])[1]) == pytest.approx(result[1] - result[0], abs=6e-5)
    assert ("squeezed" in lines[6]) == (setting["outlier"] > 0)
    assert number(re.search(r"variance (\S+),", lines[7])[1]) == pytest.approx(unbiased, abs=6e-5)
    assert numbers_in_brackets(lines[7]) == pytest.approx(other, abs=6e-5)


@functools.cache
def measured(residual, norm, depth, seeds):
    """Gradient norms and residues of so many stacks of a setting, `[seeds, layers]` and `[seeds, states]`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)                                    # as in the chapter: more only wait for one another
    try:
        stacks = [measure(residual, norm, depth, seed) for seed in range(seeds)]
    finally:
        torch.set_num_threads(threads)
    return [torch.stack(each).numpy() for each in zip(*stacks, strict=True)]


def depth_truth(text, setting):
    residual, norm, depth = setting["residual"] == "on", setting["norm"], int(setting["depth"])
    title, *lines = text.split("\n")
    assert title.startswith(f"{'with' if residual else 'without'} residual path, norm {norm}, depth {depth}: ")
    gradient, residue = measured(residual, norm, depth, seeds=int(re.search(r"over (\d+) seeds", title)[1]))
    expected = {"gradient norm, layer 1": gradient[:, 0], f"gradient norm, layer {depth}": gradient[:, -1],
                f"layer 1 ÷ layer {depth}": gradient[:, 0] / gradient[:, -1],
                f"residue after layer {depth}": residue[:, -1]}
    for line, (name, seeds) in zip(lines, expected.items(), strict=True):
        said, shown = line.split(": ", 1)
        mean_and_ends = [number(each) for each in re.findall(r"[\d.]+(?:e[+−]\d+)?", shown)]
        assert said == name and len(mean_and_ends) == 3
        rounding = name.startswith("residue") and seeds.max() < 1e-14
        assert ("no more than rounding" in shown) == rounding
        if rounding:
            assert max(mean_and_ends) < 1e-14
        else:                                                   # two digits are shown
            assert mean_and_ends == pytest.approx([np.exp(np.log(seeds).mean()), seeds.min(), seeds.max()], rel=0.06)


ENCODER = {
    "layer_norm_explorer(": (layer_norm_truth, {"shift": KEYS, "scale": KEYS, "outlier": FROM_LOW_END}),
    "depth_explorer(": (depth_truth, {"residual": ("Space", "Space"), "norm": FROM_LOW_END, "depth": KEYS}),
}


@pytest.mark.slow
def test_all_cells_of_chapter_05_run(chapter_05):
    assert_all_ran(chapter_05)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ENCODER)
def test_every_slider_and_tick_box_of_chapter_05_is_tried_here_and_reached_by_tab(chapter_05, cell):
    explorer, names = chapter_05.explorer(cell), list(ENCODER[cell][1])
    assert explorer.names() == names
    chapter_05.cell(cell).locator(".jp-InputPrompt").click()
    reached = []
    for _ in range(30):
        chapter_05.page.keyboard.press("Tab")
        reached += [name for name in names if explorer.has_focus(name)]
    assert reached == names


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "name"), [(cell, name) for cell, (_, keys) in ENCODER.items() for name in keys])
def test_slider_or_tick_box_of_chapter_05_moves_by_keyboard_and_shows_the_right_numbers(chapter_05, cell, name):
    truth, keys = ENCODER[cell]
    explorer = chapter_05.explorer(cell)
    for key in keys[name]:
        assert_key_moves(explorer, name, key, truth)


@pytest.mark.slow
def test_residual_path_and_norm_in_every_combination_show_their_own_numbers(chapter_05):
    explorer, seen = chapter_05.explorer("depth_explorer("), set()
    for choice in ("End", "Home", "ArrowRight"):
        assert_key_moves(explorer, "norm", choice, depth_truth)
        for _ in range(2):
            assert_key_moves(explorer, "residual", "Space", depth_truth)
            for key in ("Home", "ArrowRight"):
                assert_key_moves(explorer, "depth", key, depth_truth)
                seen.add(tuple(explorer.readouts().values()))
    assert seen == {(residual, norm, depth) for residual in ("off", "on") for norm in ("none", "pre", "post")
                    for depth in ("2", "12")}


# Chapter 6: its questions, and an exercise as a reader works it

@pytest.fixture
def chapter_06(last_runs):
    yield last_runs[1]
    assert last_runs[1].errors == []


@pytest.mark.slow
def test_all_cells_of_chapter_06_run(chapter_06):
    assert_all_ran(chapter_06)


@pytest.mark.slow
def test_each_choice_of_the_four_questions_opens_by_keyboard_and_a_reload_closes_all(lab):
    notebook = lab.open("06_exercises")
    page, questions = notebook.page, notebook.text_cell("Four questions")
    choices, titles = questions.locator("details"), questions.locator("summary")
    explanations = questions.locator("details > p")
    titles.first.wait_for()
    count = choices.count()
    assert titles.count() == explanations.count() == count > 4 * 3

    def opened():
        return choices.evaluate_all("choices => choices.map(choice => choice.open)")

    assert opened() == [False] * count and not any(explanation.is_visible() for explanation in explanations.all())
    questions.locator("p").first.click()
    reached = []
    for _ in range(count + 5):                                  # JupyterLab has a few buttons before the first choice
        page.keyboard.press("Tab")
        number = titles.evaluate_all("titles => titles.indexOf(document.activeElement)")
        if number >= 0:
            reached.append(number)
            page.keyboard.press(("Enter", "Space")[number % 2])
            explanations.nth(number).wait_for()
            assert opened() == [True] * (number + 1) + [False] * (count - number - 1)
        if number == count - 1:
            break
    assert reached == list(range(count))
    marks = [text.strip()[0] for text in explanations.all_text_contents()]
    assert marks.count("✓") == 4 and marks.count("✗") == count - 4
    page.keyboard.press("Enter")
    explanations.last.wait_for(state="hidden")                  # it closes again

    notebook.reload()
    notebook.text_cell("Four questions")
    titles.first.wait_for()
    assert opened() == [False] * count
    assert notebook.errors == []
    page.close()


@pytest.mark.slow
def test_an_exercise_is_answered_by_typing_and_counts_once_it_is_right(chapter_06, monkeypatch):
    monkeypatch.setattr(checking, "LAST", {})

    def ratio(std, d_model):
        return std

    hint = check("6.5", ratio).message
    verdict, count = 'check("6.5"', "solved("

    def says(cell, *parts):
        def said():
            text = chapter_06.verdict(cell).text_content()
            assert all(part in text for part in parts), text
        eventually(said)

    says(verdict, "Exercise 6.5", "open")
    says(count, "0 of ", "6.5 ○")
    chapter_06.answer("6.5", "return std")
    says(verdict, "Exercise 6.5", "not yet", hint)
    chapter_06.answer("6.5", "return std * math.sqrt(2)")
    says(verdict, "Exercise 6.5", "right")
    assert hint not in chapter_06.verdict(verdict).text_content()
    chapter_06.run_by_keyboard(count)
    says(count, "1 of ", "6.5 ✓")
