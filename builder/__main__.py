"""The builder's commands; `python -m builder COMMAND --help` explains one."""

import argparse
import sys
from pathlib import Path

from builder.build import build_all
from builder.chapter import ChapterError, book_root, chapter_name, chapter_paths, read_chapter, text_of
from builder.files import write_if_changed
from builder.links import problems as links_to_nowhere
from builder.prose_numbers import problems
from builder.stamp import stamp
from builder.write_back import write_back


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        return options.command(options)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 1


def parser():
    result = argparse.ArgumentParser(prog="python -m builder", description="Makes the notebooks from the chapters.")
    result.set_defaults(command=lambda options: result.print_help())
    commands = result.add_subparsers(title="commands", metavar="COMMAND")

    build = commands.add_parser("build", help="execute chapters and store their notebooks")
    build.add_argument("--force", action="store_true", help="also chapters whose notebook is current")
    build.add_argument("--output", type=Path, metavar="DIR", help="another folder than notebooks/")
    build.set_defaults(command=build_command)

    format = commands.add_parser("format", help="rewrite chapters in their canonical form")
    format.set_defaults(command=format_command)

    numbers = commands.add_parser("numbers", help="print the numbers of the prose that no output confirms")
    numbers.set_defaults(command=numbers_command)

    links = commands.add_parser("links", help="print what leads nowhere: links, numbers of sections, literature")
    links.set_defaults(command=links_command)

    for command in (build, format, numbers):
        command.add_argument("chapters", nargs="*", metavar="CHAPTER", help="such as 02; all of them if none is named")

    stamps = commands.add_parser("stamp", help="write address and tag of book.toml into notebooks and README.md")
    stamps.set_defaults(command=stamp_command)

    back = commands.add_parser("write-back", help="carry cells edited in a notebook back into the chapter's text")
    back.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="such as notebooks/02_sinusoidal_by_hand.ipynb")
    back.set_defaults(command=write_back_command)
    return result


def selected(wanted):
    """The paths of the chapters that are meant by 02, 02_name or ja/02_name, or of all chapters."""
    paths = chapter_paths(book_root(Path.cwd()))
    names = {path: chapter_name(path) for path in paths}
    for word in wanted:
        if not any(means(word, name) for name in names.values()):
            raise ChapterError(f"There is no chapter {word}. There are: {', '.join(names.values())}")
    return [path for path in paths if not wanted or any(means(word, names[path]) for word in wanted)]


def means(word, name):
    return word == name or name.split("/")[-1].startswith(f"{word.zfill(2)}_")


def build_command(options):
    return 0 if build_all(selected(options.chapters), options.force, options.output) else 1


def format_command(options):
    for path in selected(options.chapters):
        changed = write_if_changed(path, text_of(*read_chapter(path)))
        print(f"{chapter_name(path)}: {'rewritten' if changed else 'canonical already'}")
    return 0


def numbers_command(options):
    found = [line for path in selected(options.chapters) for line in problems(path)]
    print("\n".join(found) or "Every number of the prose is confirmed.")
    return 1 if found else 0


def links_command(options):
    found = links_to_nowhere(book_root(Path.cwd()))
    print("\n".join(found) or "Every link, number and citation leads somewhere.")
    return 1 if found else 0


def stamp_command(options):
    written = stamp(book_root(Path.cwd()))
    print("\n".join(written) or "All notebooks and README.md have the address and tag of book.toml already.")
    return 0


def write_back_command(options):
    changes = write_back(options.notebook)
    if not changes:
        print("Nothing to write back: the chapter's text already has these cells.")
        return 0
    number = options.notebook.stem[:2]
    print("\n".join(changes), f"The chapter is written; now run `make notebooks CHAPTER={number}`.", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
