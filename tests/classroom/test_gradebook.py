"""nbgrader's gradebook and feedback: what is entered, what a person has entered stays, and nothing of a student's acts.

Results are made here from the scores that they are to have: no line of a student's code runs.
"""
import json
import re
from html.parser import HTMLParser

import nbformat
import pytest
from nbgrader.api import Gradebook

from classroom import gradebook, judge
from classroom.assign import assign
from classroom.course import Course, CourseError
from classroom.grade import Work, marked, result_of, store
from classroom.harmless import harmless
from classroom.isolation import Limits
from classroom.names import LONGEST, file_name, file_names
from classroom.salvage import salvage
from tests.classroom import a_class
from tests.classroom.conftest import everything, rows_of

RIGHT = {"0.1": 1.0, "2.1": 1.0, "2.2": 1.0, "2.3": 1.0}
CHAPTER = "02_sinusoidal_by_hand"


class Marking:
    """A course and what it takes to enter a student's results in it."""

    def __init__(self, course, solutions, tmp_path):
        self.course, self.solutions, self.tmp_path = course, solutions, tmp_path

    def result(self, student, shares=RIGHT, essay="My own words.", name="week-1", change=None, message="", printed=""):
        """`shares` of the points by exercise; `change(desk)` changes what was handed in."""
        desk = a_class.Desk(self.course.release(name), self.solutions, self.tmp_path)
        for cell in desk.every_cell:
            if a_class.grade_id(cell).startswith("essay-"):
                cell["source"] = essay or self.released(name, a_class.grade_id(cell))
        if change:
            change(desk)
        manifest, scores, notebooks, essays, files = self.course.manifest(name), [], {}, {}, {}
        for chapter in manifest.versions:
            data = a_class.as_bytes(desk.notebooks[f"{chapter}.ipynb"])
            release = nbformat.read(self.course.release(name) / f"{chapter}.ipynb", as_version=4)
            salvaged, mine = salvage(data, release), []
            for task in manifest.of_chapter(chapter):
                if task.kind == "essay":
                    mine.append(judge.by_hand(task, salvaged.answers[task.answer_cell]))
                    continue
                share = shares[task.id]
                state = "right" if share == 1 else "not yet"
                mine.append(judge.Score(task.id, state, share * task.points / 2, share * task.points / 2, task.points,
                                        message or "A message.", "7 of 7 hidden cases are right."))
            notebook = marked(salvaged.notebook, judge.Judged(mine, printed, {}))
            notebooks[chapter] = nbformat.writes(notebook)
            essays |= {cell: answer.source for cell, answer in salvaged.answers.items() if cell.startswith("essay-")}
            scores += mine
            files[chapter] = (f"{chapter}.ipynb", data)
        work = Work(student, manifest, {}, files, (), Limits(), True)
        return result_of(work, scores, [], "", 1.0, notebooks, essays)

    def released(self, name, cell_id):
        desk = a_class.Desk(self.course.release(name), self.solutions, self.tmp_path)
        cells = [cell for notebook in desk.released.values() for cell in notebook["cells"]]
        return next(cell["source"] for cell in cells if a_class.grade_id(cell) == cell_id)

    def enter(self, *results, name="week-1"):
        """As `grade` does; the names of who has changed."""
        files = file_names(self.course, [result["student"] for result in results])
        for result in results:
            store(self.course, result, files[result["student"]])
        changed = gradebook.record(self.course, self.course.manifest(name), results, files, {})
        gradebook.publish(self.course, name, 1)
        return changed

    def grades(self, student, name="week-1", notebook=CHAPTER):
        with gradebook.opened(self.course) as book:
            found = book.find_submission_notebook(notebook, name, student)
            return {grade.name: (grade.score, bool(grade.needs_manual_grade)) for grade in found.grades}

    def by_hand(self, student, cell, score=None, comment=None, name="week-1"):
        """As formgrader enters it."""
        with gradebook.opened(self.course) as book:
            if score is not None:
                grade = book.find_grade(cell, CHAPTER, name, student)
                grade.manual_score, grade.needs_manual_grade = score, False
            if comment is not None:
                book.find_comment(cell, CHAPTER, name, student).manual_comment = comment
            book.db.commit()

    def page(self, student, chapter=CHAPTER, name="week-1"):
        return (self.course.feedback / student / name / f"{chapter}.html").read_text(encoding="utf-8")


@pytest.fixture
def printing(made, solutions, tmp_path):
    return Marking(made("00", "02"), solutions, tmp_path)


@pytest.fixture
def marking(printing, monkeypatch):
    """With pages that are quickly made: what they are made of."""
    monkeypatch.setattr(gradebook, "page", lambda text, chapter, facts: json.dumps(facts))
    return printing


def test_scores_stand_by_cell(marking):
    marking.enter(marking.result("ann", RIGHT | {"2.2": 0.5}))
    assert marking.grades("ann") == {
        "check-2-1": (1, False), "hidden-2-1": (1, False), "check-2-2": (0.5, False), "hidden-2-2": (0.5, False),
        "check-2-3": (1.5, False), "hidden-2-3": (1.5, False), "essay-2-a": (0, True)}
    assert marking.grades("ann", notebook="00_start_here") == {"check-0-1": (0.5, False), "hidden-0-1": (0.5, False)}
    with Gradebook(marking.course.database) as book:
        assert book.find_submission("week-1", "ann").score == 7
        assert book.find_submission_notebook(CHAPTER, "week-1", "ann").failed_tests
        assert not book.find_submission_notebook("00_start_here", "week-1", "ann").failed_tests


def test_a_second_time_nothing_is_written(marking):
    result = marking.result("ann")
    assert marking.enter(result) == ["ann"]
    before = everything(marking.course.folder)
    assert marking.enter(result) == []
    assert everything(marking.course.folder) == before


def test_what_a_person_has_entered_stays(marking):
    marking.enter(marking.result("ann", RIGHT | {"2.1": 0}))
    marking.by_hand("ann", "essay-2-a", 2.5, "Well put.")
    marking.by_hand("ann", "check-2-3", 1.0)
    assert marking.enter(marking.result("ann")) == ["ann"]
    grades = marking.grades("ann")
    assert grades["essay-2-a"] == (2.5, False) and grades["check-2-3"] == (1.0, False)
    assert grades["check-2-1"] == (1, False)
    row = rows_of(marking.course)["ann"]
    assert (row["score"], row["of"], row["2.a"], row["points to be read"]) == ("10", "11", "2.5", "0")
    assert "Well put." in marking.page("ann")


def test_an_essay_with_other_words_is_to_be_read_again(marking):
    marking.enter(marking.result("ann"))
    marking.by_hand("ann", "essay-2-a", 2.5, "Well put.")
    marking.enter(marking.result("ann", essay="Other words."))
    assert marking.grades("ann")["essay-2-a"] == (2.5, True)
    row = rows_of(marking.course)["ann"]
    assert (row["2.a"], row["points to be read"], row["score"]) == ("to be read", "3", "8")
    assert "Well put." in marking.page("ann")
    marking.by_hand("ann", "essay-2-a", 1.0)
    marking.enter(marking.result("ann", essay="Other words."))
    assert marking.grades("ann")["essay-2-a"] == (1.0, False)
    marking.enter(marking.result("ann", essay=""))              # taken back: a person decides what stays
    assert marking.grades("ann")["essay-2-a"] == (1.0, True)


def test_an_essay_that_was_resolved_without_a_score_stays_so(marking):
    marking.enter(marking.result("ann"))
    with gradebook.opened(marking.course) as book:
        book.find_grade("essay-2-a", CHAPTER, "week-1", "ann").needs_manual_grade = False
        book.db.commit()
    marking.enter(marking.result("ann", RIGHT | {"2.1": 0}))
    assert marking.grades("ann")["essay-2-a"] == (0, False)


def test_an_essay_that_is_not_answered_gets_nothing_and_waits_for_nobody(marking):
    marking.enter(marking.result("ann", essay=""))
    assert marking.grades("ann")["essay-2-a"] == (0, False)
    row = rows_of(marking.course)["ann"]
    assert (row["of"], row["2.a"], row["status"]) == ("11", "0", "every exercise right; 2.a not answered")


def test_an_exercise_with_a_score_by_hand_is_to_be_looked_at_when_it_changes(marking):
    marking.enter(marking.result("ann", RIGHT | {"2.1": 0}))
    marking.by_hand("ann", "check-2-1", 0.75)
    marking.enter(marking.result("ann"))
    assert marking.grades("ann")["check-2-1"] == (0.75, True)


@pytest.mark.parametrize(("first", "then"), [(0, 1), (1, 0), (0.5, 1)])
def test_what_is_handed_in_again_raises_and_lowers_scores(marking, first, then):
    marking.enter(marking.result("ann", RIGHT | {"2.1": first}))
    marking.enter(marking.result("ann", RIGHT | {"2.1": then}))
    assert marking.grades("ann")["check-2-1"] == (then, False)
    assert rows_of(marking.course)["ann"]["2.1"] == f"{2 * then:g}"


def test_a_notebook_that_is_handed_in_no_longer_has_no_page(marking):
    result = marking.result("ann")
    marking.enter(result)
    del result["notebooks"]["00_start_here"]
    assert marking.enter(result) == ["ann"]
    assert {path.stem for path in marking.course.feedback.rglob("*.html")} == {CHAPTER}
    assert {path.stem for path in (marking.course.folder / "autograded").rglob("*.ipynb")} == {CHAPTER}


def test_two_assignments_stand_side_by_side_even_with_the_same_exercise(marking):
    assign(marking.course, "week-2", ["02"])
    marking.enter(marking.result("ann"))
    marking.by_hand("ann", "essay-2-a", 3.0, "First.")
    marking.enter(marking.result("ann", RIGHT | {"2.1": 0}, name="week-2"), name="week-2")
    marking.by_hand("ann", "essay-2-a", 1.0, "Second.", name="week-2")
    marking.enter(marking.result("ann"))
    assert marking.grades("ann")["check-2-1"] == (1, False) and marking.grades("ann")["essay-2-a"] == (3, False)
    second = marking.grades("ann", "week-2")
    assert second["check-2-1"] == (0, False) and second["essay-2-a"] == (1, False)
    marking.enter(marking.result("ann", RIGHT | {"2.1": 0}, name="week-2"), name="week-2")
    assert "First." in marking.page("ann") and "Second." in marking.page("ann", name="week-2")
    assert "Second." not in marking.page("ann")


def test_the_command_writes_feedback_after_reading(printing, capsys):
    printing.enter(printing.result("ann"), printing.result("bo"))
    before = everything(printing.course.folder)
    printing.by_hand("bo", "essay-2-a", 2.0, "A comment of mine.")
    options = type("Options", (), {"course": printing.course.folder, "assignment": "week-1"})
    gradebook.run(options)
    after = everything(printing.course.folder)
    assert {name for name in after if after[name] != before[name]} == {
        "gradebook.db", "results/week-1.csv", f"feedback/bo/week-1/{CHAPTER}.html"}
    assert "A comment of mine." in printing.page("bo") and gradebook.NOT_READ in printing.page("ann")
    assert gradebook.NOT_READ not in printing.page("bo")
    assert "1 new pages" in capsys.readouterr().out
    options.assignment = "week-9"
    with pytest.raises(CourseError, match="week-9"):
        gradebook.run(options)


# What feedback holds

def test_feedback_has_scores_and_messages_and_no_solution(printing, solutions):
    def wrong(desk):
        for number in desk.solutions:
            function = re.search(r"def (\w+)", desk.cell(number)["source"])[1]
            desk.cell(number)["source"] = f"def {function}(*arguments):\n    return 0.123"

    printing.enter(printing.result("ann", dict.fromkeys(RIGHT, 0), change=wrong, message="Seen: 1 < 2 & <b>bold</b>"))
    manifest = printing.course.manifest("week-1")
    for chapter in manifest.versions:
        text = "".join(Page(printing.page("ann", chapter)).texts)
        assert "Seen: 1 < 2 & <b>bold</b>" in text and "7 of 7 hidden cases" in text
        source = json.loads((printing.course.source("week-1") / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        release = (printing.course.release("week-1") / f"{chapter}.ipynb").read_text(encoding="utf-8")
        seen = re.sub(r"\s+", " ", text)
        looked = 0
        for cell in source["cells"]:
            for line in "".join(cell["source"]).splitlines():
                if len(line.strip()) > 12 and json.dumps(line.strip(), ensure_ascii=False)[1:-1] not in release:
                    assert re.sub(r"\s+", " ", line.strip()) not in seen
                    looked += 1
        assert looked > 2


class Page(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, attributes))

    def handle_data(self, data):
        self.texts.append(data)


ATTACKS = [
    "<script>PWNED()</script>", "<SCRIPT SRC=//PWNED></SCRIPT>", "<img src=x onerror=PWNED()>",
    "<svg/onload=PWNED()>", "<svg><script>PWNED()</script></svg>", "<iframe src=javascript:PWNED()></iframe>",
    "<!-- <script>PWNED()</script> -->", "</pre></div></body><script>PWNED()</script>",
    "<math><mtext><a xlink:href=javascript:PWNED()>x</a></mtext></math>", "<a href='javascript:PWNED()'>x</a>",
    "<style>@import '//PWNED'</style>", "<base href=//PWNED>", "<form action=//PWNED>", "[x](javascript:PWNED())",
    "[x](JaVaScRiPt:PWNED())", "[x](&#106;avascript:PWNED())", "[x](java\tscript:PWNED())",
    "[x](data:text/html;base64,PWNED)", "![x](//PWNED/x.png)", "![x](x \"onerror=PWNED()\")",
    "[x][y]\n\n[y]: javascript:PWNED()", "[PWNED]\n\n[PWNED]: javascript:PWNED()",
    "![PWNED]\n\n[PWNED]: //PWNED/x.png", "<javascript:PWNED()>", "<https://PWNED>", "https://PWNED",
    "www.PWNED.example", "[x]\\(javascript:PWNED())", "[a [b](javascript:PWNED()) c](javascript:PWNED())",
    "$\\href{javascript:PWNED()}{x}$", "$$\\href{javascript:PWNED()}{x}$$", "\\(\\href{javascript:PWNED()}{x}\\)",
    "\\begin{equation}\\href{javascript:PWNED()}{x}\\end{equation}", "$\\def\\x{\\href{javascript:PWNED()}}\\x{y}$",
    "$\\style{background:url(//PWNED)}{x}$", "$\\require{html}\\cssId{PWNED}{x}$", "$<img src=x onerror=PWNED()>$",
    "$$<img src=x onerror=PWNED()>$$", "\\begin{align}<img src=x onerror=PWNED()>\\end{align}",
    "```mermaid\ngraph TD; A[PWNED]-->B; click A href \"javascript:PWNED()\"\n```", "~~~ mermaid\nPWNED\n~~~",
    "```<img src=x onerror=PWNED()>\nPWNED\n```", "```python\" onload=\"PWNED()\nx = PWNED\n```",
    "`<img src=x onerror=PWNED()>`", "# <img src=x onerror=PWNED()>", "# x\" onclick=\"PWNED()", "PWNED\n===",
    "> PWNED\n> ---",
    "1. # PWNED",
    "| a |\n|---|\n| <img src=x onerror=PWNED()> |", "&lt;script&gt;PWNED()&lt;/script&gt;",
    "&#60;script&#62;PWNED()&#60;/script&#62;", "\\<script>PWNED()</script>", "<<script>script>PWNED()</script>",
    "<scr<!-- -->ipt>PWNED()</script>", "<\u0000script>PWNED()</script>", "<?php PWNED ?>",
    "[^1]\n\n[^1]: <script>PWNED()</script>", "![x](attachment:PWNED)", "<details ontoggle=PWNED() open>x</details>",
    "- ```mermaid\n  PWNED\n  ```", "> [x](javascript:PWNED())", "<video><source onerror=PWNED()></video>",
]  # fmt: skip
ACTIVE_MATH = re.compile(r"\\(href|style|class|cssId|require|def|newcommand|let|unicode|html\w*)\b")


def held_harmless(html, without):
    """The page has no element, attribute or formula but those of the same page without the attacks."""
    page = Page(html)
    assert "PWNED" not in str(page.elements)
    kinds = {(tag, name) for tag, attributes in page.elements for name, _ in attributes or [("", "")]}
    known = {(tag, name) for tag, attributes in Page(without).elements for name, _ in attributes or [("", "")]}
    plain = "code pre em strong blockquote table thead tbody tr th td ul ol li p br span".split()
    shapes = {*((tag, "") for tag in plain), ("div", "class"), ("span", "class")}
    assert kinds <= known | shapes, kinds - known - shapes
    text = "".join(page.texts)
    assert text.count("PWNED") >= 1
    assert not ACTIVE_MATH.search(re.sub(r"(?s)<script.*?</script>", "", text).replace("\\ ", ""))
    return text


@pytest.mark.parametrize("template", ["feedback", "formgrade"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_markdown_of_a_student_does_nothing(template, attack):
    before = "Words before.\n\n"
    about = {"grade": True, "solution": True, "grade_id": "essay-2-a", "locked": False, "task": False, "points": 3.0,
             "score": 0.0, "schema_version": 3}

    def rendered(words):
        cells = [nbformat.v4.new_markdown_cell(words, metadata=metadata) for metadata in ({"nbgrader": about}, {})]
        resources = {"nbgrader": {"notebook": "x", "score": 0, "max_score": 1, "late_penalty": 0}, "index": 0,
                     "total": 1}
        return gradebook.exporter(template).from_notebook_node(nbformat.v4.new_notebook(cells=cells), resources)[0]

    text = held_harmless(rendered(harmless(before + attack)), rendered(before))
    assert "Words before." in text


def test_words_and_formulas_stay_readable():
    words = "Since $a<b$ and `x[0]`, see *chapter 2*: $\\frac{\\sin x}{x}$.\n\n```python\nif a < b: print(x[1])\n```\n"
    assert harmless(words) == words.replace("a<b", "a< b")


@pytest.mark.parametrize("kind", ["markdown", "raw", "code"])
def test_cells_that_a_student_added_and_texts_do_nothing(printing, kind):
    payload = "<script>PWNED()</script><img src=x onerror=PWNED()> [x](javascript:PWNED())"

    def add(desk):
        cells = desk.notebooks[f"{CHAPTER}.ipynb"]["cells"]
        cell = {"cell_type": kind, "id": "mine", "metadata": {"raw_mimetype": "text/html", "tags": [payload]},
                "source": payload}
        output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": payload}}
        cells.append(cell | ({"outputs": [output], "execution_count": None} if kind == "code" else {}))
        desk.cell("2.1")["source"] += f"\n# {payload}"

    printing.enter(printing.result("ann"))
    printing.enter(printing.result("bo", essay=payload, change=add, message=payload, printed=payload))
    text = held_harmless(printing.page("bo"), printing.page("ann"))
    assert text.count("PWNED") >= 15                # shown, as text


# Names

AWKWARD = [
    ".hidden", "..", "-rf", "CON", "nul.txt", "a/b", "x" * 300, "日" * 100, "<img src=x onerror=alert(1)>", "a[1]*?",
    "{student}", "name ", "ann:1", "tab\there", "a\u202eb", "'; DROP TABLE grade; --", "=1+1", "%2e%2e", "$HOME",
    "a\\b",
]


def test_awkward_names_are_safe_and_two_stay_two():
    names = [file_name(student) for student in AWKWARD]
    assert len({name.casefold() for name in names}) == len(AWKWARD)
    for name in names:
        assert name.isprintable() and name[0] not in " .-" and name[-1] not in " ." and ".." not in name
        assert not set(name) & set('<>:"/\\|?*[]{}&%$;^`~=') and name.partition(".")[0].lower() not in ("con", "nul")
        assert len(name.encode()) <= LONGEST + 11
    for student in ("ann", "Élève Müller", "日本", "O'Brien, Pat", "a.b@c.example", "right two words", "हिन्दी"):
        assert file_name(student) == student


def test_names_equal_up_to_case_get_files_of_their_own_and_keep_them(tmp_path):
    course = Course(tmp_path / "course")
    assert file_names(course, ["ann"]) == {"ann": "ann"}
    names = file_names(course, ["ANN", "Ann", "bo"])
    assert names["ann"] == "ann" and names["bo"] == "bo"
    assert len({name.casefold() for name in names.values()}) == 4
    assert file_names(course, ["Ann"]) == names
    (course.results / "names.json").write_text("{")
    with pytest.raises(CourseError, match=r"names\.json is no JSON"):
        file_names(course, ["ann"])


def test_awkward_students_are_graded_like_others(marking):
    students = ["<img src=x onerror=alert(1)>", "Ann", "ann", "=HYPERLINK(1)", "x" * 200]
    marking.enter(*(marking.result(student) for student in students))
    rows = rows_of(marking.course)
    assert set(rows) == {"<img src=x onerror=alert(1)>", "Ann", "ann", "'=HYPERLINK(1)", "x" * 200}
    assert {row["score"] for row in rows.values()} == {"8"}
    assert len(list(marking.course.feedback.rglob("*.html"))) == 2 * len(students)
    with Gradebook(marking.course.database) as book:
        assert not any(set(student.id) & set("<>&\"[]*?{}") for student in book.students)
