"""What is in a directory."""

from __future__ import annotations

from pathlib import Path


def files(folder: Path | str) -> dict[str, bytes]:
    """Return the contents of all files below a directory, by path."""
    root = Path(folder)
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
