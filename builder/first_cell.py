# Finds the book's library: installed, in this folder or one above it, or else fetched from the book's address with git.
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = ""
TAG = ""

if importlib.util.find_spec("posenc_lib") is None:
    here = Path.cwd()
    places = [here, *here.parents, here / f"posenc_book-{TAG}"]
    book = next((place for place in places if (place / "posenc_lib" / "__init__.py").is_file()), None)
    if book is None and not REPOSITORY:
        raise RuntimeError("The book is not published yet: set REPOSITORY above to the address of your copy.")
    if book is None:
        try:
            with tempfile.TemporaryDirectory(dir=here) as folder:  # so that a failed fetch leaves nothing behind
                git = ["git", "clone", "--quiet", "--depth", "1", "--branch", TAG, REPOSITORY, f"{folder}/book"]
                unasked = os.environ | {"GIT_TERMINAL_PROMPT": "0"}  # else git may wait for a password for ever
                subprocess.run(git, check=True, capture_output=True, text=True, errors="replace", env=unasked)
                if not Path(folder, "book", "posenc_lib", "__init__.py").is_file():
                    raise FileNotFoundError("there is no posenc_lib in it.")
                book = Path(folder, "book").rename(places[-1])
        except (OSError, subprocess.CalledProcessError) as error:
            raise RuntimeError(
                f"The book could not be fetched from {REPOSITORY} at {TAG} (this needs git, the network and a folder "
                f"that can be written to): {str(getattr(error, 'stderr', error)).strip()}"
            ) from None
    sys.path.insert(0, str(book))
