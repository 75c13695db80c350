"""The set-up: what it says when something is missing, when it installs and when not, and the files it reads."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools import environment

ROOT = Path(__file__).resolve().parent.parent


def message_of(error):
    """The one line a failure ends with; a message as exit code makes Python print it and exit with status 1."""
    message = error.value.code
    assert isinstance(message, str) and "\n" not in message
    return message


def script(path, text):
    """An executable shell script, in place of a program that a test must not really run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def ci_run(monkeypatch, folder, **programs):
    """What .ci/run does where these shell scripts, by the program's name with _ for -, stand in for programs."""
    for name, text in programs.items():
        script(folder / name.replace("_", "-"), text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return subprocess.run([ROOT / ".ci" / "run"], cwd=folder, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    """make hands these on to the tests; here each test says for itself what is named."""
    for name in ("PYTHON", "TORCH", "CHROMIUM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A repository with the two requirement files and a .venv that looks made, but holds only a Python."""
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "BOOK", tmp_path / ".venv")
    monkeypatch.setattr(environment, "COLAB", tmp_path / ".venv-colab")
    monkeypatch.setattr(environment, "CLASSROOM", tmp_path / ".venv-classroom")
    (tmp_path / "requirements.txt").write_text("-c constraints.txt\ntorch==2.13.0\n")
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    environment.write_stamp(folder, environment.requirement_files(folder), "")
    return folder


@pytest.fixture
def done(monkeypatch):
    """What make() would have done: new environments and pip's arguments are noted, nothing is installed."""
    steps = []
    monkeypatch.setattr(environment, "create_empty", lambda folder: steps.append("create"))
    monkeypatch.setattr(environment, "run_pip", lambda folder, arguments, what: steps.append(list(arguments)))
    return steps


def is_current(folder):
    return environment.is_current(folder, environment.requirement_files(folder))


# --- What is missing is said in one line ---


def test_an_old_python_is_told_its_version_and_how_to_name_another():
    with pytest.raises(SystemExit) as error:
        environment.check_python((3, 9, 6))
    message = message_of(error)
    assert "3.11" in message and "is Python 3.9." in message and "make lab PYTHON=python3.12" in message
    environment.check_python((3, 11, 0))


def test_the_file_is_read_by_python_3_6():
    ast.parse(Path(environment.__file__).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_venv_is_told_what_to_install(monkeypatch, missing):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(SystemExit) as error:
        environment.check_venv()
    assert "apt install python3-venv" in message_of(error)


def test_an_unreachable_index_is_told_from_what_pip_really_says(monkeypatch, tmp_path):
    """The pip of this very environment, an index where nothing listens, and nowhere else to look."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(SystemExit) as error:
        environment.run_pip(Path(sys.prefix), ["--dry-run", "no-such-package==1.0"], "packages")
    message = message_of(error)
    assert "index cannot be reached (pip ended with status 1)" in message and "first run needs the network" in message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching", "cannot be reached"),
        ("ERROR: No matching distribution found for numpy==2.1.3", "No package of numpy==2.1.3 was found that fits"),
    ],
)
def test_a_failed_pip_is_explained_with_its_status(tmp_path, words, said):
    script(tmp_path / "bin" / "python", f'echo "{words}"; exit 7')
    with pytest.raises(SystemExit) as error:
        environment.run_pip(tmp_path, [], "packages")
    message = message_of(error)
    assert said in message and "pip ended with status 7" in message


def test_an_unforeseen_failure_of_pip_keeps_its_own_words(tmp_path):
    script(tmp_path / "bin" / "python", "echo 'WARNING: no matter'; echo 'ERROR: the hashes differ'; exit 2")
    with pytest.raises(SystemExit) as error:
        environment.run_pip(tmp_path, [], "packages")
    assert error.value.code.splitlines() == [
        "ERROR: the hashes differ",
        "The install failed: pip ended with status 2, its own words are above.",
    ]


def test_pip_succeeds_in_silence(tmp_path, capfd):
    script(tmp_path / "bin" / "python", "echo 'WARNING: a link is ignored'; echo Collecting torch")
    environment.run_pip(tmp_path, [], "packages")
    assert capfd.readouterr() == ("", "")


def test_progress_follows_pip():
    progress = environment.Progress("finding packages")
    seen = []
    for line in (
        "Collecting torch==2.13.0 (from -r requirements.txt (line 5))\n",
        "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (887.9 MB)\n",
        "Progress 221975000 of 887900000\n",
        "WARNING: a link is ignored\n",
        "Installing collected packages: mpmath, sympy, torch\n",
    ):
        progress.follow(line)
        seen.append(progress.doing)
    download = "downloading torch (887.9 MB)"
    assert seen == ["finding torch==2.13.0", download, download + ", 25 %", download + ", 25 %", "unpacking 3 packages"]


def test_a_full_disk_or_a_locked_folder_ends_in_one_line(monkeypatch):
    def full_disk():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(environment, "make_book", full_disk)
    with pytest.raises(SystemExit) as error:
        environment.main(["book"])
    assert "No space left on device" in message_of(error)


def test_make_says_when_the_named_python_is_not_there():
    run = subprocess.run(["make", "lab", "PYTHON=/nowhere/python3"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode != 0
    assert run.stderr.splitlines()[0].startswith("There is no /nowhere/python3: install Python 3.11 or newer")


# --- When it installs, and when not ---


def test_a_finished_environment_is_used_as_it_is(book, done):
    assert is_current(book)
    environment.make(book, "Making .venv")
    assert done == []


@pytest.mark.parametrize("changed", ["requirements.txt", "constraints.txt"])
def test_changed_requirements_are_installed_into_it(book, done, changed):
    (book.parent / changed).write_text("torch==2.14.0\n")
    assert not is_current(book)
    environment.make(book, "Making .venv")
    assert "create" not in done and done[0][-2:] == ["-r", str(book.parent / "requirements.txt")]
    assert is_current(book)


@pytest.mark.parametrize("way", [KeyboardInterrupt, SystemExit, OSError])
def test_an_install_cut_short_leaves_no_stamp_and_is_made_anew(book, done, monkeypatch, way):
    (book.parent / "requirements.txt").write_text("torch==2.14.0\n")

    def cut_short(*arguments):
        raise way

    with monkeypatch.context() as patched:
        patched.setattr(environment, "run_pip", cut_short)
        with pytest.raises(way):
            environment.make(book, "Making .venv")
    assert not is_current(book)
    environment.make(book, "Making .venv")
    assert done[0] == "create"
    assert is_current(book)


def test_a_damaged_stamp_counts_as_none(book):
    for text in ("", "{", "[]", '"3.11"'):
        environment.stamp_file(book).write_text(text)
        assert not is_current(book)


def test_a_moved_clone_is_made_anew(book, done, monkeypatch, tmp_path):
    moved = tmp_path / "moved" / ".venv"
    shutil.copytree(book, moved, symlinks=True)
    assert not environment.is_sound(moved)
    environment.make(moved, "Making .venv")
    assert done[0] == "create"


def test_an_environment_whose_python_vanished_is_made_anew(book):
    (book / "bin" / "python").unlink()
    assert not environment.is_sound(book)
    (book / "bin" / "python").symlink_to("/nowhere/python3")
    assert not environment.is_sound(book)


def test_an_environment_whose_python_became_another_is_made_anew(book, monkeypatch):
    """As when the system's python3 moves from 3.11 to 3.13 under the link: the packages are still those of 3.11."""
    (book / "bin" / "python").unlink()
    script(book / "bin" / "python", "echo 3.99")
    assert not environment.is_sound(book)
    monkeypatch.setenv("PYTHON", sys.executable)
    assert not environment.is_sound(book)


def test_changed_requirements_need_no_newer_python_beside_it(book, done, monkeypatch):
    """The environment has its own Python; the one that runs this file may be an old one."""

    def too_old():
        raise AssertionError("asked for a newer Python")

    monkeypatch.setattr(environment, "check_python", too_old)
    (book.parent / "requirements.txt").write_text("torch==2.14.0\n")
    environment.make(book, "Making .venv")
    assert is_current(book)


def test_another_python_is_taken_only_when_it_is_named(book, monkeypatch):
    monkeypatch.setattr(environment, "THIS_VERSION", "3.99")
    assert is_current(book)
    monkeypatch.setenv("PYTHON", "python3.99")
    assert not environment.is_sound(book)


def test_the_cpu_build_is_asked_of_pytorchs_own_index_and_nothing_else_is(book, done, monkeypatch):
    environment.stamp_file(book).unlink()
    monkeypatch.setenv("TORCH", "cpu")
    environment.make(book, "Making .venv")
    create, torch, everything = done
    assert create == "create"
    assert torch[torch.index("--extra-index-url") + 1] == environment.CPU_INDEX and "--no-deps" in torch
    assert torch[-1] == "torch==2.13.0" + ("+cpu" if sys.platform == "linux" else "")
    assert "--extra-index-url" not in everything


def test_the_cpu_build_need_be_asked_for_only_once(book, done, monkeypatch):
    environment.stamp_file(book).unlink()
    with monkeypatch.context() as once:
        once.setenv("TORCH", "cpu")
        environment.make(book, "Making .venv")
    colab = book.parent / ".venv-colab"
    shutil.copytree(book, colab, symlinks=True)
    for file in environment.requirement_files(colab):
        file.write_text("torch==2.13.0\n")
    (book.parent / "constraints.txt").write_text("torch==2.13.0\ntqdm==4.70.1\n")
    for folder in (book, colab):
        del done[:]
        environment.make(folder, "Making it")
        assert [step for step in done if environment.CPU_INDEX in step]


def test_by_default_no_index_is_named(book, done):
    environment.stamp_file(book).unlink()
    environment.make(book, "Making .venv")
    assert all("--extra-index-url" not in step for step in done)


def test_an_unknown_build_of_torch_is_refused(book, done, monkeypatch):
    monkeypatch.setenv("TORCH", "gpu")
    with pytest.raises(SystemExit) as error:
        environment.make(book, "Making .venv")
    assert "TORCH=gpu is not known" in message_of(error) and done == []


def test_the_colab_kernel_is_registered_where_the_book_runs(book):
    from jupyter_client.kernelspec import KernelSpecManager

    environment.register_kernel()
    kernels = KernelSpecManager(kernel_dirs=[str(book / "share" / "jupyter" / "kernels")], ensure_native_kernel=False)
    assert kernels.get_kernel_spec("posenc-colab").argv[0] == str(book.parent / ".venv-colab" / "bin" / "python")


# --- The libraries to test against ---


@pytest.fixture
def oracles(book):
    """The book's environment without them, and the argument by which pip is asked for them."""
    (book.parent / "requirements-oracles.txt").write_text("-c constraints-oracles.txt\neinops==0.8.2\n")
    (book.parent / "constraints-oracles.txt").write_text("einops==0.8.2\n")
    return str(book.parent / "requirements-oracles.txt")


def test_the_oracles_are_added_once_and_the_book_stays_as_it_is(book, oracles, done):
    environment.main(["oracles"])
    assert [step[-2:] for step in done] == [["-r", oracles]]
    assert is_current(book)
    for command in ("oracles", "book", "oracles"):
        environment.main([command])
    assert len(done) == 1


def test_without_the_book_it_is_made_first(book, oracles, done):
    environment.stamp_file(book).unlink()
    environment.main(["oracles"])
    create, packages, added = done
    assert create == "create" and packages[-1] == str(book.parent / "requirements.txt") and added[-1] == oracles


@pytest.mark.parametrize("changed", ["requirements-oracles.txt", "constraints-oracles.txt"])
def test_changed_oracles_are_installed_and_the_book_is_left_alone(book, oracles, done, changed):
    environment.main(["oracles"])
    (book.parent / changed).write_text("einops==0.9.0\n")
    environment.main(["book"])
    assert len(done) == 1
    environment.main(["oracles"])
    assert [step[-1] for step in done] == [oracles, oracles]


@pytest.mark.parametrize("command", ["book", "oracles"])
def test_the_oracles_are_looked_at_again_after_the_book_has_changed(book, oracles, done, command):
    """Back to the old requirements as well: what was installed in between may have moved what the oracles need."""
    environment.main(["oracles"])
    for content in ("torch==2.14.0\n", "torch==2.13.0\n"):
        del done[:]
        (book.parent / "constraints.txt").write_text(content)
        environment.main([command])
        environment.main(["oracles"])
        assert [step[-1] for step in done] == [str(book.parent / "requirements.txt"), oracles]


@pytest.mark.parametrize("way", [KeyboardInterrupt, SystemExit, OSError])
def test_oracles_cut_short_are_installed_anew_and_the_book_is_not(book, oracles, done, monkeypatch, way):
    environment.main(["oracles"])
    before = (book.parent / "constraints-oracles.txt").read_text()
    (book.parent / "constraints-oracles.txt").write_text("einops==0.9.0\n")

    def cut_short(*arguments):
        raise way

    with monkeypatch.context() as patched:
        patched.setattr(environment, "run_pip", cut_short)
        with pytest.raises(way):
            environment.make_oracles()
    (book.parent / "constraints-oracles.txt").write_text(before)  # what was half installed was something else
    assert is_current(book)
    environment.main(["oracles"])
    assert [step[-1] for step in done] == [oracles, oracles]


def test_make_test_oracles_adds_them_and_names_their_folder():
    run = subprocess.run(["make", "--dry-run", "test-oracles"], cwd=ROOT, capture_output=True, text=True, check=True)
    steps = ["tools/environment.py book", "tools/environment.py oracles", "-m pytest tests/oracles"]
    assert [step for line in run.stdout.splitlines() for step in steps if line.endswith(step)] == steps


def test_the_oracle_tests_run_only_when_they_are_named(monkeypatch, tmp_path):
    """In a folder of its own, with the book's settings of pytest: what is collected where."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # quicker
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("tests", "tests/oracles"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{Path(folder).name}.py").write_text("def test():\n    pass\n")
    for named, collected in (
        ([], ["tests/test_tests.py::test"]),
        (["tests"], ["tests/test_tests.py::test"]),
        (["tests/oracles"], ["tests/oracles/test_oracles.py::test"]),
    ):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert [line for line in run.stdout.splitlines() if "::" in line] == collected, run.stdout + run.stderr


def test_the_ci_run_calls_both_speeds_and_fails_with_either(monkeypatch, tmp_path):
    for failing in ("test", "test-all", "nothing"):
        monkeypatch.setenv("FAILING", failing)
        run = ci_run(monkeypatch, tmp_path, apt_get="exit 0", chromium="exit 0", bwrap="exit 0", fc_list="echo a font",
                     make='echo "made $*"; [ "$*" != "$FAILING" ]')
        made = [line for line in run.stdout.splitlines() if line.startswith("made ")]
        steps = ["made environments classroom", "made test", "made test-all"]
        assert made == steps[: 2 if failing == "test" else 3], run.stderr
        assert (run.returncode != 0) == (failing != "nothing")


def test_the_two_speeds_together_run_every_test_once():
    """What one leaves out the other runs, of the book's tests and of the classroom's; oracles belong to the second."""
    for name, speed in (("test", '"not slow"'), ("test-all", "slow")):
        run = subprocess.run(["make", "--dry-run", name], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert f"-m pytest -m {speed}" in run
        assert f"-m pytest tests/classroom -m {speed}" in run
        assert ("-m pytest --nbval --nbval-current-env notebooks" in run) == (name == "test")
        assert ("-m pytest tests/oracles" in run) == (name == "test-all")


def test_the_ci_run_fails_where_nothing_can_be_isolated(monkeypatch, tmp_path):
    run = ci_run(monkeypatch, tmp_path, apt_get="exit 0", make="exit 0", chromium="exit 0", fc_list="echo a font",
                 bwrap="exit 1")
    assert run.returncode != 0
    assert "bubblewrap cannot isolate a process here" in run.stderr and "make test" not in run.stdout


# --- The browser ---


@pytest.fixture
def no_browser(book, monkeypatch, tmp_path):
    """No Chromium on this machine, and a Playwright that has none and cannot download one."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(environment, "BROWSER_FOLDERS", ())
    (book / "bin" / "python").unlink()
    script(book / "bin" / "python", '[ "$1" = -c ] && echo /nowhere/chrome || exit 1')
    return empty


def test_a_browser_on_the_path_is_found(no_browser):
    browser = script(no_browser / "google-chrome", "exit 0")
    assert environment.find_browser() == str(browser)


def test_a_placeholder_that_does_not_start_is_passed_over(no_browser):
    script(no_browser / "chromium", "exit 1")
    browser = script(no_browser / "chromium-browser", "exit 0")
    assert environment.find_browser() == str(browser)


def test_playwrights_own_browser_is_taken_where_there_is_no_other(no_browser, book, tmp_path):
    browser = script(tmp_path / "playwright" / "chrome", "exit 0")
    script(book / "bin" / "python", f'[ "$1" = -c ] && echo {browser} || exit 1')
    assert environment.find_browser() == str(browser)


def test_no_browser_at_all_ends_with_what_to_do(no_browser, capfd):
    with pytest.raises(SystemExit) as error:
        environment.main(["browser"])
    message = message_of(error)
    assert "apt-get install chromium" in message and "set CHROMIUM" in message
    assert capfd.readouterr().out == ""


def test_a_wrong_chromium_is_refused_with_status_1(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    command = [sys.executable, environment.__file__, "browser"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("CHROMIUM=/nowhere/chromium does not run as a browser") and run.stderr.count("\n") == 1


def test_the_ci_run_fails_where_the_browser_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    # Whatever this machine lacks, a test installs nothing and runs no tests.
    run = ci_run(monkeypatch, tmp_path, apt_get="exit 0", make="exit 0")
    assert run.returncode != 0
    assert "There is no Chromium that runs" in run.stderr and "make test" not in run.stdout


# --- The files that say what is installed ---


def pins(name):
    """{package: version} of a requirement file in which each line must be an exact pin."""
    lines = [line.strip() for line in (ROOT / name).read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith(("#", "-c "))]
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), f"{name}: {line!r} is not an exact pin"
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}


@pytest.mark.parametrize("suffix", ["", "-colab", "-oracles", "-classroom"])
def test_every_requirement_is_pinned_and_constrained_to_the_same_version(suffix):
    requirements, constraints = pins(f"requirements{suffix}.txt"), pins(f"constraints{suffix}.txt")
    assert (ROOT / f"requirements{suffix}.txt").read_text().startswith(f"-c constraints{suffix}.txt\n")
    assert requirements and requirements.items() <= constraints.items()


def test_the_library_admits_what_the_book_was_run_with_and_what_colab_has():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    book, colab = pins("requirements.txt"), pins("requirements-colab.txt") | {"torch": "2.11.0"}
    needs = [Requirement(line) for line in project["dependencies"]]
    assert {need.name for need in needs} == {"torch", "numpy", "matplotlib", "ipywidgets", "tqdm"}
    for need in needs:
        assert book[need.name] in need.specifier and colab[need.name] in need.specifier, need
    for version in ("3.11", "3.12", "3.13"):
        assert version in SpecifierSet(project["requires-python"])


@pytest.mark.parametrize("name", ["oracles", "classroom"])
def test_what_comes_beside_the_book_moves_nothing_that_it_needs(name):
    book, beside = pins("constraints.txt"), pins(f"constraints-{name}.txt")
    shared = book.keys() & beside.keys()
    assert {"torch", "numpy"} <= shared < beside.keys()
    assert {name: beside[name] for name in shared} == {name: book[name] for name in shared}
    assert (ROOT / f"requirements-{name}.txt").read_text().splitlines()[1] == "-c constraints.txt"


@pytest.mark.parametrize("name", ["oracles", "classroom"])
def test_the_extra_admits_what_ci_installs(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [Requirement(line) for line in project["optional-dependencies"][name]]
    installed = pins(f"requirements-{name}.txt")
    of_the_book = pins("requirements.txt").keys() - {"jupytext"} if name == "classroom" else set()
    assert {canonicalize_name(need.name) for need in extra} == installed.keys() - of_the_book
    for need in extra:
        assert need.specifier and installed[need.name] in need.specifier, need


def test_make_makes_the_classroom_an_environment_of_its_own(book, done):
    (book.parent / "requirements-classroom.txt").write_text("-c constraints-classroom.txt\nnbgrader==0.9.6\n")
    (book.parent / "constraints-classroom.txt").write_text("nbgrader==0.9.6\n")
    (book.parent / ".venv-classroom").mkdir()
    (book.parent / ".venv-classroom" / "bin").symlink_to(book / "bin")
    environment.main(["classroom"])
    create, packages = done
    assert create == "create" and packages[-1] == str(book.parent / "requirements-classroom.txt")
    assert is_current(book)


def test_constraints_are_remade_from_the_needs_and_from_the_other_constraints(tmp_path):
    requirements = tmp_path / "requirements-oracles.txt"
    requirements.write_text("-c constraints-oracles.txt\n-c constraints.txt\n# a comment\n\neinops==0.8.2\n")
    needs = environment.needs_without(tmp_path / "constraints-oracles.txt", requirements)
    assert needs == ["-c", "constraints.txt", "einops==0.8.2"]


def test_constraints_name_no_build_and_no_gpu_library():
    freeze = ["nvidia-cublas==13.1", "torch==2.13.0+cpu", "tqdm==4.70.1", "triton==3.7"]
    assert environment.clean_pins(freeze) == ["torch==2.13.0", "tqdm==4.70.1"]
