"""The library as a package: wheel and sdist are built, installed into an empty environment, and used there."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from tools import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FILES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "posenc_lib").rglob("*.py")}
USED = """
import importlib, json, pkgutil
import torch
import posenc_lib
names = [module.name for module in pkgutil.walk_packages(posenc_lib.__path__, "posenc_lib.")]
for name in names:
    importlib.import_module(name)
picture = posenc_lib.explorers.sinusoid_explorer()._repr_mimebundle_()
verdict = posenc_lib.check("0.1", lambda number: 2 * number)
table = posenc_lib.sinusoidal_table(3, 4)
print(json.dumps([posenc_lib.__file__, posenc_lib.__version__, len(names), sorted(picture[0]), verdict.passed,
                  round(table[1, 0].item(), 4)]))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The wheel and the sdist, built from a copy, so that the build leaves nothing in the clone."""
    folder = tmp_path_factory.mktemp("packages")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "posenc_lib", folder / "posenc_lib", ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, "-m", "build", "--no-isolation"], folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A new environment into which pip puts the wheel and what it asks for, at the book's versions."""
    return tmp_path_factory.mktemp("an empty environment") / "venv"


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_and_sdist_hold_the_library_and_nothing_else_of_the_book(packages):
    wheel, sdist = packages
    assert {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name} == FILES
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in names if name.endswith(".py")} == FILES | ({"setup.py"} & names)
    assert {"pyproject.toml", "README.md"} <= names


def test_the_wheel_asks_for_what_the_library_imports_and_no_more(packages):
    archive = zipfile.ZipFile(packages[0])
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    metadata = message_from_string(archive.read(name).decode())
    needs = [need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need]
    assert {need.split(">")[0] for need in needs} == {"torch", "numpy", "matplotlib", "ipywidgets", "tqdm"}
    assert set(metadata.get_all("Provides-Extra")) == {"oracles", "classroom"}


def test_both_work_in_an_empty_environment(packages, empty, tmp_path):
    environment.create_empty(empty)
    if environment.torch_build() == "cpu":
        environment.install_cpu_torch(empty, ROOT / "requirements.txt")
    python = str(environment.python_of(empty))
    pip = [python, "-I", "-m", "pip"]
    wheel = [*environment.WHEELS, "-c", str(ROOT / "constraints.txt"), str(packages[0])]
    environment.run_pip(empty, wheel, "the wheel")
    for package in packages:
        if package != packages[0]:                   # the sdist in the wheel's place, built there with what is there
            run([*pip, "uninstall", "--quiet", "--yes", "posenc_lib"], tmp_path)
            run([*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", str(package)], tmp_path)
        place, version, modules, kinds, passed, entry = json.loads(run([python, "-W", "error", "-c", USED], tmp_path))
        assert Path(place).is_relative_to(empty)
        assert version == package.name.split("-")[1].removesuffix(".tar.gz")
        assert modules == len(FILES) - 1
        assert {"text/plain", "image/png"} <= set(kinds)
        assert passed is True and entry == 0.8415
    run([*pip, "check"], tmp_path)
