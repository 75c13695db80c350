# Finds the book's library: installed, in this folder or one above it, or else fetched from the book's address with git.
import importlib.util
import pathlib
import subprocess
import sys

REPOSITORY = ""
TAG = ""

if importlib.util.find_spec("posenc_lib") is None:
    here = pathlib.Path.cwd()
    places = [here, *here.parents, here / f"posenc_book-{TAG}"]
    book = next((place for place in places if (place / "posenc_lib" / "__init__.py").is_file()), None)
    if book is None and not REPOSITORY:
        raise RuntimeError("The book is not published yet: set REPOSITORY above to the address of your copy.")
    if book is None:
        book, git = places[-1], ["git", "clone", "--quiet", "--depth=1", f"--branch={TAG}", REPOSITORY, places[-1]]
        try:
            subprocess.run(git, check=True, capture_output=True, text=True, errors="replace")
        except (OSError, subprocess.CalledProcessError) as error:
            reason = str(getattr(error, "stderr", error)).strip()
            raise RuntimeError(f"{REPOSITORY} at {TAG} needs git and a network to be fetched: {reason}") from None
    sys.path.insert(0, str(book))
