"""Chapters as an assignment: nbgrader's source and release, its gradebook, and a zip file to hand out.

    python -m classroom assign COURSE NAME 02 04 [--points 2.1=5] [--without 2.3] [--force]

The source has the solutions and the model answers; nbgrader's own steps make the release from it, so that its
formgrader and gradebook know every cell. An exercise becomes three cells: the answer, its check (half of the points)
and a place for the hidden tests (the other half). Their cases are not in the notebook: classroom/hidden.py has them,
and they run where no student's code does. A question becomes the question and a cell to answer it in.

The release has no solution. But the library handed out with it has the values that the self-checks compare with, as
every reader's copy has; whoever reads them there has still to hand in a function.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
from tqdm import tqdm

from builder import essay, exercise
from builder.chapter import (
    METADATA,
    ChapterError,
    address,
    as_node,
    cell_ids,
    chapter_name,
    chapter_paths,
    files_below,
    notebook_path,
    read_chapter,
    reader_cells,
    text_of,
)
from builder.files import write_if_changed
from classroom.course import Course, CourseError, Manifest, Task

BOOK = Path(__file__).parent.parent
WRITE_HERE = "*Write your answer here.*"
SETTINGS = '''\
"""nbgrader's settings for this course, made by `python -m classroom assign`; nbgrader's commands run in this folder.

Grade with `python -m classroom grade`: `nbgrader autograde` would run what students wrote without isolation, and
without the hidden cases.
"""
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = {course_id}
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
c.ClearSolutions.code_stub = {{"python": {code_stub}}}
c.ClearSolutions.text_stub = {text_stub}
'''
CHECK = re.compile(r'check\("(?P<id>[^"]+)", (?P<function>\w+)\)')
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<chapter>\d\d_\w+)\.ipynb(?:#[^)]*)?\)")


def add_parser(commands):
    parser = commands.add_parser("assign", help="make an assignment of chapters, to be handed out")
    parser.add_argument("course", type=Path, metavar="COURSE", help="the folder of the course; it is made if need be")
    parser.add_argument("name", metavar="NAME", help="the assignment's name, such as week-1")
    parser.add_argument("chapters", nargs="+", metavar="CHAPTER", help="such as 02; ja/02 is a translation")
    parser.add_argument("--points", action="append", default=[], metavar="ID=POINTS", help="such as 2.1=5")
    parser.add_argument("--without", action="append", default=[], metavar="ID", help="not graded, such as 2.3 or 2.a")
    parser.add_argument("--force", action="store_true", help="make an assignment anew that nobody has handed in yet")
    parser.set_defaults(command=run)


def run(options):
    """The command; returns its exit status."""
    try:
        points = dict(points_of(word) for word in options.points)
        course = Course(options.course)
        manifest = assign(course, options.name, options.chapters, points, options.without, options.force)
    except (CourseError, ChapterError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(report(course, manifest)))
    return 0


def points_of(word):
    id, _, number = word.partition("=")
    if not re.fullmatch(r"\d+\.\w+", id) or not re.fullmatch(r"\d{1,4}", number):
        raise CourseError(f"--points {word}: expected such as 2.1=5, an exercise or question and a whole number.")
    return id, int(number)


def assign(course, name, chapters, points=(), without=(), force=False, book=BOOK):
    """Makes the assignment and returns its manifest.

    Raises: `CourseError` or `ChapterError`, which say what to do. Then the course is as it was before.
    """
    require_nbgrader()
    points, without = dict(points), set(without)
    paths = chosen(book, chapters)
    refuse_what_is_there(course, name, force)
    made = {path.stem: source_notebook(path, points, without) for path in paths}
    tasks = tuple(task for _, found, _ in made.values() for task in found)
    refuse_unknown({*points, *without}, [id for _, _, ids in made.values() for id in ids])
    if not tasks:
        raise CourseError("There is nothing to grade in these chapters: choose others, or fewer --without.")
    sources = {chapter: notebook for chapter, (notebook, _, _) in made.items()}
    for notebook in sources.values():
        without_dead_links(notebook, sources)

    course.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=course.folder) as folder, kept(course, Path(folder)):
        staged = Path(folder)
        forget(course, name)
        versions = {}
        for chapter in tqdm(sources, desc=name, unit="chapter", delay=2, leave=False, disable=None):
            release = released(course, name, chapter, sources[chapter])
            versions[chapter] = version(release)
            for part, notebook in (("source", sources[chapter]), ("release", release)):
                notebook.metadata["posenc_classroom"] = {
                    "assignment": name, "chapter": chapter, "version": versions[chapter]
                }  # fmt: skip
                nbformat.validate(notebook)
                write_if_changed(staged / part / name / f"{chapter}.ipynb", nbformat.writes(notebook) + "\n")
        for part in ("source", "release"):
            copy_library(book, staged / part / name)
        zip_folder(staged / "release" / name, staged / "release.zip")
        manifest = Manifest(name, versions, tasks)
        write_if_changed(staged / "manifest.json", manifest.to_json())
        # From here on files only change their places.
        for old, new in (
            (staged / "source" / name, course.source(name)),
            (staged / "release" / name, course.release(name)),
            (staged / "release.zip", course.release_zip(name)),
            (staged / "manifest.json", course.manifest_path(name)),
        ):
            new.parent.mkdir(parents=True, exist_ok=True)
            if new.is_dir():
                shutil.rmtree(new)
            os.replace(old, new)
        if not course.settings.exists():
            stub = {"code_stub": repr(exercise.PLACEHOLDER), "text_stub": repr(WRITE_HERE)}
            write_if_changed(course.settings, SETTINGS.format(course_id=repr(course.folder.name), **stub))
        course.submitted.mkdir(exist_ok=True)
    return manifest


def require_nbgrader():
    try:
        import nbgrader  # noqa: F401
    except ImportError:
        raise CourseError(
            "nbgrader is not installed in this Python: run `make classroom` in the book's folder, and then its Python."
        ) from None


def chosen(book, words):
    """The chapters' paths, in the book's order."""
    names = {chapter_name(path): path for path in chapter_paths(book)}
    found = {}
    for word in words:
        meant = [name for name in names if means(word, name)]
        if not meant:
            raise CourseError(f"There is no chapter {word}. There are: {', '.join(names)}")
        for name in meant:
            if found.setdefault(names[name].stem, name) != name:
                raise CourseError(
                    f"{found[names[name].stem]} and {name} have the same file name: make an assignment of each."
                )
    return [path for name, path in names.items() if name in found.values()]


def means(word, name):
    """Whether 02 or 02_name means this chapter; ja/02 means the translation, and only that."""
    (folder, _, file), (there, _, stem) = word.rpartition("/"), name.rpartition("/")
    return folder == there and file != "" and (file == stem or stem.startswith(f"{file.zfill(2)}_"))


def refuse_what_is_there(course, name, force):
    from nbgrader.api import MissingEntry

    handed_in = [str(place) for place in course.submissions(name)]
    in_gradebook = False
    if course.gradebook.is_file():
        with course.open_gradebook() as gradebook, contextlib.suppress(MissingEntry):
            number = len(gradebook.find_assignment(name).submissions)
            in_gradebook = True
            handed_in += [f"{number} in the gradebook"] if number else []
    if handed_in:
        raise CourseError(
            f"{name} has been handed in already: {', '.join(handed_in[:3])}{', …' * (len(handed_in) > 3)}. These "
            "answers belong to the assignment as it is, so it is not made anew, not even with --force. Give the new "
            f"one another name. Or, if they do not count: in {course.folder} move away submitted/*/{name}, "
            f"results/{name}, autograded/*/{name} and feedback/*/{name}, say `nbgrader db assignment remove {name} "
            "--force`, and then assign with --force."
        )
    there = [course.source(name), course.release(name), course.release_zip(name), course.manifest_path(name)]
    there = [str(path) for path in there if path.exists()] + [f"{name} in {course.gradebook}"] * in_gradebook
    if there and not force:
        raise CourseError(
            f"{name} is there already: {', '.join(there)}. Nothing was changed. Give the new one another name, or say "
            "--force to make it anew: what was edited there by hand is lost then."
        )


def refuse_unknown(wanted, ids):
    if unknown := sorted(wanted - set(ids)):
        raise CourseError(f"These chapters have no {unknown[0]}; they have {', '.join(ids) or 'nothing to grade'}.")
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise CourseError(f"{twice[0]} is in two of these chapters: make an assignment of each.")


# The source


def source_notebook(path, points, without):
    """One chapter with nbgrader's cells, its tasks, and the ids of all its exercises and questions."""
    front_matter, chapter = read_chapter(path)
    for cell in chapter:
        for kind in ("exercise", "essay"):
            data = cell.metadata.get(kind)
            if isinstance(data, dict) and data.get("id") in points:
                cell.metadata[kind] = {**data, "points": points[data["id"]]}
    cells = reader_cells(path, text_of(front_matter, chapter))
    nodes, tasks, ids, started, before = [], [], [], set(), None
    for cell, id in zip(cells, cell_ids(chapter_name(path), cells), strict=True):
        data = of_task(chapter[cell.origin]) if cell.origin is not None else None
        graded = data and data["id"] not in without
        if cell.generated and cell.type == "markdown":
            if data and cell.origin not in started:  # its heading; what comes later is the folded solution
                title = cell.source if graded else cell.source.rpartition(" · ")[0]
                nodes.append(nbformat.v4.new_markdown_cell(title, id=id))
            started.add(cell.origin)
        elif "exercise" in cell.metadata and not graded:
            ids.append(data["id"])
            nodes.append(as_node(cell, id=id))
        elif "exercise" in cell.metadata:
            ids.append(data["id"])
            task, answer = exercise_task(path.stem, chapter[cell.origin])
            tasks.append(task)
            nodes += exercise_cells(task, answer, id)
        elif "essay" in cell.metadata:
            ids.append(data["id"])
            nodes.append(as_node(cell, id=id))
            tasks += [Task(data["id"], "essay", path.stem, None, data["points"])] if graded else []
        elif before is not None and "essay" in before.metadata:
            question = before.metadata["essay"]["id"]
            if question not in without:
                about = grader(tasks[-1].answer_cell, solution=True, points=tasks[-1].points)
                nodes.append(nbformat.v4.new_markdown_cell(essay.answer(cell), id=id, metadata=about))
        else:
            nodes.append(as_node(cell, id=id))
        before = cell
    take_outputs(path, nodes)
    notebook = nbformat.v4.new_notebook(cells=nodes, metadata=nbformat.from_dict(METADATA))
    notebook.nbformat_minor = 5
    return notebook, tasks, ids


def of_task(cell):
    return cell.metadata.get("exercise") or cell.metadata.get("essay")


def exercise_task(chapter, cell):
    """The task of an exercise's solved cell, and the cell's source without its last line, the check."""
    *lines, last = cell.source.rstrip().split("\n")
    found, data = CHECK.fullmatch(last), cell.metadata["exercise"]
    if not found or found["id"] != data["id"]:
        line = f'check("{data["id"]}", function)'
        raise cell.error(f"the last line of the exercise must be {line}, or it cannot be graded.", len(lines))
    return Task(data["id"], "exercise", chapter, found["function"], data["points"]), "\n".join(lines).rstrip()


def exercise_cells(task, answer, id):
    check, hidden = task.cell_points
    refusal = (
        f"The cases of exercise {task.id} stand in classroom/hidden.py and run in the grader's own process; nothing "
        "that runs here gives marks. Grade with `python -m classroom grade`."
    )
    hidden_source = (
        f"# Hidden tests of exercise {task.id} run here when the work is graded.\n"
        f"### BEGIN HIDDEN TESTS\nraise RuntimeError({json.dumps(refusal)})\n### END HIDDEN TESTS"
    )
    new = nbformat.v4.new_code_cell
    return [
        new(answer, id=id, metadata=grader(task.answer_cell, solution=True)),
        new(f'check("{task.id}", {task.function})', id=another(id, "check"),
            metadata=grader(check, points=task.cell_points[check])),
        new(hidden_source, id=another(id, "hidden"), metadata=grader(hidden, points=task.cell_points[hidden])),
    ]  # fmt: skip


def grader(id, solution=False, points=None):
    """nbgrader's metadata of a cell, as its schema 3 has it."""
    data = {"schema_version": 3, "grade_id": id, "grade": points is not None, "solution": solution,
            "locked": not solution, "task": False}  # fmt: skip
    return nbformat.from_dict({"nbgrader": data if points is None else data | {"points": points}})


def another(id, part):
    return hashlib.sha256(f"{id} {part}".encode()).hexdigest()[:12]


def take_outputs(path, nodes):
    """Gives each cell that is not answered or graded the outputs that the book's notebook has of it."""
    stale = CourseError(
        f"{notebook_path(path)} is not of the same age as its chapter: run `make notebooks CHAPTER={path.stem[:2]}` "
        "first, so that students get the chapter's pictures."
    )
    try:
        stored = nbformat.reads(notebook_path(path).read_text(encoding="utf-8"), as_version=4)
    except (OSError, ValueError):
        raise stale from None
    outputs = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    for node in nodes:
        if node.cell_type != "code" or "nbgrader" in node.metadata or "exercise" in node.metadata:
            continue
        if node.id in outputs:
            node.outputs, node.execution_count = outputs[node.id].outputs, outputs[node.id].execution_count
        elif node.metadata.get("book") != exercise.GENERATED["book"]:  # the first cell shows nothing
            raise stale


def without_dead_links(notebook, chapters):
    """Links to chapters that are not handed out become their text."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(lambda found: found[0 if found["chapter"] in chapters else "text"], cell.source)


# The release


def released(course, name, chapter, source):
    """The source without solutions, by nbgrader's own steps, which also enter its cells into the gradebook."""
    from nbconvert.exporters import NotebookExporter
    from nbgrader import preprocessors as steps
    from traitlets.config import Config

    settings = Config()
    settings.Exporter.default_preprocessors = []
    settings.ClearSolutions.code_stub = {"python": exercise.PLACEHOLDER}
    settings.ClearSolutions.text_stub = WRITE_HERE
    exporter = NotebookExporter(config=settings)
    # As in nbgrader's GenerateAssignment, but for ClearOutput: the other cells keep their pictures.
    for step in (
        steps.LockCells, steps.ClearSolutions, steps.CheckCellMetadata, steps.ComputeChecksums, steps.SaveCells,
        steps.ClearHiddenTests, steps.ClearMarkScheme, steps.ComputeChecksums, steps.CheckCellMetadata,
    ):  # fmt: skip
        exporter.register_preprocessor(step)
    about = {"student": ".", "assignment": name, "notebook": chapter, "db_url": course.database}
    text, _ = exporter.from_notebook_node(source, resources={"nbgrader": about, "unique_key": chapter})
    return nbformat.reads(text, as_version=4)


def version(release):
    """A hash of the released cells, without their outputs."""
    cells = [(cell.id, cell.cell_type, cell.source, cell.metadata.get("nbgrader")) for cell in release.cells]
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:16]


def forget(course, name):
    """A fresh entry in the gradebook; nobody has handed the assignment in, or we were refused before."""
    from nbgrader.api import MissingEntry

    with course.open_gradebook() as gradebook:
        with contextlib.suppress(MissingEntry):
            gradebook.remove_assignment(name)
        gradebook.add_assignment(name)


@contextlib.contextmanager
def kept(course, staged):
    """Puts the gradebook back as it was if something goes wrong."""
    before = staged / "gradebook.db"
    if course.gradebook.is_file():
        shutil.copy2(course.gradebook, before)
    try:
        yield
    except BaseException:
        if before.is_file():
            shutil.copy2(before, course.gradebook)
        else:
            course.gradebook.unlink(missing_ok=True)
        raise


def copy_library(book, folder):
    for file in files_below(book / "posenc_lib", "*.py"):
        target = folder / file.relative_to(book)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def zip_folder(folder, target):
    """All files of the folder below its name, in one order and without dates, so that the same release is the same."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            inside = zipfile.ZipInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            inside.external_attr, inside.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(inside, file.read_bytes())


def report(course, manifest, book=BOOK):
    """What was made and what comes next, line by line."""
    name = manifest.assignment
    yield f"{name}: {len(manifest.versions)} notebooks, {len(manifest.tasks)} tasks, {manifest.points} points"
    for chapter in manifest.versions:
        tasks = ", ".join(f"{task.id} ({task.points})" for task in manifest.of_chapter(chapter))
        yield f"  {chapter}: {tasks or 'nothing graded'}"
    yield "made:"
    yield f"  {course.release_zip(name)}: for students, the notebooks and the library in one file"
    yield f"  {course.release(name)}: the same as a folder"
    yield f"  {course.source(name)}: with solutions and model answers, for you alone"
    yield f"  {course.manifest_path(name)} and {course.gradebook}: what is graded"
    yield "next:"
    yield f"  Hand out {course.release_zip(name).name}: students unpack it and open a notebook in JupyterLab."
    if not address(book).repository:
        yield "  Not in Colab yet: there the first cell needs `repository` in book.toml, the book's published address."
    yield f"  Put the notebooks that come back into {course.submitted}/STUDENT/{name}/, then see"
    yield "  `python -m classroom grade --help`."
