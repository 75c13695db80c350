"""Files that are never half written, and not touched when nothing has changed."""
import os
from pathlib import Path


def write(path: Path, text: str | bytes) -> bool:
    """In one step; says whether anything has changed."""
    data = text if isinstance(text, bytes) else text.encode()
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)
    return True
