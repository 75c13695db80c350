"""JupyterLab and Notebook 7 as their readers have them: light and dark, on a phone, enlarged, without a mouse.

Both show chapter 2, run in full, and below it the explorers of the other chapters and one with every kind of control.
"""
import io
import re
from collections.abc import Iterator

import pytest
from matplotlib import image
from playwright.sync_api import Locator

from posenc_lib import explorers
from tests.jupyter_browser import PAGES, LiveExplorer, Notebook, eventually, jupyterlab
from tests.test_browser import KEYS, assert_all_ran, assert_key_moves, offset_truth, sinusoid_truth

pytestmark = pytest.mark.slow

WIDE, PHONE, ENLARGED = (1280, 1000), (390, 844), (640, 500)        # the last is WIDE at a zoom of 200 %
READABLE = 520                                                      # pixels: no picture is made smaller than this
# What Notebook 7.6 says of itself whatever it opens: a setting without a schema, a command and fonts it does not get;
# and either front end, now and then, of a node that is gone when theme or size change.
ITS_OWN = re.compile(r"reading 'schema'|Command 'filebrowser:open-path'|/static/notebook/\w+\.woff|'removeChild'")

IN_CHAPTER_02 = ["why_waves_explorer(", "sinusoid_explorer(", "offset_explorer("]
OF_OTHER_CHAPTERS = {                                               # the beginning of the last statement: the cell
    "order_explorer(": "torch.set_num_threads(1)\nfrom posenc_lib.explorers import *\norder_explorer()",
    "training_explorer(": "training_explorer()",
    "table_end_explorer(": "table_end_explorer(end_runs(seeds=1, steps=1, bar=False))",
    "scale_explorer(": "scale_explorer(scale_runs(seeds=1, steps=50, ratios=(1, 2), bar=False))",
    "bias_explorer(": "bias_explorer()",
    "rope_explorer(": "rope_explorer()",
    "slide_explorer(": "slide_explorer()",
    "layer_norm_explorer(": "layer_norm_explorer()",
    "depth_explorer(": "depth_explorer(depth_runs(seeds=1, depths=(2,), bar=False))",
    "layouts_explorer(": "layouts_explorer()"}
EVERY_KIND = {"Explorer(": """
import ipywidgets as widgets
from posenc_lib.explorer import Explorer, View, choice, slider
from posenc_lib.figures import panels
from posenc_lib.marks import Text
def said(**setting):
    return View([Text(0.5, 0.5, "here")], [str(setting)], f"The setting is {setting}.")
Explorer(lambda: panels(height=1)[0], said, whole=slider(0, 9, 3), part=slider(0.0, 1.0, 0.5),
         listed=choice(["one", "two"]), word=widgets.Text("three"), ticked=widgets.Checkbox(),
         chosen=widgets.Dropdown(options=["four", "five"]))"""}
# All of them in the first, some in the second, which shares its code for cells and widgets.
EXPLORERS = {"JupyterLab": [*IN_CHAPTER_02, *OF_OTHER_CHAPTERS, *EVERY_KIND],
             "Notebook": [*IN_CHAPTER_02, "order_explorer(", *EVERY_KIND]}
VERDICTS = {f"Verdict({passed}": f"from posenc_lib.checking import Verdict as V\n"
            f"def Verdict(passed, said):\n    return V('Exercise 9.1', passed, said)\nVerdict({passed}, 'Some words.')"
            for passed in (True, False, None)}


# Each moves a slider. In Notebook 7 the arrow keys do not: it takes them itself, before the slider.
STEPS = {"JupyterLab": KEYS, "Notebook": ("Home", "End", "PageDown")}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with jupyterlab(tmp_path_factory.mktemp("book")) as lab:
        yield lab


@pytest.fixture(scope="module", params=PAGES)
def opened(lab, request):
    notebook = lab.open("02_sinusoidal_by_hand", request.param)
    notebook.run_all()
    for beginning, cell in (OF_OTHER_CHAPTERS | EVERY_KIND | VERDICTS).items():
        if beginning in (*EXPLORERS[request.param], *VERDICTS):
            notebook.run(cell)
    yield notebook
    notebook.page.close()


@pytest.fixture
def chapter(opened):
    opened.wear("Light")
    opened.resize(*WIDE)
    yield opened
    assert [error for error in opened.errors if not ITS_OWN.search(error)] == []


def each_explorer(notebook: Notebook) -> Iterator[tuple[str, LiveExplorer]]:
    for beginning in EXPLORERS[notebook.front_end]:
        explorer = notebook.explorer(beginning)
        explorer.output.scroll_into_view_if_needed()
        yield beginning, explorer


def test_every_explorer_of_the_book_is_looked_at_here():
    in_the_book = {f"{name}(" for name in explorers.__all__ if name.endswith("_explorer")}
    assert in_the_book | set(EVERY_KIND) == set(EXPLORERS["JupyterLab"])
    assert set(EXPLORERS) == set(PAGES)


def test_all_cells_run_and_explorers_move_by_keyboard(chapter):
    assert_all_ran(chapter)
    for cell, name, truth in [("sinusoid_explorer(", "position", sinusoid_truth),
                              ("sinusoid_explorer(", "base", sinusoid_truth), ("offset_explorer(", "k", offset_truth)]:
        explorer = chapter.explorer(cell)
        for key in STEPS[chapter.front_end]:
            assert_key_moves(explorer, name, key, truth)


def test_notebook_7_alone_keeps_the_arrow_keys_of_a_slider(chapter):
    """As the docstring of `Explorer` says; when this fails, it can say something better."""
    explorer = chapter.explorer("offset_explorer(")
    explorer.press("k", "End")
    eventually(lambda: offset_truth(explorer.values(), {"p": float(explorer.readouts()["p"]), "k": 30}))
    explorer.press("k", "ArrowLeft")
    assert explorer.has_focus("k") == (chapter.front_end != "Notebook")


def test_a_sliders_number_is_typed_over(chapter):
    explorer, keyboard = chapter.explorer("offset_explorer("), chapter.page.keyboard
    explorer.output.locator(".widget-readout").nth(1).focus()
    for key in ("Control+a", "1", "2", "Enter"):
        keyboard.press(key)
    eventually(lambda: offset_truth(explorer.values(), {"p": float(explorer.readouts()["p"]), "k": 12}))


def test_an_exercise_typed_wrongly_and_rightly_gets_its_verdicts(chapter):
    def says(*parts):
        def said():
            text = chapter.verdict('check("2.1"').text_content()
            assert all(part in text for part in parts), text
        eventually(said)

    says("Exercise 2.1 ○ open")
    chapter.answer("2.1", "return position")
    says("Exercise 2.1 ✗ not yet", "expected")
    chapter.answer("2.1", "return (math.cos if dimension % 2 else math.sin)"
                          "(position * 10000 ** (-(dimension // 2 * 2) / d_model))")
    says("Exercise 2.1 ✓ right")


# Light and dark

# Each text inside an element, the light of what lies under it (0 black, 1 white) and the contrast with that, as WCAG
# reckons them; the text in pictures apart, which bring their own ground.
TEXTS = """element => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const light = colors => {                               // of these colours, painted one over the other
        for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(value => value / 255)
            .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const seen = (text, at) => {
        const grounds = [], color = getComputedStyle(at).color;
        for (let each = at; each; each = each.parentElement) grounds.unshift(getComputedStyle(each).backgroundColor);
        const ground = light(grounds), [low, high] = [ground, light([...grounds, color])].sort((a, b) => a - b);
        return {text, ground, contrast: (high + 0.05) / (low + 0.05)};
    };
    const found = [...element.querySelectorAll("input[type=text], select")].map(field => seen(field.value, field));
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim(), at = walker.currentNode.parentElement;
        if (text && text !== "\\u200b" && !at.closest("svg, select")) found.push(seen(text, at));
    }
    return found;
}"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_every_text_can_be_read(chapter, theme):
    chapter.wear(theme)
    texts = [text for _, explorer in each_explorer(chapter) for text in explorer.output.evaluate(TEXTS)]
    assert all(text["ground"] > 0.8 if theme == "Light" else text["ground"] < 0.1 for text in texts)
    texts += [text for beginning in VERDICTS for text in chapter.verdict(beginning).evaluate(TEXTS)]
    assert [text for text in texts if text["contrast"] < 4.5] == []
    assert {"position", "16", "the cat sat on the mat", "causal mask", "chosen", "four", "✓ right", "✗ not yet",
            "○ open", "Some words."} <= {text["text"] for text in texts}
    assert any("angle = p·ω" in text["text"] for text in texts)


def test_pictures_stay_light_in_the_dark(chapter):
    chapter.wear("Dark")
    pictures = [chapter.cell('show(fig, "Heat map').locator(".jp-OutputArea-output img")]
    for picture in [*pictures, *(explorer.output.locator("img") for _, explorer in each_explorer(chapter))]:
        picture.scroll_into_view_if_needed()
        pixels = image.imread(io.BytesIO(picture.screenshot()))[..., :3]
        assert (pixels[[3, -4], 3] == 1).all(), "the picture is not white at its corners"


# Narrow windows

# What is wrong with an explorer's layout, in words.
FLAWS = """(output, readable) => {
    const box = element => element.getBoundingClientRect(), flaws = [];
    const scroller = output.querySelector(".widget-gridbox"), image = scroller.querySelector("img");
    const svgs = [...scroller.querySelectorAll(".widget-html-content > svg")];
    const picture = box(image), {left, right} = box(output);
    const parts = [...output.querySelectorAll(".widget-label, .slider-container, .widget-readout, input, select")]
        .filter(part => part.getClientRects().length && part.textContent !== "\\u200b");
    for (const part of [...parts, scroller])
        if (box(part).left < left - 1 || box(part).right > right + 1) flaws.push(`${part.className} is cut off`);
    for (const part of parts)
        if (part.scrollWidth > part.clientWidth + 1 && part.matches(".widget-label, .widget-readout"))
            flaws.push(`the text ${part.textContent} is cut off`);
    for (const [number, one] of parts.entries())
        for (const other of [...parts.slice(number + 1), scroller]) {
            const [a, b] = [box(one), box(other)];
            if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
                Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
                flaws.push(`${one.className} lies over ${other.className}`);
        }
    for (const track of output.querySelectorAll(".slider-container"))
        if (box(track).width < 80) flaws.push(`a slider of ${box(track).width} pixels`);
    for (const svg of svgs)
        for (const side of ["left", "right", "top", "bottom"])
            if (Math.abs(box(svg)[side] - picture[side]) > 1) flaws.push(`the marks lie beside the picture, ${side}`);
    if (svgs.length < 1) flaws.push("there are no marks");
    if (picture.width < Math.min(readable, image.naturalWidth / 2) - 1) flaws.push(`a picture ${picture.width} wide`);
    for (const element of [output, output.querySelector(".widget-vbox"), document.scrollingElement])
        if (element.scrollWidth > element.clientWidth + 1) flaws.push(`${element.className} is wider than its place`);
    const over = () => Math.max(...[image, scroller.querySelector("pre")].map(part => box(part).right)) - right;
    const overAtFirst = over();
    scroller.scrollLeft = 1e6;
    if (over() > 1) flaws.push("its right end cannot be scrolled to");
    scroller.scrollLeft = 0;
    return {flaws, over: overAtFirst};
}"""


@pytest.mark.parametrize("size", [WIDE, PHONE, ENLARGED], ids=["wide", "phone", "enlarged"])
def test_nothing_of_an_explorer_is_cut_off_or_covered(chapter, size):
    chapter.resize(*size)
    for beginning, explorer in each_explorer(chapter):
        found = eventually(lambda explorer=explorer: settled(explorer.output))
        assert found["flaws"] == [], beginning
        assert size != WIDE or found["over"] <= 1, f"{beginning} has to be scrolled in a wide window"


def settled(output: Locator) -> dict:
    """What `FLAWS` finds, once the notebook has fitted its outputs to the window."""
    found = output.evaluate(FLAWS, READABLE)
    assert found["flaws"] == [], f"{output.aria_snapshot()[:200]}: {found}"
    return found


def test_a_slider_is_moved_by_touch_on_a_phone(chapter):
    chapter.resize(*PHONE)
    explorer = chapter.explorer("offset_explorer(")
    explorer.press("k", "Home")
    eventually(lambda: offset_truth(explorer.values(), {"p": float(explorer.readouts()["p"]), "k": -30}))
    track = explorer.output.locator(".slider-container").nth(1).locator(".noUi-base").bounding_box()
    chapter.page.mouse.click(track["x"] + track["width"] / 2, track["y"] + track["height"] / 2)

    def moved():
        k = float(explorer.readouts()["k"].replace("−", "-"))
        assert abs(k) < 5
        offset_truth(explorer.values(), {"p": float(explorer.readouts()["p"]), "k": k})
    eventually(moved)


# What sticks out of a text cell and does not scroll.
STICKS_OUT = """cell => {
    const right = cell.getBoundingClientRect().right, parts = "table, mjx-container, pre, p, li, h1, h2, h3, img";
    const scrolls = element => element !== cell && (
        (["auto", "scroll"].includes(getComputedStyle(element).overflowX) && element.clientWidth > 0 &&
         element.getBoundingClientRect().right <= right + 1) || scrolls(element.parentElement));
    return [...cell.querySelectorAll(parts)].filter(part => part.getBoundingClientRect().right > right + 1)
        .map(part => ({text: part.textContent.slice(0, 40), scrolls: scrolls(part)}));
}"""


def test_long_formulas_and_tables_scroll_on_a_phone(chapter):
    chapter.resize(*PHONE)
    wide = [part for index, cell in enumerate(chapter.cells()) if cell["cell_type"] == "markdown"
            for part in chapter.scrolled_to(index).evaluate(STICKS_OUT)]
    assert len(wide) > 5                                    # the chapter has some that are wider than a phone
    assert [part["text"] for part in wide if not part["scrolls"]] == []


# Without a mouse

# What has the focus: its number among an explorer's stops (-1: something else in the cell's output, null: outside),
# and its look.
FOCUS = """output => {
    const at = document.activeElement, style = getComputedStyle(at);
    const stops = [...output.querySelectorAll(".noUi-handle, .widget-readout, input, select")];
    return {stop: output.closest(".jp-OutputArea").contains(at) ? stops.indexOf(at) : null,
            look: [style.outline, style.boxShadow, style.borderColor, style.backgroundColor].join()};
}"""
STOPS = """output => [...output.querySelectorAll(".noUi-handle, .widget-readout, input, select")].map(stop => {
    const style = getComputedStyle(stop);
    return [style.outline, style.boxShadow, style.borderColor, style.backgroundColor].join();
})"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_tab_goes_through_all_controls_visibly_and_out_again(chapter, theme):
    chapter.wear(theme)
    for beginning in ("Explorer(", "order_explorer(", "sinusoid_explorer("):
        output, keyboard = chapter.explorer(beginning).output, chapter.page.keyboard
        chapter.cell(beginning).locator(".jp-InputPrompt").click()
        unfocused, reached = output.evaluate(STOPS), []
        for _ in range(len(unfocused) + 30):
            keyboard.press("Tab")
            focus = output.evaluate(FOCUS)
            if focus["stop"] is None and reached:
                break                                       # it is out again
            if focus["stop"] is not None:
                reached.append(focus["stop"])
                assert focus["look"] != unfocused[focus["stop"]], f"{beginning} stop {focus['stop']} looks as before"
        assert reached == list(range(len(unfocused))), beginning
        assert focus["stop"] is None, f"{beginning} keeps the focus"
        for _ in range(10):                                 # back, past buttons that the next cell now shows
            keyboard.press("Shift+Tab")
            if output.evaluate(FOCUS)["stop"] is not None:
                break
        assert output.evaluate(FOCUS)["stop"] == len(unfocused) - 1


def test_each_control_takes_keys_once_tab_has_brought_it_the_focus(chapter):
    explorer, keyboard = chapter.explorer("Explorer("), chapter.page.keyboard
    chapter.cell("Explorer(").locator(".jp-InputPrompt").click()
    # What Tab reaches, in this order: the keys pressed there, and what the explorer then says.
    steps = [("End", "'whole': 9"), ("", ""), ("End", "'part': 1.0"), ("", ""), ("End", "'listed': 'two'"), ("", ""),
             ("t", "'word': 't'"), ("Space", "'ticked': True"), ("Space ArrowDown Enter", "'chosen': 'five'")]
    while explorer.output.evaluate(FOCUS)["stop"] is None:
        keyboard.press("Tab")
    for keys, said in steps:
        for key in keys.split():
            keyboard.press(key)

        def says(said=said):
            assert said in explorer.values(), explorer.values()
        eventually(says)
        keyboard.press("Tab")


# What a screen reader is told

def test_controls_go_by_their_labels_and_sliders_stand_after_theirs(chapter):
    output = chapter.explorer("Explorer(").output
    for role, name in [("textbox", "word"), ("checkbox", "ticked"), ("combobox", "chosen")]:
        assert output.get_by_role(role, name=name, exact=True).count() == 1
    lines = [line.strip("- ").replace('"', "") for line in output.aria_snapshot().splitlines()]
    sliders = [index for index, line in enumerate(lines) if line.startswith("slider")]
    assert [lines[index - 1].split()[-1] for index in sliders] == ["whole", "part", "listed"]
    # ipywidgets gives its sliders no name. When it does, the docstring of Explorer has something better to say.
    assert [lines[index] for index in sliders] == ["slider"] * 3
    assert output.locator(".widget-label[title=null]:visible").count() == 0


def test_the_picture_is_one_image_whose_name_follows_the_sliders(chapter):
    for beginning, explorer in each_explorer(chapter):
        picture = explorer.output.locator("[role=img]")
        before, name = picture.get_attribute("aria-label"), explorer.names()[0]
        assert explorer.output.get_by_role("img", name=before, exact=True).count() == 1 and before.endswith(".")
        assert explorer.output.locator("img:not([alt=''])").count() == 0, beginning
        handle = explorer.handle(name)
        at_low_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemin")
        explorer.press(name, "Space" if handle.get_attribute("type") == "checkbox" else "End" if at_low_end else "Home")

        def renamed(picture=picture, before=before):
            assert picture.get_attribute("aria-label") != before
        eventually(renamed)
