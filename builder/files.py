"""Files that are never half written, and not touched when nothing has changed."""

import os


def write_if_changed(target, content):
    """Text or bytes, in one step; says whether anything has changed."""
    data = content if isinstance(content, bytes) else content.encode()
    if target.is_file() and target.read_bytes() == data:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, target)
    return True
