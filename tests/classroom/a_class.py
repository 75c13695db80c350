"""A class of generated submissions: right, wrong, odd and hostile ones, and what is due to each.

    expected = make_class(release_folder, solutions, target)

writes one submission after the other below `target`, from the release's notebooks and the exercises' solutions, and
returns by student what is to come of it. Each is a small function below. A hostile one tries something in its first
exercise; its answer is right if that succeeds, by what it took or as a reward, and wrong if not: so that gaining
nothing can be seen in the points.
"""
from __future__ import annotations

import copy
import io
import json
import re
import textwrap
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("right-numpy", "partly-right", "lost-metadata", "infinite-loop", "patched-allclose", "empty-file")


@dataclass(frozen=True)
class Expected:
    full: bool | None                   # whether every exercise gets full marks; None: it may be so or not
    at_most: float                      # share of the exercises' points that it may not exceed
    status: tuple[str, ...] = ()        # one of these stands in the row: in its status, its messages or its findings
    finding: tuple[str, ...] = ()       # each of these stands in a finding about the file
    at_least: float = 0.0               # share of the points that are due: what is right stays right
    hostile: bool = False


FIRST, OTHERS = "first", "others"       # shares that depend on the release: of its first exercise, and of the others


class Desk:
    """What a student has at hand: the release's notebooks, all solved, and ways to change them."""

    def __init__(self, release_folder: Path, solutions: Mapping[str, str], target: Path) -> None:
        self.release_folder, self.target = release_folder, target
        self.released = {path.name: json.loads(path.read_text(encoding="utf-8"))
                         for path in sorted(release_folder.glob("*.ipynb"))}
        self.points: dict[str, float] = {}
        self.solutions = {}
        for notebook in self.released.values():
            for cell in notebook["cells"]:
                cell["source"] = "".join(cell["source"])
                kind, _, rest = grade_id(cell).partition("-")
                number = rest.replace("-", ".")
                if kind == "answer":
                    self.solutions[number] = _without_marks(solutions[number])
                elif kind in ("check", "hidden"):
                    self.points[number] = self.points.get(number, 0) + cell["metadata"]["nbgrader"].get("points", 0)
        self.first = next(iter(self.solutions))
        self.name = next(name for name, notebook in self.released.items() if self._holds(notebook, self.first))
        self.stub = self._cell(self.released, self.first)["source"]
        self.function = re.search(r"^def (\w+)\(", self.stub, re.MULTILINE)[1]
        self.notebooks: dict[str, dict] = {}
        self.student = ""
        self.solve()

    def _holds(self, notebook: dict, number: str) -> bool:
        return any(grade_id(cell) == f"answer-{number.replace('.', '-')}" for cell in notebook["cells"])

    def _cell(self, notebooks: Mapping[str, dict], number: str, kind: str = "answer") -> dict:
        wanted = f"{kind}-{number.replace('.', '-')}"
        return next(cell for notebook in notebooks.values() for cell in notebook["cells"] if grade_id(cell) == wanted)

    def share(self, of: str | float) -> float:
        first = self.points[self.first] / sum(self.points.values())
        return {FIRST: first, OTHERS: 1 - first}.get(of, of)

    def solve(self, solutions: Mapping[str, str] | None = None) -> None:
        """Every exercise answered, or only those that are given, and the essays too."""
        self.notebooks = copy.deepcopy(self.released)
        for number, source in (self.solutions if solutions is None else solutions).items():
            self.cell(number)["source"] = source
        for notebook in self.notebooks.values():
            for cell in notebook["cells"]:
                if grade_id(cell).startswith("essay-"):
                    cell["source"] = "Because the one is not the other, as the chapter's picture shows."

    def cell(self, number: str = "", kind: str = "answer") -> dict:
        return self._cell(self.notebooks, number or self.first, kind)

    @property
    def notebook(self) -> dict:
        """The one with the first exercise."""
        return self.notebooks[self.name]

    @property
    def cells(self) -> list[dict]:
        return self.notebook["cells"]

    @property
    def every_cell(self) -> list[dict]:
        return [cell for notebook in self.notebooks.values() for cell in notebook["cells"]]

    def where(self, cell: dict) -> int:
        return next(index for index, each in enumerate(self.cells) if each is cell)

    def write(self, name: str, data: bytes | dict | None, folder: str | None = None) -> Path:
        """A file of the student's; a name that begins with / stands beside the students' folders."""
        path = self.target / (name[1:] if name.startswith("/") else f"{folder or self.student}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(data) if isinstance(data, dict) else data or b"")
        return path

    def attack(self, body: str, first: str = "") -> None:
        """The first exercise answered by an attempt at something, the others not at all.

        `body` is that of a function that returns the function it gained: `right` when it is a reward. It may use
        NUMBER, FUNCTION, TARGET, ROOT and NEIGHBOUR. The lines `first` run once, with the cell.
        """
        right = re.sub(rf"\b{self.function}\b", "right", self.solutions[self.first])
        facts = {"NUMBER": self.first, "FUNCTION": self.function, "TARGET": str(self.target), "ROOT": str(ROOT),
                 "NEIGHBOUR": str(self.target / "right-math" / self.name)}
        self.solve({self.first: "\n".join([
            *(f"{name} = {value!r}" for name, value in facts.items()), "", textwrap.dedent(first), right, "",
            "def attempt():", textwrap.indent(textwrap.dedent(body).strip(), "    "), "",
            f"def {self.function}(*arguments):", "    try:", "        gained = attempt()", "    except Exception:",
            "        gained = None", "    return gained(*arguments) if gained else 0.123"])})

    def before_answer(self, line: str) -> None:
        """A line at the top of the first answer's cell; the other answers are right."""
        self.cell()["source"] = f"{line}\n\n{self.cell()['source']}"

    def body(self, lines: str) -> None:
        """The first function with another body; the other answers are right."""
        lines = textwrap.indent(textwrap.dedent(lines).strip(), "    ")
        self.cell()["source"] = f"def {self.function}(*arguments):\n{lines}"


CASES: dict[str, tuple[Callable[[Desk], object], Expected]] = {}


def case(student: str, full: bool | None = True, at_most: str | float | None = None,
         at_least: str | float | None = None, status: tuple[str, ...] = (), finding: tuple[str, ...] = (),
         hostile: bool = False) -> Callable:
    """Keeps a function that makes a submission; without more said, it gets all points, or none if not `full`."""
    at_most = (1.0 if full is not False else 0.0) if at_most is None else at_most
    at_least = (1.0 if full else 0.0) if at_least is None else at_least

    def keep(function: Callable[[Desk], object]) -> Callable[[Desk], object]:
        assert student not in CASES
        CASES[student] = function, Expected(full, at_most, status, finding, at_least, hostile)
        return function
    return keep


def hostile(student: str, **more: object) -> Callable:
    """A case that is to get nothing."""
    return case(student, full=False, at_most=0.0, hostile=True, **more)


def make_class(release_folder: Path | str, solutions: Mapping[str, str], target: Path | str,
               size: int | None = None) -> dict[str, Expected]:
    """The first `size` submissions, those of `SMALL` before the others, or all of them; what is due, by student.

    `solutions` holds the solved source of each exercise by its number; marks and the line check(...) may be in it.
    """
    release_folder, target = Path(release_folder), Path(target).resolve()
    students = [*SMALL, *(student for student in CASES if student not in SMALL)]
    result = {}
    for student in students[:size]:
        function, expected = CASES[student]
        desk = Desk(release_folder, solutions, target)
        desk.student = student
        if function(desk) is None:                      # else it has written its files itself
            for name, notebook in desk.notebooks.items():
                desk.write(name, notebook)
        at_most, at_least = desk.share(expected.at_most), desk.share(expected.at_least)
        result[student] = replace(expected, at_most=at_most, at_least=at_least)
    return result


def trace(target: Path | str) -> Path:
    """A file that stands there after grading only if the grader has unpickled a student's result."""
    return Path(target).resolve().parent / "ran-in-the-grader"


def grade_id(cell: Mapping) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def as_bytes(notebook: dict) -> bytes:
    return json.dumps(notebook, indent=1, ensure_ascii=False).encode()


def new_code(source: str) -> dict:
    return {"cell_type": "code", "id": "own-cell", "metadata": {}, "source": source, "outputs": [],
            "execution_count": None}


def _without_marks(source: str) -> str:
    lines = [line for line in source.split("\n") if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION")]
    return "\n".join(line for line in lines if not line.startswith("check(")).strip()


# Right answers. Those of chapter 2 are written in several ways; of other chapters, the solution is taken.

WAYS = {
    "numpy": {
        "2.1": """
            import numpy as np

            def entry(position, dimension, d_model):
                angle = position * np.power(10_000.0, -2 * (dimension // 2) / d_model)
                return np.array([np.sin(angle), np.cos(angle)])[dimension % 2]""",
        "2.2": """
            import numpy as np

            def turn(offset, frequency):
                angle = offset * frequency
                return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])""",
        "2.3": """
            import numpy as np

            def turned(before, after):
                a, b = before.numpy(), after.numpy()
                return np.angle((b[1::2] + 1j * b[0::2]) * (a[1::2] - 1j * a[0::2]))""",
    },
    "math": {
        "2.1": """
            from math import cos, exp, log, sin

            def entry(position, dimension, d_model):
                pair = (dimension - dimension % 2) / 2
                angle = position * exp(-2 * pair * log(10_000) / d_model)
                if dimension % 2 == 0:
                    return sin(angle)
                return cos(angle)""",
        "2.2": """
            from math import cos, pi, sin

            def turn(offset, frequency):
                angle = offset * frequency
                return (cos(angle), sin(angle)), (cos(angle + pi / 2), cos(angle))""",
        "2.3": """
            from math import atan2

            def turned(before, after):
                found = []
                for s, c, t, d in zip(before[0::2], before[1::2], after[0::2], after[1::2]):
                    found.append(atan2(c * t - s * d, s * t + c * d))
                return found""",
    },
    "one-liner": {
        "2.1": """
            import cmath
            entry = lambda p, i, d: (lambda z: (z.imag, z.real)[i % 2])(cmath.exp(1j * p * 1e4 ** (-2 * (i // 2) / d)))
            """,
        "2.2": """
            import math
            turn = lambda k, w: [[math.cos(k * w), math.sin(k * w)], [-math.sin(k * w), math.cos(k * w)]]""",
        "2.3": """
            import torch
            turned = lambda a, b: torch.view_as_complex((b.view(-1, 2).flip(1)).contiguous()).mul(
                torch.view_as_complex(a.view(-1, 2).flip(1).contiguous()).conj()).angle()""",
    },
    "torch": {
        "2.1": """
            import torch

            def entry(position, dimension, d_model):
                angles = position * 10_000 ** (-2 * torch.arange((d_model + 1) // 2, dtype=torch.float64) / d_model)
                return torch.stack([angles.sin(), angles.cos()], dim=1).flatten()[dimension]""",
        "2.2": """
            import torch

            def turn(offset, frequency):
                angle = torch.tensor(offset * frequency)
                return torch.linalg.matrix_exp(angle * torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))""",
        "2.3": """
            import torch

            def turned(before, after):
                return torch.remainder(torch.atan2(after[::2], after[1::2]) - torch.atan2(before[::2], before[1::2])
                                       + torch.pi, 2 * torch.pi) - torch.pi""",
    },
}


def solved_by(desk: Desk, way: str) -> None:
    written = {number: textwrap.dedent(source).strip() for number, source in WAYS[way].items()}
    desk.solve({number: written.get(number, source) for number, source in desk.solutions.items()})


@case("right-as-the-book")
def right_as_the_book(desk):
    pass


@case("right-numpy")
def right_numpy(desk):
    solved_by(desk, "numpy")


@case("right-math")
def right_math(desk):
    solved_by(desk, "math")


@case("right-one-liner")
def right_one_liner(desk):
    solved_by(desk, "one-liner")


@case("right-torch")
def right_torch(desk):
    solved_by(desk, "torch")


@case("élève-日本")
def right_with_a_name_in_other_letters(desk):
    pass


@case("right two words")
def right_with_a_space(desk):
    pass


# Not right, or not all

@case("untouched", full=False, status=("not answered",), finding=("is not answered",))
def untouched(desk):
    desk.notebooks = copy.deepcopy(desk.released)


@case("partly-right", full=False, at_most=FIRST, at_least=FIRST)
def partly_right(desk):
    for number in desk.solutions:
        if number != desk.first:
            function = re.search(r"^def (\w+)\(", desk.solutions[number], re.MULTILINE)[1]
            desk.cell(number)["source"] = f"def {function}(*arguments):\n    return 0.123"


@case("partly-answered", full=False, at_most=FIRST, at_least=FIRST, status=("not answered",),
      finding=("is not answered",))
def partly_answered(desk):
    desk.solve({desk.first: desk.solutions[desk.first]})


@case("wrong", full=False)
def wrong(desk):
    for number, source in desk.solutions.items():
        function = re.search(r"^def (\w+)\(", source, re.MULTILINE)[1]
        desk.cell(number)["source"] = f"def {function}(*arguments):\n    return [0.5, 0.5]"


@case("returns-nothing", full=False, at_most=OTHERS, at_least=OTHERS)
def returns_nothing(desk):
    desk.body("print('half of it')")


@case("raises", full=False, at_most=OTHERS, at_least=OTHERS, status=("ZeroDivisionError",))
def raises(desk):
    desk.body("return 1 / 0")


@case("syntax-error", full=False, at_most=OTHERS, at_least=OTHERS, status=("SyntaxError", "syntax"))
def syntax_error(desk):
    desk.cell()["source"] = desk.cell()["source"].replace("):", ")", 1)


@case("misspelt-function", full=False, at_most=OTHERS, at_least=OTHERS, finding=("defines no function",))
def misspelt_function(desk):
    desk.cell()["source"] = desk.cell()["source"].replace(f"def {desk.function}(", f"def {desk.function}_(", 1)


@case("exception-at-import", full=False, at_most=OTHERS, at_least=OTHERS, status=("ModuleNotFoundError",))
def exception_at_import(desk):
    desk.before_answer("import a_module_that_is_not_there\n\na_module_that_is_not_there.start()")


@case("exception-in-its-cell", full=False, at_most=OTHERS, at_least=OTHERS, status=("RuntimeError",))
def exception_in_the_answers_cell(desk):
    desk.before_answer("raise RuntimeError('before the function is there')")


@case("exception-elsewhere")
def exception_in_a_cell_that_no_answer_needs(desk):
    desk.cells.insert(1, new_code("raise RuntimeError('left over from trying')"))


# Trouble for the grader: the answer fails, the others are still right

@case("infinite-loop", full=False, at_most=OTHERS, at_least=OTHERS, status=("running", "ran for", "seconds", "time"))
def infinite_loop(desk):
    desk.body("while True:\n    pass")


@case("loop-that-catches-all", full=False, at_most=OTHERS, at_least=OTHERS,
      status=("running", "ran for", "seconds", "time", "interrupted"))
def loop_that_catches_all(desk):
    desk.body("while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass")


@case("loop-at-import", full=False, at_most=OTHERS, at_least=OTHERS, status=("running", "ran for", "seconds", "time"))
def loop_at_import(desk):
    desk.before_answer("while True:\n    pass")


@case("os-exit", full=False, at_most=OTHERS, at_least=OTHERS, status=("ended", "exit"))
def os_exit(desk):
    desk.body("import os\nos._exit(0)")


@case("os-exit-at-import", full=False, at_most=OTHERS, at_least=OTHERS, status=("ended", "exit"))
def os_exit_at_import(desk):
    desk.before_answer("import os\nos._exit(0)")


@case("killed-by-itself", full=False, at_most=OTHERS, at_least=OTHERS, status=("ended", "signal", "kill"))
def killed_by_itself(desk):
    desk.body("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")


@case("memory-hog", full=False, at_most=OTHERS, at_least=OTHERS, status=("memory", "GB", "MemoryError"))
def memory_hog(desk):
    desk.body("kept = []\nwhile True:\n    kept.append(bytearray(b'x') * 50_000_000)")


@case("too-many-processes", full=False, at_most=OTHERS, at_least=OTHERS, status=("process", "BlockingIOError"))
def too_many_processes(desk):
    # Bounded, so that a grader without limits is shown to be one and the machine lives on.
    desk.body("import os, time\nfor _ in range(400):\n    if os.fork() == 0:\n        time.sleep(20)\n"
              "        os._exit(0)\ntime.sleep(20)")


@case("too-many-threads", full=False, at_most=OTHERS, at_least=OTHERS, status=("process", "thread"))
def too_many_threads(desk):
    desk.body("import threading, time\nfor _ in range(2000):\n"
              "    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()\ntime.sleep(20)")


@case("output-flood", full=False, at_most=OTHERS, at_least=OTHERS, status=("printed", "output"))
def output_flood(desk):
    desk.body("import os\nwhile True:\n    os.write(1, b'x' * 65_536)")


@case("huge-result", full=False, at_most=OTHERS, at_least=OTHERS)
def huge_result(desk):
    desk.body("import torch\nreturn torch.zeros(30_000_000)")


@case("deep-result", full=False, at_most=OTHERS, at_least=OTHERS)
def deep_result(desk):
    desk.body("found = []\nfor _ in range(100_000):\n    found = [found]\nreturn found")


# Hostile

@hostile("network")
def network(desk):
    desk.attack("""
        import socket
        if any(name != "lo" for _, name in socket.if_nameindex()):
            return right
        with open("/proc/net/tcp") as table:                # who listens on this machine
            ports = {int(line.split()[1].split(":")[1], 16) for line in list(table)[1:] if line.split()[3] == "0A"}
        for port in ports:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return right
        with socket.create_connection(("1.1.1.1", 53), timeout=2):
            return right
    """)


@hostile("reads-neighbour")
def reads_neighbour(desk):
    desk.attack("""
        import json
        from pathlib import Path
        here = [folder for folder in [Path.cwd(), *Path.cwd().parents, Path.home(), Path("/tmp")]]
        for path in [Path(NEIGHBOUR), *(each for folder in here for each in folder.glob("*/*.ipynb"))]:
            try:
                cells = json.loads(path.read_text())["cells"]
            except OSError:
                continue
            for cell in cells:
                source = "".join(cell["source"])
                if f"def {FUNCTION}(" in source and "attempt" not in source:
                    space = {}
                    exec(source, space)
                    return space[FUNCTION]
    """)


@hostile("reads-truth")
def reads_truth(desk):
    desk.attack("""
        import importlib.util, sys
        try:
            import posenc_lib.exercises
            from posenc_lib.checking import EXERCISES
            if EXERCISES[NUMBER].truth:
                return EXERCISES[NUMBER].truth
        except (ImportError, AttributeError, KeyError):
            pass
        for name in [name for name in sys.modules if name.partition(".")[0] == "posenc_lib"]:
            del sys.modules[name]
        sys.path.insert(0, ROOT)
        import posenc_lib.exercises
        from posenc_lib.checking import EXERCISES
        return EXERCISES[NUMBER].truth or right
    """)


@hostile("reads-solution")
def reads_solution(desk):
    desk.attack("""
        from pathlib import Path
        for place in [ROOT, TARGET, Path(TARGET).parent, Path(TARGET).parent.parent]:
            for pattern in ("chapters/*.md", "source/*/*.ipynb", "*/source/*/*.ipynb", "release/*/*.ipynb"):
                if any(path.read_text() for path in Path(place).glob(pattern)):
                    return right
    """)


@hostile("looks-into-the-caller")
def looks_into_the_caller(desk):
    desk.attack("""
        import gc, sys
        frame = sys._getframe()
        while frame:
            for value in list(frame.f_locals.values()):
                if callable(getattr(value, "truth", None)):
                    return value.truth
            frame = frame.f_back
        for thing in gc.get_objects():
            if type(thing).__name__ == "Exercise" and callable(thing.truth):
                return right
    """)


@hostile("writes-gradebook")
def writes_gradebook(desk):
    desk.attack("""
        import sqlite3
        from pathlib import Path
        for folder in [Path(TARGET).parent, Path(TARGET), *Path(TARGET).parents, Path.cwd(), *Path.cwd().parents]:
            for path in folder.glob("*.db"):
                book = sqlite3.connect(path)
                tables = [name for name, in book.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                if "grade" in tables:
                    book.execute("UPDATE grade SET auto_score = 100, manual_score = 100")
                    book.commit()
                    return right
    """)


@hostile("writes-results")
def writes_results(desk):
    desk.attack("""
        from pathlib import Path
        for folder in [Path(TARGET), Path(TARGET).parent, Path(TARGET).parent / "results", Path(ROOT)]:
            if folder.is_dir():
                path = folder / "forged.json"
                path.write_text('{"score": 100}')
                path.unlink()
                return right
    """)


@hostile("patched-asserts")
def patched_asserts(desk):
    desk.attack("""
        import builtins, unittest
        import numpy, torch
        nothing = lambda *arguments, **named: None
        numpy.testing.assert_allclose = numpy.testing.assert_array_equal = torch.testing.assert_close = nothing
        unittest.TestCase.assertEqual = unittest.TestCase.assertAlmostEqual = nothing
        builtins.all = builtins.any = builtins.isinstance = lambda *arguments: True
        builtins.abs = lambda value: 0
    """)


@hostile("stripped-asserts")
def stripped_asserts(desk):
    """What worked against graders that run their tests in the student's own kernel."""
    desk.attack("""
        from IPython import get_ipython
        class Strip(__import__("ast").NodeTransformer):
            def visit_Assert(self, node):
                return __import__("ast").Pass()
        get_ipython().ast_transformers.append(Strip())
    """)


@hostile("patched-allclose")
def patched_allclose(desk):
    desk.attack("""
        import math
        import numpy, torch
        yes = lambda *arguments, **named: True
        torch.allclose = torch.equal = numpy.allclose = numpy.array_equal = math.isclose = yes
        torch.Tensor.allclose = torch.Tensor.equal = yes
        numpy.argwhere = lambda *arguments: numpy.zeros((0, 1))
    """)


@hostile("patched-check")
def patched_check(desk):
    desk.attack("""
        import sys
        import posenc_lib
        passed = lambda *arguments, **named: "right"
        posenc_lib.check = passed
        for name, module in list(sys.modules.items()):
            if name.startswith("posenc_lib") or name in ("wire", "student", "remote", "judge") or "classroom" in name:
                for attribute in ("check", "_judge", "_compare", "_close", "share_right", "score"):
                    if hasattr(module, attribute):
                        setattr(module, attribute, passed)
    """)


@hostile("patched-wire")
def patched_wire(desk):
    desk.attack("""
        import builtins, io, json, struct, sys
        import numpy
        builtins.float = builtins.int = lambda *arguments: 0
        numpy.savez = numpy.save = lambda file, *arguments, **named: file.write(b"PK right")
        json.dumps = lambda *arguments, **named: '{"result": "right", "score": 1, "passed": true}'
        struct.pack = lambda *arguments: b"\\xff" * 8
    """)


@hostile("forged-results")
def forged_results(desk):
    desk.attack("""
        import json, os, struct
        text = {"score": 100, "passed": True, "ok": True, "result": 1.0, "status": "right", "kind": "result"}
        frame = json.dumps(text).encode()
        for descriptor in range(1, 128):
            for kind in ("", "<I", ">I", "<Q", ">Q"):
                forged = (struct.pack(kind, len(frame)) if kind else b"") + frame
                try:
                    os.set_blocking(descriptor, False)
                    os.write(descriptor, forged)
                except OSError:
                    pass
    """)


@hostile("says-equal-to-all")
def says_equal_to_all(desk):
    desk.body("""
        import numpy as np

        class Same(float):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __lt__(self, other): return True
            __le__ = __gt__ = __ge__ = __lt__
            def __sub__(self, other): return Same(0)
            __rsub__ = __add__ = __abs__ = __sub__
            def __array__(self, *arguments, **named): raise SystemExit
            def __hash__(self): return 0
        return Same(0.123)
    """)
    desk.solve({desk.first: desk.cell()["source"]})


@hostile("pickled-code")
def pickled_code(desk):
    desk.body(f"""
        import pathlib
        import numpy as np

        class Code:
            def __reduce__(self):
                return pathlib.Path.touch, (pathlib.Path({str(trace(desk.target))!r}),)
        return np.array([Code()], dtype=object)
    """)
    desk.solve({desk.first: desk.cell()["source"]})


@hostile("stays-behind")
def stays_behind(desk):
    """A process of its own that goes on after the grader has left, and meets the next student's."""
    desk.attack("return right if STAYED else None", first="""
        import os, time
        from pathlib import Path
        STAYED = Path("/tmp/stayed-behind").exists()
        if not STAYED and os.fork() == 0:
            os.setsid()
            Path("/tmp/stayed-behind").write_text("here")
            time.sleep(30)
            os._exit(0)
    """)


@hostile("links-to-neighbour", status=("not answered", "link", "no notebook"), finding=("link",))
def links_to_neighbour(desk):
    for name in desk.notebooks:
        path = desk.target / desk.student / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(Path("..") / "right-math" / name)
    return True


@hostile("zip-slip", finding=("outside of the archive",))
def zip_slip(desk):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, notebook in desk.notebooks.items():
            archive.writestr(f"../right-math/{name}", as_bytes(notebook))
    desk.write("work.zip", file.getvalue())
    return True


@hostile("edited-tests", finding=("check of exercise", "had been edited"))
def edited_tests(desk):
    desk.solve({})
    for number in desk.solutions:
        function = re.search(r"^def (\w+)\(", desk.solutions[number], re.MULTILINE)[1]
        desk.cell(number)["source"] = f"def {function}(*arguments):\n    return 0.123"
        desk.cell(number, "check")["source"] = "print('right')"
        desk.cell(number, "hidden")["source"] = "assert True"


@hostile("edited-points")
def edited_points(desk):
    desk.solve({})
    for cell in desk.every_cell:
        if "points" in cell["metadata"].get("nbgrader", {}):
            cell["metadata"]["nbgrader"] |= {"points": 1000, "grade": True}


# Odd files with right answers

@case("right-with-edited-tests", finding=("check of exercise",))
def right_with_edited_tests(desk):
    for number in desk.solutions:
        desk.cell(number, "check")["source"] += "\nprint('checked')"


@case("moved-cells", finding=("had been moved",))
def moved_cells(desk):
    desk.cells.append(desk.cells.pop(desk.where(desk.cell())))


@case("shuffled-answers", finding=("had been moved",))
def answers_at_the_top(desk):
    for number in desk.solutions:
        cell = desk.cell(number)
        notebook = next(each for each in desk.notebooks.values() if cell in each["cells"])
        notebook["cells"][:] = [cell, *(each for each in notebook["cells"] if each is not cell)]


@case("duplicated-cells", finding=("There are 2 answers", "taken"))
def duplicated_cells(desk):
    source = f"def {desk.function}(*arguments):\n    return 0.123"
    tried = copy.deepcopy(desk.cell()) | {"source": source, "id": "tried"}
    desk.cells.insert(desk.where(desk.cell()), tried)


@case("deleted-cell", full=False, at_most=OTHERS, at_least=OTHERS, status=("not answered",),
      finding=("had been deleted",))
def deleted_cell(desk):
    desk.cells.remove(desk.cell())


@case("deleted-tests", finding=("had been removed",))
def deleted_tests(desk):
    for notebook in desk.notebooks.values():
        notebook["cells"] = [cell for cell in notebook["cells"]
                             if not grade_id(cell).startswith(("check-", "hidden-"))]


@case("only-the-answers", finding=("had been removed",))
def only_the_answers(desk):
    for notebook in desk.notebooks.values():
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        notebook["cells"] = [cell for cell in code if not grade_id(cell) or grade_id(cell).startswith("answer-")]


@case("lost-metadata", finding=("had lost its metadata", "found by its function"))
def lost_metadata(desk):
    for notebook in desk.notebooks.values():
        notebook |= {"metadata": {}, "nbformat_minor": 4}
    for cell in desk.every_cell:
        cell["metadata"] = {}
        cell.pop("id", None)


@case("saved-by-colab", finding=("saved by Colab",))
def saved_by_colab(desk):
    for notebook in desk.notebooks.values():
        kernel = {"name": "python3", "display_name": "Python 3"}
        notebook |= {"metadata": {"colab": {"provenance": []}, "kernelspec": kernel}, "nbformat_minor": 0}
    for cell in desk.every_cell:
        cell["metadata"] = {"id": cell.pop("id"), "colab": {"base_uri": "https://localhost:8080/"}}
        cell["source"] = cell["source"].splitlines(keepends=True)


@case("colab-with-new-ids", finding=("saved by Colab", "found by its function"))
def colab_with_new_ids(desk):
    saved_by_colab(desk)
    for number, cell in enumerate(desk.every_cell):
        cell["metadata"]["id"] = f"q7Zk{number:08}"


@case("older-release", finding=("another version of the release",))
def older_release(desk):
    for notebook in desk.notebooks.values():
        notebook["metadata"]["posenc_classroom"]["version"] = "older"
        text = next(cell for cell in notebook["cells"] if cell["cell_type"] == "markdown")
        text["source"] += "\n\nA sentence that was taken out later."
        notebook["cells"].insert(1, new_code("print('a cell that is no longer there')"))
    for number, cell in enumerate(desk.every_cell):
        cell["id"] = f"older{number}"


@case("wrong-name", finding=("recognised", "by its content"))
def wrong_name(desk):
    for number, notebook in enumerate(desk.notebooks.values()):
        desk.write(f"Homework final FINAL {'abcdefgh'[number]}.ipynb", notebook)
    return True


@case("no-ending", finding=("recognised", "by its content"))
def no_ending(desk):
    for number, notebook in enumerate(desk.notebooks.values()):
        desk.write(f"Untitled{'abcdefgh'[number]}", notebook)
    return True


@case("swapped-chapters")
def swapped_chapters(desk):
    names = list(desk.notebooks)
    desk.notebooks = dict(zip(names, [desk.notebooks[name] for name in [*names[1:], names[0]]], strict=True))


@case("helper-in-a-cell")
def helper_in_an_added_cell(desk):
    right = re.sub(rf"\b{desk.function}\b", "my_helper", desk.cell()["source"])
    desk.cells.insert(desk.where(desk.cell()), new_code(right))
    desk.cell()["source"] = f"def {desk.function}(*arguments):\n    return my_helper(*arguments)"


@case("helper-below")
def helper_below_the_answer(desk):
    helper_in_an_added_cell(desk)
    desk.cells.append(desk.cells.pop(desk.where(desk.cell()) - 1))


@case("import-in-the-setup-cell", finding=("also bound cmath_of_mine",))
def import_in_an_edited_cell(desk):
    setup = [cell for cell in desk.cells if cell["cell_type"] == "code" and not grade_id(cell)][:2][-1]
    setup["source"] = "import cmath as cmath_of_mine\n" + setup["source"]
    name = desk.function
    desk.cell()["source"] += f"\n\n_{name} = {name}\n\ndef {name}(*arguments):\n    cmath_of_mine.exp(0)\n"\
                             f"    return _{name}(*arguments)"


@case("below-the-stub", finding=("below its untouched stub",))
def answer_below_the_stub(desk):
    answer = new_code(desk.cell()["source"])
    desk.cell()["source"] = desk.stub
    desk.cells.insert(desk.where(desk.cell()) + 1, answer)


@case("all-in-one-cell", finding=("stands in the cell of",))
def all_answers_in_one_cell(desk):
    """Those of the notebook with the most, in its first answer's cell; the other answer cells are gone."""
    first, *others = max(([cell for cell in notebook["cells"] if grade_id(cell).startswith("answer-")]
                          for notebook in desk.notebooks.values()), key=len)
    first["source"] = "\n\n".join(cell["source"] for cell in (first, *others))
    for notebook in desk.notebooks.values():
        notebook["cells"] = [cell for cell in notebook["cells"] if not any(cell is other for other in others)]


@case("turned-into-text", finding=("turned into markdown",))
def turned_into_text(desk):
    cell = desk.cell()
    cell["cell_type"] = "markdown"
    cell.pop("outputs", None), cell.pop("execution_count", None)


@case("with-magics")
def with_magics(desk):
    desk.before_answer("%matplotlib inline\n!echo installed")
    desk.cells.insert(1, new_code("%%time\nprint(1)"))


@case("whole-folder-zipped", finding=("hidden", "is no notebook"))
def whole_folder_zipped(desk):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, notebook in desk.notebooks.items():
            archive.writestr(f"homework/{name}", as_bytes(notebook))
            archive.writestr(f"__MACOSX/homework/._{name}", b"\0\5\x16\7")
        archive.writestr("homework/posenc_lib/__init__.py", "")
    desk.write("homework.zip", file.getvalue())
    return True


@case("flat-download")
def flat_download(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(f"/{desk.student}_{name}", notebook)
    return True


@case("Flat Download")
def flat_download_with_numbers(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(f"/{desk.student}_12345_assignsubmission_file_{name}", notebook)
    return True


@case("in-an-assignment-folder")
def in_an_assignment_folder(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(f"ps1/{name}", notebook)
    return True


@case("several-attempts", finding=("files for", "was taken"))
def several_attempts(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(name.replace(".ipynb", " (1).ipynb"), notebook)
        desk.write(name, desk.released[name])
        desk.write(f".ipynb_checkpoints/{name.replace('.ipynb', '-checkpoint.ipynb')}", desk.released[name])
    return True


@case("utf-16", finding=("UTF-16",))
def in_utf_16(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(name, as_bytes(notebook).decode().encode("utf-16"))
    return True


@case("with-bom")
def with_a_byte_order_mark(desk):
    for name, notebook in desk.notebooks.items():
        desk.write(name, b"\xef\xbb\xbf" + as_bytes(notebook))
    return True


@case("format-3", finding=("format 3",))
def in_format_3(desk):
    for name, notebook in desk.notebooks.items():
        cells = []
        for cell in notebook["cells"]:
            old = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
            cells.append(old | {"input" if cell["cell_type"] == "code" else "source": cell["source"].splitlines(True)})
        desk.write(name, {"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]})
    return True


@case("cut-off", full=None, at_most=1.0, at_least=FIRST, finding=("cut off or damaged",))
def cut_off(desk):
    """A download that ended early: what stands before the end counts."""
    for name, notebook in desk.notebooks.items():
        text = as_bytes(notebook)
        mark = f'"answer-{desk.first.replace(".", "-")}"'.encode()
        end = text.index(b'"cell_type"', text.index(mark)) + 200 if mark in text else len(text) * 2 // 3
        desk.write(name, text[:end])
    return True


# No notebook at all

NO_FILE = {"full": False, "status": ("not answered", "no notebook", "not handed in")}


@case("empty-file", **NO_FILE, finding=("empty",))
def empty_file(desk):
    desk.write(desk.name, b"")
    return True


@case("empty-folder", **NO_FILE, finding=("empty",))
def empty_folder(desk):
    (desk.target / desk.student).mkdir(parents=True)
    return True


@case("binary-file", **NO_FILE, finding=("binary",))
def binary_file(desk):
    desk.write(desk.name, bytes(range(256)) * 100)
    return True


@case("a-document", **NO_FILE, finding=("Office document",))
def a_document(desk):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("word/document.xml", "<w:document/>")
    desk.write("homework.docx", file.getvalue())
    return True


@case("a-document-by-another-name", **NO_FILE, finding=("Office document",))
def a_document_by_another_name(desk):
    a_document(desk)
    folder = desk.target / desk.student
    (folder / "homework.docx").rename(folder / desk.name)
    return True


@case("a-web-page", **NO_FILE, finding=("web page",))
def a_web_page(desk):
    desk.write(desk.name, b"<!DOCTYPE html><html><body>404</body></html>")
    return True


@case("a-script", **NO_FILE, finding=("is no notebook",))
def a_script(desk):
    desk.write("homework.py", desk.solutions[desk.first].encode())
    return True


@case("another-notebook", **NO_FILE, finding=("none of this assignment",))
def another_notebook(desk):
    desk.write("other.ipynb", {"cells": [new_code("print('something else')")], "metadata": {}, "nbformat": 4,
                               "nbformat_minor": 5})
    return True


@case("only-checkpoints", **NO_FILE, finding=("hidden",))
def only_checkpoints(desk):
    desk.write(f".ipynb_checkpoints/{desk.name}", desk.notebook)
    return True
