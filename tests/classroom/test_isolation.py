"""What a student's process can reach and how much it may use: each attack is tried, and ended or in vain.

Attacks that reach something outside are also tried without isolation, where they succeed: so they are real ones.
"""
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from classroom import isolation
from classroom.isolation import Limits, why_not_available
from classroom.remote import Session, SessionEnded

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
QUICK = Limits(seconds=20, cpu_seconds=20, cell_seconds=3, call_seconds=3)


def session(source, isolated=True, limits=QUICK):
    """A session whose one answer is the function `attack` of this source."""
    return Session([(1, "answer-9-1", textwrap.dedent(source))], {"9.1": "attack"}, limits, isolated)


def result(source, *arguments, isolated=True):
    with session(source, isolated) as running:
        return running.answer("9.1")(*arguments)


def why_ended(source, limits=QUICK):
    """Why the session ended, by its cells or by the call of its answer."""
    with session(source, limits=limits) as running:
        try:
            running.answer("9.1")()
        except (SessionEnded, BaseException) as error:
            assert running.ended, repr(error)
        assert running.ended
        with pytest.raises(SessionEnded, match=re.escape(running.ended)):
            running.answer("9.1")()
        return running.ended


def test_isolation_is_available_here():
    assert why_not_available() is None


# What can be reached

class Listener:
    """Counts what arrives at a TCP port, a UDP port and an abstract socket of this machine."""

    def __enter__(self):
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.name = f"\0classroom-test-{os.getpid()}"
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(self.name)
        self.abstract.listen()
        self.udp.settimeout(0.2)
        return self

    def __exit__(self, *_):
        for each in (self.tcp, self.udp, self.abstract):
            each.close()

    def datagram(self):
        try:
            return self.udp.recv(100)
        except TimeoutError:
            return b""


NETWORK = """
    import socket
    def tried(action):
        try:
            action()
            return "reached"
        except OSError as error:
            return type(error).__name__
    def attack(tcp, udp, name):
        def abstract():
            with socket.socket(socket.AF_UNIX) as it:
                it.connect("\\0" + name)
        def datagram():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
                it.sendto(b"a question of names", ("127.0.0.1", udp))
        def connection():
            socket.create_connection(("127.0.0.1", tcp), 1).close()
        return [tried(connection), tried(abstract), tried(datagram)]
    """


@pytest.mark.parametrize("isolated", [True, False])
def test_no_network_not_even_the_machine_itself(isolated):
    with Listener() as there:
        ports = [each.getsockname()[1] for each in (there.tcp, there.udp)]
        seen = result(NETWORK, *ports, there.name[1:], isolated=isolated)
        assert seen[:2] == (["ConnectionRefusedError"] * 2 if isolated else ["reached"] * 2)
        assert there.datagram() == (b"" if isolated else b"a question of names")


def test_no_names_are_found_in_the_network():
    assert result("""
        import socket
        def attack():
            interfaces = [name for _, name in socket.if_nameindex()]
            try:
                return interfaces, str(socket.getaddrinfo("example.org", 80))
            except OSError as error:
                return interfaces, type(error).__name__
        """) == (["lo"], "gaierror")


FILES = """
    import os
    def attack(paths):
        seen = []
        for number, path in enumerate(paths):
            os.symlink(path, f"link{number}")
            for name in (path, f"link{number}", "/proc/1/root" + path, "/proc/self/root" + path,
                         "/scratch/../" + path):
                try:
                    seen.append(open(name).read(20))
                except OSError:
                    pass
        return seen
    """


@pytest.mark.parametrize("isolated", [True, False])
def test_no_file_of_a_neighbour_the_book_or_the_machine_is_readable(tmp_path, isolated):
    neighbour = tmp_path / "neighbour.ipynb"
    neighbour.write_text("what the neighbour wrote")
    paths = [str(path) for path in (neighbour, ROOT / "posenc_lib/exercises/chapter_02.py", ROOT / "book.toml",
                                    ROOT / "classroom/isolation.py", ROOT / "chapters/02_sinusoidal_by_hand.md",
                                    Path("/etc/passwd"), Path("/etc/shadow"), Path("/etc/hostname"))]
    seen = result(FILES, paths, isolated=isolated)
    assert seen == [] if isolated else len(seen) > len(paths)


WRITES = """
    import os
    def attack(folders):
        written = []
        for folder in folders:
            try:
                with open(os.path.join(folder, "left_by_a_student"), "w") as file:
                    file.write("1")
                written.append(folder)
            except OSError:
                pass
        return written
    """


def test_nothing_is_writable_but_the_scratch_folder(tmp_path):
    folders = [str(tmp_path), str(ROOT), str(ROOT / "tests"), sys.prefix, sys.base_prefix, "/", "/tmp", "/usr", "/dev",
               "/dev/shm", "/etc", "/root", "/home", "/library", "/library/posenc_lib", "/classroom", "/proc",
               os.path.expanduser("~")]
    assert result(WRITES, [*folders, "/scratch"]) == ["/scratch"]
    assert not list(tmp_path.iterdir()) and not (ROOT / "left_by_a_student").exists()
    assert result(WRITES, [str(tmp_path)], isolated=False) == [str(tmp_path)]


def test_the_scratch_folder_is_small_and_starts_empty():
    assert result("""
        import os
        def attack():
            before, written = os.listdir("."), 0
            try:
                for number in range(100):
                    with open(f"file{number}", "wb", buffering=0) as file:
                        for _ in range(10):
                            written += file.write(bytes(1_000_000))
            except OSError as error:
                return before, written < 65_000_000, os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"]
        """) == ([], True, True)


def test_no_environment_variable_comes_along(monkeypatch):
    monkeypatch.setenv("CLASSROOM_TEST_SECRET", "of the instructor")
    source = """
        import os
        def attack():
            inside = open("/proc/self/environ").read()
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        inside += open(f"/proc/{name}/environ").read()
                    except OSError:
                        pass
            return inside + str(dict(os.environ))
        """
    graders = Path("/proc/self/environ").read_text()
    seen = result(source)
    assert "/scratch" in seen and "instructor" not in seen and len(seen) < 5_000
    own = {f"{name}={value}" for name, value in isolation._environment("/scratch").items()}
    assert not {each for each in graders.split("\0") if len(each) > 20} & set(seen.split("\0")) - own
    assert graders in result(source, isolated=False)


def test_no_other_process_is_seen_or_can_be_signalled():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        pids = [pid for pid in (os.getpid(), os.getppid(), other.pid) if pid > 20]
        seen, signalled = result("""
            import os, signal
            def attack(pids):
                signalled = []
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                        signalled.append(pid)
                    except OSError:
                        pass
                return sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), signalled
            """, pids)
        assert len(seen) <= 2 and max(seen) < 20 and signalled == []
        assert other.poll() is None
        other.communicate(b"\n")


def test_no_privileges_and_no_way_to_get_any():
    seen = result("""
        import ctypes, os, subprocess
        def attack():
            libc = ctypes.CDLL(None, use_errno=True)
            status = dict(line.split(":", 1) for line in open("/proc/self/status"))
            def errno(number):
                return ctypes.get_errno() if number < 0 else 0
            return {
                "user": os.getuid(), "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
                "new privileges": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
                "namespace": errno(libc.unshare(0x10000000)),
                "memory without owner": errno(libc.memfd_create(b"hidden", 0)),
                "shared memory": errno(libc.shmget(0, 1 << 20, 0o1666)),
                "trace": errno(libc.ptrace(16, 1, 0, 0)),
                "mount": errno(libc.mount(b"none", b"/scratch", b"tmpfs", 0, None)),
            }
        """)
    assert seen.pop("user") == 65534 and seen.pop("capabilities") == 0
    assert seen.pop("new privileges") == "1" and seen.pop("seccomp") == "2"
    assert set(seen.values()) == {1}, seen                              # EPERM


def test_namespaces_cannot_be_made_even_if_system_calls_are_let_through(monkeypatch):
    monkeypatch.setattr(isolation, "_system_calls", lambda: None)
    assert result("""
        import ctypes
        def attack():
            return ctypes.CDLL(None).unshare(0x10000000)
        """) == -1


def test_no_descriptor_of_the_grader_comes_along(tmp_path):
    with open(tmp_path / "open", "w") as file:
        os.set_inheritable(file.fileno(), True)
        seen = result("""
            import os
            def attack():
                names = {}
                for number in range(256):
                    try:
                        names[str(number)] = os.readlink(f"/proc/self/fd/{number}")
                    except OSError:
                        pass
                return names
            """)
    kinds = [name.partition(":")[0] for number, name in seen.items() if int(number) > 2]
    assert all(kind == "pipe" for kind in kinds) and len(kinds) == 2, seen


def test_the_truths_of_the_exercises_are_not_there():
    seen = result("""
        import importlib, pathlib, posenc_lib
        from posenc_lib import check, solved
        def attack():
            seen = [check("2.1", attack), solved(chapter=2), [str(path) for path in
                    pathlib.Path(posenc_lib.__file__).parent.rglob("*") if "exercises" in str(path)]]
            for name in ("posenc_lib.exercises", "posenc_lib.exercises.chapter_02", "classroom", "builder", "tests",
                         "classroom.remote"):
                try:
                    importlib.import_module(name)
                    seen.append(name)
                except ImportError:
                    pass
            return seen + [hasattr(posenc_lib.checking, "EXERCISES")]
        """)
    assert seen == [None, None, [], False]


# How much may be used

def test_leaving_is_told_with_its_exit_status():
    assert why_ended("import os\ndef attack():\n    os._exit(3)") == "ended by itself (exit status 3)"
    assert why_ended("import os\nos._exit(0)\ndef attack(): pass") == "ended by itself (exit status 0)"
    assert why_ended("import ctypes\ndef attack():\n    ctypes.string_at(0)") == "was ended by the signal SIGSEGV"


def test_leaving_is_told_at_once_though_another_process_stays():
    started = time.monotonic()
    assert why_ended("import os, time\ndef attack():\n    if os.fork():\n        os._exit(3)\n    time.sleep(60)",
                     replace(QUICK, seconds=60, call_seconds=40)) == "ended by itself (exit status 3)"
    assert time.monotonic() - started < 20


def test_closing_the_channel_is_told():
    assert why_ended("""
        import os, time
        def attack():
            os.closerange(3, 256)
            time.sleep(60)
        """) == "closed the channel that its answers come by"


STUBBORN = """
    while True:
        try:
            while True:
                pass
        except:
            pass
"""


def test_an_endless_loop_that_catches_everything_is_ended():
    started = time.monotonic()
    assert "3 s for one call" in why_ended("def attack():" + textwrap.indent(STUBBORN, "    "))
    assert why_ended(textwrap.dedent(STUBBORN) + "\ndef attack(): pass") == "ran its cells for more than 3 s"
    assert time.monotonic() - started < 20


def test_the_time_of_a_session_and_of_its_processor_are_limited():
    assert why_ended("import time\ndef attack():\n    time.sleep(100)", replace(QUICK, seconds=3, call_seconds=50)
                     ) == "ran for more than 3 s"
    two = "import os\ndef attack():\n    os.fork()\n" + textwrap.indent(textwrap.dedent(STUBBORN), "    ")
    limits = replace(QUICK, cpu_seconds=5, call_seconds=50, seconds=50)
    started = time.monotonic()
    assert why_ended(two, limits) == "used more than 5 s of processor time"
    assert time.monotonic() - started < 30


def test_memory_is_limited():
    limits = replace(QUICK, memory=700_000_000)
    hog = "kept = []\nwhile True:\n    kept.append(bytearray(b'1') * 20_000_000)\n"
    assert why_ended("def attack():\n" + textwrap.indent(hog, "    "), limits) == "took more than 700 MB of memory"
    assert why_ended(hog + "def attack(): pass", limits) == "took more than 700 MB of memory"
    many = "import os\ndef attack():\n    for _ in range(4):\n        if not os.fork():\n            break\n"
    many += "    kept = bytearray(b'1') * 200_000_000\n    while True:\n        pass\n"
    assert why_ended(many, limits) == "took more than 700 MB of memory"


def test_a_single_huge_array_is_an_error_of_the_students():
    """Even one that no memory is taken for: a library may reserve much, but not without end."""
    with session("""
        import mmap
        def attack():
            return len(mmap.mmap(-1, 100 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000))
        """) as running:
        with pytest.raises(Exception, match="Cannot allocate memory") as caught:
            running.answer("9.1")()
        assert type(caught.value).__name__ == "OSError" and running.ended is None


FORKS = """
    import os
    def attack():
        while True:
            try:
                os.fork()
            except OSError:
                pass
"""
TOO_MANY = "started more than 64 processes|started [1-9][0-9]* processes, which took more than 2.5 GB of memory"
THREADS = """
    import threading, time
    def attack():
        while True:
            threading.Thread(target=time.sleep, args=(100,)).start()
"""


@pytest.mark.parametrize("bomb", [FORKS, THREADS], ids=["processes", "threads"])
def test_bombs_of_processes_and_threads_are_ended(bomb):
    before = len(os.listdir("/proc"))
    started = time.monotonic()
    reason = why_ended(bomb, Limits())
    assert re.fullmatch(TOO_MANY, reason)
    assert time.monotonic() - started < 10
    assert len(os.listdir("/proc")) < before + 30


def test_a_flood_of_output_is_ended_and_its_beginning_kept():
    flood = "import os\nwhile True:\n    os.write(1, b'1' * 65_536)\ndef attack(): pass"
    with session(flood) as running:
        assert running.ended == "printed more than 1 MB"
        assert 1_000 < len(running.printed) <= QUICK.kept + 1
    assert why_ended("import sys\ndef attack():\n    while True:\n        print('1' * 1000, file=sys.stderr)"
                     ) == "printed more than 1 MB"


def test_what_is_printed_by_cells_is_kept_and_what_calls_print_is_dropped():
    source = "print('of the cell \\x1b[31m')\ndef attack(x):\n    print('hidden', x, flush=True)\n    return 1"
    with session(source) as running:
        assert running.answer("9.1")(4711) == 1
        time.sleep(0.2)
        assert running.printed == "of the cell \N{REPLACEMENT CHARACTER}[31m\n"
        assert "4711" not in running._process.printed


@pytest.mark.parametrize("isolated", [True, False])
def test_nothing_runs_on_after_the_end(isolated):
    mark = f"31{os.getpid()}.{'1' if isolated else '2'}"
    # Without isolation a process that left its group and its parent could stay; one that is still below is ended.
    source = f"""
        import subprocess
        def attack():
            subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
            return 1
        """
    with session(source, isolated) as running:
        assert running.answer("9.1")() == 1
        assert comes_alive(mark)
    time.sleep(0.1)
    assert not alive(mark)


def test_a_process_that_left_its_parent_does_not_run_on():
    mark = f"32{os.getpid()}"
    with session(f"""
        import os
        def attack():
            if not os.fork():
                os.setsid()
                if not os.fork():
                    os.execv("/usr/bin/sleep", ["sleep", "{mark}"])
                os._exit(0)
            os.wait()
            return 1
        """) as running:
        assert running.answer("9.1")() == 1
        assert comes_alive(mark)
    time.sleep(0.1)
    assert not alive(mark)


def test_nothing_runs_on_after_the_grader_was_killed():
    mark = f"33{os.getpid()}"
    program = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from classroom.remote import Session
        source = "import subprocess\\ndef attack():\\n    subprocess.Popen(['sleep', '{mark}'])\\n    return 1"
        with Session([(1, "answer-9-1", source)], {{"9.1": "attack"}}) as running:
            running.answer("9.1")()
            print("ready", flush=True)
            time.sleep(100)
        """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout.readline() == "ready\n"
        assert comes_alive(mark)
        grader.kill()
    time.sleep(0.3)
    assert not alive(mark)


def comes_alive(mark):
    until = time.monotonic() + 5
    while not alive(mark) and time.monotonic() < until:
        time.sleep(0.02)
    return alive(mark)


def alive(mark):
    """Whether a process of this machine has this word in its command."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def test_no_thread_and_no_descriptor_of_the_grader_is_left():
    with session("def attack(): return 1"):
        pass
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with session("def attack(): return 1") as running:
        running.restart()
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors)


# Where it is not to be had

def test_a_system_without_isolation_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(isolation.shutil, "which", lambda name: None)
    assert "apt install bubblewrap" in why_not_available()
    with pytest.raises(RuntimeError, match="apt install bubblewrap"), session("def attack(): pass"):
        pass
    monkeypatch.setattr(isolation.sys, "platform", "darwin")
    assert "WSL2" in why_not_available() and "--without-isolation" in why_not_available()


def test_on_windows_the_file_loads_and_says_so():
    program = "import sys; sys.path.insert(0, '.'); sys.platform = 'win32'; sys.modules.update(resource=None, " \
              "fcntl=None, termios=None); from classroom.isolation import why_not_available; print(why_not_available())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert "WSL2" in said


def test_namespaces_switched_off_are_told(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "bwrap: No permissions to create new namespace\n")
    monkeypatch.setattr(isolation.subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(isolation, "_bubblewrap_help", lambda: "")
    isolation._trial.cache_clear()
    try:
        assert re.search("No permissions to create new namespace.*user.max_user_namespaces", why_not_available())
    finally:
        isolation._trial.cache_clear()


def test_without_isolation_the_limits_hold():
    for source, reason in ((FORKS, TOO_MANY), (THREADS, "started more than 64 processes"),
                           ("import os\ndef attack():\n    os._exit(3)", r"ended by itself \(exit status 3\)")):
        with session(source, isolated=False) as running:
            with pytest.raises(SessionEnded, match=reason):
                running.answer("9.1")()
