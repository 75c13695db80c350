"""Results in nbgrader: its gradebook, the notebooks its formgrader shows, and feedback pages for students.

Scores of exercises are written as nbgrader's automatic scores; what an instructor enters by hand, scores of essays and
comments, is never touched. It is to be looked at again if the answer has changed.
"""
from __future__ import annotations

import functools
import hashlib
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import joblib
import nbformat
import nbgrader
from nbconvert.exporters import HTMLExporter
from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy.exc import SAWarning
from tqdm import tqdm
from traitlets.config import Config

from builder.files import write_if_changed
from classroom import summary
from classroom.course import Course, CourseError, Manifest, grade_id
from classroom.grade import all_results, code_version
from classroom.names import file_names

TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
NOT_READ = "This has not been read yet: its points are still to come."


@contextmanager
def opened(course: Course) -> Iterator[Gradebook]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)              # nbgrader's own way of making entries
        with course.open_gradebook() as gradebook:
            yield gradebook


def record(course: Course, manifest: Manifest, results: Sequence[dict], files: Mapping[str, str],
           handed: Mapping[str, Mapping[str, tuple[str, bytes]]]) -> list[str]:
    """Writes what has changed into gradebook, autograded/ and submitted/, and returns whose work that was.

    `files` are the names of the students' files, `handed` what they handed in elsewhere than in submitted/.
    """
    changed = []
    with opened(course) as gradebook:
        for result in tqdm(results, desc="gradebook", unit="student", delay=2, leave=False, disable=None):
            name = files[result["student"]]
            essays = changed_essays(course, manifest, result, name)
            new = [enter(gradebook, manifest, result, essays, name)]        # first: until then the old text stands
            new += write_notebooks(course, manifest, result, name)
            new += [write_if_changed(course.submitted / name / manifest.assignment / f"{chapter}.ipynb", data)
                    for chapter, (_, data) in handed.get(result["student"], {}).items()]
            if any(new):
                changed.append(result["student"])
    return changed


def autograded(course: Course, manifest: Manifest, name: str, chapter: str) -> Path:
    return course.folder / "autograded" / name / manifest.assignment / f"{chapter}.ipynb"


def write_notebooks(course: Course, manifest: Manifest, result: dict, name: str) -> list[bool]:
    """What formgrader shows. Of a chapter that is handed in no longer, neither notebook nor page stay."""
    changed = []
    for chapter in manifest.versions:
        path = autograded(course, manifest, name, chapter)
        if chapter in result["notebooks"]:
            notebook = json.loads(result["notebooks"][chapter])
            notebook["metadata"]["posenc_classroom"]["essays"] = {
                cell: result["essays"][cell] for cell in essays_of(notebook)}
            changed.append(write_if_changed(path, json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"))
        elif path.is_file():
            path.unlink()
            page_path(course, manifest, name, chapter).unlink(missing_ok=True)
            changed.append(True)
    return changed


def essays_of(notebook: Mapping) -> list[str]:
    names = [cell["metadata"].get("nbgrader", {}).get("grade_id", "") for cell in notebook["cells"]]
    return [name for name in names if name.startswith("essay-")]


def changed_essays(course: Course, manifest: Manifest, result: dict, name: str) -> set[str]:
    """The essays whose text is another than the one that has been entered: they are to be read again."""
    before = {}
    for chapter in manifest.versions:
        path = autograded(course, manifest, name, chapter)
        if path.is_file():
            notebook = json.loads(path.read_text(encoding="utf-8"))
            before |= notebook["metadata"].get("posenc_classroom", {}).get("essays", {})
    essays = {task.answer_cell for task in manifest.tasks if task.kind == "essay"}
    return {essay for essay in essays if before.get(essay) != result["essays"].get(essay)}


def enter(gradebook: Gradebook, manifest: Manifest, result: dict, changed_essays: set[str], name: str) -> bool:
    """A student's scores in the gradebook; says whether any is new."""
    gradebook.update_or_create_student(name)
    submission = gradebook.update_or_create_submission(manifest.assignment, name)
    scores = {}
    for score in result["scores"]:
        scores[grade_id("check", score["task"])] = score["shown"]
        scores[grade_id("hidden", score["task"])] = score["hidden"]
        scores[grade_id("essay", score["task"])] = None if score["state"] == "by hand" else 0.0
    changed = False
    for notebook in submission.notebooks:
        grades = [grade for grade in notebook.grades if grade.name in scores]    # else of a cell graded no longer
        for grade in grades:
            score, new_text = scores[grade.name], grade.name in changed_essays
            if grade.auto_score != score or new_text:
                waits = score is None or grade.manual_score is not None
                changed |= (grade.auto_score, bool(grade.needs_manual_grade)) != (score, waits)
                grade.auto_score, grade.needs_manual_grade = score, waits
        failed = any(grade.auto_score is not None and grade.auto_score < grade.max_score for grade in grades)
        if notebook.failed_tests != failed:
            notebook.failed_tests, changed = failed, True
    if changed:
        gradebook.db.commit()
    return changed


def standings(course: Course, manifest: Manifest) -> dict[str, dict[str, dict]]:
    """By student's name and chapter, all that the gradebook knows: `grades`, `comments`, `penalty`."""
    def of(entry, cell, *more):
        return (gradebook.db.query(SubmittedAssignment.student_id, Notebook.name, *more).select_from(entry)
                .join(SubmittedNotebook, entry.notebook_id == SubmittedNotebook.id)
                .join(Notebook, SubmittedNotebook.notebook_id == Notebook.id)
                .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
                .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
                .join(cell, entry.cell_id == cell.id).where(Assignment.name == manifest.assignment))

    found = defaultdict(lambda: defaultdict(lambda: {"grades": {}, "comments": {}, "penalty": 0.0}))
    with opened(course) as gradebook:
        grades = of(Grade, GradeCell, SubmittedNotebook.late_submission_penalty, GradeCell.name, Grade.score,
                    GradeCell.max_score, Grade.needs_manual_grade)
        for student, chapter, penalty, cell, score, most, waits in grades:
            found[student][chapter]["grades"][cell] = {"score": score, "of": most, "waits": bool(waits)}
            found[student][chapter]["penalty"] = penalty or 0.0
        for student, chapter, cell, comment in of(Comment, BaseCell, BaseCell.name, Comment.comment):
            found[student][chapter]["comments"][cell] = comment
    return found


# Feedback

def publish(course: Course, assignment: str, jobs: int, shown: Sequence[str] = ()) -> list[Path]:
    """Feedback pages and table of everyone who was ever graded; the lines of `shown`, or of all, are printed.

    Returns the files that are new or have changed.
    """
    manifest = course.manifest(assignment)
    results, known, rows = all_results(course, manifest), standings(course, manifest), []
    files = file_names(course, [result["student"] for result in results])
    for result in results:
        grades = {}
        for chapter in known[files[result["student"]]].values():
            grades |= chapter["grades"]
        rows.append(summary.row(result, manifest, grades))
    table = course.results / f"{assignment}.csv"
    changed = [table] if write_if_changed(table, summary.table(rows, manifest)) else []
    pages = feedback(course, manifest, results, known, files, jobs)
    chosen = [row for row in rows if not shown or row.student in shown]
    print(summary.summary(chosen, manifest))
    others = f" and {len(rows) - len(chosen)} graded earlier" if len(chosen) < len(rows) else ""
    print(f"\n{len(chosen)} submissions{others}. Scores and all that was odd: {table}")
    without = sum(not result["notebooks"] for result in results)
    print(f"Feedback: {len(pages)} new pages in {course.feedback}/STUDENT/{assignment}/"
          f"{f'; {without} without a notebook have none' if without else ''}")
    waiting = sum(row.to_read > 0 for row in rows)
    if waiting:
        print(f"Answers of {waiting} are to be read by a person: python -m classroom formgrader {course.folder}\n"
              f"and after that: python -m classroom feedback {course.folder} {assignment}")
    return changed + pages


def page_path(course: Course, manifest: Manifest, name: str, chapter: str) -> Path:
    return course.feedback / name / manifest.assignment / f"{chapter}.html"


def feedback(course: Course, manifest: Manifest, results: Sequence[dict], known: Mapping, files: Mapping[str, str],
             jobs: int) -> list[Path]:
    """A page for each notebook of each student, with scores and comments; returns those that are new."""
    due = []
    for result in results:
        name = files[result["student"]]
        for chapter in result["notebooks"]:
            notebook = autograded(course, manifest, name, chapter)
            path = page_path(course, manifest, name, chapter)
            if notebook.is_file():
                text, facts = notebook.read_text(encoding="utf-8"), known[name][chapter]
                content = json.dumps([text, facts, code_version(), nbgrader.__version__], sort_keys=True)
                end = f"<!-- {hashlib.sha256(content.encode()).hexdigest()} -->\n"
                if ending(path, len(end)) != end.encode():
                    due.append((path, text, chapter, facts, end))
    progress = tqdm(total=len(due), desc="feedback", unit="page", delay=2, leave=False, disable=None)
    pool = joblib.Parallel(n_jobs=min(jobs, len(due)) or 1, backend="loky", return_as="generator")
    with progress:
        pages = pool(joblib.delayed(page)(text, chapter, facts) for _, text, chapter, facts, _ in due)
        for (path, *_, end), content in zip(due, pages, strict=True):
            write_if_changed(path, content + end)
            progress.update()
    return [path for path, *_ in due]


def ending(path: Path, length: int) -> bytes:
    return path.read_bytes()[-length:] if path.is_file() else b""


def page(text: str, chapter: str, facts: Mapping) -> str:
    """nbgrader's feedback page of an autograded notebook, as its GenerateFeedback makes it."""
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        grade = facts["grades"].get(about.get("grade_id"))
        if about.get("grade") and grade:
            about["score"], about["points"] = grade["score"], grade["of"]
        if about.get("solution"):
            waits = NOT_READ if grade and grade["waits"] else None
            about["comment"] = facts["comments"].get(about.get("grade_id")) or waits
    grades = facts["grades"].values()
    about = {"notebook": chapter, "score": sum(grade["score"] for grade in grades) - facts["penalty"],
             "max_score": sum(grade["of"] for grade in grades), "late_penalty": facts["penalty"]}
    return exporter("feedback").from_notebook_node(notebook, resources={"nbgrader": about})[0]


@functools.cache
def exporter(template: str) -> HTMLExporter:
    settings = Config()
    settings.HTMLExporter.template_name = template
    settings.HTMLExporter.extra_template_basedirs = [str(TEMPLATES / "templates")]
    settings.HTMLExporter.extra_template_paths = [str(TEMPLATES / "static/node_modules/bootstrap/dist/css")]
    return HTMLExporter(config=settings)


def add_parser(commands) -> None:
    pages = commands.add_parser("feedback", help="write table and feedback anew, after essays have been read by hand")
    pages.add_argument("course", type=Path, metavar="COURSE")
    pages.add_argument("assignment", metavar="NAME")
    pages.set_defaults(command=run)


def run(options) -> int:
    course = Course(options.course)
    if not all_results(course, course.manifest(options.assignment)):
        raise CourseError(f"Nothing has been graded for {options.assignment}: first python -m classroom grade.")
    publish(course, options.assignment, joblib.cpu_count())
    return 0
