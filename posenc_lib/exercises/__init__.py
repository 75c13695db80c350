"""The checks of the exercises, one file a chapter."""
from posenc_lib.exercises import (
    chapter_00,
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
)

__all__ = [
    "chapter_00", "chapter_01", "chapter_02", "chapter_03", "chapter_04", "chapter_05", "chapter_06", "chapter_07",
]
