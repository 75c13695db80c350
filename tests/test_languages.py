"""A chapter in another language: the builder's words in it, the same code, and every check of the book accepts it."""

import os
import re
import shutil
import string
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import nbformat
import pytest

from builder.__main__ import main
from builder.chapter import ChapterError, chapter_paths, first_cell, notebook_path, read_chapter, reader_notebook
from builder.language import ORIGINAL, WORDS, differences, language_of, what_runs, words
from builder.links import problems as links_to_nowhere
from builder.prose_numbers import problems as unconfirmed_numbers
from tests.front_matter import FRONT_MATTER

ROOT = Path(__file__).parent.parent
PARTS = "\n\n".join(f"## 2.{number} $p = {number}$" for number in range(1, 10))
ENGLISH = f"""{FRONT_MATTER}
# 2 Waves

{PARTS}

## 2.10 The table

As section 2.10 says, the wave is 0.841 high, and 27.3 in the paper. ![A picture](../docs/picture.png)

```{{code-cell}} ipython3
import posenc_lib

def check(id, answer):
    print("checked", id)

height = 0.84147  # the height of the wave
print(f"height {{height:.3f}} of {{posenc_lib.ONE}} wave", "by hand")
```

```{{code-cell}} ipython3
---
exercise:
  id: '2.1'
  minutes: 8
  difficulty: 1
  points: 2
---
def turned(x):
    \"\"\"One further.\"\"\"
    ### BEGIN SOLUTION
    return x + 1  # a turn
    ### END SOLUTION

check("2.1", turned)
```

+++ {{"essay": {{"id": "2.a", "minutes": 1, "points": 1}}}}

Why?

+++

<details><summary>An answer</summary>

Because.

</details>
"""
TRANSLATED = {
    "# 2 Waves": "# 2 波",
    "The table": "表",
    "As section 2.10 says, the wave is 0.841 high, and 27.3 in the paper.":
        "2.10 節、第 2 章、演習 2.1。高さは 0.841、論文では 27.3。",
    "![A picture](../docs": "[英語](../02_waves.ipynb) ![絵](../../docs",
    "# the height of the wave": "# 波の高さ",
    "height {height:.3f} of {posenc_lib.ONE} wave": "{posenc_lib.ONE} つの波の高さ {height:.3f}",
    '"by hand"': '"手で"',
    '"""One further."""': '"""ひとつ先。"""',
    "# a turn": "# 回す",
    "Why?": "なぜか。",
    "An answer": "答えの例",
    "Because.": "だから。",
}


def translated(text):
    for old, new in TRANSLATED.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def make_book(folder):
    """A book of one chapter with its Japanese translation; returns the paths of both."""
    for name, text in {
        "posenc_lib/__init__.py": "ONE = 1\n",
        "posenc_lib/explorer.py": "class Explorer:\n    pass\n",
        "book.toml": 'repository = ""\ntag = "v1"\n',
        "docs/picture.png": "",
        "chapters/numbers.toml": '[02_waves]\n"27.3" = "the paper"\n',
        "chapters/02_waves.md": ENGLISH,
        "chapters/ja/02_waves.md": translated(ENGLISH),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "chapters" / "02_waves.md", folder / "chapters" / "ja" / "02_waves.md"


def builder(folder, *arguments):
    """The builder in a fresh process, whose kernels know no other library than that of the book in `folder`."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from builder.__main__ import main; sys.exit(main())"
    return python(folder, "-c", start, *arguments)


def python(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONHASHSEED"] = "0"
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The book of two languages, built once by the builder's own command."""
    root = tmp_path_factory.mktemp("book")
    make_book(root)
    run = builder(root, "build")
    assert run.returncode == 0, run.stderr
    assert [line.split(":")[0] for line in run.stdout.splitlines()] == ["02_waves", "ja/02_waves"]
    return root


def notebooks(root):
    paths = [root / "notebooks" / "02_waves.ipynb", root / "notebooks" / "ja" / "02_waves.ipynb"]
    return [nbformat.read(path, as_version=4) for path in paths]


# The builder's words


def test_every_language_has_every_word_with_the_same_blanks():
    def blanks(text):
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    patterns = {"chapter", "section", "named_exercise", "equation"}
    for language, given in WORDS.items():
        for name, text in asdict(given).items():
            assert text.strip(), (language, name)
            if name in patterns:
                assert re.compile(text).groups == 1, (language, name)
            else:
                assert blanks(text) == blanks(getattr(WORDS[ORIGINAL], name)), (language, name)


@pytest.mark.parametrize(
    ("file", "language"),
    [
        ("chapters/02_waves.md", "en"),
        ("02_waves", "en"),
        ("chapters/ja/02_waves.md", "ja"),
        ("ja/02_waves", "ja"),
        ("chapters/ja/old/02_waves.md", "ja/old"),
    ],
)
def test_the_language_is_the_folder(file, language):
    assert language_of(file) == language


def test_the_cells_of_a_japanese_exercise_and_question(tmp_path):
    english, japanese = ([cell.source for cell in reader_notebook(path).cells] for path in make_book(tmp_path))
    assert "**Exercise 2.1** · about 8 minutes · difficulty ●○○ · 2 points" in english
    assert "**演習 2.1** · 約 8 分 · 難易度 ●○○ · 2 点" in japanese
    assert "**In your own words 2.a** · about 1 minute · 1 point" in english
    assert "**自分の言葉で 2.a** · 約 1 分 · 1 点" in japanese
    assert sum(source.startswith("<details><summary>A solution</summary>") for source in english) == 1
    assert sum(source.startswith("<details><summary>解答例</summary>") for source in japanese) == 1
    assert not re.search("Exercise|minute|difficulty|point|solution|answer<|own words", "\n".join(
        source for source in japanese if not source.startswith(("# Finds", "import", "def")))), japanese


@pytest.mark.parametrize("name", ["fr/02_waves.md", "ja/old/02_waves.md"])
def test_a_language_without_words(tmp_path, name, monkeypatch, capsys):
    english, _ = make_book(tmp_path)
    path = english.parent / name
    path.parent.mkdir()
    path.write_text(ENGLISH, encoding="utf-8")
    with pytest.raises(ChapterError) as refused:
        reader_notebook(path)
    language = name.rpartition("/")[0]
    assert str(refused.value).startswith(f"chapters/{name}: the builder has no words for the language '{language}'")
    assert "WORDS in builder/language.py" in str(refused.value)
    for word in ("exercise, minute, minutes, difficulty", "solution", "references", "equation"):
        assert word in str(refused.value)
    monkeypatch.chdir(tmp_path)
    for command in (["build", name.removesuffix(".md")], ["links"], ["format"]):
        assert main(command) == 1
        assert capsys.readouterr().err.startswith(f"chapters/{name}: the builder has no words")
    with pytest.raises(ValueError, match="no words for the language 'fr', only for en, ja"):
        words("fr")


# The same code


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1  # one", "x = 1  # ひとつ", True),
        ("# one\nx = 1", "x = 1", True),
        ("print('a')", "print('あ')", True),
        ("print('a' 'b')", 'print("""あ""")', True),
        ("f'{x:.3f} of {y}'", "f'{y} の {x:.3f}'", True),
        ("f'{x[\"a\"]}'", "f'{x[\"あ\"]}'", True),
        ("x = 1", "x = 2", False),
        ("x = 1", "y = 1", False),
        ("print('a')", "print('a', 'b')", False),
        ("print('a')", "print(a)", False),
        ("f'{x:.3f}'", "f'{x:.2f}'", False),
        ("f'{x} {y}'", "f'{x}'", False),
        ("f'{x}'", "f'{z}'", False),
        ("check('2.1', f)", "check('2.2', f)", False),
        ("check('2.1', f)", "check('2.1', g)", False),
        ("check('2.1', 'a')", "check('2.1', 'b')", False),
        ("print(check('2.1', f))", "print(check('2.2', f))", False),
        ("b'a'", "b'b'", False),
        ("x = (1,)", "x = (1, )", True),
        ("%magic a", "%magic a", True),
        ("%magic a", "%magic b", False),
    ],
)
def test_what_a_translation_may_change(one, other, same):
    assert (what_runs(one) == what_runs(other)) is same


def test_a_translation_of_the_same_code(tmp_path):
    english, japanese = (read_chapter(path)[1] for path in make_book(tmp_path))
    assert differences(english, japanese) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("return x + 1", "return x + 2", "this cell differs from chapters/02_waves.md:"),
        ("0.84147", "0.84148", "this cell differs from"),
        ('check("2.1", turned)', 'check("2.2", turned)', "this cell differs from"),
        ("  minutes: 8", "  minutes: 9", "this cell's metadata is"),
        ("  points: 2", "  points: 3", "this cell's metadata is"),
        ('"points": 1', '"points": 2', "the questions to answer in words are"),
        ("## 2.10 表", "## 2.10 表\n\n```{code-cell} ipython3\nmore = 1\n```", "the original has no such code cell"),
    ],
)
def test_a_translation_of_other_code(tmp_path, old, new, complaint):
    english, japanese = make_book(tmp_path)
    text = japanese.read_text(encoding="utf-8")
    assert text.count(old) == 1
    japanese.write_text(text.replace(old, new), encoding="utf-8")
    found = differences(read_chapter(english)[1], read_chapter(japanese)[1])
    assert any(complaint in line and line.startswith("chapters/ja/02_waves.md") for line in found), found


def test_a_translation_that_lacks_a_cell(tmp_path):
    english, japanese = (read_chapter(path)[1] for path in make_book(tmp_path))
    last = max(number for number, cell in enumerate(japanese) if cell.type == "code")
    del japanese[last]
    (found,) = differences(english, japanese)
    assert re.fullmatch(r"chapters/02_waves\.md:\d+: the translation has no such code cell\.", found)


def test_every_translation_in_the_book_has_its_originals_code():
    found = []
    for path in chapter_paths(ROOT):
        if path.parent != ROOT / "chapters":
            original = ROOT / "chapters" / path.name
            assert original.is_file(), f"{path} translates no chapter: there is no {original}"
            found += differences(read_chapter(original)[1], read_chapter(path)[1])
    assert not found, "\n" + "\n".join(found)


# A book of two languages, from the builder's command to every check


def test_both_are_built_and_run_the_same(built):
    english, japanese = notebooks(built)
    outputs = [[output.get("text") for output in cell.outputs] for cell in japanese.cells if cell.cell_type == "code"]
    assert outputs == [[], ["1 つの波の高さ 0.841 手で\n"], ["checked 2.1\n"]]
    code = [[what_runs(cell.source) for cell in book.cells if cell.cell_type == "code"] for book in (english, japanese)]
    assert code[0] == code[1] and len(code[0]) == 3
    assert not {cell.id for cell in english.cells} & {cell.id for cell in japanese.cells}
    assert builder(built / "chapters" / "ja", "build").stdout.count("is current, skipped") == 2
    assert builder(built, "build", "ja/02_waves", "--force").stdout.startswith("ja/02_waves: ")


def test_the_first_cell_finds_the_library_two_folders_up(built):
    source = first_cell(built).source + "\nimport posenc_lib\nprint(posenc_lib.__file__)"
    run = python(built / "notebooks" / "ja", "-c", source)
    assert run.stdout.strip() == str(built / "posenc_lib" / "__init__.py"), run.stderr


def test_numbers_and_links_of_the_translation(built):
    _, japanese = chapter_paths(built)
    assert unconfirmed_numbers(japanese) == []
    assert links_to_nowhere(built) == []
    text = japanese.read_text(encoding="utf-8")
    try:
        japanese.write_text(text.replace("0.841、", "0.842、").replace("演習 2.1", "演習 2.7"), encoding="utf-8")
        assert [line.split(" ")[1] for line in unconfirmed_numbers(japanese)] == ["0.842"]
        (found,) = links_to_nowhere(built)
        assert re.fullmatch(r"chapters/ja/02_waves\.md:\d+: there is no exercise 2\.7\.", found)
        japanese.write_text(text.replace("../../docs", "../docs"), encoding="utf-8")
        (found,) = links_to_nowhere(built)
        assert found.startswith("chapters/ja/02_waves.md:") and "there is no notebooks/docs/picture.png" in found
        japanese.write_text(text.replace("2.10 節", "2.11 節").replace("第 2 章", "第 5 章"), encoding="utf-8")
        assert [line.split(": ")[1] for line in links_to_nowhere(built)] == [
            "there is no chapter 5.", "there is no section 2.11."]
    finally:
        japanese.write_text(text, encoding="utf-8")


def test_a_translations_own_numbers(built):
    _, japanese = chapter_paths(built)
    listed = built / "chapters" / "numbers.toml"
    text, numbers = japanese.read_text(encoding="utf-8"), listed.read_text(encoding="utf-8")
    try:
        japanese.write_text(text.replace("27.3", "27.3、28.4"), encoding="utf-8")
        assert [line.split(" ")[1] for line in unconfirmed_numbers(japanese)] == ["28.4"]
        listed.write_text(f'{numbers}\n["ja/02_waves"]\n"28.4" = "the paper"\n', encoding="utf-8")
        assert unconfirmed_numbers(japanese) == []
    finally:
        japanese.write_text(text, encoding="utf-8")
        listed.write_text(numbers, encoding="utf-8")


def test_an_edited_translation_is_written_back(tmp_path):
    _, japanese = make_book(tmp_path)
    notebook, path = reader_notebook(japanese), notebook_path(japanese)
    notebook.cells[0].source = notebook.cells[0].source.replace("# 2 波", "# 2 なみ")
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    run = builder(tmp_path, "write-back", path)
    assert run.returncode == 0, run.stderr
    assert "# 2 なみ" in japanese.read_text(encoding="utf-8")
    assert "# 2 Waves" in (tmp_path / "chapters" / "02_waves.md").read_text(encoding="utf-8")


def test_nbval_and_the_books_own_tests_take_the_translation(built):
    nbval = python(built, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", "notebooks")
    assert "6 passed" in nbval.stdout, nbval.stdout
    run = own_tests(built, "test_rerun.py", "test_prose_numbers.py")
    for name in ("02_waves", "ja/02_waves"):
        assert f"test_every_cell_can_be_run_again_after_the_last[{name}.ipynb] PASSED" in run, run
        assert f"test_the_numbers_of_the_prose[{name}] PASSED" in run, run
    assert " failed" not in run and " error" not in run, run


@pytest.mark.slow  # it needs .venv-colab
def test_colabs_test_takes_the_translation(built):
    shutil.copy(ROOT / "requirements-colab.txt", built)
    run = own_tests(built, "test_colab.py", "-k", "not explorers_to_try")
    for name in ("02_waves", "ja/02_waves"):
        assert f"test_texts_are_those_of_the_built_notebook[{name}.ipynb] PASSED" in run, run
    assert "10 passed" in run and " failed" not in run, run


def own_tests(root, *arguments):
    """What the book's tests of these names say of the book in `root`, as if they stood there."""
    (root / "tests").mkdir(exist_ok=True)
    for name in arguments:
        if name.endswith(".py"):
            shutil.copy(ROOT / "tests" / name, root / "tests" / name)
    files = [f"tests/{name}" if name.endswith(".py") else name for name in arguments]
    start = f"import sys; sys.path.append({str(ROOT)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    return python(root, "-c", start, "-v", "-p", "no:cacheprovider", *files).stdout
