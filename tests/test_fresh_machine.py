"""README.md, followed by a new reader: its lines are done in an empty folder, and chapter 0 runs in the browser."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tools import fresh_machine

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_new_reader_gets_what_the_readme_promises():
    run = subprocess.run([sys.executable, str(ROOT / "tools" / "fresh_machine.py"), "--quick"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("chapter 0 opens and runs: '0 Start here'") == 2
    assert run.stdout.endswith("A new reader gets what README.md promises.\n")


def test_the_lines_are_those_of_the_readme():
    with_make, without = fresh_machine.lines_of((ROOT / "README.md").read_text(encoding="utf-8"), "## Two commands")[:2]
    assert with_make == ["make lab", "make test"]
    assert [fresh_machine.on_this_system(line) for line in without] == [
        f"{shlex.quote(sys.executable)} -m venv .venv",
        ".venv/bin/python -m pip install -r requirements.txt",
        ".venv/bin/python -m jupyterlab notebooks/00_start_here.ipynb"]
