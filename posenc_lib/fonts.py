"""Letters that a figure's font lacks, Japanese ones for example: another font lends them.

Every figure of the book is drawn with `letters_for(figure)` around it. Where all characters are in the text's own font
nothing happens. Otherwise a font that has them is appended to that text's families, so that all other characters look
as before: first the one of the package matplotlib-fontja if it is installed (it is not imported: that would change
the font of all figures), then those that matplotlib knows by these names.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import logging
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

from matplotlib import cbook, font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text

PACKAGE = "matplotlib-fontja"
FAMILIES = ("Noto Sans CJK JP", "Noto Sans JP", "Source Han Sans JP", "IPAexGothic", "IPAGothic", "TakaoGothic",
            "VL Gothic", "Hiragino Sans", "Hiragino Kaku Gothic ProN", "Yu Gothic", "Meiryo", "MS Gothic",
            "Noto Sans CJK KR", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "Apple SD Gothic Neo",
            "Malgun Gothic", "Arial Unicode MS")
JAPANESE = re.compile("[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
MATPLOTLIBS_WARNING = r"Glyph \d+ \(.*\) missing from "


@contextlib.contextmanager
def letters_for(figure: Figure) -> Iterator[None]:
    """Around the drawing of `figure`: its texts get the fonts they need.

    What no font has is drawn as a box, with one warning in a session that says what to install; matplotlib's own, one
    for each such character, stay away then, and no others.
    """
    lacking = "".join(_lend_letters(text) for text in _texts(figure))
    if not lacking:
        yield
        return
    _say_once(lacking)
    log = logging.getLogger("matplotlib.mathtext")    # which has no warning for this, but a line in its log
    log.addFilter(_is_no_missing_glyph)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", MATPLOTLIBS_WARNING, UserWarning)
            yield
    finally:
        log.removeFilter(_is_no_missing_glyph)


def _is_no_missing_glyph(record: logging.LogRecord) -> bool:
    return "does not have a glyph for" not in record.getMessage()


def _texts(figure: Figure) -> list[Text]:
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_ticklabels()                     # else names on an axis are filled in only while drawing
    return figure.findobj(lambda artist: isinstance(artist, Text) and not artist.get_text().isascii())


def _lend_letters(text: Text) -> str:
    """Appends the families that `text` needs; returns the characters that none of them has."""
    own, lacking = list(text.get_fontfamily()), _drawn(text.get_text())
    for family in own:
        lacking -= _characters(_font_file(text, family))
    lent = []
    for family in _families() if lacking else ():
        have = lacking & _characters(_font_file(text, family))
        if have:
            lent.append(family)
            lacking -= have
    # Text with a formula in it is set in its first font alone.
    math = text.get_parse_math() and cbook.is_math_text(text.get_text())
    if lent:
        text.set_fontfamily([*lent, *own] if math else [*own, *lent])
    return "".join(sorted(lacking))


def _drawn(text: str) -> set[str]:
    """The characters of `text` that are seen: no line ends, no marks of direction or width."""
    return {each for each in text if unicodedata.category(each) not in ("Cc", "Cf")}


def _font_file(text: Text, family: str) -> str:
    properties = text.get_fontproperties().copy()
    properties.set_family(family)
    return font_manager.findfont(properties)


@functools.cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))


def _families() -> list[str]:
    """The families that can lend, best first."""
    importlib.invalidate_caches()                     # it may have been installed since the last look
    package = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    packaged = []
    for folder in (package.submodule_search_locations or ()) if package else ():
        packaged += [_registered(str(file)) for file in sorted(Path(folder).rglob("*.tt[fc]"))]
    known = set(font_manager.get_font_names())
    return [*packaged, *(family for family in FAMILIES if family in known and family not in packaged)]


@functools.cache
def _registered(file: str) -> str:
    """Makes a font file known to matplotlib, for bold text too; returns its family's name."""
    manager = font_manager.fontManager
    manager.addfont(file)
    entry = next(entry for entry in manager.ttflist if entry.fname == file)
    manager.ttflist.append(dataclasses.replace(entry, weight="bold"))        # or each bold text is complained of
    return entry.name


@functools.cache
def _said() -> set[str]:
    """What was said in this session."""
    return set()


def _say_once(lacking: str) -> None:
    japanese = JAPANESE.search(lacking) is not None
    key = "japanese" if japanese else "other"
    if key in _said():
        return
    _said().add(key)
    seen = ", ".join(dict.fromkeys(lacking[:12]))
    what = f"No font here has the characters {seen}: they are drawn as boxes. "
    install = "%pip install" if "google.colab" in sys.modules else "pip install"
    advice = (f"Japanese text needs `{install} {PACKAGE}`; then run this cell again, after a restart of the kernel if "
              "the boxes remain." if japanese else "Install a font that has them, then restart the kernel.")
    warnings.warn(what + advice, stacklevel=_depth_outside_the_book())


def _depth_outside_the_book() -> int:
    """How far up the reader's own line is, for `warnings.warn` in the caller."""
    package, frame, depth = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back and (frame.f_globals.get("__name__", "").partition(".")[0] == package
                            or frame.f_code.co_filename == contextlib.__file__):
        frame, depth = frame.f_back, depth + 1
    return depth
