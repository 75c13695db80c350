"""Finds what leads nowhere: links, pictures, anchors, numbers of chapters, sections, exercises and equations, and
literature that is cited and not listed, or the other way round. Nothing is fetched: of an address on the web only
its form is looked at.

A link of a chapter is followed from where its notebook stands, since that is where readers meet it. An anchor must be
one on GitHub; in chapters and notebooks it must also be the one that JupyterLab makes, since they are read in both.

A section or an equation of a paper is told from one of the book by what stands beside it: "(Vaswani et al., 2017,
section 3.5)", "the paper (section 5.4)", "equation (1) of Vaswani et al. (2017)". In the References all are papers'.
"""

import bisect
import html
import re
import unicodedata
from collections import Counter
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import nbformat
from markdown_it import MarkdownIt

from builder.chapter import chapter_name, chapter_paths, files_below, notebook_path, read_chapter
from builder.language import ORIGINAL, language_of, words

HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
TAG = re.compile(r"\\tag\{([^}]*)\}")
CODE = re.compile(r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence)[`~]* *$|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)",
                  re.MULTILINE | re.DOTALL)
MATH = re.compile(r"\$\$.*?\$\$|(?<!\\)\$(?! )[^$\n]+?(?<! )\$", re.DOTALL)
ADDRESS = re.compile(r"https?:[^\s<>\"'`]*")
# What goes before a paper's section, and what comes after a paper's equation
OF_A_PAPER = re.compile(r"(?:\b(?:19|20)\d\d[a-z]?,|\bpaper,? ?\(|\bpaper's|\bpaper,) *"
                        r"(?:(?:sections?|equations?|table|figure|row|and|,|[A-Z]\b|[\d.()]+)\s*)*$", re.IGNORECASE)
PAPERS_FOLLOW = re.compile(r" (?:of|in) (?:the(?:ir)? paper|that paper|[A-Z][\w-]+(?:,? (?:et al\.|and [A-Z])| \())")
NAME = r"[A-Z][\w'’-]*[a-z][\w'’-]*"
CITATION = re.compile(rf"((?:{NAME}, )*{NAME}(?:,? (?:and|&) {NAME})?(?: et al\.)?),? \(?((?:19|20)\d\d)\b")
# - A. Vaswani, N. Shazeer, … : *Title*.
ENTRY = re.compile(r"^[-*] +((?:[A-Z]\w*\.[- ]?)+\w[^:*]*): *\*(.+?)\*(.*)$", re.MULTILINE)
INITIALS = re.compile(r"^(?:\w+\.[- ]?)+ *")


class Text(NamedTuple):
    """A piece of text in a file; `lines` has for each of its lines the line of the file."""

    file: str
    text: str
    lines: list[int]

    def place(self, offset):
        line = self.text.count("\n", 0, offset)
        return f"{self.file}:{self.lines[min(line, len(self.lines) - 1)]}"


class Chapter:
    """What a chapter has that can be named."""

    def __init__(self, path):
        self.path, self.name, self.number = path, chapter_name(path), int(path.stem[:2])
        self.file, self.language = f"chapters/{self.name}.md", language_of(self.name)
        self.cells = read_chapter(path)[1]
        self.words = words(self.language)
        prose = [Text(self.file, cell.source, cell.lines) for cell in self.cells if cell.type == "markdown"]
        self.code = [Text(self.file, cell.source, cell.lines) for cell in self.cells if cell.type == "code"]
        self.prose, self.references = split_references(prose, self.words.references)
        self.headings = [(text.place(found.start()), len(found[1]), found[2]) for text in prose
                         for found in HEADING.finditer(blanked(CODE, text.text))]
        self.title = next((without_number(title) for _, level, title in self.headings if level == 1), "")
        self.sections = [title.split()[0] for _, level, title in self.headings if re.match(r"\d+\.\d+(?!\S)", title)]
        self.equations = [(text.place(found.start()), found[1]) for text in prose for found in TAG.finditer(text.text)]
        self.exercises = {cell.metadata["exercise"]["id"] for cell in self.cells if "exercise" in cell.metadata}
        for _, _, title in self.headings:       # "A step of k positions (exercise 3.1)", named as in another book
            self.exercises.update(numbers(self.words.named_exercise, title))


def without_number(title):
    return re.sub(r"^\d+(?:\.\d+)* +", "", title)


def numbers(pattern, text):
    return [number for found in re.finditer(pattern, text) for number in enumerated(found[1])]


def enumerated(text):
    """The numbers of "5.7, 5.8", and of "2 to 4" also those between."""
    found = re.findall(r"\d+(?:\.\d+)?", text)
    for first, last in re.findall(r"(\d+(?:\.\d+)?)\s*(?:to|–|から)\s*(\d+(?:\.\d+)?)", text):
        *before, start = first.split(".")
        end = last.split(".")[-1]
        found += [".".join([*before, str(n)]) for n in range(int(start) + 1, int(end))]
    return found


def blanked(pattern, text):
    """`text` with blanks for what matches; all else keeps its place."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def split_references(texts, heading):
    """The texts without the chapter's list of literature, and that list."""
    prose, references, inside = [], [], False
    for text in texts:
        start = 0
        marks = [(found.start(), len(found[1]), found[2]) for found in HEADING.finditer(blanked(CODE, text.text))]
        for offset, level, title in [*marks, (len(text.text), 9, None)]:
            (references if inside else prose).append(part(text, start, offset))
            start = offset
            if title is not None and (level <= 2 or not inside):
                inside = level == 2 and title == heading
    return [text for text in prose if text.text], [text for text in references if text.text]


def part(text, start, end):
    first = text.text.count("\n", 0, start)
    return Text(text.file, text.text[start:end], text.lines[first:] or text.lines[-1:])


def problems(root):
    """A line for each thing that leads nowhere, with file and line."""
    chapters = [Chapter(path) for path in chapter_paths(root)]
    pages = Pages(root, chapters)
    result = []
    for chapter in chapters:
        siblings = [other for other in chapters if other.language == chapter.language]
        result += numbering(chapter) + named_numbers(chapter, siblings) + literature(chapter)
        folder = notebook_path(chapter.path).parent
        for text in [*chapter.prose, *chapter.references]:
            result += pages.problems(text, folder, own=notebook_path(chapter.path))
    for path in files_below(root / "notebooks", "*.ipynb"):
        result += [line for text in notebook_texts(root, path) for line in pages.problems(text, path.parent, own=path)]
    for path in [root / "README.md", *files_below(root / "docs", "*.md")]:
        if path.is_file():
            result += pages.problems(whole(root, path), path.parent, own=path)
    return list(dict.fromkeys(result))


def whole(root, path):
    text = path.read_text(encoding="utf-8")
    return Text(path.relative_to(root).as_posix(), text, list(range(1, text.count("\n") + 2)))


def notebook_texts(root, path):
    """Of a notebook the text that the builder has made; the rest is the chapter's, and named there. Lines are those
    of the notebook's file."""
    source = path.read_text(encoding="utf-8")
    starts = [0, *(found.end() for found in re.finditer("\n", source))]
    for cell in nbformat.reads(source, as_version=4).cells:
        if cell.cell_type == "markdown" and "book" in cell.metadata:
            line = bisect.bisect(starts, max(source.find(f'"id": "{cell.id}"'), 0))
            yield Text(path.relative_to(root).as_posix(), cell.source, [line] * (cell.source.count("\n") + 1))


# Links


class Pages:
    """The files that links lead to, and their anchors."""

    def __init__(self, root, chapters):
        self.root = root
        self.chapters = {notebook_path(chapter.path).resolve(): chapter for chapter in chapters}

    def problems(self, text, folder, own):
        result = []
        for offset, address, label in links(text.text):
            complaint = self.complaint(address, label, folder, own)
            if complaint:
                result.append(f"{text.place(offset)}: {complaint}")
        for found in ADDRESS.finditer(blanked(CODE, text.text)):
            address = found[0].rstrip(".,;:!?)*]|")
            if not well_formed(address):
                result.append(f"{text.place(found.start())}: {address} is no well-formed address.")
        return result

    def complaint(self, address, label, folder, own):
        """What is wrong with this link, or nothing."""
        if address.startswith("mailto:"):
            return None
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", address):
            return None if well_formed(address) else f"{address} is no well-formed address."
        path, _, anchor = unquote(address).partition("#")
        target = (folder / path).resolve() if path else own.resolve()
        if path.startswith("/") or not target.is_relative_to(self.root.resolve()):
            return f"{address} leads out of the book."
        if not is_there(target, self.root.resolve()):
            return f"{address} leads nowhere: there is no {target.relative_to(self.root.resolve()).as_posix()}."
        if "#" in address and not anchor:
            return f"{address} has an empty anchor."
        if anchor:
            return self.anchor_complaint(address, anchor, target, own)
        chapter, mine = self.chapters.get(target), self.chapters.get(own.resolve())
        if chapter is None or label is None or chapter.language != (mine.language if mine else ORIGINAL):
            return None
        return wrong_label(address, label, chapter)

    def anchor_complaint(self, address, anchor, target, own):
        if target.suffix not in (".md", ".ipynb"):
            return f"{address}: only in a text can an anchor be looked for."
        titles, explicit = self.headings(target)
        github, lab = anchors(titles, github_anchor), anchors(titles, lab_anchor)
        if anchor in explicit or (anchor in github and (anchor in lab or own.suffix != ".ipynb")):
            return None
        if anchor in github or anchor in lab:
            where = "GitHub" if anchor in github else "JupyterLab"
            return f'{address}: this anchor works on {where} alone; write <a id="..."></a> before the heading instead.'
        return f"{address}: there is no such heading in {target.name}."

    def headings(self, target):
        chapter = self.chapters.get(target)
        if chapter is not None:
            texts = [cell.source for cell in chapter.cells if cell.type == "markdown"]
        elif target.suffix == ".ipynb":
            notebook = nbformat.reads(target.read_text(encoding="utf-8"), as_version=4)
            texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        else:
            texts = [target.read_text(encoding="utf-8")]
        text = "\n\n".join(blanked(CODE, text) for text in texts)
        return [found[2] for found in HEADING.finditer(text)], re.findall(r'<a\b[^>]*\b(?:id|name)="([^"]+)"', text)


def links(text):
    """Each link and picture of a Markdown text: offset, address, and the text of a link (None for a picture)."""
    line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
    parser = MarkdownIt("commonmark").enable("table")
    for token in parser.parse(blanked(MATH, text)):
        line = token.map[0] if token.map else 0
        if token.type == "html_block":
            yield from ((line_starts[line], address, None) for address in html_addresses(token.content))
        if token.type != "inline":
            continue
        address, label = None, ""
        for child in token.children:
            if child.type in ("softbreak", "hardbreak"):
                line += 1
                label += " "
            elif child.type == "link_open":
                address, label = child.attrs["href"], ""
            elif child.type == "link_close":
                yield line_starts[line], address, label or None
                address = None
            elif child.type == "image":
                yield line_starts[line], child.attrs["src"], None
            elif child.type == "html_inline":
                yield from ((line_starts[line], each, None) for each in html_addresses(child.content))
            else:
                label += child.content


def html_addresses(text):
    return [html.unescape(found[1]) for found in re.finditer(r"""\b(?:href|src)\s*=\s*["']([^"']*)["']""", text)]


def is_there(target, root):
    """Whether the file is there under exactly this name, also where upper and lower case are the same."""
    if not target.exists():
        return False
    return all(part in {other.name for other in folder.iterdir()}
               for part, folder in zip(target.relative_to(root).parts, reversed([
                   parent for parent in target.parents if parent.is_relative_to(root)]), strict=True))


def well_formed(address):
    try:
        parts = urlsplit(address)
        port_is_a_number = parts.port is None or parts.port > 0
    except ValueError:
        return False
    labels = (parts.hostname or "").split(".")
    host = len(labels) > 1 and all(re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", label) for label in labels)
    return (parts.scheme in ("http", "https") and host and port_is_a_number
            and not re.search(r"[\s<>{}\"\\^|`]|%(?![0-9A-Fa-f]{2})", address))


def wrong_label(address, label, chapter):
    """A link to a chapter names its number, or is its title."""
    label = " ".join(label.split())
    named = numbers(chapter.words.chapter, label)
    if named and named != [str(chapter.number)]:
        return f"the link '{label}' leads to {address}, which is chapter {chapter.number}."
    if not named and label != chapter.title:
        return f"the link '{label}' leads to {address}, whose title is '{chapter.title}'."
    return None


def anchors(titles, rule):
    """The anchors of these headings; GitHub numbers those that come again, JupyterLab does not."""
    seen, result = Counter(), set()
    for title in titles:
        anchor = rule(title)
        result.add(f"{anchor}-{seen[anchor]}" if seen[anchor] and rule is github_anchor else anchor)
        seen[anchor] += 1
    return result


def plain(title):
    """A heading as it is read."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[*`]|(?<!\w)_|_(?!\w)|<[^>]*>", "", title)


def github_anchor(title):
    kept = [each for each in plain(title).strip().lower() if each in " -_" or unicodedata.category(each)[0] in "LMN"]
    return "".join(kept).replace(" ", "-")


def lab_anchor(title):
    return plain(title).strip().replace(" ", "-")


# Numbers


def numbering(chapter):
    """Sections are numbered 1, 2, 3 … and headings and equations with the chapter's number, each once."""
    result = []
    first = next((heading for heading in chapter.headings if heading[1] == 1), None)
    if first is None or not re.match(rf"{chapter.number}(?!\S)", first[2]):
        place = first[0] if first else f"{chapter.file}:1"
        result.append(f"{place}: the chapter's first heading must be '# {chapter.number} Title'.")
    expected = None
    for place, level, title in chapter.headings:
        found = re.match(r"(\d+)\.(\d+)(?!\S)", title)
        if not found:
            continue
        expected = int(found[2]) if expected is None and found[2] in "01" else (expected or 0) + 1
        if level != 2 or found[0] != f"{chapter.number}.{expected}":
            result.append(f"{place}: the heading '{title}' must be '## {chapter.number}.{expected} ...'.")
    for number, (place, tag) in enumerate(chapter.equations, start=1):
        if tag != f"{chapter.number}.{number}":
            result.append(f"{place}: equation ({tag}) must be ({chapter.number}.{number}), as it is number {number}.")
    return result


def named_numbers(chapter, chapters):
    """The chapters, sections, exercises and equations that the chapter names and that do not exist."""
    exist = {
        "chapter": {str(other.number) for other in chapters},
        "section": {section for other in chapters for section in other.sections},
        "exercise": {exercise for other in chapters for exercise in other.exercises},
        "equation": {tag for other in chapters for _, tag in other.equations},
    }
    patterns = {"chapter": chapter.words.chapter, "section": chapter.words.section,
                "exercise": chapter.words.named_exercise, "equation": chapter.words.equation}
    result = []
    for text in [*chapter.prose, *chapter.code]:
        is_prose = text in chapter.prose
        readable = blanked(MATH, blanked(CODE, text.text)) if is_prose else text.text
        for kind, pattern in patterns.items():
            for found in re.finditer(pattern, readable):
                if kind in ("section", "equation") and of_a_paper(readable, found):
                    continue
                for number in enumerated(found[1]):
                    if number not in exist[kind]:
                        shown = f"({number})" if kind == "equation" else number
                        result.append(f"{text.place(found.start())}: there is no {kind} {shown}.")
        for found in re.finditer(r"(?<![\w)])[(（]([1-9]\d*\.[1-9]\d*)[)）]", readable if is_prose else ""):
            if found[1] not in exist["equation"] and not re.search(r"(?:quations?|式)\s*$", readable[: found.start()]):
                result.append(f"{text.place(found.start())}: there is no equation ({found[1]}).")
    return result


def of_a_paper(text, found):
    before, after = " ".join(text[: found.start()].split()) + " ", text[found.end() :]
    return bool(OF_A_PAPER.search(before[-120:]) or PAPERS_FOLLOW.match(after.replace("\n", " ")))


# Literature


class Entry(NamedTuple):
    place: str
    authors: list[str]  # surnames
    others: bool  # "and others"
    years: set[str]
    title: str


def entries(chapter):
    result = []
    for text in chapter.references:
        for found in ENTRY.finditer(text.text):
            names = [name.strip() for name in re.split(r", | and ", found[1])]
            surnames = [INITIALS.sub("", name) for name in names if name != "others"]
            rest = re.sub(r"arXiv:\S+", "", found[3])
            result.append(Entry(text.place(found.start()), surnames, "others" in names,
                                set(re.findall(r"\b(?:19|20)\d\d\b", rest)), found[2]))
    return result


def literature(chapter):
    """Citations without an entry in the chapter's References, and entries that nothing cites."""
    listed, cited, result = entries(chapter), set(), []
    for text in chapter.prose:
        readable = blanked(MATH, blanked(CODE, text.text)).replace("\n", " ")
        for found in CITATION.finditer(readable):
            matching = [entry for entry in listed if found[2] in entry.years and same_authors(found[1], entry)]
            cited.update(entry.place for entry in matching)
            if not matching:
                result.append(f"{text.place(found.start())}: {found[1]}, {found[2]}, is not in the "
                              f"chapter's {chapter.words.references}.")
    everything = " ".join(text.text for text in chapter.prose)
    for entry in listed:
        if entry.place not in cited and not named_by_its_title(entry.title, everything):
            who = entry.authors[0] + (" et al." if len(entry.authors) > 2 or entry.others else "")
            result.append(f"{entry.place}: {who}, {', '.join(sorted(entry.years))}, is cited nowhere in the chapter.")
    return result


def same_authors(written, entry):
    if written.endswith(" et al."):
        first = re.split(r"[, ]+", written.removesuffix(" et al."))[-1]
        return first == entry.authors[0].split()[-1] and (len(entry.authors) > 2 or entry.others)
    names = [name for name in re.split(r", | and | & |, and ", written) if name]
    surnames = [author.split()[-1] for author in entry.authors]
    return not entry.others and names[-len(surnames):] == surnames


def named_by_its_title(title, text):
    """A model named as in "RoBERTa: A Robustly Optimized …" is cited by its name too."""
    name, colon, _ = title.partition(":")
    return bool(colon) and re.search(rf"\b{re.escape(name)}\b", text) is not None

