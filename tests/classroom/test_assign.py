"""Assignments: what a release holds and what it must not, what nbgrader knows of it, and what is refused."""
import argparse
import ast
import json
import re
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3

from builder import essay
from builder.chapter import ChapterError, chapter_paths, exercises, notebook_path, read_chapter, reader_notebook
from classroom import assign
from classroom.assign import WRITE_HERE, means
from classroom.course import Course, CourseError, Manifest, Task

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [path for path in chapter_paths(ROOT) if path.parent.name == "chapters"]
SOLVED = {each.id: each for path in CHAPTERS for each in exercises(path)}
ANSWERS = {
    cells[number].metadata["essay"]["id"]: essay.answer(cells[number + 1])
    for cells in (read_chapter(path)[1] for path in CHAPTERS)
    for number in range(len(cells))
    if "essay" in cells[number].metadata
}


def command(*words):
    parser = argparse.ArgumentParser()
    assign.add_parser(parser.add_subparsers())
    options = parser.parse_args(["assign", *map(str, words)])
    return options.command(options)


def notebooks(folder):
    return {path.stem: nbformat.read(path, as_version=4) for path in sorted(folder.glob("*.ipynb"))}


def grade_ids(notebook):
    return {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A course whose one assignment is the whole book; read only."""
    course = Course(tmp_path_factory.mktemp("course [1]") / "a class, é")
    assert command(course.folder, "all", *(path.stem for path in CHAPTERS)) == 0
    return course


# The release


def lines(text):
    return [line.strip() for line in text.split("\n") if line.strip()]


def solution_lines(each):
    """The lines between the marks."""
    parts = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", each.solved, re.DOTALL)
    return {line for part in parts for line in lines(part)}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_release_has_no_solution_and_the_source_has(whole, path):
    released, source = (
        [line for cell in notebook.cells for line in lines(cell.source)]
        for notebook in (notebooks(whole.release("all"))[path.stem], notebooks(whole.source("all"))[path.stem])
    )
    _, chapter = read_chapter(path)
    # A line such as `place = torch.arange(6)` may also stand in the chapter's own cells, and there it stays.
    elsewhere = [line for cell in chapter if "exercise" not in cell.metadata for line in lines(cell.source)]
    elsewhere += [line for each in exercises(path) for line in lines(each.stub)]
    found = exercises(path)
    assert found
    for line in {line for each in found for line in solution_lines(each)}:
        assert released.count(line) == elsewhere.count(line), line
        assert source.count(line) > elsewhere.count(line), line


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_raw_text_has_no_solution_answer_or_mark(whole, path):
    text = (whole.release("all") / f"{path.stem}.ipynb").read_text(encoding="utf-8")
    source = (whole.source("all") / f"{path.stem}.ipynb").read_text(encoding="utf-8")
    written = json.dumps(json.loads(text), ensure_ascii=False)      # one line, however it was indented
    for mark in ("HIDDEN TESTS", "BEGIN SOLUTION", "END SOLUTION", "A solution", "An answer", "classroom/hidden.py"):
        assert mark not in text
    assert source.count("### BEGIN HIDDEN TESTS") == source.count("classroom/hidden.py") == len(exercises(path))
    for each in exercises(path):
        solution = json.dumps(re.search(r"### BEGIN SOLUTION\n(.*?)### END", each.solved, re.DOTALL)[1].strip())[1:-1]
        # Chapter 0 gives its one solution away in the prose and in a hint.
        prose = [cell.source for cell in read_chapter(path)[1] if "exercise" not in cell.metadata]
        released = [cell.source for cell in nbformat.reads(text, 4).cells]
        assert json.dumps(released).count(solution) == json.dumps(prose).count(solution)
        assert path.stem[:2] == "00" or solution not in json.dumps(released)
    for id, answer in ANSWERS.items():
        sentences = [sentence for sentence in re.split(r"(?<=\.)\s", answer) if len(sentence) > 30]
        assert len(sentences) >= 2
        for sentence in sentences:
            inside = json.dumps(sentence, ensure_ascii=False)[1:-1]
            assert inside not in written
            assert (inside in json.dumps(json.loads(source), ensure_ascii=False)) == (id[0] == str(int(path.stem[:2])))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_everything_else_of_the_chapter_is_there(whole, path):
    release = notebooks(whole.release("all"))[path.stem]
    reader, stored = reader_notebook(path), nbformat.read(notebook_path(path), as_version=4)
    outputs = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    here = {cell.id: cell for cell in release.cells}
    gone = [cell.source for cell in reader.cells if cell.id not in here]
    assert all(re.match(r"<details><summary>A solution|\[!\[Open in Colab", source) for source in gone), gone
    pictures = 0
    for cell in reader.cells:
        is_answer = cell.source.startswith("<details><summary>An answer")
        if cell.id not in here or cell.metadata.get("exercise") or is_answer:
            continue
        assert here[cell.id].source == cell.source
        if cell.cell_type == "code" and cell.id in outputs:
            assert here[cell.id].outputs == outputs[cell.id].outputs
            pictures += sum("image/png" in output.get("data", {}) for output in here[cell.id].outputs)
    assert pictures > 0
    order = [cell.id for cell in release.cells if cell.id in {cell.id for cell in reader.cells}]
    assert order == [cell.id for cell in reader.cells if cell.id in here]
    sources = [cell.source for cell in release.cells]
    number = int(path.stem[:2])
    assert number == 0 or f"solved(chapter={number})" in sources
    for cell in release.cells:
        if "nbgrader" in cell.metadata and cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_cells_of_a_task(whole, path):
    release, source = (notebooks(folder("all"))[path.stem] for folder in (whole.release, whole.source))
    stubs = {each.id: each.stub for each in exercises(path)}
    for task in whole.manifest("all").of_chapter(path.stem):
        cells, solved = grade_ids(release), grade_ids(source)
        number = task.id.replace(".", "-")
        if task.kind == "essay":
            cell = cells[f"essay-{number}"]
            assert (cell.cell_type, cell.source, cell.metadata.nbgrader.points) == ("markdown", WRITE_HERE, task.points)
            assert solved[f"essay-{number}"].source == ANSWERS[task.id]
            continue
        answer, check, hidden = (cells[f"{part}-{number}"] for part in ("answer", "check", "hidden"))
        assert f"{answer.source}\n\n{check.source}" == stubs[task.id]
        assert check.source == f'check("{task.id}", {task.function})'
        assert hidden.source == f"# Hidden tests of exercise {task.id} run here when the work is graded."
        functions = [node.name for node in ast.parse(answer.source).body if isinstance(node, ast.FunctionDef)]
        assert task.function in functions
        flags = [(each.solution, each.grade, each.locked)
                 for each in (cell.metadata.nbgrader for cell in (answer, check, hidden))]
        assert flags == [(True, False, False), (False, True, True), (False, True, True)]
        assert check.metadata.nbgrader.points == task.points / 2
        assert check.metadata.nbgrader.points + hidden.metadata.nbgrader.points == task.points
        places = [release.cells.index(each) for each in (answer, check, hidden)]
        assert places == list(range(places[0], places[0] + 3))
        assert (check.metadata.editable, check.metadata.deletable) == (False, False)
        assert "raise RuntimeError" in solved[f"hidden-{number}"].source


def test_the_notebooks_are_valid_and_small(whole):
    for folder in (whole.release("all"), whole.source("all")):
        found = notebooks(folder)
        assert list(found) == [path.stem for path in CHAPTERS]
        for name, notebook in found.items():
            nbformat.validate(notebook)
            assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
            MetadataValidatorV3().validate_nb(notebook)
            assert (folder / f"{name}.ipynb").stat().st_size < 1_500_000
            assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
            about = notebook.metadata.posenc_classroom
            assert about == {"assignment": "all", "chapter": name, "version": whole.manifest("all").versions[name]}


def test_points_add_up_and_the_gradebook_has_the_cells(whole):
    manifest = whole.manifest("all")
    expected = {each.id: each.metadata["points"] for each in SOLVED.values()}
    for path in CHAPTERS:
        expected |= {cell.metadata["essay"]["id"]: cell.metadata["essay"]["points"]
                     for cell in read_chapter(path)[1] if "essay" in cell.metadata}
    assert {task.id: task.points for task in manifest.tasks} == expected
    with whole.open_gradebook() as gradebook:
        assignment = gradebook.find_assignment("all")
        assert assignment.max_score == sum(expected.values()) == manifest.points
        assert {notebook.name for notebook in assignment.notebooks} == set(manifest.versions)
        for notebook in assignment.notebooks:
            tasks = manifest.of_chapter(notebook.name)
            points = {cell.name: cell.max_score for cell in notebook.grade_cells}
            assert points == {name: value for task in tasks for name, value in task.cell_points.items()}
            assert {cell.name for cell in notebook.solution_cells} == {task.answer_cell for task in tasks}


def test_the_library_is_beside_the_notebooks_and_in_the_zip_file(whole):
    release = files(whole.release("all"))
    library = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in (ROOT / "posenc_lib").rglob("*.py")}
    assert {name: text for name, text in release.items() if name.startswith("posenc_lib")} == library
    assert set(release) == set(library) | {f"{path.stem}.ipynb" for path in CHAPTERS}
    with zipfile.ZipFile(whole.release_zip("all")) as archive:
        assert {name.removeprefix("all/"): archive.read(name) for name in archive.namelist()} == release


# In a kernel


def run_all(notebook, folder, kernel="python3"):
    client = NotebookClient(notebook, kernel_name=kernel, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return grade_ids(notebook)


def said(cell):
    return " ".join(output.get("data", {}).get("text/plain", "") + output.get("text", "") for output in cell.outputs)


@pytest.mark.parametrize("answered", [False, True])
def test_a_released_notebook_runs_and_its_checks_answer(tmp_path, monkeypatch, answered):
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    assert checks_that_answer(tmp_path, monkeypatch, ["00", "02"], answered) == 4


@pytest.mark.slow
def test_released_notebooks_run_with_colabs_versions(tmp_path, monkeypatch):
    kernels = ROOT / ".venv" / "share" / "jupyter"              # where the book's environment knows that kernel
    if not (kernels / "kernels" / "posenc-colab").is_dir():
        pytest.fail("There is no kernel with Colab's versions: run `make environments` first.")
    monkeypatch.setenv("JUPYTER_PATH", str(kernels))
    assert checks_that_answer(tmp_path, monkeypatch, ["00", "01", "02", "07"], True, "posenc-colab") == 9


def checks_that_answer(tmp_path, monkeypatch, chapters, answered, kernel="python3"):
    """How many checks of an unpacked release say "open", or once their exercises are answered "right"."""
    monkeypatch.delenv("PYTHONPATH", raising=False)             # only the copy beside the notebook is there
    course = Course(tmp_path / "course")
    assign.assign(course, "first", chapters)
    unpacked = tmp_path / "student"
    zipfile.ZipFile(course.release_zip("first")).extractall(unpacked)
    number = 0
    for name, notebook in notebooks(unpacked / "first").items():
        tasks = [task for task in course.manifest("first").of_chapter(name) if task.kind == "exercise"]
        for task in tasks:
            if answered:
                cell = grade_ids(notebook)[task.answer_cell]
                cell.source = SOLVED[task.id].solved.rpartition("check(")[0]
        told = "import ipywidgets, posenc_lib; print(posenc_lib.__file__, ipywidgets.__version__)"
        notebook.cells.append(nbformat.v4.new_code_cell(told))
        cells = run_all(notebook, unpacked / "first", kernel)
        place, version = said(notebook.cells[-1]).rsplit(maxsplit=1)
        assert str(unpacked) in place and (version == "7.7.1") == (kernel == "posenc-colab")
        for task in tasks:
            verdict = said(cells[f"check-{task.id.replace('.', '-')}"])
            assert f"Exercise {task.id}, {'right' if answered else 'open'}: " in verdict, verdict
            number += 1
    return number


# Choices


def test_points_and_leaving_out(tmp_path, capsys):
    course = Course(tmp_path / "course")
    assert command(course.folder, "week-1", "2", "--points", "2.1=5", "--points", "2.a=0", "--without", "2.3") == 0
    printed = capsys.readouterr().out
    for text in ("2.1 (5), 2.2 (2), 2.a (0)", "7 points", str(course.release_zip("week-1"))):
        assert text in printed
    manifest = course.manifest("week-1")
    assert manifest.tasks[0] == Task("2.1", "exercise", "02_sinusoidal_by_hand", "entry", 5)
    assert [task.id for task in manifest.tasks] == ["2.1", "2.2", "2.a"]
    (notebook,) = notebooks(course.release("week-1")).values()
    sources = [cell.source for cell in notebook.cells]
    assert "**Exercise 2.1** · about 6 minutes · difficulty ●○○ · 5 points" in sources
    assert "**Exercise 2.3** · about 9 minutes · difficulty ●●○" in sources          # still there, not graded
    assert SOLVED["2.3"].stub in sources
    assert not any("2-3" in id for id in grade_ids(notebook))
    assert "atan2(cross, dot)" not in "\n".join(sources)
    assert grade_ids(notebook)["check-2-1"].metadata.nbgrader.points == 2.5
    assert "](03_learned_embeddings.ipynb)" not in "\n".join(sources)


def test_a_question_that_is_not_graded_has_no_answer_and_no_cell_for_one(tmp_path):
    course = Course(tmp_path)
    assign.assign(course, "week-1", ["02"], without=["2.a"])
    for folder in (course.release("week-1"), course.source("week-1")):
        text = (folder / "02_sinusoidal_by_hand.ipynb").read_text(encoding="utf-8")
        assert "In your own words 2.a** · about 5 minutes\"" in text and "essay-2-a" not in text
        assert ANSWERS["2.a"][:40] not in text


def test_links_to_chapters_that_are_not_handed_out_become_text(tmp_path):
    course = Course(tmp_path)
    assign.assign(course, "one", ["01"])
    assign.assign(course, "two", ["01", "02"])
    one, two = (notebooks(course.release(name))["01_ordering_problem"] for name in ("one", "two"))
    assert any("[Chapter 2](02_sinusoidal_by_hand.ipynb)" in cell.source for cell in two.cells)
    assert not any("02_sinusoidal_by_hand.ipynb" in cell.source for cell in one.cells)
    assert any("Chapter 2 takes the one of the original" in cell.source for cell in one.cells)
    assert course.assignments() == ["one", "two"]


@pytest.mark.parametrize(
    ("word", "name", "expected"),
    [("02", "02_waves", True), ("2", "02_waves", True), ("02_waves", "02_waves", True), ("2", "ja/02_waves", False),
     ("ja/02", "ja/02_waves", True), ("ja/02", "02_waves", False), ("", "02_waves", False), ("0", "02_waves", False)],
)  # fmt: skip
def test_which_chapter_is_meant(word, name, expected):
    assert means(word, name) is expected


# Nothing is lost


def test_an_assignment_is_not_made_twice(tmp_path, capsys):
    course = Course(tmp_path / "course")
    assert command(course.folder, "week-1", "00") == 0
    course.settings.write_text("# mine\n", encoding="utf-8")
    note = course.source("week-1") / "note.txt"
    note.write_text("mine", encoding="utf-8")
    before = files(course.folder)
    capsys.readouterr()
    assert command(course.folder, "week-1", "02") == 1
    assert re.search(r"week-1 is there already: .*--force", capsys.readouterr().err)
    assert files(course.folder) == before
    assert command(course.folder, "week-1", "02", "--force") == 0
    assert list(course.manifest("week-1").versions) == ["02_sinusoidal_by_hand"]
    assert course.settings.read_text(encoding="utf-8") == "# mine\n" and not note.exists()
    with course.open_gradebook() as gradebook:
        assert [each.name for each in gradebook.find_assignment("week-1").notebooks] == ["02_sinusoidal_by_hand"]
    assert command(course.folder, "week-2", "00") == 0
    assert course.assignments() == ["week-1", "week-2"]


@pytest.mark.parametrize("missing", ["gradebook", "folders"])
def test_any_trace_of_the_assignment_counts(tmp_path, missing):
    course = Course(tmp_path)
    assign.assign(course, "week-1", ["00"])
    if missing == "gradebook":
        course.gradebook.unlink()
    else:
        for part in ("source", "release", "assignments"):
            shutil.rmtree(course.folder / part)
    with pytest.raises(CourseError, match="is there already"):
        assign.assign(course, "week-1", ["00"])


@pytest.mark.filterwarnings("ignore:Object of type <Submitted")      # nbgrader's own add_submission
@pytest.mark.parametrize("where", ["submitted/ada/week-1/00_start_here.ipynb", "results/week-1/ada.json", "gradebook"])
def test_what_was_handed_in_is_never_replaced(tmp_path, where):
    course = Course(tmp_path)
    assign.assign(course, "week-1", ["00"])
    if where == "gradebook":
        with course.open_gradebook() as gradebook:
            gradebook.add_student("ada")
            gradebook.add_submission("week-1", "ada")
    else:
        (tmp_path / where).parent.mkdir(parents=True)
        (tmp_path / where).write_text("{}", encoding="utf-8")
    before = files(tmp_path)
    with pytest.raises(CourseError, match=r"handed in already: .*nbgrader db assignment remove week-1 --force"):
        assign.assign(course, "week-1", ["00"], force=True)
    assert files(tmp_path) == before
    (tmp_path / "submitted" / "ada" / "week-2").mkdir(parents=True)         # empty, and another's
    assign.assign(course, "week-2", ["00"])


def test_a_failure_leaves_the_course_as_it_was(tmp_path, monkeypatch):
    course = Course(tmp_path)
    assign.assign(course, "week-1", ["00"])
    before = files(tmp_path)
    real = assign.released

    def fails_at_the_second(course, name, chapter, source):
        if chapter.startswith("02"):
            raise OSError("the disk is full")
        return real(course, name, chapter, source)

    monkeypatch.setattr(assign, "released", fails_at_the_second)
    for name, force in (("week-1", True), ("week-2", False)):
        with pytest.raises(OSError, match="full"):
            assign.assign(course, name, ["00", "02"], force=force)
        assert files(tmp_path) == before
    with course.open_gradebook() as gradebook:
        assert [assignment.name for assignment in gradebook.assignments] == ["week-1"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["week 1", "02"], "'week 1' cannot name an assignment"),
        (["../week", "02"], "'../week' cannot name an assignment"),
        (["week-1", "12"], "There is no chapter 12. There are: 00_start_here"),
        (["week-1", "02", "--points", "2.1"], "--points 2.1: expected such as 2.1=5"),
        (["week-1", "02", "--points", "2.1=-3"], "--points 2.1=-3: expected"),
        (["week-1", "02", "--points", "3.1=3"], "These chapters have no 3.1; they have 2.1, 2.2, 2.3, 2.a"),
        (["week-1", "02", "--without", "2.9"], "These chapters have no 2.9"),
        (["week-1", "00", "--without", "0.1"], "There is nothing to grade"),
    ],
)
def test_wrong_words_are_refused(tmp_path, capsys, words, complaint):
    assert command(tmp_path / "course", *words) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "course").exists()


def test_a_course_is_a_folder(tmp_path, capsys):
    (tmp_path / "course").write_text("", encoding="utf-8")
    assert command(tmp_path / "course", "week-1", "02") == 1
    assert "is a file: name a folder for the course" in capsys.readouterr().err


@pytest.fixture
def copy_of_the_book(tmp_path):
    """Chapter 0 of the book, to be spoiled."""
    book = tmp_path / "book"
    for name in ("chapters/00_start_here.md", "notebooks/00_start_here.ipynb", "book.toml"):
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, book / name)
    shutil.copytree(ROOT / "posenc_lib", book / "posenc_lib")
    return book


def test_a_notebook_that_is_older_than_its_chapter_is_refused(tmp_path, copy_of_the_book):
    course, chapter = Course(tmp_path / "course"), copy_of_the_book / "chapters" / "00_start_here.md"
    text = chapter.read_text(encoding="utf-8")
    assert text.count("return figure\n") == 1
    chapter.write_text(text.replace("return figure\n", "return figure  # new\n"), encoding="utf-8")
    with pytest.raises(CourseError, match="run `make notebooks CHAPTER=00`"):
        assign.assign(course, "week-1", ["00"], book=copy_of_the_book)
    chapter.write_text(text, encoding="utf-8")
    (copy_of_the_book / "notebooks" / "00_start_here.ipynb").unlink()
    with pytest.raises(CourseError, match="run `make notebooks CHAPTER=00`"):
        assign.assign(course, "week-1", ["00"], book=copy_of_the_book)
    assert not course.folder.exists()


def test_an_exercise_without_its_check_is_refused_with_its_place(tmp_path, copy_of_the_book):
    chapter = copy_of_the_book / "chapters" / "00_start_here.md"
    text = chapter.read_text(encoding="utf-8")
    (line,) = [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith('check("0.1"')]
    chapter.write_text(text.replace('check("0.1"', 'check("0.2"'), encoding="utf-8")
    with pytest.raises(ChapterError, match=rf"00_start_here\.md:{line}: the last line of the exercise must be check"):
        assign.assign(Course(tmp_path / "course"), "week-1", ["00"], book=copy_of_the_book)


def test_the_badge_to_the_books_own_copy_is_not_handed_out(tmp_path, copy_of_the_book):
    (copy_of_the_book / "book.toml").write_text(
        'repository = "https://github.com/owner/name"\ntag = "v1"\n', encoding="utf-8"
    )
    course = Course(tmp_path / "course")
    assert "colab.research" in reader_notebook(copy_of_the_book / "chapters" / "00_start_here.md").cells[0].source
    assign.assign(course, "week-1", ["00"], book=copy_of_the_book)
    (notebook,) = notebooks(course.release("week-1")).values()
    assert not any("colab.research" in cell.source for cell in notebook.cells)
    assert any('REPOSITORY = "https://github.com/owner/name"' in cell.source for cell in notebook.cells)


# The manifest


def test_a_manifest_is_what_was_written():
    tasks = (Task("2.1", "exercise", "02_waves", "entry", 5), Task("2.a", "essay", "02_waves", None, 3))
    manifest = Manifest("week-1", {"02_waves": "abc"}, tasks)
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert manifest.points == 8
    assert tasks[0].cell_points == {"check-2-1": 2.5, "hidden-2-1": 2.5} and tasks[1].cell_points == {"essay-2-a": 3}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data.pop("tasks"), "expected the keys assignment, versions, tasks"),
        (lambda data: data.update(assignment="../x"), "`assignment` is '../x'"),
        (lambda data: data.update(versions=["02_waves"]), "`versions` must hold a text"),
        (lambda data: data.update(tasks={}), "`tasks` must be a list"),
        (lambda data: data["tasks"].append(data["tasks"][0]), "task 2.1 stands in it twice"),
        (lambda data: data["tasks"][0].pop("points"), "expected the keys id, kind, chapter, function, points"),
        (lambda data: data["tasks"][0].update(id=[2]), "must be texts"),
        (lambda data: data["tasks"][0].update(kind="essay"), "task '2.1' is of kind 'essay'"),
        (lambda data: data["tasks"][0].update(chapter="03"), "of chapter '03', which `versions` does not name"),
        (lambda data: data["tasks"][0].update(function="a b"), "`function` of task 2.1 is 'a b'"),
        (lambda data: data["tasks"][0].update(function=None), "`function` of task 2.1 is None"),
        (lambda data: data["tasks"][1].update(function="f"), "`function` of task 2.a is 'f'"),
        (lambda data: data["tasks"][0].update(points=True), "`points` of task 2.1 is True"),
        (lambda data: data["tasks"][0].update(points=-1), "`points` of task 2.1 is -1"),
    ],
)
def test_a_broken_manifest_says_what_is_wrong_and_what_to_do(tmp_path, change, complaint):
    data = {"assignment": "week-1", "versions": {"02_waves": "abc"}, "tasks": [
        {"id": "2.1", "kind": "exercise", "chapter": "02_waves", "function": "entry", "points": 5},
        {"id": "2.a", "kind": "essay", "chapter": "02_waves", "function": None, "points": 3}]}
    course = Course(tmp_path)
    course.manifest_path("week-1").parent.mkdir()
    course.manifest_path("week-1").write_text(json.dumps(data), encoding="utf-8")
    assert course.manifest("week-1").points == 8
    change(data)
    course.manifest_path("week-1").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(CourseError, match=re.escape(complaint)) as refused:
        course.manifest("week-1")
    assert str(course.manifest_path("week-1")) in str(refused.value) and "--force" in str(refused.value)


def test_other_manifests_that_cannot_be_read(tmp_path):
    course = Course(tmp_path)
    with pytest.raises(CourseError, match=r"There is no assignment week-1 .* there are: none yet"):
        course.manifest("week-1")
    course.manifest_path("week-1").parent.mkdir()
    for content, complaint in ((b"{", "it is no JSON"), (b"\xff", "it is no UTF-8"), (b"[]", "expected the keys")):
        course.manifest_path("week-1").write_bytes(content)
        with pytest.raises(CourseError, match=complaint):
            course.manifest("week-1")
    good = Manifest("week-2", {}, ()).to_json()
    course.manifest_path("week-1").write_text(good, encoding="utf-8")
    with pytest.raises(CourseError, match="`assignment` is week-2, not the file's name"):
        course.manifest("week-1")
