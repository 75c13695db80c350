"""What the book's library costs beside its peers: `python -m benchmarks` runs all, `python -m benchmarks table` one.

    table      the sinusoidal table and its module, against the common recipe and positional-encodings
    explorers  a slider's move in a real kernel, against `interact` with a new figure: time and bytes
    browser    key press to new picture in a real JupyterLab, against the same `interact`

All numbers of one table come from one run, the competitors taking turns. Compare ratios, not milliseconds.
"""
