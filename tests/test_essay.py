"""Questions to be answered in one's own words: what the builder makes of them, refuses, and carries back."""
import re
from pathlib import Path

import nbformat
import pytest

from builder import essay
from builder.chapter import (
    ChapterError,
    chapter_name,
    chapter_paths,
    notebook_path,
    read_chapter,
    reader_notebook,
    text_of,
)
from builder.exercise import GENERATED
from builder.write_back import write_back
from tests.test_builder import FRONT_MATTER, make_book

ROOT = Path(__file__).parent.parent
QUESTION = '+++ {"essay": {"id": "2.a", "minutes": 5, "points": 3}}\n\nWhy are there waves?\n'
ANSWER = "<details><summary>An answer</summary>\n\nBecause of the *wind*.\n\n</details>"
WAVES = f"{FRONT_MATTER}\n# Waves\n\n{QUESTION}\n+++\n\n{ANSWER}\n\n+++\n\n## Summary\n"


def test_the_readers_cells_of_a_question(tmp_path):
    (path,) = make_book(tmp_path, _02_waves=WAVES)
    title, heading, question, answer, summary = reader_notebook(path).cells
    assert (heading.source, heading.metadata) == ("**In your own words 2.a** · about 5 minutes · 3 points", GENERATED)
    assert question.source == "Why are there waves?"
    assert question.metadata == {"essay": {"id": "2.a", "minutes": 5, "points": 3}}
    assert (answer.source, answer.metadata) == (ANSWER, {})
    assert (title.source, summary.source) == ("# Waves", "## Summary")
    assert text_of(*read_chapter(path)) == WAVES


def test_the_words_are_those_of_the_chapters_language(tmp_path):
    (path,) = make_book(tmp_path, _02_waves=WAVES)
    translation = path.parent / "ja" / path.name
    translation.parent.mkdir()
    translation.write_text(WAVES.replace("An answer", "答えの例"), encoding="utf-8")
    assert reader_notebook(translation).cells[1].source == "**自分の言葉で 2.a** · 約 5 分 · 3 点"
    translation.write_text(WAVES, encoding="utf-8")
    with pytest.raises(ChapterError, match=r"after question 2\.a must be its answer: it begins with .*答えの例"):
        reader_notebook(translation)


def test_the_answer_without_its_fold(tmp_path):
    (path,) = make_book(tmp_path, _02_waves=WAVES)
    _, cells = read_chapter(path)
    assert essay.answer(cells[2]) == "Because of the *wind*."


DATA = '{"id": "2.a", "minutes": 5, "points": 3}'


@pytest.mark.parametrize(
    ("old", "new", "complaint", "place"),
    [
        (DATA, "[2]", "`essay` holds [2]; expected the keys id, minutes, points", "Why are"),
        (', "minutes": 5', "", "the question has no `minutes`", "Why are"),
        ('"points": 3', '"points": 3, "difficulty": 1', "a question has no key `difficulty`", "Why are"),
        ('"minutes": 5', '"minutes": "5"', "`minutes` is '5'; expected int", "Why are"),
        ('"minutes": 5', '"minutes": 0', "`minutes` must be at least 1", "Why are"),
        ('"points": 3', '"points": -1', "its `points` at least 0", "Why are"),
        ('"2.a"', '"3.a"', "the question's `id` is '3.a'; expected chapter, point, a letter, such as '2.a'", "Why are"),
        ('"2.a"', '"2.1"', "the question's `id` is '2.1'", "Why are"),
        ("<summary>An answer", "<summary>My answer", "question 2.a must be its answer", "Why are"),
        (f"\n+++\n\n{ANSWER}\n", "", "question 2.a must be its answer", "Why are"),
        (f"\n+++\n\n{ANSWER}\n\n+++\n\n## Summary\n", "", "question 2.a must be its answer", "Why are"),
        ("of the *wind*.", "of the wind.\n\n<details>", "an answer is one fold", "<details><summary>"),
        ("\n\nBecause of the *wind*.", "", "an answer is one fold", "<details><summary>"),
        ("</details>\n", "</details>\n\nMore.\n", "an answer is one fold", "<details><summary>"),
        (QUESTION, "+++\n\nWhy?\n", "an answer stands right after its question", "<details><summary>"),
        (f"\n+++\n\n{ANSWER}\n", f"\n+++\n\n{ANSWER}\n\n{QUESTION}\n+++\n\n{ANSWER}\n", "two questions 2.a", "Why are"),
        (f"\n+++\n\n{ANSWER}\n", f"\n+++\n\n{ANSWER}\n\n+++\n\n{ANSWER}\n", "right after its question", "<details>"),
    ],
)
def test_a_malformed_question_is_refused_with_its_place(tmp_path, old, new, complaint, place):
    assert WAVES.count(old) == 1
    text = WAVES.replace(old, new)
    (path,) = make_book(tmp_path, _02_waves=text)
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.startswith(place)]
    with pytest.raises(ChapterError, match=rf"^chapters/02_waves\.md:{lines[-1]}: ") as refused:
        reader_notebook(path)
    assert complaint in str(refused.value)


def test_a_question_is_text(tmp_path):
    code = "```{code-cell} ipython3\n---\nessay:\n  id: 2.a\n  minutes: 5\n  points: 3\n---\nprint(1)\n```\n"
    (path,) = make_book(tmp_path, _02_waves=f"{FRONT_MATTER}\n{code}")
    with pytest.raises(ChapterError, match="a question to answer in words is text, not a code cell"):
        reader_notebook(path)


class Stored:
    def __init__(self, folder):
        (self.chapter,) = make_book(folder, _02_waves=WAVES)
        self.node = reader_notebook(self.chapter)
        self.cells = self.node.cells

    def write_back(self):
        path = notebook_path(self.chapter)
        path.parent.mkdir(exist_ok=True)
        path.write_text(nbformat.writes(self.node), encoding="utf-8")
        return write_back(path)

    def text(self):
        return self.chapter.read_text(encoding="utf-8")


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path)


def test_an_edited_question_goes_back_with_its_metadata(stored):
    stored.cells[2].source = "Why are there *long* waves?"
    stored.cells[3].source = stored.cells[3].source.replace("wind", "wide sea")
    assert len(stored.write_back()) == 2
    assert stored.text() == WAVES.replace("there waves", "there *long* waves").replace("wind", "wide sea")


def test_a_question_is_moved_and_removed_as_a_whole(stored):
    stored.cells[1:] = [stored.cells[4], *stored.cells[1:4]]
    stored.write_back()
    assert stored.text() == f"{FRONT_MATTER}\n# Waves\n\n+++\n\n## Summary\n\n{QUESTION}\n+++\n\n{ANSWER}\n"
    stored.node = reader_notebook(stored.chapter)
    del stored.node.cells[2:]
    stored.write_back()
    assert stored.text() == f"{FRONT_MATTER}\n# Waves\n\n+++\n\n## Summary\n"


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda cells: cells.__delitem__(1), "a deleted cell"),
        (lambda cells: cells[1].update(source="changed"), "is made from the exercise at chapters/02_waves.md:15"),
        (lambda cells: cells.__delitem__(slice(1, 3)), "an answer stands right after its question"),
        (lambda cells: cells.__delitem__(3), "must be its answer"),
        (lambda cells: cells.append(nbformat.from_dict(cells[2] | {"id": "copy"})), "a copy of a cell the builder"),
    ],
)
def test_half_a_question_is_refused(stored, edit, complaint):
    edit(stored.cells)
    with pytest.raises(ChapterError, match=re.escape(complaint)):
        stored.write_back()
    assert stored.text() == WAVES


CHAPTERS = [path for path in chapter_paths(ROOT) if path.parent.name == "chapters" and path.stem[:2] != "00"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=map(chapter_name, CHAPTERS))
def test_every_chapter_but_the_first_has_a_question_before_its_summary(chapter):
    sources = [cell.source for cell in reader_notebook(chapter).cells]
    _, cells = read_chapter(chapter)
    questions = [number for number, cell in enumerate(cells) if "essay" in cell.metadata]
    assert questions and all("xplain" in cells[number].source for number in questions)
    assert cells[questions[-1] + 2].source.startswith("## Summary")
    for number in questions:
        sentences = re.findall(r"[.?](?=\s|$)", essay.answer(cells[number + 1]))
        assert 3 <= len(sentences) <= 6, len(sentences)
        assert sources[sources.index(cells[number].source) - 1].startswith("**In your own words")
