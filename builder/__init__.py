"""Makes the notebooks in notebooks/ from the text in chapters/: `python -m builder` lists what it can do.

chapter.py        a chapter's text as cells, and the notebook a reader gets from it, not yet executed
exercise.py       one exercise: its solved cell gives the reader's stub, heading, hints and solution
first_cell.py     the first code cell of every chapter, as it stands there
build.py          executes a reader's notebook and stores it
write_back.py     carries cells that were edited in a notebook back into the chapter's text
prose_numbers.py  finds the numbers of the prose that no output confirms
"""
