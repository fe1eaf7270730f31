"""Every error that omnizarr raises.

::

    OmnizarrError
    ├── InvalidMetadata (ValueError)        stored or proposed metadata that are not valid
    ├── InvalidArgument (ValueError)        an argument, option or value that is not allowed
    │   ├── InvalidName (InvalidMetadata)   a node name or path that the format forbids
    │   ├── NoSuchLabel (KeyError)          a variable or coordinate that does not exist
    │   └── WrongType (TypeError)           an argument of the wrong type
    ├── UnknownExtension (LookupError, ValueError)   a codec, data type … not known here
    ├── CannotExpress (ValueError)          valid, but the chosen format cannot express it
    ├── NodeNotFound (KeyError, ValueError, FileNotFoundError)
    │   └── NodeChanged                     replaced, moved or deleted since it was opened
    ├── NodeExists (ValueError, FileExistsError)
    ├── WrongNode (TypeError, ValueError)   not the requested kind, shape or type of node
    ├── ReadOnly (PermissionError, TypeError, ValueError)
    ├── StoreError (OSError)                the store failed, or cannot do what was requested
    │   ├── Conflict (OSError)              another writer was faster; try again
    │   └── TargetError (OSError)           the target of a reference cannot or may not be read
    ├── ChunkError (OSError)                one chunk cannot be read or written
    │   └── MissingChunk (KeyError)         there is none, and missing="raise" was given
    ├── SelectionError (IndexError, ValueError)   a selection or values that do not fit the array
    └── MissingPackage                      an optional package is needed
        ├── MissingModule (ImportError)     to import a module, or for an operation
        └── MissingAttribute (AttributeError)   for a name, as in ``oz.storage.LMDBStore``

Each class is also the builtin that a Python user would catch, and the one that zarr-python
raises in that case. Facts are attributes, so that programs need not parse messages.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = [
    "CannotExpress",
    "ChunkError",
    "Conflict",
    "InvalidArgument",
    "InvalidMetadata",
    "InvalidName",
    "MissingAttribute",
    "MissingChunk",
    "MissingModule",
    "MissingPackage",
    "NoSuchLabel",
    "NodeChanged",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "SelectionError",
    "StoreError",
    "TargetError",
    "UnknownExtension",
    "WrongNode",
    "WrongType",
]


# A quoted name or an index in brackets, or a name between dots.
_FIELD_PART = re.compile(r"""\[(?:'([^']+)'|"([^"]+)"|(\d+))\]|([^.\[\]]+)""")


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a metadata document.

    Attributes:
        key: The key of the document in the store.
        field: The field, such as ``codecs[0].configuration.level``; empty for the whole document.
        message: The problem, and the expected value.
        level: ``"error"`` if the node cannot be read, else ``"warning"``.

    Examples:
        >>> problem = oz.errors.Problem("zarr.json", "shape", "expected a list of integers")
        >>> problem.level
        'error'
    """

    key: str
    field: str
    message: str
    level: Literal["error", "warning"] = "error"

    @property
    def pointer(self) -> str:
        """The field as a JSON pointer (RFC 6901); empty for the whole document.

        Examples:
            >>> oz.errors.Problem("zarr.json", "codecs[0].name", "expected a string").pointer
            '/codecs/0/name'
        """
        parts = (next(filter(None, match)) for match in _FIELD_PART.findall(self.field))
        return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)

    def __str__(self) -> str:
        place = f"{self.key}: " if self.key else ""
        field = f"{self.field}: " if self.field else ""
        return f"{place}{field}{self.message}"


class OmnizarrError(Exception):
    """The root of the tree."""

    def __str__(self) -> str:
        # KeyError would show the repr of its message, OSError may want an errno.
        return str(self.args[0]) if self.args else self.__class__.__name__


class InvalidMetadata(OmnizarrError, ValueError):
    """Metadata, stored or about to be stored, that are not valid; `problems` lists all of them."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    @classmethod
    def of(cls, problems: list[Problem], what: str) -> InvalidMetadata:
        """Return one error for all `problems` of `what`."""
        errors = [p for p in problems if p.level == "error"]
        if len(errors) == 1:
            return cls(f"{what}: {errors[0]}", tuple(errors))
        lines = "".join(f"\n  - {p}" for p in errors)
        return cls(f"{what}: {len(errors)} problems{lines}", tuple(errors))


class InvalidArgument(OmnizarrError, ValueError):
    """An argument, option or value that a function does not accept."""


class InvalidName(InvalidArgument, InvalidMetadata):
    """A node name or path, given or stored, that the format forbids."""


class NoSuchLabel(InvalidArgument, KeyError):
    """An argument names a variable of a dataset, or a coordinate, that does not exist."""


class WrongType(InvalidArgument, TypeError):
    """An argument of the wrong type."""


class UnknownExtension(OmnizarrError, LookupError, ValueError):
    """Metadata name an extension for which no implementation is registered."""

    def __init__(self, message: str, *, kind: str = "", name: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class CannotExpress(OmnizarrError, ValueError):
    """The node is valid, but the chosen format cannot express it; `problems` lists several."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class NodeNotFound(OmnizarrError, KeyError, ValueError, FileNotFoundError):
    """There is no array or group at that path."""


class NodeChanged(NodeNotFound):
    """The node of a handle was deleted, moved or replaced by another since it was opened.

    `reshaped` is True if it is the same array, but smaller.
    """

    def __init__(self, message: str = "", *, reshaped: bool = False) -> None:
        super().__init__(message)
        self.reshaped = reshaped


class NodeExists(OmnizarrError, ValueError, FileExistsError):
    """There is already a node or other data at that path; `kind` is "array" or "group" if known."""

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class WrongNode(OmnizarrError, TypeError, ValueError):
    """A node of another kind than requested, or an array of another shape or type."""


class ReadOnly(OmnizarrError, PermissionError, TypeError, ValueError):
    """The store, array or group was opened for reading only."""


class StoreError(OmnizarrError, OSError):
    """The store failed, or cannot do the requested operation."""


class TargetError(StoreError):
    """A file that a reference leads to cannot or may not be read; the message names its place."""


class Conflict(StoreError):
    """Another writer changed the same data at the same time; nothing is lost by trying again.

    An `OSError`, as are the errors with which the operating system reports a lost race
    (`FileExistsError`, `BlockingIOError`): a loop that retries failed input and output also
    retries this.
    """


class ChunkError(OmnizarrError, OSError):
    """One chunk cannot be read or written; its neighbours may be fine."""

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        chunk: tuple[int, ...] = (),
        key: str = "",
        codec: str = "",
    ) -> None:
        super().__init__(message)
        self.path = path
        self.chunk = chunk
        self.key = key
        self.codec = codec


class MissingChunk(ChunkError, KeyError):
    """The store has no such chunk, and ``missing="raise"`` was requested."""


class SelectionError(OmnizarrError, IndexError, ValueError):
    """A selection, or values for it, that do not fit the array."""


class MissingPackage(OmnizarrError):
    """An optional package is needed; the message says how to install it.

    Python allows no class to be both an `ImportError` and an `AttributeError`, so that there is
    a class for each.
    """


class MissingModule(MissingPackage, ImportError):
    """A module cannot be imported, or something cannot be done, without an optional package."""


class MissingAttribute(MissingPackage, AttributeError):
    """A module has a name only where an optional package is installed."""


Context: TypeAlias = "tuple[str, dict[str, Any]]"  # a text, and attributes by name


class error_context:
    """Add to errors of the block where they arose: to the message and as attributes.

    >>> with error_context("shard 'c/0/0'", key="c/0/0"):
    ...     raise ChunkError("the index is damaged")
    Traceback (most recent call last):
    omnizarr.errors.ChunkError: shard 'c/0/0': the index is damaged

    Errors of this package are caught, or those in `catch` but not in `ignore`. They keep their
    class unless `into` names another one, and an error keeps its `codec`, the innermost. One that
    names its array (`path`) already says enough and stays as it is. What is slow to write down can
    be left to a function of the error, which returns the text and the attributes.
    """

    __slots__ = ("_attributes", "_catch", "_ignore", "_into", "_where")

    def __init__(
        self,
        where: str | Callable[[Exception], Context],
        *,
        into: type[OmnizarrError] | None = None,
        catch: tuple[type[Exception], ...] = (OmnizarrError,),
        ignore: tuple[type[Exception], ...] = (),
        **attributes: Any,
    ) -> None:
        self._where, self._attributes = where, attributes
        self._into, self._catch, self._ignore = into, catch, ignore

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or not isinstance(error, self._catch) or isinstance(error, self._ignore):
            return
        if getattr(error, "path", ""):
            return
        where = self._where
        text, attributes = (where, self._attributes) if isinstance(where, str) else where(error)
        message = f"{text}: {_reason(error)}"
        if self._into is None or type(error) is self._into:
            raise _with_message(error, message, attributes) from error.__cause__
        codec = getattr(error, "codec", "")
        new = self._into(message)
        vars(new).update({**attributes, "codec": codec} if codec else attributes)
        raise new from error


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {text}" if text else "not enough memory"
    return text or type(error).__name__


def _with_message(error: Exception, message: str, attributes: dict[str, Any]) -> Exception:
    """Return an error of the same class, cause and traceback; its constructor is not called."""
    new = type(error).__new__(type(error), message)
    new.args = (message, *error.args[1:])
    vars(new).update(vars(error))
    if getattr(error, "codec", ""):
        attributes = {name: value for name, value in attributes.items() if name != "codec"}
    vars(new).update(attributes)
    return new.with_traceback(error.__traceback__)


FEW = 8  # names, which are listed even if one of them resembles the given one


def known_names(given: object, known: Iterable[object], most: int | None = None) -> str:
    """Return the end of a message about a name that is not known.

    ``"did you mean 'zstd'?"`` where a known name is much like it, and the known names where that
    is not so, or where they are few; the first `most` of them.
    """
    names = [str(name) for name in known]
    meant = did_you_mean(given, names)
    if meant and len(names) > FEW:
        return meant.rstrip()
    more = f", … ({len(names) - most} more)" if most and len(names) > most else ""
    return f"{meant}known: {', '.join(names[:most]) or 'none'}{more}"


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return ``"did you mean 'zstd'? "`` if a known name resembles `given`, else an empty text."""
    meant = closest_name(given, known)
    return "" if meant is None else f"did you mean {meant!r}? "


def closest_name(given: object, known: Iterable[str]) -> str | None:
    """Return the known name that most resembles `given`, or None if none does."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    lower = {name.lower(): name for name in known}
    found = get_close_matches(str(given).lower(), lower, n=1)
    return lower[found[0]] if found else None


def raised_by_system(error: OSError) -> bool:
    """Return True if the operating system raised an error, not a signal handler.

    A ``TimeoutError`` of a handler is not the store's; its ``FileNotFoundError`` proves nothing.
    """
    return error.errno is not None and not isinstance(error, OmnizarrError)


def descriptor_shortage() -> str:
    """Return the system's message if no file can be opened now, since libraries hide it, or ""."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as e:
        return e.strerror or str(e)
    return ""


class OmnizarrWarning(UserWarning):
    """A message about something that works but may surprise: a fallback used, a field ignored."""


# The filters in force and the messages given under them; other filters start afresh.
_given: tuple[object, set[str]] = (None, set())
_MAX_GIVEN = 10_000
# Texts of warnings that are not issued: programs for zarr-python know nothing of them.
silenced: set[str] = set()


def warn(message: str) -> None:
    """Issue an `OmnizarrWarning`, once in a process for each message.

    It names the line of the program that called this package. Filters that make it an error raise
    each time, and ``warnings.catch_warnings`` begins anew.
    """
    global _given
    if any(text in message for text in silenced):
        return
    if _given[0] is not warnings.filters or len(_given[1]) >= _MAX_GIVEN:
        _given = (warnings.filters, set())
    if message not in _given[1]:
        warnings.warn(message, OmnizarrWarning, stacklevel=_outside() + 1)
        _given[1].add(message)


def log(text: str) -> None:
    """Log what operators want to know: a retry, a slow request, a long wait for a lock."""
    import logging  # noqa: PLC0415 - slow, and rarely needed

    logging.getLogger("omnizarr").info(text)


def warn_of_problems(problems: Iterable[Problem]) -> None:
    """Warn of each problem that does not prevent reading."""
    for problem in problems:
        if problem.level == "warning":
            warn(str(problem))


def _outside() -> int:
    """Return the stack level of the program's own call, as `warnings.warn` counts."""
    level, frame = 1, sys._getframe(2)
    ours = ("omnizarr", "contextlib", "functools")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    return level
