"""A process for one student's code: what it can reach, how much it may use, and why it was ended.

On Linux with bubblewrap it runs in namespaces of its own: no network, no other processes, no files but Python's own
(read only), the book's library without the exercises' truths, and an empty scratch folder of limited size in memory.
No environment variables come along. It has no privileges, can gain none, and some system calls are refused. A thread
of the grader adds up time, memory, processes and output every 50 ms and ends all of it at once when one is too much.

Defended: other students' files, the book's repository, the gradebook, the home folder, the network, the grader's
process, the machine's memory, disk and time. What a student's process sends is only ever read as numbers (wire.py).

Not defended: faults of the Linux kernel or of bubblewrap; side channels such as timing, or a processor that two
processes share; reading the book's library, which readers may; the names of folders that mount tables show; a message
of an error that a student's function raises may carry what the function was called with, so do not show messages of
hidden cases. Memory may overshoot its limit by what is taken within 50 ms. On processors other than x86-64 and
AArch64 no system calls are refused, and memory without an owner (memfd) is limited by the size of a file only.

Without isolation, when told so, only the limits hold, and those only as far as a process does not evade them: the
student's code can read and write what the grader can. That is for files that you trust.
"""
from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import select
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVERY = 0.05                                    # seconds between two looks at what a process uses
MANY = 8                                        # processes; one student's work has two, bubblewrap's and its own
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
           "VECLIB_MAXIMUM_THREADS")
# Refused system calls, on x86-64 and AArch64: memory that belongs to no process, other processes' memory, namespaces
# and mounts, keys, and doors to the kernel that an exercise does not need.
REFUSED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}


@dataclass(frozen=True)
class Limits:
    """How much a session may use; chosen for a class on a laptop."""

    seconds: float = 60.0                       # from its start to its end
    cpu_seconds: float = 60.0                   # of all its processes
    cell_seconds: float = 20.0                  # for the cells that one answer needs
    call_seconds: float = 5.0                   # for one call of an answer, as long as a reader's check takes
    memory: int = 2_500_000_000                 # bytes, of all its processes
    processes: int = 64                         # and threads
    printed: int = 1_000_000                    # bytes
    kept: int = 20_000                          # of these, what is kept
    scratch: int = 64_000_000                   # bytes in its folder


class Ended(Exception):
    """The process is there no longer; the message says why."""


def why_not_available() -> str | None:
    """None if code can be isolated here; else a sentence that says what is missing and what to do."""
    if sys.platform != "linux":
        return ("Students' code can be isolated on Linux only: grade in WSL2 (Windows), in a virtual machine or on a "
                "Linux machine; or use --without-isolation, at your own risk, for files that you trust.")
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing, which isolates students' code: sudo apt install bubblewrap (or dnf, pacman)."
    return _trial()


@functools.cache
def _trial() -> str | None:
    command = [*_walls(None, Limits()), "true"]
    tried = subprocess.run(command, capture_output=True, text=True, env={}, timeout=30, check=False)
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip().splitlines()[-1:] or [f"exit status {tried.returncode}"]
    return (f"bubblewrap cannot isolate code here ({said[0]}). User namespaces may be switched off: see "
            "`sysctl user.max_user_namespaces kernel.unprivileged_userns_clone "
            "kernel.apparmor_restrict_unprivileged_userns`; the first should be above 0, the second 1, the third 0. "
            "Inside a container, start it with --security-opt seccomp=unconfined or grade outside of it.")


def _walls(library: Path | None, limits: Limits) -> list[str]:
    """bubblewrap and what it is told, up to the command."""
    walls = [shutil.which("bwrap"), "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session",
             "--uid", "65534", "--gid", "65534", "--hostname", "classroom", "--cap-drop", "ALL", "--clearenv"]
    if "--disable-userns" in _bubblewrap_help():
        walls += ["--disable-userns"]
    seen = [Path("/usr"), Path("/etc/ld.so.cache"), Path("/etc/alternatives"), Path("/etc/localtime"),
            *(Path(name) for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")),
            *(Path(prefix) for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)),
            *(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))]
    mounts = {path: ["--symlink", os.readlink(path), str(path)] if path.is_symlink() and path.parent == Path("/") else
              ["--ro-bind", str(path), str(path)] for path in seen if path.exists()}
    hidden = [HERE.parent, *(Path(sysconfig.get_path(name)) / "posenc_lib" for name in ("purelib", "platlib"))]
    for path in hidden:                         # nothing of the book, wherever Python stands, nor where it is installed
        if path.exists():
            mounts[path] = ["--tmpfs", str(path)]
    for path in sorted(mounts, key=lambda path: len(path.parts)):
        walls += mounts[path]
    walls += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
              "--perms", "0700", "--size", str(limits.scratch), "--tmpfs", "/scratch", "--chdir", "/scratch"]
    for name in ("student.py", "wire.py"):
        walls += ["--ro-bind", str(HERE / name), f"/classroom/{name}"]
    if library is not None:
        walls += ["--ro-bind", str(library), "/library"]
    walls += ["--remount-ro", "/", "--remount-ro", str(HERE.parent)]
    for name, value in _environment("/scratch").items():
        walls += ["--setenv", name, value]
    return walls


@functools.cache
def _bubblewrap_help() -> str:
    return subprocess.run([shutil.which("bwrap"), "--help"], capture_output=True, text=True, check=True).stdout


def _environment(folder: str) -> dict[str, str]:
    return {"HOME": folder, "TMPDIR": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg",
            "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
            **dict.fromkeys(THREADS, "1")}


def _hard_limits(limits: Limits) -> dict[str, int]:
    """What the kernel itself holds each process to. Address space is more than memory: libraries reserve much of it."""
    return {"RLIMIT_AS": limits.memory + 4_000_000_000, "RLIMIT_CPU": int(limits.cpu_seconds) + 1, "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": limits.scratch, "RLIMIT_NOFILE": 256,
            **({"RLIMIT_NPROC": _threads_of_this_user() + limits.processes} if limits_processes() else {})}


def limits_processes() -> bool:
    """Whether the kernel's own limit is of use: it does not bind root, and its measure is told by /proc alone."""
    return os.getuid() != 0 and Path("/proc/self").exists()


def _threads_of_this_user() -> int:
    """RLIMIT_NPROC counts all of a user's, on older kernels also those outside of the namespace."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))
    return count


def _system_calls() -> bytes | None:
    """A seccomp program that lets `REFUSED` fail with "not permitted"; None on processors that it does not know."""
    known = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
    if platform.machine() not in known:
        return None
    column, architecture = known[platform.machine()]
    numbers = [numbers[column] for numbers in REFUSED.values()]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    refuse, kill, allow = 0x00050001, 0x80000000, 0x7FFF0000
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0),
               (at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]              # x86-64's second set of numbers
    for number in numbers:
        program += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    return b"".join(struct.pack("<HBBI", *step) for step in [*program, (give, 0, 0, allow)])


def tree(root: int) -> list[int]:
    """A process and all below it. In a namespace of its own nothing leaves the tree."""
    found = [root]
    for pid in found:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    found += [int(child) for child in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue                            # it has just ended
        if len(found) > 10_000:
            break
    return found


def used(root: int) -> tuple[int, int, int, float]:
    """Bytes of memory, processes, threads, seconds of processor time: of the tree.

    Memory that processes share is counted for each of them: to tell it apart takes too long.
    """
    memory = processes = threads = ticks = 0
    page, second = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(map(int, fields[11:15]))
        processes += 1
        threads += int(fields[17])
        memory += int(fields[21]) * page
    return memory, processes, threads, ticks / second


class Process:
    """One student's process, started and watched; bytes go to it and come from it until it is ended.

    `end(reason)` ends all that runs in it. Afterwards, and when it ends by itself, `send` and `receive` raise `Ended`.
    """

    def __init__(self, library: Path, limits: Limits, isolated: bool = True) -> None:
        if isolated and (reason := why_not_available()):
            raise RuntimeError(reason)
        if os.name != "posix":
            raise RuntimeError(why_not_available())
        self.limits, self.isolated, self.reason, self.started = limits, isolated, None, time.monotonic()
        self.keeping, self._kept, self._count = True, bytearray(), 0
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._scratch = None if isolated else tempfile.TemporaryDirectory(prefix="classroom-")
        self._start(library)
        self._watch = threading.Thread(target=self._watched, name="classroom watch", daemon=True)
        self._watch.start()

    def _start(self, library: Path) -> None:
        their_read, self._write = os.pipe()
        self._read, their_write = os.pipe()
        self._output, their_output = os.pipe()
        theirs = [their_read, their_write, their_output]
        folder, place = ("/classroom", "/library") if self.isolated else (str(HERE), str(library))
        command = [sys.executable, "-P", "-s", "-B", f"{folder}/student.py", place,
                   json.dumps(_hard_limits(self.limits)), str(their_read), str(their_write)]
        environment, information = {}, None
        if self.isolated:
            information, their_information = os.pipe()
            theirs.append(their_information)
            walls = [*_walls(library, self.limits), "--info-fd", str(their_information)]
            if program := _system_calls():
                reading, writing = os.pipe()
                os.write(writing, program)
                os.close(writing)
                theirs.append(reading)
                walls += ["--seccomp", str(reading)]
            command = [*walls, "--", *command]
        else:
            environment = _environment(self._scratch.name)
        try:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=their_output, stderr=their_output, env=environment,
                pass_fds=theirs, cwd="/" if self.isolated else self._scratch.name, start_new_session=True)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        for descriptor in (self._read, self._write):
            os.set_blocking(descriptor, False)
        self._handle, self._root = None, self._popen.pid
        if information is not None:
            with open(information) as file:
                said = file.read()
            if not said:
                self._popen.wait(10)
                raise RuntimeError(f"bubblewrap did not start: {os.read(self._output, 2000).decode(errors='replace')}")
            self._root = json.loads(said)["child-pid"]          # the first process of the namespace: all end with it
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(ProcessLookupError):       # ended already
                self._handle = os.pidfd_open(self._root)

    @property
    def printed(self) -> str:
        return self._kept.decode(errors="replace")

    def keep_no_more(self) -> None:
        """From here on what is printed is dropped; what has been printed by now is taken in first."""
        import fcntl  # here, so that on Windows the file can say that it does not work there
        import termios

        until = time.monotonic() + 0.5
        while time.monotonic() < until and not self._stop.is_set():
            waiting = struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, b"\0" * 4))[0]
            if not waiting:
                break
            time.sleep(0.002)
        with self._lock:
            self.keeping = False

    def send(self, data: bytes, until: float) -> None:
        left = memoryview(data)
        while left:
            self._ready([], [self._write], until)
            try:
                left = left[os.write(self._write, left[: 1 << 20]):]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self._ended_by_itself()

    def receive(self, count: int, until: float) -> bytes:
        """Exactly `count` bytes. Raises: `Ended`, and `TimeoutError` when the time `until` has come."""
        parts = bytearray()
        while len(parts) < count:
            self._ready([self._read], [], until)
            try:
                part = os.read(self._read, min(count - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            if not part:
                self._ended_by_itself()
            parts += part
        return bytes(parts)

    def _ready(self, reading: list[int], writing: list[int], until: float) -> None:
        while True:
            if self.reason:
                raise Ended(self.reason)
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            found = select.select(reading, writing, [], min(left, 2 * EVERY))
            if found[0] or found[1]:
                return
            if self._popen.poll() is not None:  # though a process that it left behind may hold the pipe open
                self._ended_by_itself()

    def _ended_by_itself(self) -> None:
        """The other end of a pipe is closed: the process has ended, or has closed it."""
        until = time.monotonic() + 2.0
        while self._popen.poll() is None and time.monotonic() < until and not self.reason:
            time.sleep(0.01)
        code = self._popen.poll()
        number = code - 128 if code is not None and self.isolated else -code if code is not None else 0
        if code is None:
            self.end("closed the channel that its answers come by")
        elif number == signal.SIGXCPU:
            self.end(f"used more than {self.limits.cpu_seconds:g} s of processor time")
        elif 0 < number < 65:
            self.end(f"was ended by the signal {signal.Signals(number).name}"
                     if number in set(signal.Signals) else f"was ended by signal {number}")
        else:
            self.end(f"ended by itself (exit status {code})")
        raise Ended(self.reason)

    def end(self, reason: str) -> None:
        """Ends every process of it, once; the first reason stands."""
        with self._lock:
            self.reason = self.reason or reason
            below = [] if self.isolated else self._below()
            with contextlib.suppress(ProcessLookupError):
                if self._handle is not None:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                elif self._popen.poll() is None:
                    self._popen.kill()
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._popen.wait()

    def _below(self) -> list[int]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGSTOP)          # so that none is started meanwhile
        found = tree(self._popen.pid)[1:] if os.path.isdir("/proc/self/task") else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        return found

    def close(self) -> None:
        self._stop.set()
        self.end("was closed")
        self._watch.join()
        for descriptor in (self._read, self._write, self._output, self._handle):
            if descriptor is not None:
                os.close(descriptor)
        if self._scratch:
            self._scratch.cleanup()

    def _watched(self) -> None:
        output, due = [self._output], 0.0
        while not self._stop.is_set():
            ready = select.select(output, [], [], EVERY)[0] if output else self._stop.wait(EVERY)
            if output and ready and not self._take():
                output = []
            if time.monotonic() >= due and not self.reason:
                due = time.monotonic() + EVERY
                if reason := self._too_much():
                    self.end(reason)

    def _take(self) -> bool:
        data = os.read(self._output, 1 << 16)
        with self._lock:
            self._count += len(data)
            if self.keeping:
                self._kept += data[: self.limits.kept - len(self._kept)]
        return bool(data)

    def _too_much(self) -> str | None:
        limits = self.limits
        if self._count > limits.printed:
            return f"printed more than {_bytes(limits.printed)}"
        if time.monotonic() - self.started > limits.seconds:
            return f"ran for more than {limits.seconds:g} s"
        if not os.path.isdir("/proc/self/task") or self._popen.poll() is not None:
            return None
        memory, processes, threads, seconds = used(self._root)
        if threads > limits.processes:
            return f"started more than {limits.processes} processes"
        if memory > limits.memory:
            took = f"took more than {_bytes(limits.memory)} of memory"
            return took if processes < MANY else f"started {processes} processes, which {took}"
        if seconds > limits.cpu_seconds:
            return f"used more than {limits.cpu_seconds:g} s of processor time"
        return None


def _bytes(number: int) -> str:
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"
