"""The checks of the exercises, one file a chapter."""
from posenc_lib.exercises import chapter_00, chapter_01, chapter_02

__all__ = ["chapter_00", "chapter_01", "chapter_02"]
