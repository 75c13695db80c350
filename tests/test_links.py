"""Nothing in the book leads nowhere: links, pictures, anchors, numbers that the prose names, and its literature."""

import re
from pathlib import Path

import nbformat
import pytest

from builder.chapter import reader_notebook
from builder.links import Chapter, enumerated, github_anchor, lab_anchor, links, problems, well_formed

ROOT = Path(__file__).parent.parent
FRONT_MATTER = "---\njupytext:\n  text_representation:\n    format_name: myst\n---\n\n"
EXERCISE = """\
```{code-cell} ipython3
---
exercise:
  id: '2.1'
  minutes: 8
  difficulty: 1
  points: 2
---
### BEGIN SOLUTION
x = 1  # as in section 1.1
### END SOLUTION
```
"""
START = """\
# 1 Start here

Go on with [chapter 2](02_waves.ipynb), [*Waves of the sea*](02_waves.ipynb).

## 1.1 A plan
"""
WAVES = f"""\
# 2 Waves of the sea

![A picture](../docs/picture.png) and [a heading](#a-heading) of [the web](https://example.org/a?b=1#c).
See section 1.1, sections 2.1 to 2.3, chapters 1 and 2, exercise 2.1; by (2.1) and equation (2.2).

## 2.1 A wave

Vaswani et al. (2017, section 9.9) and the paper (section 8.8) say so, and so does equation (77) of Su et al. (2021).

$$ x = 1 \\tag{{2.1}} $$

+++

{EXERCISE}
## 2.2 Two waves

Nothing of `section 7.7`, nor of $f(5.5)$.

$$ x = 2 \\tag{{2.2}} $$

```python
print("exercise 6.6")
```

## 2.3 Three waves

### a-heading

Wang and Chen (2020) and (Elman, 1990), and RoBERTa too.

## References

- A. Vaswani, N. Shazeer, N. Parmar: *Attention Is All You Need*. NeurIPS 2017, arXiv:1706.03762. Section 6.6.
- J. Su, Y. Lu, S. Pan: *RoFormer*. 2021, arXiv:2104.09864.
- Y.-A. Wang, Y.-N. Chen: *What Do Position Embeddings Learn?* EMNLP 2020, arXiv:2010.04903.
- J. L. Elman: *Finding Structure in Time*. 1990.
- Y. Liu and others: *RoBERTa: A Robustly Optimized Approach*. 2019, arXiv:1907.11692.
- Code: `elsewhere.py`.
"""
README = """\
# A book

[Waves of the sea](notebooks/02_waves.ipynb), [its end](#the-end-of-it), [notes](docs/notes.md#a-note)

## The end, of it
"""


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


class Book:
    """A book in which everything leads somewhere; `problems` writes its texts, with changes, and looks."""

    def __init__(self, root):
        self.root = root
        for folder in ("chapters", "notebooks", "docs", "posenc_lib"):
            (root / folder).mkdir()
        (root / "book.toml").write_text('repository = ""\ntag = "v1"\n', encoding="utf-8")
        (root / "docs" / "picture.png").touch()
        self.texts = {
            "chapters/01_start.md": FRONT_MATTER + START,
            "chapters/02_waves.md": FRONT_MATTER + WAVES,
            "README.md": README,
            "docs/notes.md": "# Notes\n\n## A note\n\n[the book](../README.md)\n",
        }

    def problems(self, file="README.md", old="", new=""):
        assert not old or self.texts[file].count(old) == 1
        for name, text in self.texts.items():
            changed = text.replace(old, new) if old and name == file else text
            (self.root / name).write_text(changed, encoding="utf-8")
        for chapter in (self.root / "chapters").glob("*.md"):
            nbformat.write(reader_notebook(chapter), self.root / "notebooks" / f"{chapter.stem}.ipynb")
        return problems(self.root)


def test_the_book_leads_nowhere_wrong():
    found = problems(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_what_is_looked_at_in_the_book_is_much():
    chapters = [Chapter(path) for path in sorted((ROOT / "chapters").glob("*.md"))]
    assert sum(len(chapter.sections) for chapter in chapters) > 60
    assert sum(len(chapter.equations) for chapter in chapters) > 15
    assert all(chapter.references for chapter in chapters if chapter.number)
    assert all(chapter.title for chapter in chapters)


def test_a_book_in_which_all_is_right(book):
    assert book.problems() == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        # links and pictures
        ("docs/picture.png", "docs/pictures.png", "there is no docs/pictures.png"),
        ("docs/picture.png", "docs/Picture.png", "there is no docs/Picture.png"),
        ("../docs/picture.png", "docs/picture.png", "there is no notebooks/docs/picture.png"),
        ("../docs/picture.png", "/docs/picture.png", "leads out of the book"),
        ("../docs/picture.png", "../../picture.png", "leads out of the book"),
        ("#a-heading", "#another", "there is no such heading"),
        ("#a-heading", "#", "has an empty anchor"),
        ("#a-heading", "01_start.ipynb#a-plan", "there is no such heading in 01_start.ipynb"),
        ("#a-heading", "#21-a-wave", "works on GitHub alone"),
        ("#a-heading", "#2.1-A-wave", "works on JupyterLab alone"),
        ("https://example.org/a", "https://example", "no well-formed address"),
        ("https://example.org/a", "htp://example.org/a", "no well-formed address"),
        ("[the web](https://example.org/a?b=1#c)", "http://exa_mple.org/", "no well-formed address"),
        ("[a heading](#a-heading)", "[chapter 2](01_start.ipynb)", "which is chapter 1"),
        ("[a heading](#a-heading)", "[Started](01_start.ipynb)", "whose title is 'Start here'"),
        ("[a heading](#a-heading)", '<a href="nowhere.md">x</a>', "there is no notebooks/nowhere.md"),
        ("[a heading](#a-heading)", '<img src="nowhere.png">', "there is no notebooks/nowhere.png"),
        # numbers
        ("See section 1.1", "See section 1.2", "there is no section 1.2"),
        ("sections 2.1 to 2.3", "sections 2.1 to 2.4", "there is no section 2.4"),
        ("sections 2.1 to 2.3", "sections 2.1 and 3.3", "there is no section 3.3"),
        ("chapters 1 and 2", "chapters 1 and 3", "there is no chapter 3"),
        ("exercise 2.1;", "exercise 2.2;", "there is no exercise 2.2"),
        ("equation (2.2)", "equation (2.3)", "there is no equation (2.3)"),
        ("by (2.1)", "by (2.4)", "there is no equation (2.4)"),
        ("as in section 1.1", "as in section 1.3", "there is no section 1.3"),
        ("\\tag{2.2}", "\\tag{2.3}", "equation (2.3) must be (2.2)"),
        ("## 2.2 Two", "## 2.4 Two", "must be '## 2.2 ...'"),
        ("# 2 Waves", "# 3 Waves", "first heading must be '# 2 Title'"),
        ("the paper (section 8.8)", "the chapter (section 8.8)", "there is no section 8.8"),
        ("of Su et al. (2021)", "as Su et al. (2021) say", "there is no equation (77)"),
        ("`section 7.7`", "section 7.7", "there is no section 7.7"),
        # literature
        ("Vaswani et al. (2017,", "Vaswani et al. (2018,", "Vaswani et al., 2018, is not in the chapter's References"),
        ("Wang and Chen (2020)", "Wang et al. (2020)", "Wang et al., 2020, is not in"),
        ("Wang and Chen (2020)", "Wang and Cheng (2020)", "Wang and Cheng, 2020, is not in"),
        ("(Elman, 1990)", "(Ellman, 1990)", "Ellman, 1990, is not in"),
        ("(Elman, 1990)", "others", "Elman, 1990, is cited nowhere"),
        (", and RoBERTa too", "", "Liu et al., 2019, is cited nowhere"),
        ("- J. L. Elman: *Finding Structure in Time*. 1990.\n", "", "Elman, 1990, is not in"),
    ],
)
def test_one_thing_that_leads_nowhere(book, old, new, complaint):
    found = book.problems("chapters/02_waves.md", old, new)
    matching = [line for line in found if complaint in line]
    assert len(matching) == 1, found
    changed = book.root.joinpath("chapters/02_waves.md").read_text(encoding="utf-8").splitlines()
    file, line, _ = matching[0].split(":", 2)
    assert file == "chapters/02_waves.md"
    named = changed[int(line) - 1]
    gone = {"others": "Elman: ", "": "Liu and others"}.get(new) if "nowhere" in complaint else "(Elman, 1990)"
    assert (new in named and new) or gone in named


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("README.md", "02_waves.ipynb", "02_wave.ipynb", r"README\.md:3: .* there is no notebooks/02_wave\.ipynb"),
        ("README.md", "[Waves of the sea]", "[Waves]", r"README\.md:3: .* whose title is 'Waves of the sea'"),
        ("README.md", "#the-end-of-it", "#The-end,-of-it", r"README\.md:3: .* works on JupyterLab alone"),
        ("README.md", "notes.md#a-note", "notes.md#A-note", r"README\.md:3: .* works on JupyterLab alone"),
        ("docs/notes.md", "../README.md", "README.md", r"docs/notes\.md:5: .* there is no docs/README\.md"),
        ("chapters/01_start.md", "chapter 2]", "chapter 3]", r"chapters/01_start\.md:9: the link 'chapter 3'"),
    ],
)
def test_other_files(book, file, old, new, complaint):
    assert any(re.match(complaint, line) for line in book.problems(file, old, new)), book.problems(file, old, new)


def test_what_the_builder_adds_to_a_notebook_is_looked_at(book):
    assert book.problems() == []
    path = book.root / "notebooks" / "02_waves.ipynb"
    notebook = nbformat.read(path, as_version=4)
    heading = next(cell for cell in notebook.cells if "**Exercise" in cell.source)
    heading.source += " [more](more.md)"
    nbformat.write(notebook, path)
    (found,) = problems(book.root)
    file, line, complaint = found.split(":", 2)
    assert file == "notebooks/02_waves.ipynb" and "there is no notebooks/more.md" in complaint
    lines = path.read_text(encoding="utf-8").splitlines()
    assert heading.id in lines[int(line) - 1]


@pytest.mark.parametrize(
    ("heading", "github", "lab"),
    [
        ("The end of it", "the-end-of-it", "The-end-of-it"),
        ("2.1 Why not *simply* count?", "21-why-not-simply-count", "2.1-Why-not-simply-count?"),
        ("A `buffer_name` moves", "a-buffer_name-moves", "A-buffer_name-moves"),
        ("第2章 波", "第2章-波", "第2章-波"),
    ],
)
def test_anchors(heading, github, lab):
    assert (github_anchor(heading), lab_anchor(heading)) == (github, lab)


def test_headings_that_come_twice_are_numbered_on_github(book):
    book.texts["README.md"] += "\n## The end, of it\n\n[again](#the-end-of-it-1)\n"
    assert book.problems() == []
    assert len(book.problems("README.md", "#the-end-of-it-1", "#the-end-of-it-2")) == 1


def test_links_of_every_kind():
    text = (
        "[a](b.md)\n![c](d.png) `[e](f)`\n\n    [g](h)\n\n| [i](j.md) |\n|---|\n| ![k](l.png) |\n\n"
        '[m][n]\n\n[n]: o.md\n\n<p><a href="q.md">r</a></p>\n\n```\n[s](t)\n```\n<https://u.org/v>\n$[w](x)$\n'
    )
    assert [(text.count("\n", 0, offset) + 1, address) for offset, address, _ in links(text)] == [
        (1, "b.md"), (2, "d.png"), (6, "j.md"), (8, "l.png"), (10, "o.md"), (14, "q.md"), (19, "https://u.org/v")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("https://example.org", True),
        ("http://a.b-c.example.org:8080/x_y/(z)?q=%20#part", True),
        ("https://example", False),
        ("https://", False),
        ("https:/example.org", False),
        ("https://-a.org", False),
        ("https://example..org", False),
        ("https://example.org/a b", False),
        ("https://example.org/%zz", False),
        ("https://example.org:port/", False),
        ("ftp://example.org", False),
    ],
)
def test_addresses(address, right):
    assert well_formed(address) is right


def test_numbers_in_a_row():
    assert sorted(enumerated("5.7 to 5.9")) == ["5.7", "5.8", "5.9"]
    assert sorted(enumerated("2 to 4")) == ["2", "3", "4"]
    assert enumerated("7.5 and 7.6") == ["7.5", "7.6"]
    assert sorted(enumerated("5.7から5.9")) == ["5.7", "5.8", "5.9"]
