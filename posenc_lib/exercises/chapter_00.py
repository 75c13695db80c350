"""The check of chapter 0: a first taste of an exercise that answers back."""
from __future__ import annotations

from collections.abc import Callable

from posenc_lib.checking import Wrong, call, calling, exercise, numbers


@exercise("0.1")
def doubling(answer: Callable) -> str:
    for number in (3, -5, 0.25):
        seen = float(numbers(call(answer, number), (), calling(answer, number)))
        if seen != 2 * number:
            raise Wrong(f"{calling(answer, number)} is {seen:g}, expected {2 * number:g}.")
    return "this is how an exercise answers."
