"""Texts that NetCDF stores as characters: an axis of single bytes, and the attribute ``_Encoding``.

Specification: CF conventions, section 2.2: the last dimension of a variable of characters is the
length of its texts. NetCDF's attribute ``_Encoding`` says how bytes are to be read.
"""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidMetadata, SelectionError
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.view import View

Values = npt.NDArray[Any]
ENCODING = "_Encoding"


class Joined:
    """An array of single bytes as one of texts, which its last axis spells."""

    def __init__(self, letters: Array | View) -> None:
        self._letters = letters
        self.shape = letters.shape[:-1]
        self.dtype: np.dtype[Any] = np.dtype(f"S{max(1, letters.shape[-1])}")

    def __getitem__(self, selection: Any) -> Values:
        letters = np.ascontiguousarray(self._letters[self._with_all(selection)])
        if not letters.shape[-1]:
            return np.zeros(letters.shape[:-1], self.dtype)
        return letters.view(self.dtype)[..., 0]

    def __setitem__(self, selection: Any, values: Any) -> None:
        texts = np.asarray(values)
        if texts.dtype.kind != "S" or texts.dtype.itemsize > self.dtype.itemsize:
            raise InvalidMetadata(
                f"expected texts of up to {self.dtype.itemsize} bytes, got {texts.dtype}"
            )
        letters = texts.astype(self.dtype, order="C").reshape(*texts.shape, 1).view("S1")
        self._letters[self._with_all(selection)] = letters

    @property
    def view(self) -> _Viewer:
        """Parts that are chosen now and read later."""
        return _Viewer(self)

    def _with_all(self, selection: Any) -> tuple[Any, ...]:
        """A selection of texts as one of letters: all letters of each."""
        parts = selection if isinstance(selection, tuple) else (selection,)
        if len(parts) - any(p is Ellipsis for p in parts) > len(self.shape):
            raise SelectionError(
                f"{len(parts)} indices for texts with {len(self.shape)} axes; single letters are"
                " in .array"
            )
        if any(p is Ellipsis for p in parts):
            return (*parts, slice(None))
        return (*parts, Ellipsis)


class _Viewer:
    def __init__(self, joined: Joined) -> None:
        self._joined = joined

    def __getitem__(self, selection: Any) -> Joined:
        return Joined(self._joined._letters.view[self._joined._with_all(selection)])


def is_letters(array: Array) -> bool:
    """Whether the last axis of an array spells texts."""
    return array.dtype == np.dtype("S1") and array.ndim > 0


def charset(attributes: Any, dtype: np.dtype[Any]) -> str | None:
    """How bytes are to be read as text; None: as they are."""
    stated = attributes.get(ENCODING)
    if dtype.kind != "S" or stated is None:
        return None
    try:
        return codecs.lookup(str(stated)).name
    except LookupError:
        raise InvalidMetadata(
            f"{ENCODING}: {stated!r} is no encoding that Python knows, such as 'utf-8'"
        ) from None


def read_text(values: Values, encoding: str) -> Values:
    """Texts of bytes."""
    try:
        return np.asarray(np.char.decode(values, encoding))
    except UnicodeDecodeError as e:
        raise InvalidMetadata(
            f"the bytes {e.object!r} are no text in {ENCODING} {encoding!r}; read .array for them"
        ) from e


def write_text(values: Values, encoding: str | None, dtype: np.dtype[Any]) -> Values:
    """Bytes of texts; raises where one is too long, or has letters that the encoding has not."""
    texts = values.astype("U") if values.dtype.kind in "OT" else values
    if texts.dtype.kind == "U":
        try:
            texts = np.char.encode(texts, encoding or "ascii")
        except UnicodeEncodeError as e:
            raise InvalidMetadata(
                f"{e.object!r} cannot be stored in {encoding or 'ascii'}; the attribute"
                f" {ENCODING} = 'utf-8' has all letters"
            ) from e
    if texts.dtype.kind != "S":
        raise InvalidMetadata(f"expected texts, got {texts.dtype}")
    longest = int(np.char.str_len(texts).max(initial=0))
    if longest > dtype.itemsize:
        raise InvalidMetadata(f"a text has {longest} bytes, and {dtype.itemsize} are stored")
    out: Values = texts.astype(dtype)
    return out
