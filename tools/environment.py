"""Make the book's environments, and find a browser for its tests.

    python3 tools/environment.py book         .venv, from requirements.txt: to read, build and test the book
    python3 tools/environment.py oracles      to .venv also requirements-oracles.txt: libraries to test against
    python3 tools/environment.py colab        .venv-colab, from requirements-colab.txt: a kernel like Colab's
    python3 tools/environment.py classroom    .venv-classroom, from requirements-classroom.txt: to assign and grade
    python3 tools/environment.py browser      print the path of a Chromium
    python3 tools/environment.py constraints  remake constraints.txt and the other three constraints files

Environment variables: TORCH=cpu takes PyTorch's CPU build, CHROMIUM names the browser, and PYTHON, which make
passes on when it is given, says that this very Python is wanted.

Only the standard library is used, and only syntax that Python 3.6 reads, so that a Python too old for the book gets
as far as being told so.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / ".venv"
COLAB = ROOT / ".venv-colab"
CLASSROOM = ROOT / ".venv-classroom"
KERNEL = "posenc-colab"
OLDEST_PYTHON = (3, 11)
PIP = "pip==26.3"  # one version, so that its progress and its failures read the same everywhere
WHEELS = ("--progress-bar", "raw", "--only-binary", ":all:")  # ready-made packages only: no compiler is asked for
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_FOLDERS = ("/usr/bin",)  # looked in after PATH


def fail(message):
    """End with one line on stderr and exit status 1."""
    raise SystemExit(message)


# --- Is the environment that stands there still the right one? ---


def files_named(suffix):
    """The needs and their constraints."""
    return [ROOT / f"requirements{suffix}.txt", ROOT / f"constraints{suffix}.txt"]


def requirement_files(environment):
    """The files that decide what is installed in an environment."""
    return files_named({COLAB: "-colab", CLASSROOM: "-classroom"}.get(environment, ""))


def fingerprint(files):
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def python_of(environment):
    return environment / "bin" / "python"


THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def python_version_in(environment):
    """"3.11", asked of the environment's own Python; None where that does not run, as when its base was removed."""
    question = "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')"
    try:
        answer = subprocess.check_output([str(python_of(environment)), "-I", "-c", question], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.decode().strip()


def stamp_file(environment):
    return environment / "book-stamp.json"


def write_json(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


def read_stamp(environment):
    """What the last finished install wrote; {} where there is none or it is damaged."""
    try:
        stamp = json.loads(stamp_file(environment).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(environment, files, build):
    stamp = {
        "requirements": fingerprint(files),
        "python": python_version_in(environment),
        "folder": str(environment),  # scripts and kernels hold absolute paths: a moved clone is made anew
        "torch": build,  # so that TORCH=cpu need be said once only
    }
    write_json(stamp_file(environment), stamp)


def is_sound(environment):
    """Whether a finished install stands where it was made, with the Python it was made with (and that was asked for).

    Without PYTHON an environment made with another Python is kept: who once said PYTHON=python3.12 need not say it
    again.
    """
    stamp = read_stamp(environment)
    version = python_version_in(environment)
    wanted = THIS_VERSION if os.environ.get("PYTHON") else version
    return version is not None and stamp.get("python") == version == wanted and stamp.get("folder") == str(environment)


def is_current(environment, files):
    return is_sound(environment) and read_stamp(environment).get("requirements") == fingerprint(files)


# --- Making it ---


def check_python(version=sys.version_info):
    if tuple(version[:2]) < OLDEST_PYTHON:
        fail(
            f"The book needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer, but {sys.executable} is Python "
            f"{version[0]}.{version[1]}. Name another, for example: make lab PYTHON=python3.12"
        )


def check_venv():
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        fail(
            f"{sys.executable} cannot make virtual environments: its venv or ensurepip module is missing. "
            "On Debian or Ubuntu: apt install python3-venv"
        )


def create_empty(environment):
    """A new environment with the pinned pip; whatever stood in its folder is removed."""
    import venv  # here, since check_venv must have had its say

    try:
        venv.create(str(environment), clear=True, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError as error:
        fail(explain_pip((error.output or b"").decode(errors="replace"), error.returncode))
    run_pip(environment, ["--progress-bar", "off", PIP], "pip")


def make(environment, announcement):
    """Bring an environment up to its requirement files; at once where it is so already."""
    files = requirement_files(environment)
    build = torch_build()
    if is_current(environment, files):
        return
    started = time.monotonic()
    if is_sound(environment):
        print(f"The requirements have changed: bringing {environment.name} up to them.", flush=True)
        stamp_file(environment).unlink()  # an install that is cut short from here on leaves no valid stamp
    else:
        check_python()
        check_venv()
        print(announcement, flush=True)
        create_empty(environment)
    if build == "cpu":
        install_cpu_torch(environment, files[0])
    run_pip(environment, [*WHEELS, "-r", str(files[0])], "packages")
    write_stamp(environment, files, build)
    print(f"Ready after {time.monotonic() - started:.0f} s.", flush=True)


def torch_build():
    """"cpu", or "" for PyTorch's default on this machine: as TORCH says, else as .venv was made."""
    build = os.environ.get("TORCH") or read_stamp(BOOK).get("torch", "")
    if build not in ("", "cpu"):
        fail(f"TORCH={build} is not known: leave it out for PyTorch's default build, or say TORCH=cpu")
    return build


def install_cpu_torch(environment, requirements):
    """Install the CPU build of torch before everything else, alone: its index serves only that one package.

    On Linux the build is named, so that an index out of reach is an error and not gigabytes of the default build.
    """
    (pin,) = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    if sys.platform == "linux":
        pin += "+cpu"
    run_pip(environment, [*WHEELS, "--no-deps", "--extra-index-url", CPU_INDEX, pin], "torch for the CPU")


def run_pip(environment, arguments, what):
    """pip install, with one moving line in place of its own many; its failure is explained and is ours too."""
    command = [str(python_of(environment)), "-I", "-u", "-m", "pip", "install", "--no-input", *arguments]
    settings = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore", PIP_USER="0")
    output = []
    with Progress("finding " + what) as progress, subprocess.Popen(
        command, cwd=str(ROOT), env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as pip:
        for raw_line in pip.stdout:
            line = raw_line.decode(errors="replace")
            progress.follow(line)
            if not line.startswith("Progress "):
                output.append(line)
    if pip.returncode != 0:
        fail(explain_pip("".join(output), pip.returncode))


class Progress:
    """One line that says what pip is doing and for how long: rewritten each second, or in a log added each minute."""

    def __init__(self, doing):
        self.doing = doing
        self.started = time.monotonic()
        self.ended = threading.Event()
        self.writer = threading.Thread(target=self.write_until_ended, daemon=True)

    def __enter__(self):
        self.writer.start()
        return self

    def __exit__(self, *exception):
        self.ended.set()
        self.writer.join()

    def follow(self, line):
        """Take from a line of pip's output what it has come to."""
        words = line.split()
        if line.startswith("Progress ") and len(words) == 4 and words[3] != "0":  # Progress 262144 of 5493829
            self.doing = f"{self.doing.split(', ')[0]}, {100 * int(words[1]) / int(words[3]):.0f} %"
        elif words[:1] == ["Collecting"] and len(words) > 1:
            self.doing = f"finding {words[1]}"
        elif words[:1] == ["Downloading"] and len(words) > 1:
            self.doing = f"downloading {words[1].split('/')[-1].split('-')[0]} {' '.join(words[2:])}"
        elif line.startswith("Installing collected packages"):
            self.doing = f"unpacking {line.count(',') + 1} packages"

    def write_until_ended(self):
        on_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns - 1
        while not self.ended.wait(1 if on_terminal else 60):
            line = f"  {time.monotonic() - self.started:3.0f} s  {self.doing}"
            if on_terminal:
                print("\r" + line[:width].ljust(width), end="", flush=True)
            else:
                print(line, flush=True)
        if on_terminal:
            print("\r" + " " * width, end="\r", flush=True)


NETWORK_SIGNS = ("connection broken by", "Could not fetch URL", "Max retries exceeded", "Read timed out")


def explain_pip(output, status):
    """One line for a failed pip, with its status; where the failure is not foreseen, after pip's own words."""
    ended = f"pip ended with status {status}"
    if "No space left on device" in output:
        return (
            f"The disk is full, here or in {tempfile.gettempdir()} ({ended}). Free some space (1.5 GB are needed, with "
            "the default PyTorch on Linux about 8 GB) and run the same command again."
        )
    if any(sign in output for sign in NETWORK_SIGNS):
        return (
            f"The package index cannot be reached ({ended}). The first run needs the network, later ones do not; "
            "behind a proxy set HTTPS_PROXY. Then run the same command again."
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    missing = [line.split(" for ", 1)[1] for line in errors if "No matching distribution found for " in line]
    if missing:
        return (
            f"No package of {missing[0]} was found that fits this Python and this machine ({ended}). "
            "Try another Python, for example: make lab PYTHON=python3.12"
        )
    own_words = errors or output.splitlines()[-10:]
    return "\n".join([*own_words, f"The install failed: {ended}, its own words are above."])


def make_book():
    announcement = "Making .venv, once: about 350 MB to download, 1.5 GB on disk, a few minutes."
    if sys.platform == "linux" and torch_build() == "":
        announcement += (
            "\nOn Linux the default PyTorch adds its GPU libraries, about 3 GB to download and 7 GB on disk. "
            "For the CPU build stop with Ctrl-C and run: make lab TORCH=cpu"
        )
    make(BOOK, announcement)
    ask_for_no_news(BOOK)


def make_oracles():
    """Add to .venv the libraries that tests/oracles holds the schemes against, at once where they are there already.

    .venv's stamp notes them. Every install of the book's own packages writes it anew without that note, so that they
    are looked at again after it.
    """
    make_book()
    files = files_named("-oracles")
    stamp = read_stamp(BOOK)
    if stamp.pop("oracles", None) == fingerprint(files):
        return
    started = time.monotonic()
    print("Adding to .venv the libraries to test against: about 30 MB to download, 180 MB on disk.", flush=True)
    write_json(stamp_file(BOOK), stamp)  # an install that is cut short from here on leaves no note of them
    run_pip(BOOK, [*WHEELS, "-r", str(files[0])], "packages")
    write_json(stamp_file(BOOK), dict(stamp, oracles=fingerprint(files)))
    print(f"Ready after {time.monotonic() - started:.0f} s.", flush=True)


def ask_for_no_news(environment):
    """JupyterLab's default for a reader who has not chosen: no question about news, no look for updates."""
    settings = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
    write_json(environment / "share" / "jupyter" / "lab" / "settings" / "overrides.json", settings)


def make_colab():
    if python_version_in(BOOK) is None:
        fail("There is no .venv to register the kernel in. First run: python3 tools/environment.py book")
    make(COLAB, "Making .venv-colab, once, for the tests with Colab's versions: 1.3 GB on disk, a minute or more.")
    register_kernel()


def make_classroom():
    make(CLASSROOM, "Making .venv-classroom, once, to assign and grade: 1.6 GB on disk, a minute or more.")
    ask_for_no_news(CLASSROOM)


def register_kernel():
    """Let what runs in .venv start a kernel in .venv-colab by its name."""
    specification = {
        "argv": [str(python_of(COLAB)), "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 with Colab's versions",
        "language": "python",
    }
    write_json(BOOK / "share" / "jupyter" / "kernels" / KERNEL / "kernel.json", specification)


# --- The browser ---


def runs_as_browser(path):
    """Whether the program starts and tells its version; a placeholder such as Ubuntu's chromium-browser does not."""
    try:
        return subprocess.call([path, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def find_browser():
    named = os.environ.get("CHROMIUM")
    if named:
        if not runs_as_browser(named):
            fail(f"CHROMIUM={named} does not run as a browser: set it to the path of Chromium or Chrome, or unset it.")
        return shutil.which(named)
    folders = os.pathsep.join([os.environ.get("PATH", ""), *BROWSER_FOLDERS])
    installed = [shutil.which(name, path=folders) for name in BROWSERS]
    for path in installed:
        if path and runs_as_browser(path):
            return path
    return playwright_browser()


def playwright_browser():
    """The Chromium that Playwright keeps for itself, downloaded if need be."""
    python = str(python_of(BOOK))
    question = "from playwright.sync_api import sync_playwright as p; print(p().start().chromium.executable_path)"
    advice = "install Chromium (Debian: apt-get install chromium) or set CHROMIUM to the path of one."
    try:
        path = subprocess.check_output([python, "-c", question]).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        fail("No Chromium for the browser tests, and no Playwright in .venv that could fetch one: " + advice)
    if runs_as_browser(path):
        return path
    print("No Chromium found: Playwright downloads one, about 200 MB.", file=sys.stderr, flush=True)
    status = subprocess.call([python, "-m", "playwright", "install", "chromium"], stdout=sys.stderr)
    if status != 0 or not runs_as_browser(path):
        fail(f"No Chromium for the browser tests, and Playwright could not provide one (status {status}): {advice}")
    return path


# --- Remaking the constraints ---

CONSTRAINTS_HEAD = """\
# Every package that {requirements} brings along, at the version the book was run with.
# Remade, after a change there, by: make constraints
"""


def make_constraints():
    """Install the requirements alone in a scratch environment and write down all that came with them."""
    check_python()
    check_venv()
    for suffix in ("", "-oracles", "-classroom", "-colab"):  # the book's first: the next two keep to them
        requirements, constraints = files_named(suffix)
        print(f"Installing {requirements.name} in a scratch environment.", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            clean = pathlib.Path(scratch) / "venv"
            create_empty(clean)
            run_pip(clean, [*WHEELS, *needs_without(constraints, requirements)], "packages")
            freeze = [str(python_of(clean)), "-I", "-m", "pip", "freeze", "--all", "--exclude", "pip"]
            pins = subprocess.check_output(freeze).decode().splitlines()
        head = CONSTRAINTS_HEAD.format(requirements=requirements.name)
        constraints.write_text(head + "\n".join(clean_pins(pins)) + "\n")


def needs_without(constraints, requirements):
    """What a requirement file says, as arguments of pip, without the constraints that are to be made from it."""
    lines = requirements.read_text().splitlines()
    lines = [line for line in lines if not line.startswith("#") and line != f"-c {constraints.name}"]
    return [word for line in lines for word in line.split()]


def clean_pins(pins):
    """Pins that hold on every machine: torch without its build, and without the GPU libraries, which it pins itself."""
    return [pin.split("+")[0] for pin in pins if not pin.startswith(("nvidia-", "cuda-", "triton"))]


def main(arguments):
    commands = {
        "book": make_book,
        "oracles": make_oracles,
        "colab": make_colab,
        "classroom": make_classroom,
        "browser": lambda: print(find_browser()),
        "constraints": make_constraints,
    }
    if len(arguments) != 1 or arguments[0] not in commands:
        fail("Say one of: " + ", ".join(commands))
    if os.name == "nt":
        fail("This set-up is for Linux and macOS; README.md has the lines for Windows.")
    try:
        commands[arguments[0]]()
    except KeyboardInterrupt:
        print("\nStopped. The same command starts it anew.", file=sys.stderr)
        sys.exit(130)
    except OSError as error:  # a full disk, a folder that may not be written
        fail(f"The set-up failed: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
