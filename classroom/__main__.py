"""The instructor's commands; `python -m classroom COMMAND --help` explains one."""
import argparse
import os
import sys
from pathlib import Path

from builder.chapter import ChapterError
from classroom import assign, grade, gradebook
from classroom.course import Course, CourseError
from classroom.isolation import why_not_available


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return options.command(options)
    except (CourseError, ChapterError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What has been done is kept; the same command goes on from there.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m classroom", description="Assign chapters, grade what comes back.")
    result.set_defaults(command=lambda options: result.print_help() or 0)
    commands = result.add_subparsers(title="commands", metavar="COMMAND")
    for part in (assign, grade, gradebook):
        part.add_parser(commands)
    formgrader = commands.add_parser("formgrader", help="open nbgrader's formgrader, to read essays")
    formgrader.add_argument("course", type=Path, metavar="COURSE")
    formgrader.add_argument("lab", nargs="*", metavar="OPTION", help="more for JupyterLab, after --")
    formgrader.set_defaults(command=open_formgrader)
    isolation = commands.add_parser("isolation", help="say whether students' code can be isolated on this machine")
    isolation.set_defaults(command=tell_isolation)
    return result


def open_formgrader(options: argparse.Namespace) -> int:
    course = Course(options.course)
    if not course.settings.is_file():
        raise CourseError(f"{course.folder} is no course: python -m classroom assign makes one.")
    os.chdir(course.folder)
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *root, *options.lab])


def tell_isolation(options: argparse.Namespace) -> int:
    reason = why_not_available()
    print(reason or "Students' code can be isolated here.")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
