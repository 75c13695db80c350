"""Chapters in a real JupyterLab: every cell runs, every slider moves its explorer by keyboard and tells the truth."""
import math
import re
from collections.abc import Callable

import pytest

from posenc_lib import frequencies, shift_matrix, sinusoidal_table
from posenc_lib.explorers import offset, offset_explorer, order, sinusoid_explorer, why_waves, why_waves_explorer
from tests.jupyter_browser import LiveExplorer, Notebook, eventually, jupyterlab

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
        truth(explorer.values(), {slider: number(text) for slider, text in readouts.items()})
        assert explorer.picture() != picture, f"the picture of {name} = {readouts[name]} is that of {readout}"

    eventually(moved)
    assert explorer.background() == background
    assert explorer.alert().count() == 0


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


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


def test_a_chapter_as_saved_shows_a_picture_for_each_explorer(lab):
    notebook = lab.open("02_sinusoidal_by_hand")
    notebook.trust()
    for cell in EXPLORERS:
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


def test_all_cells_of_chapter_01_run(chapter_01):
    assert_all_ran(chapter_01)
    assert chapter_01.errors == []


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
        explorer.output.get_by_role("checkbox", name=label).focus()
        keyboard.press("Space")
        settled()
    assert "DIFFERENT" in explorer.values()

    typed = "<b>dog</b> bites the man"
    settled = shows(sentence=typed, place=3)
    explorer.output.locator("input[type=text]").fill(typed)
    keyboard.press("Enter")
    settled()
    assert explorer.output.locator("b").count() == 0 and explorer.alert().count() == 0
    assert chapter_01.errors == []
