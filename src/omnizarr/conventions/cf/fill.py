"""The attribute ``_FillValue`` of version 3 as xarray writes it: JSON that loses nothing.

Numbers with a point are the eight bytes of a float64 in base64, complex ones a pair of those, byte
strings are base64. Plain numbers, as other programs write them, are read too.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

import numpy as np

from omnizarr.errors import InvalidMetadata


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """A mark of missing values as JSON."""
    try:
        if dtype.kind == "S":
            return base64.standard_b64encode(bytes(value)).decode()
        if dtype.kind == "f":
            return _packed(value)
        if dtype.kind == "c":
            return [_packed(np.real(value)), _packed(np.imag(value))]
        if dtype.kind == "b":
            return bool(value)
        return int(value) if dtype.kind in "iu" else str(value)
    except (TypeError, ValueError) as e:
        raise InvalidMetadata(f"_FillValue {value!r} does not fit the type {dtype}: {e}") from e


def decode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """The mark of missing values that JSON stands for."""
    try:
        if dtype.kind == "f":
            return _unpacked(value)
        if dtype.kind == "c":
            pair = value if isinstance(value, list) else [value, 0]
            return complex(*map(_unpacked, pair))
        if dtype.kind in "SO":
            return base64.standard_b64decode(value)
        if dtype.kind == "b":
            return bool(value)
        return int(value) if dtype.kind in "iu" else str(value)
    except (TypeError, ValueError) as e:
        raise InvalidMetadata(
            f"the attribute _FillValue {value!r} does not fit the type {dtype}: {e};"
            " correct it, or leave the variable out with drop_variables"
        ) from e


def _packed(value: Any) -> str:
    return base64.standard_b64encode(struct.pack("<d", float(value))).decode()


def _unpacked(value: Any) -> float:
    if isinstance(value, str):
        try:
            raw = base64.b64decode(value, validate=True)
        except binascii.Error:
            raw = b""
        if len(raw) == 8:
            return float(struct.unpack("<d", raw)[0])
    return float(value)
