"""The first code cell of every chapter, run as a script in fresh processes against a repository made here."""

import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from builder.chapter import FIRST_CELL, first_cell

TAG = "v0.1.0"
FOLDER = f"posenc_book-{TAG}"
SHOW_WHERE = "\nimport posenc_lib\nprint(posenc_lib.__file__)\n"


@pytest.fixture
def elsewhere(tmp_path):
    """A folder without the book, whose name has a space and letters beyond ASCII."""
    folder = tmp_path / "où est 本"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(tmp_path):
    """A published book: its tag holds the library."""
    return published(tmp_path / "published bøok", library=True)


def published(folder, library):
    content = folder / ("posenc_lib/__init__.py" if library else "README.md")
    content.parent.mkdir(parents=True)
    content.write_text("WHERE = 'the tag'\n" if library else "another project\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "a release")
    git(folder, "tag", TAG)
    return folder


def git(folder, *arguments):
    """Runs git as if its user had no settings of their own."""
    person = ["-c", "user.name=Reader", "-c", "user.email=reader@example.org"]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *person, *arguments], cwd=folder, env=environment, check=True)


def run_first_cell(folder, repository="", tag=TAG, after=SHOW_WHERE, path=None, within=()):
    """Runs the cell in `folder` in a new process that knows nothing of this repository."""
    book = folder.parent / "book"
    book.mkdir(exist_ok=True)
    (book / "book.toml").write_text(f'repository = "{repository}"\ntag = "{tag}"\n', encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*within, sys.executable, "-"],
        input=first_cell(book).source + after,
        cwd=folder,
        env=environment | ({} if path is None else {"PATH": path}),
        capture_output=True,
        encoding="utf-8",
    )


def message(run):
    """The error a reader sees: there must be one, and nothing of how it came about."""
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("Traceback") == 1, run.stderr
    assert "During handling" not in run.stderr
    return run.stderr[run.stderr.index("RuntimeError: ") :]


def test_the_file_has_the_two_lines_that_are_stamped():
    lines = FIRST_CELL.read_text(encoding="utf-8").splitlines()
    assert lines.count('REPOSITORY = ""') == lines.count('TAG = ""') == 1


def test_address_and_tag_are_stamped(tmp_path):
    (tmp_path / "book.toml").write_text('repository = "https://example.org/a"\ntag = "v2"\n', encoding="utf-8")
    source = first_cell(tmp_path).source
    assert '\nREPOSITORY = "https://example.org/a"\nTAG = "v2"\n' in source
    assert '""' not in source


def test_installs_nothing():
    assert not re.search(r"\b(pip|conda|install|upgrade)\b", FIRST_CELL.read_text(encoding="utf-8").partition("\n")[2])


def test_does_nothing_where_the_library_can_be_imported(elsewhere):
    prepared = "import sys; before = list(sys.path)\n"
    library = elsewhere / "site" / "posenc_lib"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    run = subprocess.run(
        [sys.executable, "-c", prepared + FIRST_CELL.read_text(encoding="utf-8") + "\nassert sys.path == before"],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(elsewhere / "site")},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("depth", [".", "notebooks", "notebooks/ja"])
def test_finds_the_library_here_or_in_a_parent_folder(elsewhere, depth):
    library = elsewhere / "posenc_lib"
    library.mkdir()
    (library / "__init__.py").touch()
    (elsewhere / depth).mkdir(parents=True, exist_ok=True)
    run = run_first_cell(elsewhere / depth)
    assert run.stderr == ""
    assert Path(run.stdout.strip()).parent == library


def test_fetches_the_tag_silently(elsewhere, repository):
    (repository / "posenc_lib" / "__init__.py").write_text("WHERE = 'after the tag'\n", encoding="utf-8")
    git(repository, "commit", "--quiet", "-am", "later")
    run = run_first_cell(elsewhere, repository, after="\nimport posenc_lib\nassert posenc_lib.WHERE == 'the tag'\n")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert [path.name for path in elsewhere.iterdir()] == [FOLDER]


def test_a_second_run_and_a_restart_need_no_network(elsewhere, repository):
    again = "\nbefore = list(sys.path)\n" + FIRST_CELL.read_text(encoding="utf-8") + "\nassert sys.path == before\n"
    assert run_first_cell(elsewhere, repository, after=again).stderr == ""
    fetched = elsewhere / FOLDER / "posenc_lib" / "__init__.py"
    written = fetched.stat().st_mtime_ns
    repository.rename(repository.with_name("moved away"))
    run = run_first_cell(elsewhere, repository)
    assert run.stderr == ""
    assert Path(run.stdout.strip()) == fetched
    assert fetched.stat().st_mtime_ns == written


def test_no_address(elsewhere):
    found = message(run_first_cell(elsewhere))
    assert "The book is not published yet: set REPOSITORY above to the address of your copy." in found
    assert list(elsewhere.iterdir()) == []


def test_unreachable_address(elsewhere):
    found = message(run_first_cell(elsewhere, elsewhere / "nowhere"))
    assert str(elsewhere / "nowhere") in found
    assert re.search(r"fatal: .*nowhere.* does not exist", found)
    assert list(elsewhere.iterdir()) == []


def test_missing_tag(elsewhere, repository):
    found = message(run_first_cell(elsewhere, repository, tag="v9"))
    assert "at v9" in found
    assert "fatal: Remote branch v9 not found" in found
    assert list(elsewhere.iterdir()) == []


def test_git_is_missing(elsewhere, repository, tmp_path):
    found = message(run_first_cell(elsewhere, repository, path=str(tmp_path / "empty")))
    assert "this needs git" in found
    assert "No such file or directory: 'git'" in found
    assert list(elsewhere.iterdir()) == []


def test_a_repository_without_the_library(elsewhere, tmp_path):
    found = message(run_first_cell(elsewhere, published(tmp_path / "other", library=False)))
    assert "there is no posenc_lib in it" in found
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(elsewhere, repository):
    if os.geteuid() == 0:       # permissions do not bind an administrator; a file system mounted read-only does
        mounted = 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"'
        outer = ["unshare", "--mount", "sh", "-c", mounted, "sh"]
    else:
        outer = []
        elsewhere.chmod(0o555)
    found = message(run_first_cell(elsewhere, repository, within=outer))
    assert "a folder that can be written to" in found
    assert re.search("Read-only file system|Permission denied", found)
    assert list(elsewhere.iterdir()) == []


class Locked(BaseHTTPRequestHandler):
    """A server that asks everybody who they are, as one does whose repository is private or not there at all."""

    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.end_headers()

    def log_message(self, *_):
        pass


def test_nobody_is_asked_for_a_password_on_the_terminal_jupyter_was_started_from(elsewhere):
    server = HTTPServer(("127.0.0.1", 0), Locked)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    terminal, own_end = os.openpty()
    (elsewhere.parent / "book").mkdir()
    address = f"http://127.0.0.1:{server.server_port}/private.git"
    (elsewhere.parent / "book" / "book.toml").write_text(f'repository = "{address}"\ntag = "{TAG}"\n', encoding="utf-8")
    on_terminal = f"import fcntl, os, termios\nos.setsid()\nfcntl.ioctl({own_end}, termios.TIOCSCTTY, 0)\n"
    try:
        run = subprocess.run(
            [sys.executable, "-"],
            input=on_terminal + first_cell(elsewhere.parent / "book").source,
            cwd=elsewhere,
            capture_output=True,
            encoding="utf-8",
            pass_fds=[own_end],
            timeout=30,
        )
    finally:
        server.shutdown()
        server.server_close()
        os.close(terminal)
        os.close(own_end)
    assert "terminal prompts disabled" in message(run)


def test_something_stands_where_the_copy_goes(elsewhere, repository):
    (elsewhere / FOLDER).write_text("a file of the reader's", encoding="utf-8")
    found = message(run_first_cell(elsewhere, repository))
    assert FOLDER in found
    assert [path.name for path in elsewhere.iterdir()] == [FOLDER]
    assert (elsewhere / FOLDER).read_text(encoding="utf-8") == "a file of the reader's"
