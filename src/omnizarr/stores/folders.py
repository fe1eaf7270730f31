"""What lies in folders, through links too, but never round in circles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from omnizarr.errors import StoreError
from omnizarr.stores.descriptors import patiently
from omnizarr.stores.replace_file import OURS

MOST_LINKS = 2  # to folders in one path: with many, few folders would have paths without number


def entries(folder: str, root: str) -> tuple[list[str], list[str]]:
    """The names of files and of folders in a folder below `root`; nothing where it is none.

    A link to a folder that the path has gone through already is left out.
    """
    files: list[str] = []
    folders: list[str] = []
    try:
        with patiently(partial(os.scandir, folder)) as found:
            for entry in found:
                if not _is_folder(entry):
                    files.append(entry.name)
                elif not entry.is_symlink() or not _leads_back(entry.path, root):
                    folders.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"cannot list {folder!r}: {e.strerror or e}") from e
    return files, folders


def walk(top: str, root: str) -> Iterator[tuple[str, list[str]]]:
    """Every folder at and below `top`, relative to it with ``/``, and the files in it."""
    left = [""]
    while left:
        inside = left.pop()
        files, folders = entries(os.path.join(top, inside) if inside else top, root)
        yield inside, files
        ours = (name for name in folders if OURS not in name)
        left += [f"{inside}/{name}" if inside else name for name in ours]


def folders_below(top: str, root: str) -> Iterator[str]:
    """Return every folder below `top`, relative to it with ``/``; links to folders are some."""
    for inside, _ in walk(top, root):
        try:
            with patiently(partial(os.scandir, os.path.join(top, inside))) as found:
                names = [entry.name for entry in found if _is_folder(entry)]
        except (FileNotFoundError, NotADirectoryError):  # there is no chunk, or no more
            continue
        yield from (f"{inside}/{name}" if inside else name for name in names)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: reading it will say so
        return False


def _leads_back(link: str, root: str) -> bool:
    """Whether a link to a folder leads to one that its own path goes through."""
    target, links, path = os.path.realpath(link), 1, link
    while len(path := os.path.dirname(path)) >= len(root.rstrip(os.sep)):
        if os.path.realpath(path) == target:
            return True
        links += os.path.islink(path) and len(path) > len(root.rstrip(os.sep))
    if links > MOST_LINKS:
        raise StoreError(
            f"{link!r} is reached through {links} links to folders, more than the {MOST_LINKS} that"
            " a listing follows; open what lies there by its own path"
        )
    return False
