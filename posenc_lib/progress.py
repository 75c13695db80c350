"""A progress bar that goes when its work is done and leaves nothing in the saved notebook."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from IPython import get_ipython
from IPython.display import display
from tqdm import tqdm
from tqdm.notebook import tqdm as notebook_tqdm

Item = TypeVar("Item")


def progress(items: Iterable[Item], description: str, *, shown: bool = True) -> Iterator[Item]:
    """Yields `items` beside a bar: a widget in a notebook, a line on the terminal elsewhere, nothing if not `shown`."""
    if not shown:
        yield from items
        return
    if not hasattr(get_ipython(), "kernel"):
        yield from tqdm(items, desc=description, leave=False, disable=None)
        return
    bar = notebook_tqdm(items, desc=description, leave=False, display=False)
    # The view alone, without the text that tqdm adds: a text with its timings would differ in every run.
    view = {"version_major": 2, "version_minor": 0, "model_id": bar.container.model_id}
    display({"application/vnd.jupyter.widget-view+json": view}, raw=True)
    yield from bar
