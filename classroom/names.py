"""The name that a student's files have, in results/, autograded/ and feedback/, and in nbgrader.

Mostly the student's own. Where that is no name for a file everywhere, or would be more than text in a web page, it is
changed and ends in a number made of the whole name, so that two stay two. A name once given is kept in
results/names.json, and no two of them are equal up to small and capital letters.
"""
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from builder.files import write_if_changed
from classroom.course import Course, CourseError

NOT_IN_NAMES = set('<>:"/\\|?*[]{}&#%$!;^`~=')
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)       # on Windows
LONGEST = 100                                   # bytes; a file's name ends in more


def file_name(student: str) -> str:
    name = "".join("_" if char in NOT_IN_NAMES or not char.isprintable() else char for char in student)
    name = name.strip(" .-")
    if len(name.encode()) > LONGEST:
        name = name.encode()[:LONGEST].decode(errors="ignore").strip(" .-")
    if RESERVED.fullmatch(name):
        name = f"_{name}"
    if name != student:
        name = numbered(name, student)
    return name


def numbered(name: str, student: str) -> str:
    digest = hashlib.sha256(student.encode(errors="surrogatepass")).hexdigest()[:10]
    return f"{name} {digest}".strip()


def names_path(course: Course) -> Path:
    return course.results / "names.json"


def known_names(course: Course) -> dict[str, str]:
    """By student, the names that have been given already."""
    path = names_path(course)
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise CourseError(f"{path} is no JSON any more: take it back from a copy, or remove it.") from None


def file_names(course: Course, students: Iterable[str]) -> dict[str, str]:
    """The names of all students that there have been; those of `students` are new in it if need be."""
    names = known_names(course)
    taken = {name.casefold() for name in names.values()}
    for student in sorted(set(students) - names.keys()):
        name = file_name(student)
        names[student] = numbered(name, student) if name.casefold() in taken else name
        taken.add(names[student].casefold())
    text = json.dumps(names, ensure_ascii=False, indent=1) + "\n"
    # What is no UTF-8 is written as JSON's own \udcfc.
    write_if_changed(names_path(course), text.encode(errors="backslashreplace"))
    return names
