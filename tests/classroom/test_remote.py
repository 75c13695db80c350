"""The grader's side: the verdicts of a reader's notebook, and nothing gained by what a student's process sends."""
import functools
import io
import itertools
import json
import linecache
import textwrap
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from builder.chapter import read_chapter
from classroom import wire
from classroom.isolation import Limits
from classroom.remote import NoAnswer, Session, SessionEnded
from posenc_lib import check, checking
from posenc_lib.checking import EXERCISES
from tests import mutants

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))
COUNTER = itertools.count()
QUICK = Limits(seconds=30, cell_seconds=3)
check("0.1", lambda number: number)                     # fills EXERCISES


def one(source, exercise="2.1", name="entry", before=(), limits=QUICK):
    """A session with one answer, after other cells."""
    cells = [(number, "", textwrap.dedent(cell)) for number, cell in enumerate(before)]
    return Session([*cells, (len(cells), f"answer-{exercise.replace('.', '-')}", textwrap.dedent(source))],
                   {exercise: name}, limits)


def in_a_notebook(sources, name):
    """The function as it is in a reader's notebook after these cells, each in a file of its own."""
    space = {"__name__": "__main__"}
    for source in sources:
        file = f"<cell {next(COUNTER)} of a reader>"
        source = textwrap.dedent(source).lstrip("\n")
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), space)
    return space[name]


# The same verdict as in a notebook

def chapter_cells(path):
    """Numbers, grade ids and sources of a chapter's code cells, with the names that its checks hand over."""
    cells, wanted = [], {}
    for number, cell in enumerate(read_chapter(path)[1]):
        if cell.type == "code":
            exercise = cell.metadata.get("exercise", {}).get("id", "")
            cells.append((number, f"answer-{exercise.replace('.', '-')}" if exercise else "", cell.source))
            if exercise:
                wanted[exercise] = cell.source.rpartition(", ")[2].rstrip(")\n")
    return cells, wanted


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_solution_of_the_book_is_right_with_its_message(path):
    cells, wanted = chapter_cells(path)
    with Session(cells, wanted) as session:
        for exercise, name in wanted.items():
            verdict = check(exercise, session.answer(exercise))
            assert verdict.passed is True, (exercise, verdict, session.cells)
            assert verdict.message == EXERCISES[exercise].shows
            assert session.answer(exercise).__name__ == name
        assert session.ended is None
        assert not [ran for rans in session.cells.values() for ran in rans if ran.error]


@pytest.mark.slow
def test_all_known_answers_right_and_wrong_get_the_same_verdict_as_here(monkeypatch):
    """The answers that the self-checks are tried on, defined there by the same file."""
    monkeypatch.setattr(checking, "SECONDS", 60.0)      # a busy machine is no wrong answer
    text = Path(mutants.__file__).read_text(encoding="utf-8").partition("\ndef texts(")[0]
    cells, wanted, here = [(0, "", text)], {}, {}
    for kind in ("RIGHT", "KNOWN", "OUTSIDE"):
        for exercise in EXERCISES:
            for number, answer in enumerate(getattr(mutants, kind)[exercise]):
                place = f"{kind}[{exercise!r}][{number}]" + ("" if kind == "RIGHT" else "[0]")
                label = f"{exercise}-{kind}-{number}"
                cells.append((len(cells), f"answer-{label.replace('.', '-')}", f"answer = {place}"))
                wanted[label], here[label] = "answer", answer if kind == "RIGHT" else answer[0]
    assert len(wanted) > 300
    differing = {}
    with Session(cells, wanted, Limits(seconds=600, cpu_seconds=600, call_seconds=60)) as session:
        for label, answer in here.items():
            exercise = label.partition("-")[0]
            there, expected = check(exercise, session.answer(label)), check(exercise, answer)
            if (there.passed, there.message) != (expected.passed, expected.message):
                differing[label] = (there, expected)
        assert session.ended is None
    assert differing == {}


ANSWERS = {
    "a name that is not there": "def entry(position, dimension, d_model):\n    a = position * omega\n    return a",
    "a wrong type": "def entry(position, dimension, d_model):\n    x = 'a'\n\n    return x + position",
    "a key": "def entry(position, dimension, d_model):\n    return {}['no']",
    "an error in a helper": """
        def helper(x):
            return x / 0

        def entry(p, k, d):
            # what follows fails
            return helper(p)""",
    "no return": "def entry(position, dimension, d_model):\n    angle = position",
    "the stub": "def entry(position, dimension, d_model):\n    ...  # your code here",
    "the stub with more": "# a remark\ndef entry(position, dimension, d_model):\n    '''text'''\n    ...",
    "ellipsis": "def entry(position, dimension, d_model):\n    return ...",
    "two parameters": "def entry(position, dimension):\n    return 1.0",
    "other names": "def entry(p, k, d):\n    return 'text'",
    "any arguments": "def entry(*everything, **more):\n    return [1.0, 2.0]",
    "a lambda": "entry = lambda position, dimension, d_model: 1.5",
    "a class": "class entry:\n    def __init__(self, p, k, d): pass\n    def __repr__(self): return 'an entry'",
    "no function": "entry = 3",
    "a text": "entry = 'text'",
    "leaving": "def entry(position, dimension, d_model):\n    exit(3)",
    "an own error": "class Mine(Exception): pass\ndef entry(a, b, c):\n    raise Mine('with <b>words</b>')",
    "a deep recursion": "def entry(a, b, c):\n    return entry(a, b, c)",
    "not finite": "def entry(a, b, c):\n    return float('nan')",
    "half precision": "import torch\ndef entry(a, b, c):\n    return torch.tensor(0.5, dtype=torch.bfloat16)",
    "complex": "def entry(a, b, c):\n    return 1j",
    "text in an array": "import numpy as np\ndef entry(a, b, c):\n    return np.array('a')",
    "a function": "def entry(a, b, c):\n    return len",
    "a large integer": "def entry(a, b, c):\n    return 10 ** 30",
    "an endless loop": "def entry(a, b, c):\n    while True:\n        a = a + 1",
    "an endless loop that catches errors": """
        def entry(a, b, c):
            while True:
                try:
                    c += 1
                except Exception:
                    pass""",
}


@pytest.fixture(scope="module")
def of_many_answers():
    cells = [(number, f"answer-{number}", textwrap.dedent(source)) for number, source in enumerate(ANSWERS.values())]
    with Session(cells, {str(number): "entry" for number in range(len(cells))}, Limits(seconds=120)) as session:
        yield session


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_is_told_what_a_notebook_tells(kind, of_many_answers, monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 2.0)
    there = check("2.1", of_many_answers.answer(str(list(ANSWERS).index(kind))))
    here = check("2.1", in_a_notebook([ANSWERS[kind]], "entry"))
    if "endless" in kind:                                   # in which of its lines it is stopped is chance
        assert there.message.split("\n")[::2] == here.message.split("\n")[::2]
        assert "\nin line " in there.message
        assert there.message.split("\n")[1].partition(": ")[2] in ANSWERS[kind]
    else:
        assert (there.passed, there.message) == (here.passed, here.message)
    assert of_many_answers.ended is None


CHANGING = {
    "in place": "def stretched(table, length):\n    table += 1\n    return table",
    "one row": "def stretched(table, length):\n    table[0] = 0\n    return table",
    "its shape": "def stretched(table, length):\n    table.resize_(1)\n    return table",
    "not at all": "def stretched(table, length):\n    table = table + 1\n    return table",
}


@pytest.mark.parametrize("kind", CHANGING)
def test_what_is_handed_in_and_changed_is_told(kind):
    with one(CHANGING[kind], "3.3", "stretched") as session:
        there, here = check("3.3", session.answer("3.3")), check("3.3", in_a_notebook([CHANGING[kind]], "stretched"))
    assert (there.passed, there.message) == (here.passed, here.message)
    assert ("has changed table itself" in there.message) == (kind != "not at all")


FUNCTIONS = {
    "its error": "def layout_of(rotate, d):\n    return rotate([[1.0]], 1)",
    "too many arguments": "def layout_of(rotate, d):\n    return rotate(1, 2, 3)",
    "caught": """
        import torch
        def layout_of(rotate, d):
            try:
                rotate(torch.ones(3), 1)
            except ValueError as error:
                return str(error)""",
    "never called": "def layout_of(rotate, d):\n    return 'half'",
    "position 0": "import torch\ndef layout_of(rotate, d):\n    rotate(torch.ones(d), position=0)\n    return 'half'",
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_that_are_handed_over_are_called_here(kind):
    with one(FUNCTIONS[kind], "7.1", "layout_of") as session:
        there, here = check("7.1", session.answer("7.1")), check("7.1", in_a_notebook([FUNCTIONS[kind]], "layout_of"))
        assert session.ended is None
    assert (there.passed, there.message) == (here.passed, here.message)


def test_a_function_that_was_handed_over_takes_little():
    """Or two long vectors would make a matrix that fills the grader's memory."""
    asked = []

    def product(x, y):
        asked.append(x.shape)
        return x[:, None] * y

    with one("import torch\ndef entry(f, n):\n    return f(torch.ones(n), torch.ones(n))") as session:
        assert session.answer("2.1")(product, 100).shape == (100, 100)
        with pytest.raises(Exception, match="at most 10,000 numbers"):
            session.answer("2.1")(product, 100_000)
    assert asked == [(100,)]


def test_in_another_thread_an_endless_loop_is_told_just_so():
    told = []
    with one("def entry(a, b, c):\n    while True:\n        pass", limits=Limits(call_seconds=1.5)) as session:
        thread = threading.Thread(target=lambda: told.append(check("2.1", session.answer("2.1"))))
        thread.start()
        thread.join(20)
        assert session.ended is None
    assert "still running after" in told[0].message and "Is there a loop" in told[0].message
    assert "in line" in told[0].message


# Cells

def test_only_the_cells_that_are_needed_run_in_the_notebooks_order():
    before = ["import math\nimport nothing_like_it", "raise RuntimeError('not needed')", "SCALE = 2", "SCALE = 3",
              "print('unneeded')", "def helper(x):\n    return math.floor(x) * SCALE", "def broken(:\n    pass"]
    cells = [*((number, "", cell) for number, cell in enumerate(before)),
             (7, "answer-2-1", "%matplotlib inline\ndef entry(x):\n    return helper(x) + LATER\ncheck('2.1', entry)"),
             (8, "", "LATER = 100\nfrom posenc_lib import check"), (9, "", "SCALE = 5\ndef helper(x): return 0")]
    with Session(cells, {"2.1": "entry"}) as session:
        assert session.answer("2.1")(2.5) == 2 * 3 + 100
        assert {ran.number for ran in session.cells["2.1"]} == {0, 3, 5, 7, 8}
        assert not any(ran.error for ran in session.cells["2.1"]) and session.printed == ""


def test_a_cell_that_changes_what_another_made_is_needed_too():
    with one("def entry():\n    return TABLE['b'] + COUNT", before=[
            "TABLE = {'a': 1}\nCOUNT = 1", "TABLE['b'] = 10", "COUNT += 5"]) as session:
        assert session.answer("2.1")() == 16


def test_two_answers_with_functions_of_one_name_do_not_disturb_each_other():
    cells = [(0, "", "def helper(): return 'first'"), (1, "answer-2-1", "def rows(): return helper()"),
             (2, "", "def helper(): return 'second'"), (3, "answer-2-2", "def rows(): return helper()")]
    with Session(cells, {"2.1": "rows", "2.2": "rows"}) as session:
        assert (session.answer("2.1")(), session.answer("2.2")()) == ("first", "second")


def test_errors_of_cells_are_told_and_stop_no_other():
    cells = [(0, "", "import math\n\nHELP = 1 / 0"), (1, "answer-2-1", "def entry(:\n    return 1"),
             (2, "answer-2-2", "\n\ndef turn():\n    return HELP\n"),
             (3, "answer-2-3", "x = [\n 1 + 'a']\ndef turned(): pass"),
             (4, "answer-3-1", "def other(): return 1"), (5, "answer-3-2", "while True:\n    pass\ndef late(): pass"),
             (6, "answer-3-3", "def kept(): return 5\n\nkept(1)")]
    wanted = {"2.1": "entry", "2.2": "turn", "2.3": "turned", "3.1": "gradient", "3.2": "late", "3.3": "kept"}
    with Session(cells, {**wanted, "4.1": "rows"}, QUICK) as session:
        assert session.cells["2.2"][0].error == "ZeroDivisionError: division by zero\nin line 3: HELP = 1 / 0"
        for exercise, why in {"2.1": "SyntaxError.*\nin line 1: def entry", "3.1": "the cell defines no gradient",
                              "2.3": r"TypeError: .*\nin line 2: 1 \+ 'a'", "4.1": "no cell answers exercise 4.1",
                              "3.2": "still running after 3 seconds\nin line [12]"}.items():
            with pytest.raises(NoAnswer, match=why):
                session.answer(exercise)
        with pytest.raises(Exception, match="name 'HELP' is not defined"):
            session.answer("2.2")()
        assert session.answer("3.3")() == 5             # defined before the line that failed
        assert session.ended is None


def test_what_is_ipythons_is_left_out_and_told():
    with one("""
        %%time
        !pip install something
        %load_ext autoreload
        display(1); get_ipython().run_line_magic("a", "b")
        files = !ls
        def entry():
            import inspect
            return inspect.getsource(entry), __name__
        """) as session:
        source, name = session.answer("2.1")()
        assert source.startswith("def entry():") and name == "__main__"
        assert session.cells["2.1"][0].notes == ("%%time was left out",)


def test_matplotlib_draws_without_a_screen():
    with one("def entry():\n    plt.plot([1, 2])\n    return plt.get_backend()",
             before=["import matplotlib.pyplot as plt"]) as session:
        assert session.answer("2.1")().lower() == "agg"


# When a process ends

def test_one_answer_that_ends_the_process_spoils_no_other():
    cells = [(0, "answer-2-1", "def entry(a, b, c):\n    import os\n    os._exit(3)"),
             (1, "answer-2-2", "import os\nos._exit(4)\ndef turn(): pass"), (2, "answer-2-3", "def turned(): return 1")]
    with Session(cells, {"2.1": "entry", "2.2": "turn", "2.3": "turned"}) as session:
        assert session.spoiled == {"2.2": "ended by itself (exit status 4)"}
        session.restart()
        with pytest.raises(SessionEnded, match="exit status 4"):
            session.answer("2.2")
        with pytest.raises(SessionEnded, match="exit status 3"):
            session.answer("2.1")(1, 2, 3)
        with pytest.raises(SessionEnded, match="exit status 3"):
            session.answer("2.3")()
        session.restart()
        assert session.answer("2.3")() == 1


def test_a_checks_own_alarm_ends_a_session_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 1.0)
    with one("""
        def entry(a, b, c):
            while True:
                try:
                    while True:
                        c += 1
                except:
                    pass""") as session:
        started = time.monotonic()
        verdict = check("2.1", session.answer("2.1"))
        assert "still running after 1 seconds" in verdict.message and time.monotonic() - started < 5
        assert session.ended


# What a hostile process sends

PIPES = """
import os, stat, struct, json
def pipes():
    for number in range(3, 256):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                yield number
        except OSError:
            pass
def send(data):
    for number in pipes():
        try:
            os.write(number, data)
        except OSError:
            pass
def frame(message, archive=b""):
    header = json.dumps(message).encode()
    return struct.pack(">II", len(header), len(archive)) + header + archive
"""
SENT = {
    "garbage": ("send(b'garbage ' * 100)", "sent more at once than is taken"),
    "zeros": ("send(bytes(1000))", "sent something that is no answer"),
    "a flood": ("while True:\n        send(b'x' * 65536)", "sent more at once than is taken"),
    "a huge length": ("send(struct.pack('>II', 0xffffffff, 0xffffffff))", "sent more at once than is taken"),
    "64 MB of header": ("send(struct.pack('>II', 60 << 20, 0))", "sent more at once than is taken"),
    "a pickle": ("import pickle; send(frame({'op': 'result', 'call': 0, 'values': {'value': ['array', 0], "
                 "'changed': ['dict']}}, pickle.dumps(print)))", "sent something that is no answer"),
    "another call": ("send(frame({'op': 'result', 'call': 77, 'values': {}}))", "sent something that is no answer"),
    "no result": ("send(frame({'op': 'result', 'call': 0, 'values': {}}))", "sent something that is no answer"),
    "no object": ("send(frame([1, 2]))", "sent something that is no answer"),
    "another op": ("send(frame({'op': 'mark', 'call': 0, 'points': 100, 'values': {}}))",
                   "sent something that is no answer"),
    "a function not handed over": ("send(frame({'op': 'callback', 'number': -1, 'values': {'arguments': ['list'], "
                                   "'keywords': ['dict']}}))", "sent something that is no answer"),
    "a function as result": ("send(frame({'op': 'result', 'call': 0, 'values': {'value': ['function', 0, 'f'], "
                             "'changed': ['dict']}}))", "sent something that is no answer"),
    "a changed argument that is not there": (
        "send(frame({'op': 'result', 'call': 0, 'values': {'value': 1, 'changed': ['dict', ['9', 1]]}}))",
        "sent something that is no answer"),
    "a module of the wire's own": ("import sys; sys.modules['wire'].dump = lambda *_, **__: b'\\0' * 8; return 1",
                                   "sent something that is no answer"),
    "a patched json": ("json.dumps = lambda *_, **__: '{\"passed\": true}'; return 1",
                       "sent something that is no answer"),
    "a patched NumPy": ("import numpy, torch; numpy.savez = lambda file, **_: file.write(b'PK'); return torch.ones(2)",
                        "sent something that is no answer"),
    "deep lists": ("send(struct.pack('>II', 200_000, 0) + b'[' * 200_000)", "sent something that is no answer"),
}


@pytest.mark.parametrize("kind", SENT)
def test_what_is_no_answer_ends_the_session(kind):
    action, reason = SENT[kind]
    with one(f"{PIPES}\ndef entry(a, b, c):\n    {action}\n    import time; time.sleep(20)") as session:
        started = time.monotonic()
        with pytest.raises(SessionEnded):
            session.answer("2.1")(1, 2, 3)
        assert session.ended == reason and time.monotonic() - started < 4


def test_a_forged_result_is_only_an_answer():
    """It is judged as any other; so is what comes from a process with everything patched."""
    source = PIPES + textwrap.dedent("""
        import sys, numpy, torch
        from posenc_lib import checking
        torch.allclose = torch.equal = numpy.allclose = lambda *_, **__: True
        checking.check = checking.Verdict = checking.EXERCISES = lambda *_: True
        count = 0
        def entry(a, b, c):
            global count
            header = ('{"op": "result", "call": %d, "passed": true, "points": 100, "values": '
                      '{"value": 0.25, "changed": ["dict"]}}' % count).encode()
            send(struct.pack(">II", len(header), 0) + header)
            count += 1
            os._exit(0)
        """)
    with one(source) as session:
        assert session.answer("2.1")(1, 2, 3) == 0.25
    with one(source.replace("os._exit(0)", "return 1")) as session:
        assert session.answer("2.1")(1, 2, 3) == 0.25
        with pytest.raises(SessionEnded, match="no answer"):
            session.answer("2.1")(1, 2, 3)              # the true reply of the first call comes, and is not asked for


def test_a_patched_process_gains_no_verdict():
    with one("""
        import torch, numpy
        torch.allclose = torch.equal = numpy.allclose = lambda *_, **__: True
        class Everything(float):
            __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda *_: True
            __hash__ = float.__hash__
        def entry(a, b, c):
            return Everything(0.25)""") as session:
        assert check("2.1", session.answer("2.1")).passed is False


def test_a_result_that_is_too_large_is_the_students_error():
    with one("import torch\ndef entry(n):\n    return torch.zeros(n, dtype=torch.float64)") as session:
        with pytest.raises(Exception, match="too large"):
            session.answer("2.1")(9_000_000)
        assert session.answer("2.1")(3).shape == (3,)


def test_names_and_messages_come_without_control_characters():
    with one("""
        class \N{LATIN SMALL LETTER E WITH ACUTE}rreur(Exception): pass
        def entry():
            raise \N{LATIN SMALL LETTER E WITH ACUTE}rreur("red \\x1b[31m \\ud800 \\u202e" + "x" * 10_000)
        entry.__name__ = "a\\x1b" * 100""") as session:
        answer = session.answer("2.1")
        with pytest.raises(Exception, match="red") as caught:
            answer()
    assert type(caught.value).__name__ == "\N{LATIN SMALL LETTER E WITH ACUTE}rreur"
    text = str(caught.value) + answer.__name__
    assert len(text) < 2_100 and not set(text) & set("\x1b\ud800\u202e")


# The wire

def there_and_back(value, **settings):
    return wire.read(io.BytesIO(wire.dump({"op": "x"}, {"value": value}, **settings)).read)[1]["value"]


DTYPES = [getattr(torch, name) for name in sorted(wire.NATIVE | wire.VIA_FLOAT)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_keep_their_type_and_content(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    back = there_and_back(tensor)
    assert back.dtype == dtype and back.shape == (2, 3) and back.to(torch.complex128).equal(tensor.to(torch.complex128))
    assert there_and_back(torch.zeros(0, 3, dtype=dtype)).shape == (0, 3)
    assert there_and_back(torch.ones((), dtype=dtype)).shape == ()


def test_plain_values_come_back_as_they_went():
    for value in (None, True, False, 0, -3, 10**40, 0.1, float("inf"), "text \N{SNOWMAN}", ..., [], (), {},
                  [1, [2.5, ("a", None)]], {"a": [1], "b": {"c": ...}}):
        back = there_and_back(value)
        assert back == value and type(back) is type(value)
    assert np.isnan(there_and_back(float("nan")))
    array = there_and_back([np.float32(1.5), np.arange(3, dtype=">i2"), np.array(True)])
    assert type(array[0]) is np.float32 and array[1].tolist() == [0, 1, 2] and array[2].dtype == bool


def test_what_does_not_travel_looks_like_itself():
    for value in (object(), {1: 2}, {1}, print, np.array([None]), np.array("a"), 10 ** 50_000, 1j,
                  torch.eye(2).to_sparse(), datetime_like()):
        back = there_and_back(value)
        assert isinstance(back, wire.Opaque) and type(back).__name__ == type(value).__name__


def datetime_like():
    class Thing:
        def __repr__(self):
            raise RuntimeError
    return Thing()


def archive(**entries):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in entries.items():
            file.writestr(name + ".npy", data)
    return made.getvalue()


def npy(shape, descr="<f8", data=b""):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def compressed(array):
    made = io.BytesIO()
    np.savez_compressed(made, a0=array)
    return made.getvalue()


def pickled():
    made = io.BytesIO()
    np.savez(made, a0=np.array([print, None], dtype=object))
    return made.getvalue()


BOMBS = {
    "a shape without its bytes": archive(a0=npy((10**12,))),
    "fewer bytes than its shape": archive(a0=npy((7_000_000,), data=bytes(8))),
    "a shape of many axes": archive(a0=npy((10**6,) * 5)),
    "a negative shape": archive(a0=npy((-1, 8), data=bytes(64))),
    "no bytes an entry": archive(a0=npy((10**9,), "|V0")),
    "text without length": archive(a0=npy((10**9,), "<U0")),
    "objects": pickled(), "compressed": compressed(np.zeros(1_000_000)),
    "compressed in vain": compressed(np.frombuffer(np.random.default_rng(0).bytes(8_000), np.uint8)),
    "no archive": b"PK\5\6" + bytes(18) + b"x", "nothing": b"x" * 50,
    "a comment": archive(a0=npy((1,), data=bytes(8)))[:-2] + b"\1\0x",
    "many entries": archive(**{f"a{number}": npy((0,)) for number in range(wire.ARRAYS + 1)}),
    "a long directory": archive(**{f"a{number}" + "0" * 200: npy((0,)) for number in range(250)}),
    "a header that is code": archive(a0=b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').getcwd()       \n"),
    "a header in depth": archive(a0=b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000),
    "many elements": archive(a0=npy((9_000_000,), "|b1", bytes(9_000_000))),
}


def read(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return wire.read(io.BytesIO(wire.LENGTHS.pack(len(text), len(data)) + text + data).read)


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_of_an_archive_is_refused_before_memory_is_taken(kind):
    tracemalloc.start()
    try:
        with pytest.raises(wire.Refused):
            read({"values": {"value": ["array", 0]}}, BOMBS[kind])
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_one_array_stands_for_one_value():
    data = archive(a0=npy((2,), data=bytes(16)))
    assert read({"values": {"value": ["array", 0]}}, data)[1]["value"].tolist() == [0, 0]
    with pytest.raises(wire.Refused):
        read({"values": {"value": ["list", *[["array", 0]] * 2]}}, data)


@pytest.mark.parametrize("value", [
    ["array", 1], ["array", "0"], ["array"], [], [[]], {}, ["dict", 1], ["nothing"], ["tensor", 0, "load"],
    ["function", 0, "f"], ["opaque"], ["opaque", 1, 2],
    functools.reduce(lambda inner, _: ["list", inner], range(50), 1),
], ids=str)
def test_values_that_this_does_not_send_are_refused(value):
    with pytest.raises(wire.Refused):
        read({"values": {"value": value}}, archive(a0=npy((2,), data=bytes(16))))


@pytest.mark.parametrize("header", [
    b"", b"[]", b"1", b"{}", b'{"values": 1}', b"\xff", b"[" * 100_000, b'{"values": {',
], ids=lambda header: str(header[:12]))
def test_headers_that_this_does_not_send_are_refused(header):
    with pytest.raises(wire.Refused):
        read(header)


def test_random_bytes_are_refused_or_read_and_nothing_else():
    """A frame with some of its bytes changed never raises anything but `Refused`."""
    frame = wire.dump({"op": "x"}, {"value": [torch.arange(4.0), {"a": np.float64(2)}, "text", (1, ...)]})
    generator, refused = np.random.default_rng(0), 0
    for _ in range(2_000):
        data = bytearray(frame)
        for place in generator.integers(wire.LENGTHS.size, len(data), generator.integers(1, 6)):
            data[place] = generator.integers(256)
        try:
            wire.read(io.BytesIO(bytes(data)).read)
        except wire.Refused:
            refused += 1
    assert 500 < refused < 2_000
