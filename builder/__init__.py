"""Makes the notebooks in notebooks/ from the text in chapters/: `python -m builder` lists what it can do.

chapter.py        a chapter's text as cells, and the notebook a reader gets from it, not yet executed
exercise.py       one exercise: its solved cell gives the reader's stub, heading, hints and solution
essay.py          one question to be answered in words: its heading, and the folded answer
first_cell.py     the first code cell of every chapter, as it stands there
publish.py        the address and tag of book.toml, as texts: badges, links, the README's lines
stamp.py          writes them into notebooks and README.md
files.py          writes a file in one step, if it has changed
build.py          executes a reader's notebook and stores it
write_back.py     carries cells that were edited in a notebook back into the chapter's text
language.py       the builder's words in each language, and what a translation must keep
links.py          finds links, numbers and citations that lead nowhere
prose_numbers.py  finds the numbers of the prose that no output confirms
"""
