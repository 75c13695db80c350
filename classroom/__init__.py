"""The classroom: assign chapters, collect, grade, give feedback. Readers of the book never load any of it.

course.py      the folders of a course and the manifest of an assignment
assign.py      chapters -> what nbgrader hands out
salvage.py     any submitted file -> a clean notebook with the answers put back
isolation.py   a process for one student's code: what it can reach, how much it may use, why it was ended
wire.py        what goes between that process and the grader: frames of JSON and npz, never pickle
student.py     runs inside that process: the cells that the answers need, then the calls of the answers
remote.py      the grader's side: `Session`, whose answers can be handed to `posenc_lib.check`
hidden.py      further cases for every exercise, beyond those of the self-check
names.py       the name that a student's files have
harmless.py    a student's Markdown as text that does nothing in a browser
judge.py       a session and a task -> a score
grade.py       a folder of submissions -> one result each
cluster.py     joblib's Dask backend, mended
summary.py     results and gradebook -> a table, and lines for the terminal
gradebook.py   results -> nbgrader's gradebook and feedback
"""
