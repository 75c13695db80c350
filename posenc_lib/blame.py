"""Where in a reader's own function an error came from, past whatever library it went through."""
from __future__ import annotations

import traceback
from collections.abc import Callable


def own_frame(function: Callable, error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of `error` in the file or cell of `function`, if there is one."""
    own_file = getattr(getattr(function, "__code__", None), "co_filename", None)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if frame.filename == own_file), None)
