"""Disks that take two spellings for one name: those of Windows and macOS, as they usually are.

Creating ``Temp`` beside ``temp`` there would replace the other without a word, and data copied to
such a disk would lose one of them.
"""

from __future__ import annotations

import os
import unicodedata

from omnizarr.errors import InvalidName


def folds(directory: str) -> bool:
    """Whether names in a directory are found by another spelling; False where nothing tells."""
    here = os.path.abspath(directory)
    while not os.path.isdir(here) and os.path.dirname(here) != here:
        here = os.path.dirname(here)
    for folder in (here, os.path.dirname(here)):
        try:
            names = set(os.listdir(folder))
        except OSError:
            continue
        for name in sorted(names):
            other = name.swapcase()
            if other not in names:
                return os.path.lexists(os.path.join(folder, other))
    return False


def check_spelling(directory: str, path: str) -> None:
    """Raise where a part of a path below a directory is there in another spelling."""
    for name in path.split("/"):
        if not os.path.lexists(os.path.join(directory, name)):
            return
        names = os.listdir(directory)
        if name not in names:
            wanted = _folded(name)
            found = next((n for n in names if _folded(n) == wanted), name)
            raise InvalidName(
                f"{path!r}: on this disk {name!r} is the same name as {found!r}, which is there"
                f" already in {directory!r}; choose a name that differs in more than case"
            )
        directory = os.path.join(directory, name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
