"""A student's Markdown as text: no tag, link, picture or macro of it does anything in a browser.

Whoever reads it there may be logged in as the instructor. A space is put where something would begin, before a
heading one without width; it shows in formulas and code as well, but changes neither.
"""
import re

ENTITY = re.compile(r"&(?=#|\w+;)")              # letters that would be put together only after all that follows here
TAG = re.compile(r"<(?=[A-Za-z/!?])")           # tags, comments, and links such as <https://...>
LINK = re.compile(r"\](?=[(\[:])")              # links, pictures, and what they refer to
BEFORE = r"(?m)^([ \t>*+-]*(?:\d+[.)])?[ \t]*)"                # of a list or a quotation
FENCE = re.compile(BEFORE + r"(`{3,}|~{3,})(?![ \t]*\w*[ \t]*$)[^`\n]*$")  # what follows becomes an attribute
DIAGRAM = re.compile(r"([`~]{3,}[ \t]*)mermaid\b", re.IGNORECASE)
# The text of a heading becomes an id, and the boxes for scores have ids too.
HEADING = re.compile(BEFORE + r"(?=\#|=+[ \t]*$|-+[ \t]*$)")
ADDRESS = re.compile(r"(https?|ftp|mailto|javascript|data|vbscript):(?=\S)", re.IGNORECASE)
# What is more than a formula in MathJax: it opens addresses, writes HTML's attributes, loads more, or defines macros.
MACRO = re.compile(
    r"\\(?=(?:href|url|style|class|cssId|data|html\w*|includegraphics|require|mmlToken|unicode|csname|g?def|edef|xdef|"
    r"let|futurelet|(?:re)?newcommand|providecommand|(?:re)?newenvironment|DeclareMathOperator|Newextarrow|"
    r"texttip|toggle|mathtip|begingroup|global|catcode|input)(?![A-Za-z]))")


def harmless(text: str) -> str:
    text = ENTITY.sub("&amp;", text)
    text = TAG.sub("< ", text)
    text = LINK.sub("] ", text)
    text = FENCE.sub(r"\1\2", text)
    text = DIAGRAM.sub(r"\1text", text)
    text = HEADING.sub("\\1\u200b", text)
    text = ADDRESS.sub(r"\1: ", text)
    return MACRO.sub(r"\\ ", text)
