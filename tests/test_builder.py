"""The chapter builder: its rules on small books made here, then every chapter of this book and its notebook."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from builder.build import failing_line, is_current, number_cells
from builder.chapter import (
    FIRST_CELL,
    ChapterError,
    chapter_name,
    chapter_paths,
    exercises,
    fingerprint,
    notebook_path,
    read_chapter,
    reader_cells,
    reader_notebook,
    text_of,
)
from builder.exercise import GENERATED, PLACEHOLDER
from builder.write_back import write_back
from tests.front_matter import FRONT_MATTER

ROOT = Path(__file__).parent.parent
EXERCISE = """\
```{code-cell} ipython3
---
exercise:
  id: '2.1'
  minutes: 8
  difficulty: 1
  points: 2
---
def turned(x):
    ### BEGIN SOLUTION
    y = x + 1  # a turn
    return y
    ### END SOLUTION

check("2.1", turned)
```
"""
WAVES = f"""{FRONT_MATTER}
# Waves

A first paragraph.

+++

A second cell.

```{{code-cell}} ipython3
def check(id, answer):
    print("checked", id)
```

Now you.

{EXERCISE}
```{{code-cell}} ipython3
:tags: [last]

print("end")
```

The end.
"""
WAVES_3 = WAVES.replace("'2.1'", "'3.1'")


def place(line):
    """Where in the chapter this line stands."""
    return f"chapters/02_waves.md:{WAVES.splitlines().index(line) + 1}"


def make_book(folder, **chapters):
    """A book with a library of one line; returns the paths of its chapters."""
    (folder / "posenc_lib").mkdir(parents=True)
    (folder / "posenc_lib" / "__init__.py").write_text("ONE = 1\n", encoding="utf-8")
    (folder / "book.toml").write_text('repository = ""\ntag = "v1"\n', encoding="utf-8")
    (folder / "chapters").mkdir()
    paths = [folder / "chapters" / f"{name.lstrip('_')}.md" for name in chapters]
    for path, text in zip(paths, chapters.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


@pytest.fixture
def waves(tmp_path):
    return make_book(tmp_path, _02_waves=WAVES)[0]


def builder(folder, *arguments):
    """Runs the builder in a fresh process, as a contributor does."""
    return python(folder, "-m", "builder", *arguments)


def python(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )


def code_cell(source):
    return f"\n```{{code-cell}} ipython3\n{source}\n```\n"


def sources(cells):
    return [cell.source for cell in cells]


# The reader's notebook


def test_the_readers_cells_in_order(waves):
    notebook = reader_notebook(waves)
    assert [cell.cell_type[0] for cell in notebook.cells] == list("mmccmmcmcm")
    generated = [number for number, cell in enumerate(notebook.cells) if cell.metadata.get("book") == GENERATED["book"]]
    assert generated == [2, 5, 7]
    assert notebook.cells[8].metadata == {"tags": ["last"]}
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "book": {"fingerprint": fingerprint(waves)},
    }


def test_the_first_cell_stands_before_the_first_code_cell_even_an_exercise(tmp_path):
    begins_with_exercise = f"{FRONT_MATTER}\n# Waves\n\n{EXERCISE}"
    path, words = make_book(tmp_path, _02_waves=begins_with_exercise, _03_words=f"{FRONT_MATTER}\nHello\n")
    cells = reader_notebook(path).cells
    assert cells[1].source.startswith(FIRST_CELL.read_text(encoding="utf-8").splitlines()[0])
    assert cells[2].source.startswith("**Exercise 2.1**")
    assert sources(reader_notebook(words).cells) == ["Hello"]


def test_the_cells_of_an_exercise(waves):
    heading, stub, folded = reader_notebook(waves).cells[5:8]
    assert heading.source == "**Exercise 2.1** · about 8 minutes · difficulty ●○○ · 2 points"
    assert stub.source == f'def turned(x):\n    {PLACEHOLDER}\n\ncheck("2.1", turned)'
    assert stub.metadata == {"exercise": {"id": "2.1", "minutes": 8, "difficulty": 1, "points": 2}}
    assert folded.source == (
        "<details><summary>A solution</summary>\n\n"
        "```python\ndef turned(x):\n    y = x + 1  # a turn\n    return y\n```\n\n</details>"
    )


def test_hints_stand_between_the_exercise_and_its_solution(tmp_path):
    hints = "<details><summary>Hint 1</summary>\n\nThink of $\\omega_i$.\n\n</details>"
    (path,) = make_book(tmp_path, _02_waves=f"{FRONT_MATTER}\n{EXERCISE}\n{hints}\n\n+++\n\nGo on.\n")
    found = sources(reader_notebook(path).cells)[-3:]
    assert found[0] == hints and found[1].startswith("<details><summary>A solution") and found[2] == "Go on."


def test_a_heading_with_ones(tmp_path):
    text = EXERCISE.replace("minutes: 8", "minutes: 1").replace("points: 2", "points: 1")
    (path,) = make_book(tmp_path, _02_waves=FRONT_MATTER + "\n" + text.replace("difficulty: 1", "difficulty: 3"))
    assert reader_notebook(path).cells[1].source == (
        "**Exercise 2.1** · about 1 minute · difficulty ●●● · 1 point"
    )


def test_several_solutions_in_one_exercise(tmp_path):
    text = EXERCISE.replace("def turned", "### BEGIN SOLUTION\nhalf = 1 / 2\n### END SOLUTION\ndef turned")
    (path,) = make_book(tmp_path, _02_waves=FRONT_MATTER + "\n" + text)
    assert reader_notebook(path).cells[2].source == (
        f'{PLACEHOLDER}\ndef turned(x):\n    {PLACEHOLDER}\n\ncheck("2.1", turned)'
    )
    assert "half = 1 / 2\ndef turned(x):\n    y = x + 1" in reader_notebook(path).cells[3].source


def test_exercises_are_given_solved_and_as_stubs(waves):
    (exercise,) = exercises(waves)
    id, metadata, solved, stub, line = exercise
    assert (id, metadata["minutes"]) == ("2.1", 8)
    assert "### BEGIN SOLUTION\n    y = x + 1  # a turn\n    return y\n    ### END SOLUTION" in solved
    assert stub == reader_notebook(waves).cells[6].source
    assert waves.read_text(encoding="utf-8").splitlines()[line - 1] == "def turned(x):"


@pytest.mark.parametrize(
    ("old", "new", "complaint", "place"),
    [
        ("    ### BEGIN SOLUTION\n", "", "BEGIN SOLUTION' and '### END SOLUTION' take turns", "    ### END SOLUTION"),
        ("    ### END SOLUTION\n", "", "has no '### END SOLUTION'", "    ### BEGIN SOLUTION"),
        ("return y\n", "return y\n    ### BEGIN SOLUTION\n", "take turns", "    return y\n    ### BEGIN SOLUTION"),
        ("### BEGIN", "## BEGIN", "take turns", "    ### END SOLUTION"),
        ("  minutes: 8\n", "", "has no `minutes`", "def turned(x):"),
        ("minutes: 8", "minutes: 8\n  colour: red", "no key `colour`", "def turned(x):"),
        ("minutes: 8", "minutes: eight", "`minutes` is 'eight'; expected int", "def turned(x):"),
        ("minutes: 8", "minutes: 0", "`minutes` must be at least 1", "def turned(x):"),
        ("id: '2.1'", "id: 2.1", "`id` is 2.1; expected str", "def turned(x):"),
        ("id: '2.1'", "id: '3.1'", "exercise 3.1 stands in chapter 2", "def turned(x):"),
        ("id: '2.1'", "id: '21'", "exercise 21 stands in chapter 2", "def turned(x):"),
        ("difficulty: 1", "difficulty: 4", "`difficulty` is 4; expected 1, 2 or 3", "def turned(x):"),
        ("difficulty: 1", "difficulty: 0", "`difficulty` is 0", "def turned(x):"),
    ],
)
def test_a_malformed_exercise_is_refused_with_its_place(tmp_path, old, new, complaint, place):
    assert EXERCISE.count(old) == 1
    text = FRONT_MATTER + "\nBefore.\n\n" + EXERCISE.replace(old, new)
    (path,) = make_book(tmp_path, _02_waves=text)
    line = text[: text.index(place) + len(place)].count("\n") + 1
    with pytest.raises(ChapterError, match=rf"^chapters/02_waves\.md:{line}: ") as refused:
        reader_notebook(path)
    assert complaint in str(refused.value)


UNMARKED = EXERCISE.replace("    ### BEGIN SOLUTION\n", "").replace("    ### END SOLUTION\n", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (EXERCISE + "\n" + EXERCISE, ":35: there are two exercises 2.1"),
        (code_cell("### BEGIN SOLUTION\nx = 1\n### END SOLUTION"), ":12: a cell with a marked solution needs"),
        (UNMARKED, ":18: the exercise has no solution"),
        (code_cell("---\nexercise: [2.1]\n---\nx = 1"), ":15: `exercise` holds [2.1]; expected the keys id, minutes"),
        ('\n+++ {"exercise": {}}\n\nText.\n', ":13: an exercise is a code cell, not text."),
        (code_cell("---\nexercise: {id\n---\nx = 1"), ": Code cell 0 at line 11 could not be read: Invalid YAML"),
    ],
)
def test_other_malformed_cells(tmp_path, text, complaint):
    (path,) = make_book(tmp_path, _02_waves=FRONT_MATTER + text)
    with pytest.raises(ChapterError, match="^" + re.escape(f"chapters/02_waves.md{complaint}")):
        reader_notebook(path)


def test_a_chapter_needs_a_number_front_matter_and_a_book(tmp_path):
    nameless, bare, whole = make_book(tmp_path / "book", waves=WAVES, _02_waves="# Waves\n", _03_waves=WAVES_3)
    with pytest.raises(ChapterError, match=r"chapters/waves\.md: a chapter's name is two digits"):
        reader_notebook(nameless)
    with pytest.raises(ChapterError, match=r"chapters/02_waves\.md:1: the front matter must say format_name: myst"):
        reader_notebook(bare)
    with pytest.raises(ChapterError, match=r"holds book\.toml"):
        reader_notebook(tmp_path / "02_waves.md")
    (tmp_path / "book" / "book.toml").write_text('repository = ""\n', encoding="utf-8")
    with pytest.raises(ChapterError, match=r'book\.toml: the line `tag = "\.\.\."` is missing'):
        reader_notebook(whole)
    (tmp_path / "book" / "book.toml").write_text("repository =\n", encoding="utf-8")
    with pytest.raises(ChapterError, match=r"book\.toml: Invalid value \(at line 1"):
        reader_notebook(whole)


def test_every_line_of_a_cell_knows_its_place(waves):
    text = waves.read_text(encoding="utf-8").splitlines()
    chapter_cells, made = read_chapter(waves)[1], reader_cells(waves)
    for cell in chapter_cells:
        assert [text[line - 1] for line in cell.lines] == cell.source.split("\n")
    stub = made[6]
    assert [text[line - 1] for line in stub.lines] == [
        "def turned(x):", "    ### BEGIN SOLUTION", "", 'check("2.1", turned)'
    ]  # fmt: skip


def test_ids_follow_the_content(tmp_path):
    twice = "\nThe same.\n\n+++\n\nThe same.\n\n+++\n\nAnother.\n"
    one, other = make_book(tmp_path, _02_waves=FRONT_MATTER + twice, _03_words=FRONT_MATTER + twice)
    ids = [cell.id for cell in reader_notebook(one).cells]
    assert all(re.fullmatch("[0-9a-f]{12}", id) for id in ids)
    assert len(set(ids)) == 3
    assert [cell.id for cell in reader_notebook(one).cells] == ids
    assert not set(ids) & {cell.id for cell in reader_notebook(other).cells}
    one.write_text(FRONT_MATTER + "\nNew.\n\n+++\n" + twice.replace("Another", "Changed"), encoding="utf-8")
    assert [cell.id for cell in reader_notebook(one).cells][1:3] == ids[:2]
    assert reader_notebook(one).cells[3].id != ids[2]


def test_the_fingerprint_sees_text_library_and_first_cell(waves):
    book = waves.parent.parent
    seen = [fingerprint(waves)]

    def change(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        seen.append(fingerprint(waves))
        return [old == new for old, new in zip(seen[-2].split("-"), seen[-1].split("-"), strict=True)]

    assert change(waves, WAVES + "\nMore.\n") == [False, True]
    assert change(book / "posenc_lib" / "__init__.py", "ONE = 2\n") == [True, False]
    assert change(book / "posenc_lib" / "explorers" / "clock.py", "") == [True, False]
    assert len(set(seen)) == len(seen)
    assert change(book / "book.toml", 'repository = ""\ntag = "v2"\n') == [True, True]   # is stamped, not executed
    assert change(book / "posenc_lib" / ".ipynb_checkpoints" / "clock-checkpoint.py", "") == [True, True]
    assert change(book / "notebooks" / "note.txt", "") == [True, True]


def test_hidden_folders_and_translations(waves):
    book = waves.parent.parent
    for name in (".ipynb_checkpoints/02_waves-checkpoint.md", "ja/02_waves.md"):
        (book / "chapters" / name).parent.mkdir()
        (book / "chapters" / name).write_text(WAVES, encoding="utf-8")
    assert [chapter_name(path) for path in chapter_paths(book)] == ["02_waves", "ja/02_waves"]
    assert notebook_path(book / "chapters" / "ja" / "02_waves.md") == book / "notebooks" / "ja" / "02_waves.ipynb"


def test_format_makes_a_chapter_canonical(waves):
    assert text_of(*read_chapter(waves)) == WAVES
    waves.write_text(WAVES.replace("A first paragraph.\n", "A first paragraph.\n\n\n").replace("[last]", "['last']"))
    run = builder(waves.parent, "format", "02")
    assert (run.returncode, run.stdout) == (0, "02_waves: rewritten\n")
    assert waves.read_text(encoding="utf-8") == WAVES
    assert builder(waves.parent, "format").stdout == "02_waves: canonical already\n"


# Building

FIGURE = (
    FRONT_MATTER
    + "\n# A figure\n"
    + code_cell('import matplotlib.pyplot as plt\n\nplt.plot([0, 1])\nplt.title("A line that rises by 1")\nplt.show()')
    + code_cell("import ipywidgets\n\nipywidgets.IntSlider(value=3, description='p')")
    + code_cell("display(ipywidgets.VBox([ipywidgets.IntSlider(value=4)]))\n1 + 1")
    + code_cell('print({"the", "cat", "sat", "on", "mat"})')
    + code_cell("import time\n\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.3)")
    + code_cell("import sys\n\nprint('not a warning at all', file=sys.stderr)")
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A book whose chapter has a figure, widgets and a printed set, built once."""
    (path,) = make_book(tmp_path_factory.mktemp("book"), _02_figure=FIGURE)
    run = builder(path.parent.parent, "build")
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"02_figure: 8 cells in \d+\.\d s, written: .*notebooks/02_figure\.ipynb\n", run.stdout)
    return path


def test_what_a_built_notebook_holds(built):
    text = notebook_path(built).read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code_cells] == list(range(1, 8))
    assert "widget" not in json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    first, figure, slider, box, printed_set, pieces, errors = [cell.outputs for cell in code_cells]
    assert first == []
    assert "image/png" in figure[0].data
    assert slider[0].data == {"text/plain": "IntSlider(value=3, description='p')"}
    assert [output.output_type for output in box] == ["display_data", "execute_result"]
    assert (box[1].execution_count, box[1].data["text/plain"]) == (4, "2")
    assert len(printed_set) == 1
    assert [(output.name, output.text) for output in pieces] == [("stdout", "0\n1\n2\n")]
    assert [(output.name, output.text) for output in errors] == [("stderr", "not a warning at all\n")]
    for cell, made in zip(notebook.cells, reader_notebook(built).cells, strict=True):
        assert (cell.id, cell.metadata) == (made.id, made.metadata)
    assert text.endswith("}\n")
    assert [path.name for path in notebook_path(built).parent.iterdir()] == ["02_figure.ipynb"]


def test_execution_counts_have_no_gaps():
    value = nbformat.v4.new_output("execute_result", execution_count=7)
    cells = [nbformat.v4.new_code_cell(), nbformat.v4.new_code_cell("1", execution_count=7, outputs=[value])]
    notebook = nbformat.v4.new_notebook(cells=cells)
    number_cells(notebook)
    assert [cell.execution_count for cell in notebook.cells] == [1, 2]
    assert notebook.cells[1].outputs[0].execution_count == 2


def test_a_rebuild_in_a_fresh_process_gives_the_same_bytes(built):
    target = notebook_path(built)
    before = target.read_bytes(), target.stat().st_mtime_ns
    run = builder(built.parent.parent, "build", "02", "--force")
    assert ", the same bytes as before: " in run.stdout, run.stdout + run.stderr
    assert (target.read_bytes(), target.stat().st_mtime_ns) == before
    run = builder(built.parent.parent, "build", "02", "--output", built.parent.parent / "other")
    assert ", written: " in run.stdout, run.stdout + run.stderr
    assert (built.parent.parent / "other" / "02_figure.ipynb").read_bytes() == before[0]


def test_a_current_chapter_is_skipped(built):
    target = notebook_path(built)
    before = target.read_bytes(), target.stat().st_mtime_ns
    started = time.perf_counter()
    run = builder(built.parent, "build")
    assert run.stdout == "02_figure: is current, skipped (--force builds it anyway)\n"
    assert time.perf_counter() - started < 20
    assert (target.read_bytes(), target.stat().st_mtime_ns) == before


def test_what_makes_a_notebook_stale(built, tmp_path):
    target, fresh = tmp_path / "02_figure.ipynb", reader_notebook(built)
    text = notebook_path(built).read_text(encoding="utf-8")

    def current_after(change):
        notebook = nbformat.reads(text, as_version=4)
        change(notebook)
        target.write_text(nbformat.writes(notebook), encoding="utf-8")
        return is_current(target, fresh)

    assert not is_current(target, fresh)
    assert current_after(lambda notebook: None)
    assert not current_after(lambda notebook: notebook.metadata.book.update(fingerprint="another"))
    assert not current_after(lambda notebook: notebook.metadata.update(widgets={}))
    assert not current_after(lambda notebook: notebook.cells[1].update(execution_count=None))
    assert not current_after(lambda notebook: notebook.cells[1].update(source="edited"))
    assert not current_after(lambda notebook: notebook.cells.pop())
    target.write_text("<<<<<<< a merge with conflicts\n" + text, encoding="utf-8")
    assert not is_current(target, fresh)


def test_strict_nbval_passes_and_bites(built):
    def nbval():
        settings = ["-p", "no:cacheprovider", "--nbval", "--nbval-current-env"]
        return python(built.parent.parent, "-m", "pytest", *settings, notebook_path(built))

    os.environ["PYTHONHASHSEED"] = "0"  # for the printed set, as the builder has it
    text = notebook_path(built).read_text(encoding="utf-8")
    try:
        passed = nbval()
        notebook_path(built).write_text(text.replace(r"0\n", r"7\n"), encoding="utf-8")
        failed = nbval()
    finally:
        del os.environ["PYTHONHASHSEED"]
        notebook_path(built).write_text(text, encoding="utf-8")
    assert "7 passed" in passed.stdout, passed.stdout
    assert "1 failed, 6 passed" in failed.stdout, failed.stdout


DEFINITION = code_cell("def halve(x):\n    y = x / 2\n    return missing(y)")
BROKEN = {
    "_01_fine": code_cell("print(1)"),
    "_02_name": code_cell("a = 1\nb = frequency\nc = 2"),
    "_03_syntax": code_cell("a = 1\nb = = 2"),
    "_04_call": DEFINITION + code_cell("one = 1\nhalve(one)"),
    "_05_stub": code_cell("def check(id, answer):\n    raise TypeError('no answer')")
    + "\n"
    + EXERCISE.replace("2.1", "5.1"),
    "_06_warning": code_cell("import warnings\nwarnings.warn('the old way')"),
    "_07_elsewhere": code_cell("a = 1\nimport json, warnings\nwarnings.warn_explicit('old', FutureWarning, 'x.py', 9)"),
    "_08_tag": code_cell(":tags: [raises-exception]\n\nassert 1 == 2"),
    "_09_last": code_cell("print(9)"),
}
FAILURES = {
    "_02_name": ("b = frequency", "NameError: name 'frequency' is not defined"),
    "_03_syntax": ("b = = 2", "SyntaxError: invalid syntax"),
    "_04_call": ("halve(one)", "NameError: name 'missing' is not defined"),
    "_05_stub": ('check("5.1", turned)', "TypeError: no answer"),
    "_06_warning": ("warnings.warn('the old way')", "UserWarning: the old way"),
    "_07_elsewhere": ("a = 1", "FutureWarning: old"),
    "_08_tag": ("assert 1 == 2", "AssertionError"),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """One build of chapters that fail between two that do not, all of them with an old notebook."""
    paths = make_book(
        tmp_path_factory.mktemp("book"), **{name: f"{FRONT_MATTER}\n# Title\n{text}" for name, text in BROKEN.items()}
    )
    for path in paths:
        notebook_path(path).parent.mkdir(exist_ok=True)
        notebook_path(path).write_text("the old notebook", encoding="utf-8")
    return builder(paths[0].parent.parent, "build"), dict(zip(BROKEN, paths, strict=True))


@pytest.mark.parametrize("name", FAILURES)
def test_a_failing_cell_is_named_by_file_and_line(broken, name):
    run, paths = broken
    source, message = FAILURES[name]
    line = paths[name].read_text(encoding="utf-8").splitlines().index(source) + 1
    assert f"chapters/{paths[name].name}:{line}: {message}" in run.stderr
    complaint = run.stderr[run.stderr.index(f"chapters/{paths[name].name}") :].splitlines()
    assert complaint[1] == f"    {source}"
    assert notebook_path(paths[name]).read_text(encoding="utf-8") == "the old notebook"


def test_the_other_chapters_are_built(broken):
    run, paths = broken
    assert run.returncode == 1
    assert [line.split(":")[0] for line in run.stdout.splitlines()] == ["01_fine", "09_last"]
    assert is_current(notebook_path(paths["_01_fine"]), reader_notebook(paths["_01_fine"]))
    assert run.stderr.count("chapters/") == len(FAILURES)
    assert len(run.stderr.splitlines()) == 2 * len(FAILURES)


def test_the_failing_line_is_in_that_very_cell():
    node = nbformat.v4.new_code_cell("one\ntwo\nthree", execution_count=3)
    traceback = "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[3]\x1b[39m\x1b[32m, line 2\x1b[39m\nCell In[2], line 9"
    assert failing_line(traceback, node) == 2
    assert failing_line("nothing named", node) == 1


def test_a_cell_that_runs_too_long_and_a_kernel_that_dies(tmp_path):
    slow, dead = make_book(
        tmp_path,
        _02_slow=FRONT_MATTER + code_cell("import time\n\ntime.sleep(60)"),
        _03_dead=FRONT_MATTER + code_cell("import os\n\nos._exit(1)"),
    )
    command = "import sys, pathlib; from builder.build import build_all"
    command += "; sys.exit(not build_all(map(pathlib.Path, sys.argv[1:]), timeout=3))"
    run = python(tmp_path, "-c", command, slow, dead)
    assert run.returncode == 1
    assert "chapters/02_slow.md:12: the cell ran for more than 3 s." in run.stderr
    assert "chapters/03_dead.md:12: the kernel died in this cell." in run.stderr
    assert list((tmp_path / "notebooks").iterdir()) == []


def test_a_chapter_with_a_malformed_exercise_does_not_stop_the_build(tmp_path):
    malformed = EXERCISE.replace("id: '2.1'", "id: '7'")
    make_book(tmp_path, _02_waves=f"{FRONT_MATTER}\n{malformed}", _03_words=f"{FRONT_MATTER}\nA.\n")
    run = builder(tmp_path, "build")
    assert run.returncode == 1
    assert run.stderr.startswith("chapters/02_waves.md:")
    assert run.stdout.startswith("03_words: 1 cells")


def test_the_command_line(waves):
    usage = builder(waves.parent)
    assert usage.returncode == 0
    assert all(word in usage.stdout for word in ("usage:", "build", "format", "write-back", "numbers"))
    for command in ("build", "format", "numbers"):
        run = builder(waves.parent, command, "7")
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr == "There is no chapter 7. There are: 02_waves\n"
    outside = builder(waves.parent.parent.parent, "build")
    assert outside.returncode == 1
    assert "holds book.toml" in outside.stderr
    for word in ("02", "2", "02_waves"):
        assert builder(waves.parent, "format", word).stdout == "02_waves: canonical already\n"


# Writing back


@pytest.fixture
def notebook(waves):
    """The reader's notebook of the chapter as it lies in notebooks/, and a way to edit it and write it back."""
    return StoredNotebook(waves)


class StoredNotebook:
    def __init__(self, chapter):
        self.chapter, self.path = chapter, notebook_path(chapter)
        self.path.parent.mkdir()
        self.node = reader_notebook(chapter)
        self.cells = self.node.cells

    def write_back(self):
        self.path.write_text(nbformat.writes(self.node), encoding="utf-8")
        return write_back(self.path)

    def assert_refused(self, complaint):
        with pytest.raises(ChapterError, match=re.escape(complaint)) as refused:
            self.write_back()
        assert "Nothing was written." in str(refused.value)
        assert self.chapter.read_text(encoding="utf-8") == WAVES

    def assert_written(self, old, new):
        """The chapter differs from what it was by this alone, and its notebook has the cells that were written back."""
        assert WAVES.count(old) == 1
        assert self.chapter.read_text(encoding="utf-8") == WAVES.replace(old, new)
        kept = [cell.source for cell in self.cells if cell.metadata != GENERATED]
        assert [cell.source for cell in reader_notebook(self.chapter).cells if cell.metadata != GENERATED] == kept


def test_nothing_to_write_back(notebook):
    notebook.cells[3].update(outputs=[nbformat.v4.new_output("stream", text="1\n")], execution_count=5)
    notebook.cells[3].metadata.collapsed = True
    assert notebook.write_back() == []
    notebook.assert_written(" first ", " first ")


def test_blank_lines_at_the_ends_are_no_edit(notebook):
    for cell in notebook.cells:
        cell.source = f"\n{cell.source}\n\n"
    assert notebook.write_back() == []


def test_edited_cells_go_back(notebook):
    notebook.cells[0].source += "\n\nAnother line with $\\omega$."
    notebook.cells[8].source = 'print("the end")'
    changes = notebook.write_back()
    assert [change.split(",")[0] for change in changes] == [
        f"changed: {place('# Waves')}",
        "changed: " + place('print("end")'),
    ]
    text = WAVES.replace("paragraph.\n", "paragraph.\n\nAnother line with $\\omega$.\n")
    assert notebook.chapter.read_text(encoding="utf-8") == text.replace('print("end")', 'print("the end")')
    assert sources(reader_notebook(notebook.chapter).cells) == sources(notebook.cells)


@pytest.mark.parametrize("number", [3, 4])
def test_a_new_cell_goes_back(notebook, number):
    new = {3: "x = 1\ny = 2", 4: "Some *prose*."}[number]
    make = {3: nbformat.v4.new_code_cell, 4: nbformat.v4.new_markdown_cell}[number]
    notebook.cells.insert(number, make(new))
    assert len(notebook.write_back()) == 1
    if number == 3:
        notebook.assert_written("A second cell.\n", "A second cell.\n" + code_cell(new))
    else:
        notebook.assert_written("Now you.\n", f"{new}\n\n+++\n\nNow you.\n")


def test_a_deleted_cell_is_removed(notebook):
    del notebook.cells[1]
    assert notebook.write_back() == [f"removed: {place('A second cell.')}"]
    notebook.assert_written("\n+++\n\nA second cell.\n", "")


def test_an_emptied_cell_is_removed(notebook):
    notebook.cells[1].source = ""
    assert notebook.write_back() == [f"removed: {place('A second cell.')}"]


def test_a_whole_exercise_is_deleted(notebook):
    del notebook.cells[5:8]
    assert notebook.write_back() == [f"removed: {place('def turned(x):')}"]
    notebook.assert_written("\n" + EXERCISE, "")


def test_a_moved_cell_is_moved(notebook):
    notebook.cells.insert(7, notebook.cells.pop(3))
    assert notebook.write_back() == [f"moved: {place('def check(id, answer):')}"]
    moved = code_cell('def check(id, answer):\n    print("checked", id)')
    text = WAVES.replace(moved, "\n+++\n").replace(EXERCISE, EXERCISE + moved)
    assert notebook.chapter.read_text(encoding="utf-8") == text


def test_a_moved_exercise_keeps_its_solution(notebook):
    notebook.cells += [notebook.cells.pop(5) for _ in range(3)]
    notebook.write_back()
    assert notebook.chapter.read_text(encoding="utf-8").endswith(EXERCISE)


def test_an_edit_of_a_stub_is_carried_into_the_solved_cell(notebook):
    stub = notebook.cells[6]
    stub.source = stub.source.replace("def turned", "# a comment\ndef turned").replace("2.1", "2.2") + "\nprint(1)"
    stub.source = stub.source.replace("2.2", "2.1")
    assert notebook.write_back() == [f"changed: {place('def turned(x):')}, code cell '# a comment'"]
    changed = EXERCISE.replace("def turned", "# a comment\ndef turned").replace("turned)\n", "turned)\nprint(1)\n")
    notebook.assert_written(EXERCISE, changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLACEHOLDER, "return x + 1"),
        (PLACEHOLDER, f"return x + 1\n    {PLACEHOLDER}"),
        (PLACEHOLDER, f"{PLACEHOLDER}\n\n    return x + 1"),
        (PLACEHOLDER, f"    {PLACEHOLDER}"),
        (PLACEHOLDER, f"{PLACEHOLDER}\n    {PLACEHOLDER}"),
        ("def turned(x):", "def turned(y):"),
    ],
)
def test_an_answered_stub_is_refused(notebook, old, new):
    notebook.cells[6].source = notebook.cells[6].source.replace(old, new)
    notebook.assert_refused(f"{place('def turned(x):')}: exercise 2.1 was answered in the notebook")


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        (2, "the first code cell is made from builder/first_cell.py and book.toml"),
        (5, f"made from the exercise at {place('def turned(x):')}"),
        (7, f"made from the exercise at {place('def turned(x):')}"),
    ],
)
@pytest.mark.parametrize("edit", ["changed", "deleted", "copied"])
def test_cells_the_builder_makes_are_refused(notebook, number, complaint, edit):
    if edit == "changed":
        notebook.cells[number].source += "\nMore."
    elif edit == "deleted":
        del notebook.cells[number]
    else:
        notebook.cells.append(nbformat.from_dict(notebook.cells[number] | {"id": "a-copy"}))
    notebook.cells[0].source = "# An edit that would be fine"
    notebook.assert_refused(complaint if edit != "copied" else "a copy of a cell the builder makes")


def test_all_refusals_are_listed(notebook):
    notebook.cells[5].source = notebook.cells[7].source = "changed"
    with pytest.raises(ChapterError) as refused:
        notebook.write_back()
    assert str(refused.value).count(place("def turned(x):")) == 2


def test_what_the_chapters_format_cannot_hold_is_refused(notebook):
    notebook.cells[0].source += "\n\n+++\n\nmore"
    notebook.assert_refused("cannot stand in a chapter as it is")


def test_a_solution_without_exercise_is_refused(notebook):
    notebook.cells.append(nbformat.v4.new_code_cell("### BEGIN SOLUTION\nx = 1\n### END SOLUTION"))
    with pytest.raises(ChapterError, match="a cell with a marked solution needs `exercise`"):
        notebook.write_back()
    assert notebook.chapter.read_text(encoding="utf-8") == WAVES


def test_a_picture_that_was_pasted_in_is_refused(notebook):
    notebook.cells[0].attachments = {"image.png": {"image/png": "AAAA"}}
    notebook.assert_refused("a picture that was pasted in")


def test_a_chapter_that_was_changed_meanwhile_is_not_undone(notebook):
    notebook.cells[0].source = "# Old waves"
    changed = WAVES.replace("The end.", "The end, at last.")
    notebook.chapter.write_text(changed, encoding="utf-8")
    with pytest.raises(ChapterError, match="the text of the chapter was changed after this notebook was built"):
        notebook.write_back()
    assert notebook.chapter.read_text(encoding="utf-8") == changed


def test_a_library_that_was_changed_meanwhile_does_no_harm(notebook):
    (notebook.chapter.parent.parent / "posenc_lib" / "__init__.py").write_text("ONE = 2\n", encoding="utf-8")
    notebook.cells[1].source = "Edited."
    assert len(notebook.write_back()) == 1
    notebook.assert_written("A second cell.", "Edited.")


def test_cells_without_ids_are_matched_by_their_sources(notebook):
    notebook.node.nbformat_minor = 4
    for cell in notebook.cells:
        del cell["id"]
    notebook.cells[8].source = 'print("end!")'
    del notebook.cells[1]
    notebook.cells[5].source += "\nprint(1)"
    assert len(notebook.write_back()) == 3
    text = WAVES.replace("\n+++\n\nA second cell.\n", "").replace('"end"', '"end!"')
    assert notebook.chapter.read_text(encoding="utf-8") == text.replace("turned)\n", "turned)\nprint(1)\n")


def test_write_back_on_the_command_line(notebook):
    notebook.cells[1].source = "Edited."
    notebook.path.write_text(nbformat.writes(notebook.node), encoding="utf-8")
    run = builder(notebook.path.parent, "write-back", notebook.path.name)
    assert run.returncode == 0, run.stderr
    assert run.stdout == (
        f"changed: {place('A second cell.')}, markdown cell 'Edited.'\n"
        "The chapter is written; now run `make notebooks CHAPTER=02`.\n"
    )
    notebook.assert_written("A second cell.", "Edited.")
    (notebook.path.parent / "02_waves.ipynb").write_text("<<<<<<<", encoding="utf-8")
    for wrong, complaint in [
        ("02_waves.ipynb", "02_waves.ipynb cannot be read as a notebook"),
        ("03_other.ipynb", r"03_other\.md does not exist\."),
        (notebook.chapter, "is not one of the notebooks in"),
    ]:
        run = builder(notebook.path.parent, "write-back", wrong)
        assert run.returncode == 1
        assert re.search(complaint, run.stderr)


# Every chapter of this book

CHAPTERS = chapter_paths(ROOT)
every_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=map(chapter_name, CHAPTERS))


def stored_notebook(chapter):
    return nbformat.reads(notebook_path(chapter).read_text(encoding="utf-8"), as_version=4)


def test_there_are_chapters_and_each_notebook_has_one():
    assert CHAPTERS
    notebooks = (ROOT / "notebooks").rglob("*.ipynb")
    assert {path for path in notebooks if ".ipynb_checkpoints" not in path.parts} == set(map(notebook_path, CHAPTERS))


@every_chapter
def test_the_text_is_canonical(chapter):
    assert chapter.read_text(encoding="utf-8") == text_of(*read_chapter(chapter)), (
        f"run `python -m builder format {chapter_name(chapter)}`"
    )


@every_chapter
def test_the_notebook_has_the_cells_of_the_chapter(chapter):
    made, stored = reader_notebook(chapter), stored_notebook(chapter)
    edited = (
        f"the cells differ: if the chapter's text was edited, run `make notebooks`; if the notebook was, run "
        f"`python -m builder write-back notebooks/{chapter_name(chapter)}.ipynb`"
    )
    assert sources(stored.cells) == sources(made.cells), edited
    assert [(cell.id, cell.cell_type, cell.metadata) for cell in stored.cells] == [
        (cell.id, cell.cell_type, cell.metadata) for cell in made.cells
    ], edited
    assert {**stored.metadata, "book": None} == {**made.metadata, "book": None}
    assert (stored.nbformat, stored.nbformat_minor) == (made.nbformat, made.nbformat_minor)


@every_chapter
def test_the_notebook_is_as_new_as_text_and_library(chapter):
    assert stored_notebook(chapter).metadata.book.fingerprint == fingerprint(chapter), (
        "the chapter or the library changed after this notebook was built: run `make notebooks`"
    )


@every_chapter
def test_what_the_notebook_holds(chapter):
    text = notebook_path(chapter).read_text(encoding="utf-8")
    notebook = stored_notebook(chapter)
    nbformat.validate(notebook)
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code_cells] == list(range(1, len(code_cells) + 1))
    assert "error" not in [output.output_type for cell in code_cells for output in cell.outputs]
    assert "application/vnd.jupyter.widget" not in text
    assert len(text.encode()) < 1_500_000


@every_chapter
def test_a_stub_is_part_of_its_solution(chapter):
    for exercise in exercises(chapter):
        ast.parse(exercise.solved)
        ast.parse(exercise.stub)
        rest = iter(exercise.solved.split("\n"))
        for line in exercise.stub.split("\n"):
            assert line.strip() == PLACEHOLDER or line in rest, f"{exercise.id}: {line!r} is not in the solution"


QUICK = ["00", "01", "02", "07"]            # half a minute together; the others make texts and pictures alike


@pytest.fixture(scope="module")
def two_builds(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")]
    for folder in folders:
        run = builder(ROOT, "build", *QUICK, "--force", "--output", folder)
        assert run.returncode == 0, run.stderr
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("chapter", QUICK)
def test_two_builds_are_the_same_bytes(chapter, two_builds):
    first, second = [next(folder.glob(f"{chapter}_*.ipynb")).read_bytes() for folder in two_builds]
    assert first == second
