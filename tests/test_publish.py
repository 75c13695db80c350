"""A fork is one edit in book.toml and one command: badges, first cells and README.md follow; nothing is executed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from builder.chapter import ChapterError, address, chapter_name, chapter_paths, notebook_path, reader_notebook
from builder.publish import BADGE, BADGE_BEGINS, BEGIN, END, NOT_PUBLISHED, Address, address_of, stamped_readme
from builder.stamp import is_stamped, stamp

ROOT = Path(__file__).parent.parent
ON_GITHUB = "https://github.com/someone/some.book"
ELSEWHERE = "https://git.example.org/someone/book.git"
LINK = re.compile(r"\]\((https://colab[^)]*)\)")


@pytest.fixture
def book(tmp_path):
    """A copy of the book, as a fork has it."""
    for part in ("chapters", "notebooks", "posenc_lib", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / part, tmp_path / "fork" / part, ignore=ignored)
    for file in ("README.md", "book.toml"):
        shutil.copy(ROOT / file, tmp_path / "fork" / file)
    return tmp_path / "fork"


def edit(book, repository, tag="v0.1.0"):
    (book / "book.toml").write_text(f'repository = "{repository}"\ntag = "{tag}"\n', encoding="utf-8")


def contents(book):
    return {path: path.read_bytes() for path in [*(book / "notebooks").rglob("*.ipynb"), book / "README.md"]}


def read(path):
    return nbformat.read(path, as_version=4)


def test_the_book_is_stamped_with_what_book_toml_says():
    names = [chapter_name(path) for path in chapter_paths(ROOT)]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert stamped_readme(readme, address(ROOT), names) == readme, "run `make stamp`"


def test_one_edit_and_one_command_stamp_every_notebook_and_the_readme(book):
    before = {path: read(path) for path in contents(book) if path.suffix == ".ipynb"}
    edit(book, ON_GITHUB, "v7")
    written = stamp(book)
    assert written == [*(f"stamped: notebooks/{path.name}" for path in sorted(before)), "stamped: README.md"]
    for path, old in before.items():
        new = read(path)
        badge, first = new.cells[0], next(cell for cell in new.cells if cell.cell_type == "code")
        assert badge.source.startswith(f"{BADGE_BEGINS}(../{BADGE})")
        assert f'\nREPOSITORY = "{ON_GITHUB}"\nTAG = "v7"\n' in first.source
        assert [cell for cell in new.cells if not is_stamped(cell)] == [c for c in old.cells if not is_stamped(c)]
        assert new.metadata == old.metadata                                 # not stale: nothing else has changed
        nbformat.validate(new)
    assert stamp(book) == []


def test_going_back_gives_the_same_bytes(book):
    before, address = contents(book), (book / "book.toml").read_bytes()
    edit(book, ON_GITHUB)
    stamp(book)
    assert all(contents(book)[path] != old for path, old in before.items())
    (book / "book.toml").write_bytes(address)
    stamp(book)
    assert contents(book) == before


def test_every_link_to_colab_opens_a_notebook_that_is_there(book):
    edit(book, ON_GITHUB, "v7")
    stamp(book)
    beginning = "https://colab.research.google.com/github/someone/some.book/blob/v7/"
    names = sorted(path.relative_to(book).as_posix() for path in (book / "notebooks").rglob("*.ipynb"))
    links = LINK.findall((book / "README.md").read_text(encoding="utf-8"))
    assert links == [beginning + name for name in names]
    for name in names:
        own, *others = LINK.findall(read(book / name).cells[0].source)
        assert own == beginning + name
        assert sorted([own, *others]) == [beginning + each for each in names]
    assert (book / BADGE).is_file()


def test_a_translation_links_to_its_own_language(book):
    (book / "chapters" / "ja").mkdir()
    for path in list((book / "chapters").glob("0[01]_*.md")):
        text = path.read_text(encoding="utf-8").replace("<summary>An answer<", "<summary>答えの例<")
        (book / "chapters" / "ja" / path.name).write_text(text, encoding="utf-8")
    edit(book, ON_GITHUB)
    cell = reader_notebook(book / "chapters" / "ja" / "01_ordering_problem.md").cells[0]
    assert cell.source.startswith(f"{BADGE_BEGINS}(../../{BADGE})")
    assert [link.partition("notebooks/")[2] for link in LINK.findall(cell.source)] == [
        "ja/01_ordering_problem.ipynb", "ja/00_start_here.ipynb"]


@pytest.mark.parametrize("repository", ["", ELSEWHERE, "/srv/a book/über"])
def test_there_is_no_badge_that_would_open_nothing(book, repository):
    edit(book, repository)
    stamp(book)
    for path in contents(book):
        assert "colab.research" not in path.read_text(encoding="utf-8")
    assert (NOT_PUBLISHED in (book / "README.md").read_text(encoding="utf-8")) == (repository == "")


@pytest.mark.parametrize(("repository", "line"), [
    (ON_GITHUB, f"git clone --branch v1 {ON_GITHUB}\ncd some.book\n"),
    (ON_GITHUB + ".git", f"git clone --branch v1 {ON_GITHUB}.git\ncd some.book\n"),
    (ELSEWHERE, f"git clone --branch v1 {ELSEWHERE}\ncd book\n"),
    ("git@git.example.org:someone/book", "git clone --branch v1 git@git.example.org:someone/book\ncd book\n"),
    ("/srv/a book/ü b", "git clone --branch v1 '/srv/a book/ü b'\ncd 'ü b'\n")])
def test_the_readme_says_how_to_clone(repository, line):
    text = stamped_readme(f"before\n{BEGIN}\nold\n{END}\nafter\n", Address(repository, "v1"), ["00_start"])
    assert line in text and "old" not in text
    assert text.startswith("before\n") and text.endswith("\nafter\n")


def test_the_lines_of_the_readme_really_clone(tmp_path, book):
    git(book, "init", "--quiet")
    git(book, "add", ".")
    git(book, "commit", "--quiet", "-m", "a release")
    git(book, "tag", "v1")
    text = stamped_readme(f"{BEGIN}{END}", Address(str(book), "v1"), ["00_start"])
    lines = re.search(r"```\n(.*?)```", text, re.DOTALL)[1]
    (tmp_path / "empty").mkdir()
    subprocess.run(["sh", "-e", "-c", lines + "test -f book.toml"], cwd=tmp_path / "empty", check=True,
                   capture_output=True)


def test_a_stamped_chapter_fetches_the_library_of_its_fork(tmp_path, book):
    """The book itself, published in a folder of this machine, and a chapter opened where there is no book."""
    edit(book, book, "v7")
    stamp(book)
    git(book, "init", "--quiet")
    git(book, "add", ".")
    git(book, "commit", "--quiet", "-m", "a release")
    git(book, "tag", "v7")
    away = tmp_path / "nur ein Heft, 一冊"
    away.mkdir()
    notebook = read(book / "notebooks" / "02_sinusoidal_by_hand.ipynb")
    first, second = [cell.source for cell in notebook.cells if cell.cell_type == "code"][:2]
    told = "\nimport posenc_lib\nprint(posenc_lib.__file__)\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for _ in range(2):                                                      # the second time it is there already
        run = subprocess.run([sys.executable, "-W", "error", "-"], input="\n".join([first, second, told]), cwd=away,
                             env=environment, capture_output=True, encoding="utf-8")
        assert run.stderr == ""
        assert Path(run.stdout.strip()) == away / "posenc_book-v7" / "posenc_lib" / "__init__.py"
        shutil.rmtree(book, ignore_errors=True)


def git(folder, *arguments):
    person = ["-c", "user.name=Reader", "-c", "user.email=reader@example.org"]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *person, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize(("old", "new"), [("# 2 ", "# 2b "), ("import math\n", "import math  # later\n")])
def test_a_stale_notebook_is_refused_and_nothing_is_written(book, old, new):
    path = book / "chapters" / "02_sinusoidal_by_hand.md"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    edit(book, ON_GITHUB)
    before = contents(book)
    with pytest.raises(ChapterError, match=r"notebooks/02_sinusoidal_by_hand\.ipynb: .*run `make notebooks` first"):
        stamp(book)
    assert contents(book) == before


def test_a_stale_library_a_missing_notebook_and_a_readme_without_marks_are_refused(book):
    (book / "posenc_lib" / "position.py").write_text("", encoding="utf-8")
    with pytest.raises(ChapterError, match="built from another text or library"):
        stamp(book)
    notebook_path(book / "chapters" / "00_start_here.md").unlink()
    with pytest.raises(ChapterError, match=r"notebooks/00_start_here\.ipynb: .*No such file"):
        stamp(book)
    (book / "README.md").write_text("nothing to stamp", encoding="utf-8")
    with pytest.raises(ChapterError, match=r"README\.md needs the two lines"):
        stamp(book)


@pytest.mark.parametrize(("repository", "tag", "complaint"), [
    ("--upload-pack=evil", "v1", "`repository` is \"--upload"), ("https://a b", "v1", "`repository` is"),
    ('https://a"b', "v1", "`repository` is"), (ON_GITHUB, "", "`tag` is"), (ON_GITHUB, "-v1", "`tag` is"),
    (ON_GITHUB, "v 1", "`tag` is"), (None, "v1", "`repository = "), (ON_GITHUB, 1, "`tag = ")])
def test_what_is_no_address_is_refused(repository, tag, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        address_of({"repository": repository, "tag": tag})
