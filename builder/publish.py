"""Where the book is published: what book.toml says of it, and everything that is stamped from there.

    first cells    fetch the library from the address, at the tag
    badges         open a chapter in Colab, and from there the others, since Colab knows no links between files
    README.md      the lines between its two marks: how to get the book, and the badges

Here are their texts; stamp.py writes them.
"""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

BADGE = "docs/open_in_colab.svg"
BADGE_BEGINS = "[![Open in Colab]"
GITHUB = re.compile(r"https://github\.com/(?P<project>[\w.-]+/[\w.-]+?)(?:\.git)?/?")
BEGIN = "<!-- stamped by `make stamp` from book.toml: edit there -->"
END = "<!-- end of what is stamped -->"
NOT_PUBLISHED = (
    "This copy does not know its own address yet. Set `repository` in `book.toml` to where it is published, say "
    "`make stamp`, and here stand the lines to clone it and a badge for each chapter that opens it in Colab."
)


@dataclass(frozen=True)
class Address:
    """The repository a chapter fetches the library from, empty while there is none, and the tag it takes."""

    repository: str
    tag: str

    def colab(self, notebook):
        """What opens notebooks/… of this repository in Colab; None where it does not stand on GitHub."""
        found = GITHUB.fullmatch(self.repository)
        return found and f"https://colab.research.google.com/github/{found['project']}/blob/{self.tag}/{notebook}"


def problem(key, value):
    """What is wrong with a line of book.toml, or None. A folder on this machine may have any name."""
    if not isinstance(value, str):
        return f'the line `{key} = "..."` is missing; it may be empty.'
    if value.startswith("-") or (re.search(r'[\s"\\]', value) and not value.startswith("/")):
        return f"`{key}` is {json.dumps(value)}: git knows no such address or tag."
    if key == "tag" and not re.fullmatch(r"[\w.+/-]+", value):
        return f"`tag` is {json.dumps(value)}: name a release, for example v0.1.0."
    return None


def address_of(book):
    """The address of what book.toml holds; `ValueError` says which line is wrong."""
    for key in ("repository", "tag"):
        if complaint := problem(key, book.get(key)):
            raise ValueError(complaint)
    return Address(book["repository"], book["tag"])


def chapter_number(name):
    return int(PurePosixPath(name).name[:2])


def badge_text(address, name, others):
    """The badge of chapter `name`, such as ja/02_waves, and links to the others; None where Colab cannot open it."""
    if address.colab("") is None:
        return None
    links = [
        f"**{chapter_number(other)}**" if other == name else
        f"[{chapter_number(other)}]({address.colab(f'notebooks/{other}.ipynb')})"
        for other in others
        if PurePosixPath(other).parent == PurePosixPath(name).parent
    ]
    picture = "../" * (name.count("/") + 1) + BADGE
    badge = f"{BADGE_BEGINS}({picture})]({address.colab(f'notebooks/{name}.ipynb')})"
    return f"{badge} · chapters in Colab: {' '.join(links)}"


def readme_lines(address, names):
    """What stands in README.md between its marks."""
    if not address.repository:
        return NOT_PUBLISHED
    folder = re.search(r"([^/:]+?)(?:\.git)?/?$", address.repository)[1]
    repository, folder = shlex.quote(address.repository), shlex.quote(folder)
    paragraphs = [f"```\ngit clone --branch {address.tag} {repository}\ncd {folder}\n```"]
    if address.colab("") is None:
        paragraphs.append("Colab opens notebooks from GitHub only, so there are no badges here.")
    else:
        opened = {name: address.colab(f"notebooks/{name}.ipynb") for name in names}
        badges = [f"- {BADGE_BEGINS}({BADGE})]({link}) {spoken(name)}" for name, link in opened.items()]
        paragraphs += ["Or open a chapter in Colab, where nothing need be installed:", "\n".join(badges)]
    return "\n\n".join(paragraphs)


def spoken(name):
    """02_sinusoidal_by_hand as "2 sinusoidal by hand", ja/02_… as "ja, 2 …"."""
    *folders, file = name.split("/")
    return ", ".join([*folders, f"{int(file[:2])} {file[3:].replace('_', ' ')}"])


def stamped_readme(text, address, names):
    """README.md with what stands between its marks written anew; `ValueError` where the marks are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md needs the two lines {BEGIN} and {END}, with what is stamped between them.")
    return f"{before}{BEGIN}\n\n{readme_lines(address, names)}\n\n{END}{after}"
