"""What the book's library costs beside its peers: `python -m benchmarks` runs all, `python -m benchmarks table` one.

    imports    what `import posenc_lib` adds to PyTorch's own import
    table      the sinusoidal table and its module, against the common recipe and positional-encodings
    encoder    the encoder's forward pass, against nn.TransformerEncoder
    explorers  a slider's move in a real kernel, against `interact` with a new figure: time and bytes
    browser    key press to new picture in a real JupyterLab, against the same `interact`
    rotary     RoPE on queries and keys, against copying them and against other libraries
    classroom  a submission graded, against plain nbgrader; only when named, with the classroom's own Python

All numbers of one table come from one run, the competitors taking turns. Compare ratios, not milliseconds.
"""
