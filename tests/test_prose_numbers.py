"""Every number of three or more significant digits in the prose is confirmed by an output or stands in numbers.toml."""

from decimal import Decimal
from pathlib import Path

import nbformat
import pytest

from builder.chapter import ChapterError, chapter_name, chapter_paths
from builder.prose_numbers import find_numbers, listed_numbers, problems, prose_of

ROOT = Path(__file__).parent.parent
CHAPTERS = chapter_paths(ROOT)


def test_there_are_chapters_and_numbers_are_listed_for_no_others():
    assert CHAPTERS
    assert set(listed_numbers(ROOT)) <= set(map(chapter_name, CHAPTERS))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=map(chapter_name, CHAPTERS))
def test_the_numbers_of_the_prose(chapter):
    found = problems(chapter)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the text, and each number in it with its significant digits
        ("a number 0.841.", {"0.841": 3}),
        ("−0.416 and -0.417", {"-0.416": 3, "-0.417": 3}),
        ("$\\cos 2 = -0.416$, $(-0.41)$", {"2": 1, "-0.416": 3, "-0.41": 2}),
        ("$x-0.416$ and 1-0.417 and $f(x)-0.418$", {"0.416": 3, "1": 1, "0.417": 3, "0.418": 3}),
        ("$\\omega=0.0215\\cdot k$", {"0.0215": 3}),
        ("0.100, 0.010, 1.000 and 0.000", {"0.1": 3, "0.01": 2, "1": 4, "0": 0}),
        ("10000, 10,000, 10 000 and 10_000", {"10000": 1, "10": 1, "0": 0}),
        ("512 and 1024, 5000", {"512": 3, "1024": 4, "5000": 1}),
        ("60,611.5 or $60\\,611.5$ or $60{,}611.5$ or 60\u202f611.5", {"60611.5": 6}),
        ("1.25e-7", {"1.25E-7": 3}),
        ("1.25 × 10^{-7} and $1.26\\times10^{-7}$", {"1.25E-7": 3, "1.26E-7": 3}),
        ("$1.25 \\cdot 10^{-7}$, 1.26 × 10⁻⁷", {"1.25E-7": 3, "1.26E-7": 3}),
        ("1.2 × 10^{-7}", {"1.2E-7": 2}),
        ("$10000^{-2i/d}$, $10^{-4}$, $2^{512}$", {"10000": 1, "10": 1, "-4": 1, "2": 1, "512": 3}),
        ("$10000^{510/512}$", {"10000": 1, "510": 2, "512": 3}),
        ("3–5, 100–512 and 300-512", {"3": 1, "5": 1, "100": 1, "512": 3, "300": 1}),
        ("0.492 ± 0.005 and ≈0.125", {"0.492": 3, "0.005": 1, "0.125": 3}),
        ("float32, int64, 1a2b345c6, x_512, v2.13.0, NumPy 2.13.0", {}),
        ("$\\frac{512}{128}$ and $d_{256}$ and |0.242|", {"512": 3, "128": 3, "256": 3, "0.242": 3}),
        ("word 128, and 129, then 130.", {"128": 3, "129": 3, "130": 2}),
        ("at 長さ512の and `table[0, 256]`", {"512": 3, "0": 0, "256": 3}),
        ("| 0.841 | 0.540 |", {"0.841": 3, "0.540": 3}),
        ("1, 2, ...512 and .125", {"1": 1, "2": 1, "512": 3, "0.125": 3}),
    ],
)
def test_numbers_are_found(text, expected):
    found = {(number.value, number.significant_digits) for number in find_numbers(text)}
    assert found == {(Decimal(value), digits) for value, digits in expected.items()}


FRONT_MATTER = "---\njupytext:\n  text_representation:\n    format_name: myst\n---\n\n"
PROSE = """\
# 2.10 Waves

The first entry is 0.841, see section 2.10, at $d = 512$, as `0.5403` says; Vaswani et al., 2017.

| longest | 60,611.5 | $1.00\\times10^{-4}$ |

<img alt="0.999" width="641"> [link 0.242](https://example.org/777) https://example.org/888

```python
print(999)
```

+++

About −0.416 and 27.3, the last from a paper.

```{code-cell} ipython3
value = 123456
```

## References

- Vaswani et al. 2017, pages 5998 to 6008.
"""
OUTPUTS = {
    "stdout": "0.84147 [0.5403 -0.4161] 512\n60,611.52\n",
    "text/plain": "\x1b[31m0.2419\x1b[0m",
    "text/html": '<b data-width="333">1.0000e-04</b>',
}
LISTED = '[02_waves]\n"27.3" = "Vaswani et al. 2017, table 2"\n'


@pytest.fixture
def book(tmp_path):
    """A book of one chapter whose numbers are all confirmed, and a way to look for problems in it."""
    return Book(tmp_path)


class Book:
    def __init__(self, root):
        self.root, self.chapter = root, root / "chapters" / "02_waves.md"
        (root / "chapters").mkdir()
        (root / "notebooks").mkdir()
        (root / "book.toml").touch()

    def problems(self, prose=PROSE, outputs=OUTPUTS, listed=LISTED):
        self.chapter.write_text(FRONT_MATTER + prose, encoding="utf-8")
        (self.chapter.parent / "numbers.toml").write_text(listed, encoding="utf-8")
        cells = [
            nbformat.v4.new_code_cell(
                outputs=[
                    nbformat.v4.new_output("stream", name="stdout", text=outputs["stdout"]),
                    nbformat.v4.new_output("stream", name="stderr", text="0.777"),
                    nbformat.v4.new_output("display_data", {key: outputs[key] for key in ("text/plain", "text/html")}),
                ]
            )
        ]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.root / "notebooks" / "02_waves.ipynb")
        return problems(self.chapter)


def test_a_chapter_whose_numbers_are_confirmed(book):
    assert book.problems() == []
    assert book.problems(PROSE.replace("0.841", "0.8415")) == []  # the output 0.84147 rounds to this too


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.841", "0.842"),
        ("0.841", "0.8416"),
        ("0.841", "−0.841"),
        ("0.5403", "0.5413"),
        ("512", "513"),
        ("60,611.5", "60,612.5"),
        ("{-4}", "{-5}"),
        ("1.00\\times", "1.01\\times"),
        ("−0.416", "−0.417"),
        ("−0.416", "0.416"),
        ("[link 0.242]", "[link 0.243]"),
        ("2017.\n\n|", "2018.\n\n|"),
        ("27.3", "27.4"),
        ("last from", "last 999 from"),  # stands in fenced code only
        ("last from", "last 641 from"),  # stands in an attribute only
        ("last from", "last 333 from"),  # stands in an output's attribute only
        ("last from", "last 777 from"),  # stands in an address only
        ("last from", "last 123456 from"),  # stands in a code cell only
        ("last from", "last 5998 from"),  # stands in the References, but is no year
        ("last from", "last 0.777 from"),  # stands on stderr only
        ("last from", "last 60612 from"),  # an integer is not a rounded output
    ],
)
def test_one_changed_digit_fails(book, old, new):
    assert PROSE.count(old) == 1
    prose = PROSE.replace(old, new)
    found = [problem for problem in book.problems(prose) if "is not needed" not in problem]
    assert len(found) == 1
    line = (FRONT_MATTER + prose[: prose.index(new)] + new).count("\n") + 1 - new.count("\n")
    assert found[0].startswith(f"chapters/02_waves.md:{line}: ")


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ("0.84147", "0.84160", "0.841"),
        ("512\n", "512.0\n", "512"),
        ("512\n", "511.9\n", "512"),
        ("512\n", "float512\n", "512"),
        ("1.0000e-04", "1e-04", "1.00×10^{-4}"),  # fewer digits than the prose has
    ],
)
def test_an_output_that_does_not_confirm(book, old, new, number):
    found = book.problems(outputs={kind: text.replace(old, new) for kind, text in OUTPUTS.items()})
    assert [problem.split(" ")[1] for problem in found] == [number]


@pytest.mark.parametrize(
    ("listed", "complaint"),
    [
        (LISTED + '"27.4" = "somewhere"\n', '"27.4" is not needed'),
        (LISTED + '"0.841" = "an output has it already"\n', '"0.841" is not needed'),
        (LISTED + '"27" = "too few digits"\n', '"27" is not needed'),
        (LISTED.replace("Vaswani et al. 2017, table 2", " "), '"27.3" must be one number with a reference'),
        (LISTED + '"many" = "somewhere"\n', '"many" must be one number with a reference'),
        ("", "27.3 is in no output"),
        (LISTED.replace("02_waves", "03_words"), "27.3 is in no output"),
        (LISTED.replace("27.3", "27.30"), "27.3 is in no output"),
    ],
)
def test_the_list_of_numbers(book, listed, complaint):
    assert complaint in "\n".join(book.problems(listed=listed))


def test_the_list_may_write_numbers_in_its_own_way(book):
    prose = PROSE.replace("27.3", "27.3 and −1,234.5")
    assert book.problems(prose, listed=LISTED + '"-1234.5" = "somewhere"\n') == []


def test_the_prose_keeps_its_lines(book):
    book.problems()
    prose, references = prose_of(book.chapter)
    lines = book.chapter.read_text(encoding="utf-8").splitlines()
    number = prose.splitlines().index("About −0.416 and 27.3, the last from a paper.")
    assert lines[number] == prose.splitlines()[number]
    assert references.startswith("## References")


def test_references_end_at_the_next_heading(book):
    found = book.problems(PROSE + "\n### Older\n\n1.234\n\n## Notes\n\n5.678\n")
    assert [problem.split(" ")[1] for problem in found] == ["5.678"]


def test_a_chapter_without_notebook(book):
    book.problems()
    (book.root / "notebooks" / "02_waves.ipynb").unlink()
    with pytest.raises(ChapterError, match=r"02_waves\.ipynb does not exist: run `make notebooks`"):
        problems(book.chapter)
