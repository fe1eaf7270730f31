"""Errors of this package that are also zarr-python's errors for the same case.

A program that catches ``zarr.errors.ContainsGroupError`` catches ours too: each error that leaves
the facades is of a class made from both.
"""

from __future__ import annotations

import functools
import sys
import warnings
from contextlib import ContextDecorator
from json import JSONDecodeError
from typing import Any

from omnizarr import errors
from omnizarr.interop.zarr import library

# Their classes for each of ours. Which node was wanted, or exists, selects among those below.
_NAMES: dict[type[errors.OmnizarrError], tuple[str, ...]] = {
    errors.MissingChunk: ("ChunkNotFoundError",),
    errors.ChunkError: ("BaseZarrError",),
    errors.SelectionError: (
        "BoundsCheckError",
        "NegativeStepError",
        "VindexInvalidSelectionError",
        "ArrayIndexError",
    ),
    errors.WrongNode: ("NodeTypeValidationError",),
    errors.InvalidName: ("MetadataValidationError",),
    errors.InvalidMetadata: ("MetadataValidationError",),
    errors.UnknownExtension: ("UnknownCodecError",),
    errors.NodeNotFound: ("NodeNotFoundError",),
    errors.NodeExists: ("BaseZarrError",),
    errors.OmnizarrError: (),
}
_BY_KIND: dict[tuple[type[errors.OmnizarrError], str], tuple[str, ...]] = {
    (errors.NodeNotFound, "array"): ("ArrayNotFoundError",),
    (errors.NodeNotFound, "group"): ("GroupNotFoundError",),
    (errors.NodeExists, "array"): ("ContainsArrayError",),
    (errors.NodeExists, "group"): ("ContainsGroupError",),
    (errors.WrongNode, "array"): ("NodeTypeValidationError", "ContainsGroupError"),
    (errors.WrongNode, "group"): ("NodeTypeValidationError", "ContainsArrayError"),
}


class translated(ContextDecorator):
    """Translate the errors of a block or function; `kind` is of the node in question."""

    def __init__(self, kind: str = "") -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.OmnizarrError):
            new = translate(error, self.kind)
            if new is not error:
                raise new from new.__cause__


def translate(error: errors.OmnizarrError, kind: str = "") -> BaseException:
    """Return the error as one that is also zarr-python's.

    An error of a store whose class excludes that is returned itself, with a note.
    """
    ours: Any = type(error)
    through = _let_through(error)
    also: Any = None if through is None else type(through)
    made = _class(ours, getattr(error, "kind", "") or kind, also)
    if made is ours:
        return error
    if through is not None and made is None:
        through.add_note(str(error))
        return through
    new: errors.OmnizarrError = made(*error.args)
    new.args = error.args
    vars(new).update(vars(error))
    if isinstance(through, JSONDecodeError):
        vars(new).update(vars(through))
    new.__cause__, new.__suppress_context__ = error.__cause__, True
    return new.with_traceback(error.__traceback__)


def _let_through(error: errors.OmnizarrError) -> BaseException | None:
    """Return the error that zarr-python would have raised, if there is one below ours.

    Those of Python which programs catch, and those of the package that a store or codec is from.
    """
    if isinstance(error, errors.InvalidMetadata) and isinstance(error.__context__, JSONDecodeError):
        return error.__context__
    cause: BaseException | None = error
    while isinstance(cause, errors.OmnizarrError):
        cause = cause.__cause__
    if isinstance(error, errors.StoreError | errors.ChunkError) and isinstance(cause, Exception):
        known = isinstance(cause, FileNotFoundError | PermissionError)
        if known or type(cause).__module__ != "builtins":
            return cause
    while cause is not None and not isinstance(cause, NotImplementedError):
        cause = cause.__cause__
    return cause  # a store of zarr-python has not got something


@functools.cache
def _class(ours: Any, kind: str, also: type[Exception] | None = None) -> Any:
    """Return a class derived from our error class, from zarr-python's, and from `also`.

    None if there can be no such class.
    """
    if getattr(ours, "_is_both", False):
        return ours
    base = next(cls for cls in ours.__mro__ if cls in _NAMES)
    names = _BY_KIND.get((base, kind), _NAMES[base])
    theirs = library.module("zarr.errors")
    found = tuple(getattr(theirs, name) for name in names if hasattr(theirs, name))
    # One that is a base of another would break the order of bases.
    bases = tuple(c for c in found if not any(o is not c and issubclass(o, c) for o in found))
    if also is not None:
        bases = (*bases, also)
    if not bases:
        return ours
    # Programs also read the name, so it is the name of the class that zarr-python would raise.
    name = also or (bases[0] if len(bases) == 1 else ours)
    body = {
        "__module__": name.__module__,
        "__init__": Exception.__init__,
        "__reduce__": lambda self: (_rebuilt, (ours, kind, also, self.args, vars(self))),
        "_is_both": True,
    }
    try:
        return type(name.__name__, (ours, *bases), body)
    except TypeError:  # classes of C that exclude each other
        return None


def _rebuilt(ours: Any, kind: str, also: Any, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """Return an error that was pickled."""
    new = _class(ours, kind, also)(*args)
    new.args = args
    vars(new).update(state)
    return new


def translate_methods(cls: type, names: tuple[str, ...], kind: str = "") -> None:
    """Make inherited methods of a class translate their errors."""
    for name in names:
        setattr(cls, name, translated(kind)(getattr(cls, name)))


def warn(message: str, kind: str) -> None:
    """Issue a warning of zarr-python's class for the line of the program."""
    category = getattr(library.module("zarr.errors"), kind)
    level, frame = 2, sys._getframe(1)
    ours = ("omnizarr", "contextlib", "functools")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
