"""Files as they come: whatever a notebook looks like, its answers are put back, and nobody's file disappears."""
import contextlib
import copy
import io
import json
import os
import random
import sqlite3
import textwrap
import time
import unicodedata
import zipfile

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from classroom.salvage import MAX_FILE, _stem, find_submissions, salvage
from posenc_lib.checking import Exercise, check
from tests.classroom.a_class import CASES, SMALL, WAYS, make_class

ENTRY = "def entry(position, dimension, d_model):\n    return position + dimension / d_model"
TURN = "def turn(offset, frequency):\n    return [[offset, frequency], [frequency, offset]]"
WORDS = "Because a sine alone cannot tell *rising* from falling."
PLACEHOLDER = "*Write your answer here.*"


def graded(grade_id, *, solution=False, grade=False, points=None):
    data = {"grade_id": grade_id, "solution": solution, "grade": grade, "locked": grade and not solution, "task": False,
            "schema_version": 3}
    return {"nbgrader": data | ({"points": points} if grade else {})}


def cell(kind, source, identity, metadata=None):
    return getattr(nbformat.v4, f"new_{kind}_cell")(source, id=identity, metadata=metadata or {})


def exercise(number, stub, function, points=1):
    rest = number.replace(".", "-")
    return [
        cell("code", stub, f"an{rest}", graded(f"answer-{rest}", solution=True)),
        cell("code", f'check("{number}", {function})', f"ch{rest}", graded(f"check-{rest}", grade=True, points=points)),
        cell("code", f"# Hidden tests of exercise {number} run here when the work is graded.", f"hi{rest}",
             graded(f"hidden-{rest}", grade=True, points=points)),
    ]


def small_release(chapter="02_waves", version="v2"):
    return nbformat.v4.new_notebook(
        metadata={"posenc_classroom": {"assignment": "ps1", "chapter": chapter, "version": version}},
        cells=[
            cell("markdown", "# 2 Waves\n\nA chapter about waves.", "title"),
            cell("code", "import math\nfrom posenc_lib import check", "setup"),
            cell("markdown", "### Exercise: one entry\n\nWrite `entry`.", "task1"),
            *exercise("2.1", "def entry(position, dimension, d_model):\n    ...  # your code here", "entry"),
            cell("code", "def helper(x):\n    return 2 * x\n\nprint(helper(3))\nprint(helper(4))", "helper"),
            cell("markdown", "### Exercise: one turn\n\nWrite `turn`.", "task2"),
            *exercise("2.2", "def turn(offset, frequency):\n    ...  # your code here", "turn"),
            cell("markdown", "**In your own words 2.a**\n\nWhy are there two waves for each frequency?", "question"),
            cell("markdown", PLACEHOLDER, "words", graded("essay-2-a", solution=True, grade=True, points=3)),
            cell("markdown", "## Summary\n\nWaves tell positions apart.", "summary"),
        ])


RELEASE = small_release()


def work(answers=("entry", "turn", "words")):
    """The release with answers in it, as plain JSON."""
    notebook = json.loads(json.dumps(RELEASE))
    for identity, source, name in (("an2-1", ENTRY, "entry"), ("an2-2", TURN, "turn"), ("words", WORDS, "words")):
        if name in answers:
            by_id(notebook, identity)["source"] = source
    return notebook


def by_id(notebook, identity):
    return next(each for each in notebook["cells"] if each["id"] == identity)


def place(notebook, identity):
    return notebook["cells"].index(by_id(notebook, identity))


def new(kind, source, **more):
    more = {"metadata": {}, "id": "new" + str(random.randrange(10**9)), **more}
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "source": source} | more | code


def put_back(notebook):
    """Salvaged from the JSON of a notebook; what comes back is a valid notebook that holds all of the release."""
    data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
    result = salvage(data, RELEASE)
    nbformat.validate(result.notebook)
    own = [each for each in result.notebook.cells if each.metadata.get("posenc_classroom", {}).get("added")]
    rest = [each for each in result.notebook.cells if each not in own]
    assert [each.metadata for each in rest] == [each.metadata for each in RELEASE.cells]
    for each, released in zip(rest, RELEASE.cells, strict=True):
        answer = result.answers.get(each.metadata.get("nbgrader", {}).get("grade_id"))
        expected = answer.source if answer and answer.state == "answered" else released.source
        assert (each.id, each.source) == (released.id, expected)
    return result


def sources(result):
    return {grade_id: answer.source for grade_id, answer in result.answers.items()}


ALL = {"answer-2-1": ENTRY, "answer-2-2": TURN, "essay-2-a": WORDS}


def said(result, *words):
    assert any(all(word in finding for word in words) for finding in result.findings), result.findings


def added(result):
    """The student's own cells, each with the id of the release's cell before it."""
    found, before = [], ""
    for each in result.notebook.cells:
        if each.metadata.get("posenc_classroom"):
            found.append((before, each.source))
        else:
            before = each.id
    return found


# One file

def test_work_as_it_was_handed_out_comes_back_without_a_finding():
    result = put_back(work())
    assert (sources(result), result.findings, added(result)) == (ALL, [], [])
    assert {answer.found for answer in result.answers.values()} == {"grade id"}


def test_a_release_as_it_stands_in_its_file_is_as_good():
    """There a source is a list of lines."""
    read = json.loads(nbformat.writes(RELEASE))
    assert isinstance(read["cells"][0]["source"], list)
    assert salvage(json.dumps(work()), read).notebook == put_back(work()).notebook
    assert salvage(b"", read).notebook == RELEASE


def test_untouched_work_is_not_answered_and_says_so():
    result = put_back(work(()))
    assert {answer.state for answer in result.answers.values()} == {"not answered"}
    for name in ("Exercise 2.1", "Exercise 2.2", "Question 2.a"):
        said(result, f"{name} is not answered")


@pytest.mark.parametrize("stub", [
    "def entry(position, dimension, d_model):\n    ...", "def entry(position, dimension, d_model):\n    pass",
    "# TODO\ndef entry(position, dimension, d_model):\n    ...  # your code here\n\ncheck('2.1', entry)",
    "", "# later"])
def test_a_stub_with_nothing_in_it_is_no_answer(stub):
    notebook = work()
    by_id(notebook, "an2-1")["source"] = stub
    assert put_back(notebook).answers["answer-2-1"].state == "not answered"


@pytest.mark.parametrize("source", [
    "def entry(position, dimension, d_model):\n    ...  # your code here\n    return 1", "entry = lambda p, j, d: 1",
    "def entry(position, dimension, d_model)\n    return 1"])
def test_what_stands_in_the_answers_cell_is_the_answer_even_when_it_is_no_python(source):
    notebook = work()
    by_id(notebook, "an2-1")["source"] = source
    assert put_back(notebook).answers["answer-2-1"].source == source


def test_lost_metadata_answers_are_found_by_their_functions():
    notebook = work()
    for each in notebook["cells"]:
        each["metadata"] = {}
        del each["id"]
    notebook["metadata"], notebook["nbformat_minor"] = {}, 4
    result = put_back(notebook)
    assert sources(result) == ALL
    said(result, "The cell of exercise 2.1 had lost its metadata; it was found by its function entry.")
    said(result, "The cell of question 2.a had lost its metadata")


def test_a_cell_without_grade_id_is_found_by_its_id():
    notebook = work()
    by_id(notebook, "an2-1")["metadata"] = {}
    result = put_back(notebook)
    assert sources(result) == ALL
    said(result, "exercise 2.1", "found by its cell id")


def test_saved_by_colab():
    notebook = work()
    for each in notebook["cells"]:
        each["metadata"] = {"id": each.pop("id"), "colab": {"base_uri": "x"}, "outputId": "y"}
        each["source"] = each["source"].splitlines(keepends=True)
    notebook["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook["nbformat_minor"] = 0
    result = put_back(notebook)
    assert sources(result) == ALL
    said(result, "saved by Colab")
    said(result, "exercise 2.2", "cell id")


def test_a_misspelt_function_without_metadata_is_found_by_its_likeness_to_the_stub():
    notebook = work()
    source = ENTRY.replace("entry", "entri")
    notebook["cells"][place(notebook, "an2-1")] = new("code", source)
    result = put_back(notebook)
    assert (result.answers["answer-2-1"].source, result.answers["answer-2-1"].found) == (source, "likeness")
    said(result, "defines no entry", "likeness")


def test_moved_cells_go_back_to_their_place():
    notebook = work()
    notebook["cells"].append(notebook["cells"].pop(place(notebook, "an2-1")))
    result = put_back(notebook)
    assert sources(result) == ALL
    said(result, "The cell of exercise 2.1 had been moved")
    assert not any("2.2" in finding for finding in result.findings)


@pytest.mark.parametrize("first, second, expected", [
    (ENTRY, ENTRY + " + 0", ENTRY + " + 0"), (ENTRY, "def entry(p:\n    return", ENTRY),
    (ENTRY, RELEASE.cells[3].source, ENTRY), (RELEASE.cells[3].source, ENTRY, ENTRY), (ENTRY, ENTRY, ENTRY)])
def test_of_copies_the_last_that_is_changed_and_python_is_taken(first, second, expected):
    notebook = work()
    by_id(notebook, "an2-1")["source"] = first
    double = copy.deepcopy(by_id(notebook, "an2-1")) | {"source": second, "id": "double"}
    notebook["cells"].insert(place(notebook, "an2-1") + 1, double)
    result = put_back(notebook)
    assert result.answers["answer-2-1"].source == expected
    said(result, "2.1", "taken")
    assert added(result) == []


def test_a_helper_in_an_attempt_that_was_not_taken_is_kept():
    notebook = work()
    by_id(notebook, "an2-1")["source"] = "def half(x):\n    return x / 2\n\n" + ENTRY
    last = "def entry(position, dimension, d_model):\n    return half(position)"
    notebook["cells"].insert(5, copy.deepcopy(by_id(notebook, "an2-1")) | {"source": last, "id": "double"})
    result = put_back(notebook)
    assert result.answers["answer-2-1"].source == last
    assert [source for _, source in added(result)] == ["def half(x):\n    return x / 2\n\n" + ENTRY]


def test_a_deleted_answer_is_not_answered_and_the_stub_stands_there():
    notebook = work()
    notebook["cells"].remove(by_id(notebook, "an2-1"))
    result = put_back(notebook)
    assert result.answers["answer-2-1"].state == "not answered"
    said(result, "Exercise 2.1 is not answered: its cell had been deleted.")


def test_an_answer_below_the_untouched_stub_is_taken():
    notebook = work(("turn", "words"))
    notebook["cells"].insert(place(notebook, "ch2-1"), new("code", ENTRY))
    result = put_back(notebook)
    assert (sources(result), added(result)) == (ALL, [])
    said(result, "exercise 2.1", "another cell below its untouched stub")
    assert not any("moved" in finding for finding in result.findings)


def test_an_answer_in_the_check_cell_is_taken_and_the_check_is_the_releases():
    notebook = work(("turn", "words"))
    by_id(notebook, "ch2-1")["source"] = ENTRY + '\n\ncheck("2.1", entry)'
    result = put_back(notebook)
    assert result.answers["answer-2-1"].source.startswith(ENTRY)
    said(result, "exercise 2.1", "edited cell of the release")


def test_two_answers_in_one_cell_serve_both_exercises():
    notebook = work()
    by_id(notebook, "an2-1")["source"] = ENTRY + "\n\n" + TURN
    notebook["cells"].remove(by_id(notebook, "an2-2"))
    result = put_back(notebook)
    assert TURN in result.answers["answer-2-2"].source and ENTRY in result.answers["answer-2-1"].source
    said(result, "exercise 2.2", "stands in the cell of exercise 2.1")


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_answer_whose_cell_became_text_is_taken_when_it_is_python(kind):
    notebook = work()
    by_id(notebook, "an2-1").update(cell_type=kind)
    by_id(notebook, "an2-2").update(cell_type=kind, source="I could not solve this one.")
    result = put_back(notebook)
    assert result.answers["answer-2-1"].source == ENTRY
    said(result, "exercise 2.1", f"turned into {kind}")
    assert result.answers["answer-2-2"].state == "not answered"
    assert ("an2-2", "I could not solve this one.") in added(result)


def test_edited_and_removed_tests_and_the_first_cell_are_the_releases():
    notebook = work()
    by_id(notebook, "ch2-1")["source"] = "pass"
    by_id(notebook, "setup")["source"] += "\n# edited"
    notebook["cells"].remove(by_id(notebook, "hi2-2"))
    notebook["cells"].remove(by_id(notebook, "summary"))
    result = put_back(notebook)
    said(result, "The check of exercise 2.1 had been edited; the release's was used.")
    said(result, "The hidden test of exercise 2.2 had been removed; the release's was put back.")
    said(result, "The first cell of code had been edited")
    said(result, "1 other cell of the release had been removed")


def test_names_bound_in_an_edited_cell_are_kept_below_it():
    notebook = work()
    edited = by_id(notebook, "setup")["source"] + "\nimport numpy as np"
    by_id(notebook, "setup")["source"] = edited
    by_id(notebook, "helper")["source"] = by_id(notebook, "helper")["source"].replace("helper(4)", "helper(5)")
    result = put_back(notebook)
    assert added(result) == [("setup", edited)]
    said(result, "also bound np")


def test_an_edited_cell_without_id_is_still_the_releases():
    notebook = work()
    edited = by_id(notebook, "helper")
    edited |= {"source": edited["source"].replace("helper(4)", "helper(5)"), "id": "another"}
    result = put_back(notebook)
    assert (added(result), len(result.findings)) == ([], 1)
    said(result, "1 other cell of the release had been edited")


def test_the_answer_to_another_exercise_is_no_answer_to_this_one():
    notebook = work(("turn", "words"))
    by_id(notebook, "an2-1")["source"] = TURN
    notebook["cells"].remove(by_id(notebook, "an2-2"))
    result = put_back(notebook)
    assert [result.answers[name].source for name in ("answer-2-1", "answer-2-2")] == ["", TURN]


def test_own_cells_stay_beside_their_neighbours_and_are_marked():
    notebook = work()
    notebook["cells"].insert(place(notebook, "an2-1"), new("code", "def own(x):\n    return x"))
    notebook["cells"].insert(place(notebook, "helper") + 1, new("code", "helper(5)"))
    notebook["cells"].insert(0, new("markdown", "My name"))
    notebook["cells"].append(new("code", "   \n"))
    result = put_back(notebook)
    assert added(result) == [("", "My name"), ("task1", "def own(x):\n    return x"), ("helper", "helper(5)")]
    assert result.findings == []


def test_outputs_attachments_and_metadata_of_a_student_are_not_carried_over():
    notebook = work()
    secret = "<script>alert(1)</script>"
    by_id(notebook, "an2-1")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": secret}]
    by_id(notebook, "words")["attachments"] = {"a.svg": {"image/svg+xml": secret}}
    by_id(notebook, "setup")["metadata"]["note"] = notebook["metadata"]["note"] = secret
    assert secret not in nbformat.writes(put_back(notebook).notebook)


def test_an_older_release_with_other_cells_ids_and_numbers():
    """There `turn` was exercise 2.1 and an exercise 2.9 existed; the text was another."""
    notebook = work()
    by_id(notebook, "an2-1")["metadata"]["nbgrader"]["grade_id"] = "answer-2-2"
    by_id(notebook, "an2-2")["metadata"]["nbgrader"]["grade_id"] = "answer-2-1"
    gone = new("code", "def gone():\n    return 1", metadata=graded("answer-2-9", solution=True))
    notebook["cells"].insert(4, gone)
    for number, each in enumerate(notebook["cells"]):
        each["id"] = f"old{number}"
    notebook["metadata"]["posenc_classroom"]["version"] = "v1"
    notebook["cells"].pop(0)
    result = put_back(notebook)
    assert sources(result) == ALL
    said(result, "another version of the release")
    said(result, "not in this release (2.9)")
    assert "def gone():\n    return 1" in [source for _, source in added(result)]


@pytest.mark.parametrize("change", ["below", "question", "heading"])
def test_essays_elsewhere_are_found(change):
    notebook, expected = work(("entry", "turn")), WORDS
    if change == "below":
        notebook["cells"].insert(place(notebook, "words") + 1, new("markdown", WORDS))
    elif change == "question":
        by_id(notebook, "question")["source"] += "\n\n" + WORDS
    else:
        expected = PLACEHOLDER + "\n\n" + WORDS
        notebook["cells"].remove(by_id(notebook, "words"))
        notebook["cells"].insert(0, new("markdown", expected))
    result = put_back(notebook)
    assert result.answers["essay-2-a"].source == expected
    said(result, "question 2.a", "found" if change != "question" else "cell of its question")


# Files in any state

def test_formats_3_and_4_and_sources_as_lists():
    notebook = work()
    sheet = []
    for each in notebook["cells"]:
        old = {"cell_type": each["cell_type"], "metadata": each["metadata"]}
        sheet.append(old | {"input" if each["cell_type"] == "code" else "source": each["source"].splitlines(True)})
    result = put_back({"worksheets": [{"cells": sheet}], "metadata": {}, "nbformat": 3, "nbformat_minor": 0})
    assert sources(result) == ALL
    said(result, "format 3")
    for each in notebook["cells"]:
        each["source"] = each["source"].split("\n")                     # without line ends
    assert sources(put_back(notebook)) == ALL


@pytest.mark.parametrize("encoding, words", [
    ("utf-8-sig", None), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16"),
    ("latin-1", "Latin-1")])
def test_other_encodings(encoding, words):
    notebook = work()
    by_id(notebook, "an2-1")["source"] = "# Größe\n" + ENTRY
    result = put_back(json.dumps(notebook, ensure_ascii=False).encode(encoding))
    assert result.answers["answer-2-1"].source == "# Größe\n" + ENTRY
    if words:
        said(result, words)
    else:
        assert result.findings == []


def test_a_file_cut_off_gives_the_cells_before_the_cut():
    text = json.dumps(work())
    result = put_back(text[: text.index('"an2-2"')].encode())
    assert result.answers["answer-2-1"].source == ENTRY and result.answers["answer-2-2"].state == "not answered"
    said(result, "cut off or damaged")


@pytest.mark.parametrize("data, words", [
    (b"", "empty"), (b" \n\0\0", "empty"), (b"\0" * 5000, "empty"), (b"PK\x03\x04docx", "Office"), (b"%PDF-1.7", "PDF"),
    (b"<!DOCTYPE html>", "web page"), (bytes(range(256)) * 4, "binary"), (b"print(1)", "not JSON"), (b"{}", "no cells"),
    (b"[1, 2]", "no cells"), (b'{"cells": 3}', "no cells"), (b'{"cells": [', "cut off"), (b'{"a": ', "cut off"),
    (b'{"a": ' * 100_000, "nested too deeply"), (b"[" * 1_000_000, "nested too deeply"),
    (b" " * (MAX_FILE + 1), "larger than"), (b"9" * 10_000, "not JSON"),
    ('"\ud800'.encode("utf-16", "surrogatepass"), "not JSON")])
def test_what_is_no_notebook_is_named(data, words):
    result = salvage(data, RELEASE)
    said(result, words)
    assert {answer.state for answer in result.answers.values()} == {"not answered"}
    assert result.notebook == RELEASE and result.notebook is not RELEASE


def test_fields_of_wrong_types_are_left_out_and_named():
    notebook = work()
    notebook["cells"] += [7, None, [], {"cell_type": "code", "source": {"a": 1}}, {"cell_type": 3, "source": "x = 1"},
                          {"cell_type": "code", "source": "y = '\ud800\0'", "metadata": [], "id": ["a"]},
                          {"cell_type": "code", "source": ["z", 5], "metadata": {"nbgrader": "no"}},
                          {"cell_type": "code", "source": "z" * 200_000}]
    notebook["metadata"] = ["?"]
    result = put_back(notebook)
    assert sources(result) == ALL
    for words in ("is no cell", "is no text", "no known type", "question mark", "longer than"):
        said(result, words)
    nbformat.writes(result.notebook).encode()


@pytest.mark.parametrize("source", ["(" * 5000, "-" * 90_000 + "1", "1+" * 40_000 + "1", "{" * 60 + "a" * 9,
                                    "f(" * 90,
                                    "x = " + "[" * 90 + "]" * 89, "a." * 40_000 + "b", "lambda: " * 5000,
                                    "\\\n" * 40_000,
                                    "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 90)), "f'" + "{" * 300])
def test_code_that_troubles_a_parser_is_only_an_answer(source):
    notebook, start = work(), time.monotonic()
    by_id(notebook, "an2-1")["source"] = source
    assert put_back(notebook).answers["answer-2-1"].source == source
    assert time.monotonic() - start < 5


def test_thousands_of_cells_take_seconds():
    notebook, start = work(), time.monotonic()
    notebook["cells"] += [new("code", f"value_{number} = helper({number})\nprint(helper(3))") for number in range(5000)]
    result = put_back(notebook)
    assert sources(result) == ALL and time.monotonic() - start < 20
    said(result, "only the first 3000")


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
                        st.sampled_from(["cells", "source", "cell_type", "metadata", "nbgrader", "grade_id", "id",
                                         "input", "worksheets", "posenc_classroom", "version", "colab"])
                        | st.text(max_size=3),
                        inner, max_size=5), max_leaves=25)
SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(st.binary(max_size=400) | st.text(max_size=400) | JSON.map(json.dumps)
       | st.dictionaries(st.just("cells"), st.lists(JSON, max_size=4), min_size=1).map(json.dumps))
def test_nothing_raises_on_any_input(data):
    result = salvage(data, RELEASE)
    nbformat.validate(result.notebook)
    assert set(result.answers) == set(ALL)
    assert result.findings


@SETTINGS
@given(st.data())
def test_nothing_raises_on_any_change_of_a_notebook(data):
    notebook = work()
    for _ in range(data.draw(st.integers(1, 5))):
        holder, key = notebook, "cells"
        while isinstance(holder[key], dict | list) and holder[key] and data.draw(st.integers(0, 4)):
            holder = holder[key]
            key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        holder[key] = data.draw(JSON)
        if not isinstance(notebook["cells"], list):
            break
    put_back(notebook)


@SETTINGS
@given(st.randoms(use_true_random=False), st.data())
def test_shuffling_doubling_and_dropping_metadata_loses_no_answer(luck, data):
    notebook = work()
    cells = notebook["cells"]
    for each in data.draw(st.lists(st.sampled_from(list(cells)), max_size=6)):
        cells.insert(luck.randrange(len(cells) + 1), copy.deepcopy(each))
    for each in data.draw(st.lists(st.sampled_from(list(cells)), max_size=len(cells))):
        for name in data.draw(st.sets(st.sampled_from(["metadata", "id"]))):
            each.pop(name, None)
    if data.draw(st.booleans()):
        luck.shuffle(cells)
    result = put_back(notebook)
    assert {name: sources(result)[name] for name in ("answer-2-1", "answer-2-2")} == {
        name: ALL[name] for name in ("answer-2-1", "answer-2-2")}
    everything = "\n".join(each.source for each in result.notebook.cells)
    assert WORDS in everything


# Who handed in what

def other_release():
    release = small_release("03_tables")
    for each in release.cells:
        each.source = each.source.replace("entry", "row").replace(" turn", " column").replace("aves", "ables")
        each.source = each.source.replace("helper", "doubled").replace("Write", "Make").replace("Why", "How")
        each.source = each.source.replace("2.", "3.").replace("import math", "import cmath")
        grader = each.metadata.get("nbgrader", {})
        if grader:
            grader["grade_id"] = grader["grade_id"].replace("-2-", "-3-")
    return release


RELEASES = {"02_waves": RELEASE, "03_tables": other_release()}
SECOND = json.dumps(work()).encode()
THIRD = nbformat.writes(RELEASES["03_tables"]).encode()


def write(path, data=SECOND):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def found(folder, releases=RELEASES):
    """By student: the files by chapter, by their names, and the findings as one text."""
    return {handed.student: ({chapter: file.name for chapter, file in handed.files.items()}, " ".join(handed.findings))
            for handed in find_submissions(folder, releases)}


def test_layouts(tmp_path):
    write(tmp_path / "ana" / "02_waves.ipynb")
    write(tmp_path / "ben" / "ps1" / "02_waves.ipynb")
    write(tmp_path / "ben" / "ps1" / "timestamp.txt", b"2026")
    write(tmp_path / "cleo_m_02_waves.ipynb")
    write(tmp_path / "cleo_m_03_tables.ipynb", THIRD)
    write(tmp_path / "Surname Name_12345_assignsubmission_file_02_waves.ipynb")
    write(tmp_path / "Other Name_777_assignsubmission_file_" / "03_tables.ipynb", THIRD)
    write(tmp_path / "canvasstudent_LATE_12345_678901_02_waves-1.ipynb")
    assert {name: (sorted(files), said) for name, (files, said) in found(tmp_path).items()} == {
        "ana": (["02_waves"], ""), "ben": (["02_waves"], ""), "cleo_m": (["02_waves", "03_tables"], ""),
        "Surname Name": (["02_waves"], ""), "Other Name": (["03_tables"], ""), "canvasstudent": (["02_waves"], "")}


def test_without_the_releases_the_name_says_the_chapter(tmp_path):
    write(tmp_path / "ana" / "02_waves (1).ipynb")
    assert set(found(tmp_path, None)["ana"][0]) == {"02_waves"}


def test_wrong_names_are_recognised_by_content(tmp_path):
    write(tmp_path / "ana" / "homework.ipynb")
    write(tmp_path / "ben" / "03_tables.ipynb")                             # two chapters swapped
    write(tmp_path / "ben" / "02_waves.ipynb", THIRD)
    write(tmp_path / "cleo" / "02_waves.ipynb.txt")
    bare = json.loads(SECOND)
    bare["metadata"] = {}
    for each in bare["cells"]:
        each["metadata"] = {}
        del each["id"]
    write(tmp_path / "dora" / "Untitled", json.dumps(bare).encode())
    rows = found(tmp_path)
    assert rows["ana"] == ({"02_waves": "homework.ipynb"}, "homework.ipynb was recognised as 02_waves by its content.")
    assert rows["ben"][0] == {"02_waves": "03_tables.ipynb", "03_tables": "02_waves.ipynb"}
    assert rows["cleo"][0] == {"02_waves": "02_waves.ipynb.txt"}
    assert rows["dora"][0] == {"02_waves": "Untitled"}


def test_of_several_attempts_the_newest_with_answers_is_taken(tmp_path):
    blank = nbformat.writes(RELEASE).encode()
    for number, (name, data) in enumerate([("02_waves.ipynb", SECOND), ("02_waves (1).ipynb", SECOND + b" "),
                                           ("02_waves-2.ipynb", blank)]):
        path = write(tmp_path / "ana" / name, data)
        os.utime(path, (10_000 * number, 10_000 * number))
    for name in ("02_waves-2.ipynb", "02_waves.ipynb", "02_waves-Copy10.ipynb"):    # downloaded together
        os.utime(write(tmp_path / "ben" / name), (5_000, 5_000))
    rows = found(tmp_path)
    assert rows["ana"][0] == {"02_waves": "02_waves (1).ipynb"}
    assert "3 files for 02_waves" in rows["ana"][1] and "the newest with answers, 02_waves (1).ipynb" in rows["ana"][1]
    assert rows["ben"][0] == {"02_waves": "02_waves-Copy10.ipynb"}


def test_nobody_disappears(tmp_path):
    write(tmp_path / "a" / "02_waves.ipynb", b"")
    write(tmp_path / "b" / "essay.docx", b"PK\x03\x04")
    write(tmp_path / "c" / "02_waves.ipynb", bytes(range(256)))
    (tmp_path / "d").mkdir()
    write(tmp_path / "e" / "solution.py", b"print(1)")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "02_waves.ipynb").symlink_to(tmp_path / "a" / "02_waves.ipynb")
    (tmp_path / "g").symlink_to(tmp_path / "a")
    write(tmp_path / "h" / ".ipynb_checkpoints" / "02_waves-checkpoint.ipynb")
    write(tmp_path / "i" / "other.ipynb", json.dumps({"cells": [], "metadata": {}}).encode())
    write(tmp_path / "j_02_waves.zip", b"PK\x03\x04 broken")
    write(tmp_path / ".k_02_waves.ipynb")
    write(tmp_path / ".DS_Store", b"x")
    write(tmp_path / "l.ipynb", b"{")
    os.mkfifo(tmp_path / "m")
    write(tmp_path / "n" / "posenc_lib" / "__init__.py", b"")
    write(tmp_path / "n" / "posenc_lib" / "rotary.py", b"")
    rows = found(tmp_path)
    words = {"a": "empty", "b": "Office", "c": "binary", "d": "The folder is empty", "e": "solution.py is no notebook",
             "f": "link", "g": "link", "h": ".ipynb_checkpoints is hidden", "i": "none of this assignment",
             "j": "damaged", ".k": "hidden", "l": "cut off", "m": "no plain file", "n": "rotary.py are no notebooks"}
    assert set(rows) == set(words)
    for student, word in words.items():
        assert rows[student][0] == {} and word in rows[student][1], (student, rows[student])


def test_names_in_other_alphabets_and_forms_are_one_student(tmp_path):
    name = "élève-日本"
    write(tmp_path / unicodedata.normalize("NFC", name) / "02_waves.ipynb")
    write(tmp_path / f"{unicodedata.normalize('NFD', name)}_03_tables.ipynb", THIRD)
    write(tmp_path / "two words" / "02_waves.ipynb")
    write(tmp_path / "line\nbreak" / "02_waves.ipynb")
    (tmp_path / os.fsdecode(b"latin\xe9")).mkdir()
    write(tmp_path / ".._02_waves.ipynb")
    rows = found(tmp_path)
    assert set(rows) == {unicodedata.normalize("NFC", name), "two words", "line%0Abreak", "latin%E9", ".."} - {".."} | {
        next(each for each in rows if each.startswith(("unnamed", ".")))}
    assert set(rows[unicodedata.normalize("NFC", name)][0]) == {"02_waves", "03_tables"}
    assert not any(each.strip(". ") == "" or "/" in each or not each.isprintable() for each in rows)


def test_two_people_of_one_name_and_names_too_long_for_a_file(tmp_path):
    write(tmp_path / "Same Name_1_assignsubmission_file_02_waves.ipynb")
    write(tmp_path / "Same Name_2_assignsubmission_file_02_waves.ipynb")
    write(tmp_path / "Same Name_2_assignsubmission_file_03_tables.ipynb", THIRD)
    for last in "ab":
        write(tmp_path / ("\u200b" * 84 + last) / "02_waves.ipynb")       # cannot be printed: each is written out
    rows = found(tmp_path)
    assert {name: set(files) for name, (files, _) in rows.items() if name.startswith("Same")} == {
        "Same Name 1": {"02_waves"}, "Same Name 2": {"02_waves", "03_tables"}}
    assert len(rows) == 4 and all(len(f"{name}.json".encode()) < 255 for name in rows)


def test_archives_are_read_safely(tmp_path):
    write(tmp_path / "ana" / "work.zip", packed({"work/02_waves": SECOND, "work/03_tables.ipynb": THIRD}))
    write(tmp_path / "ben_ps1.zip", packed({"../../evil.ipynb": SECOND, "/etc/evil.ipynb": SECOND}))
    link = zipfile.ZipInfo("02_waves.ipynb")
    link.external_attr = 0o120777 << 16
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(link, "/etc/hosts")
        archive.writestr("inner.zip", packed({"a": b""}))
        archive.writestr("__MACOSX/._02_waves.ipynb", b"x")
    write(tmp_path / "cleo" / "work.zip", file.getvalue())
    with zipfile.ZipFile(tmp_path / "dora_bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(12):
            archive.writestr(f"{number}.ipynb", b" " * 20_000_000)
    with zipfile.ZipFile(tmp_path / "emil_big.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("02_waves.ipynb", b" " * 30_000_000)
    rows = found(tmp_path)
    assert set(rows["ana"][0]) == {"02_waves", "03_tables"}
    assert rows["ben"][0] == {} and rows["ben"][1].count("outside of the archive") == 2
    for words in ("is a link", "archive in an archive", "1 hidden file"):
        assert words in rows["cleo"][1]
    assert "unpacks to more than 200 MB" in rows["dora"][1]
    assert "larger than 20 MB" in rows["emil"][1]
    assert {path.name for path in tmp_path.iterdir()} == {"ana", "ben_ps1.zip", "cleo", "dora_bomb.zip",
                                                          "emil_big.zip"}


def test_an_archive_with_a_huge_table_of_contents_is_not_opened(tmp_path):
    with zipfile.ZipFile(tmp_path / "ana_many.zip", "w") as archive:
        for number in range(25_000):
            archive.writestr(f"{number}", b"")
    assert "too many entries" in found(tmp_path)["ana"][1]


def test_an_archive_alone_is_the_whole_class(tmp_path):
    write(tmp_path / "submissions.zip", packed({
        "Surname Name_1_assignsubmission_file_/02_waves.ipynb": SECOND,
        "Other Name_2_assignsubmission_file_/x.ipynb": THIRD}))
    rows = found(tmp_path)
    assert {name: set(files) for name, (files, _) in rows.items()} == {
        "Surname Name": {"02_waves"}, "Other Name": {"03_tables"}}
    assert rows["Surname Name"][0]["02_waves"] == "02_waves.ipynb"
    handed = find_submissions(tmp_path, RELEASES)[1]
    assert handed.files["02_waves"].read() == SECOND


FORGED = packed({"Alice A_456_assignsubmission_file_/02_waves (9).ipynb": SECOND + b" "})


@pytest.mark.parametrize(("place", "owner"), [
    ("Eve E_123_assignsubmission_file_/work.zip", "Eve E"), ("Eve E_123_assignsubmission_file_work.zip", "Eve E"),
    ("eve/work.zip", "eve"), ("eve_work.zip", "eve"), ("eve_123_456_work.zip", "eve")])
def test_an_archive_of_one_student_names_nobody_else(tmp_path, place, owner):
    write(tmp_path / "Alice A_456_assignsubmission_file_" / "02_waves.ipynb")
    write(tmp_path / place, FORGED)
    rows = found(tmp_path)
    assert rows == {"Alice A": ({"02_waves": "02_waves.ipynb"}, ""), owner: ({"02_waves": "02_waves (9).ipynb"}, rows[
        owner][1])}
    assert "looks like an LMS's download of several people; all in it was taken as this student's" in rows[owner][1]


def test_an_archive_of_one_student_is_not_the_class_because_it_is_alone(tmp_path):
    write(tmp_path / "Eve E_123_assignsubmission_file_work.zip", FORGED)
    assert set(found(tmp_path)) == {"Eve E"}


def test_an_archive_of_the_class_may_lie_beside_others(tmp_path):
    write(tmp_path / "class.zip", FORGED)
    write(tmp_path / "ben" / "02_waves.ipynb")
    assert {name: set(files) for name, (files, _) in found(tmp_path).items()} == {
        "Alice A": {"02_waves"}, "ben": {"02_waves"}}


def test_names_too_long_for_a_file_cost_no_time(tmp_path):
    name = "x" + ".a" * 15_000 + "."
    write(tmp_path / "ana" / "work.zip", packed({name: SECOND, "02_waves.ipynb": SECOND}))
    write(tmp_path / "class.zip", packed({f"Ben B_1_assignsubmission_file_{'b' * 300}/02_waves.ipynb": SECOND}))
    rows = found(tmp_path)
    assert rows["ana"][0] == {"02_waves": "02_waves.ipynb"} and rows["class"][0] == {}
    for row in ("ana", "class"):
        assert "has a name of more than 255 characters and was left out" in rows[row][1] and len(rows[row][1]) < 250
    started = time.process_time()
    assert _stem(name) == (name, 0) and _stem("02_waves (3).ipynb.txt") == ("02_waves", 3)
    assert time.process_time() - started < 1


def test_one_entry_alone_is_read(tmp_path):
    for folder in ("week_1", "week_2"):
        write(tmp_path / folder / "02_waves.ipynb")
    (tmp_path / "week_3").mkdir()
    handed, = find_submissions(tmp_path, RELEASES, only="week_2")
    assert handed.files["02_waves"].path == tmp_path / "week_2" / "02_waves.ipynb" and handed.findings == []
    handed, = find_submissions(tmp_path, RELEASES, only="week_3")
    assert handed.findings == ["The folder is empty."]


# The generated class

SOLUTIONS = {
    "2.1": ENTRY, "2.2": TURN, "3.1": ENTRY.replace("entry", "row"), "3.2": TURN.replace(" turn", " column")}


def generated(tmp_path, size=None, releases=RELEASES):
    for name, release in releases.items():
        (tmp_path / "release").mkdir(exist_ok=True)
        nbformat.write(release, tmp_path / "release" / f"{name}.ipynb")
    solutions = {}
    for number, source in SOLUTIONS.items():
        header, body = source.split("\n", 1)
        marked = f"{header}\n    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION"
        solutions[number] = f'{marked}\n\ncheck("{number}", {header[4 : header.index("(")]})'
    return make_class(tmp_path / "release", solutions, tmp_path / "submitted", size)


def test_everyone_of_the_class_has_a_row_and_its_oddities_are_told(tmp_path):
    expected = generated(tmp_path)
    rows = {handed.student: handed for handed in find_submissions(tmp_path / "submitted", RELEASES)}
    assert set(rows) == set(expected) and len(rows) >= 40
    for student, due in expected.items():
        handed, findings, states = rows[student], list(rows[student].findings), []
        for chapter, file in handed.files.items():
            result = salvage(file.read(), RELEASES[chapter])
            nbformat.validate(result.notebook)
            findings += result.findings
            states += [answer.state for answer in result.answers.values() if answer.grade_id.startswith("answer")]
        for words in due.finding:
            assert any(words in finding for finding in findings), (student, words, findings)
        if due.full:
            assert states == ["answered"] * 4, (student, states, findings)
        if due.finding == () and due.full and student != "swapped-chapters":
            assert findings == [], (student, findings)


def test_right_submissions_of_the_class_keep_the_right_answers(tmp_path):
    """Run here, where they are known to be harmless."""
    expected = generated(tmp_path)
    for handed in find_submissions(tmp_path / "submitted", RELEASES):
        if not expected[handed.student].full or handed.student in ("right-numpy", "right-math", "right-torch",
                                                                   "right-one-liner"):
            continue
        space = {}
        for chapter, file in handed.files.items():
            cells = salvage(file.read(), RELEASES[chapter]).notebook.cells
            for each in cells:
                if each.cell_type == "code" and not each.source.startswith(("check(", "%%", "raise")):
                    lines = [line for line in each.source.split("\n") if not line.startswith(("%", "!"))]
                    exec("\n".join(line for line in lines if not line.startswith(("print", "check"))), space)
        assert space["entry"](1, 2, 4) == space["row"](1, 2, 4) == 1.5, handed.student
        assert space["turn"](1, 2) == space["column"](1, 2) == [[1, 2], [2, 1]], handed.student


def test_the_small_class_has_six_and_the_shares_follow_the_points(tmp_path):
    release = small_release()
    for each in release.cells:
        if each.metadata.get("nbgrader", {}).get("grade_id") in ("check-2-1", "hidden-2-1"):
            each.metadata.nbgrader.points = 3
    expected = generated(tmp_path, 6, {"02_waves": release})
    assert tuple(expected) == SMALL and set(SMALL) <= set(CASES)
    assert {path.name for path in (tmp_path / "submitted").iterdir()} == set(SMALL)
    assert (expected["partly-right"].at_most, expected["infinite-loop"].at_least) == (0.75, 0.25)


@pytest.mark.parametrize("number", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_being_right_is(way, number):
    space = {}
    exec(textwrap.dedent(WAYS[way][number]), space)
    assert check(number, next(space[name] for name in ("entry", "turn", "turned") if name in space)).passed


@pytest.mark.parametrize("student", ["reads-neighbour", "reads-truth", "reads-solution", "looks-into-the-caller",
                                     "writes-gradebook", "writes-results"])
def test_an_attack_pays_where_nothing_keeps_it_away(student, tmp_path):
    """Else the class would show nothing. These only read, or write below their own folder."""
    due = generated(tmp_path)[student]
    assert due.hostile and due.at_most == 0.0
    (tmp_path / "source" / "ps1").mkdir(parents=True)
    (tmp_path / "source" / "ps1" / "02_waves.ipynb").write_text("solved")
    with contextlib.closing(sqlite3.connect(tmp_path / "gradebook.db")) as book:
        book.execute("CREATE TABLE grade (auto_score, manual_score)")
    handed = next(handed for handed in find_submissions(tmp_path / "submitted", RELEASES) if handed.student == student)
    answers = salvage(handed.files["02_waves"].read(), RELEASE).answers
    assert [answer.state for answer in answers.values()] == ["answered", "not answered", "answered"]
    space = {}
    exercise = Exercise("", truth=lambda *case: 1.5)                # as it stands in a grader that calls the answer
    exec(answers["answer-2-1"].source, space)
    assert space["entry"](1, 2, 4) != 0.123 and exercise
