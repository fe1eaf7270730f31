"""Text and byte strings, of fixed and of variable length.

Specification: registered extensions ``string``, ``bytes``, ``fixed_length_utf32``, and
zarr-python's ``null_terminated_bytes``; in version 1 and 2 ``<U12``, ``|S12``, and ``|O`` with
a vlen filter; in the draft its string extension.
In memory: ``string`` is NumPy's ``StringDType``, ``bytes`` an object array of `bytes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr.data_types.data_type import (
    DataType,
    Scalar,
    from_base64,
    in_order,
    old,
    to_base64,
    wrong,
)
from omnizarr.model import Dialect, Named
from omnizarr.model.configuration import check_members, invalid

NAMES = (
    "string",
    "bytes",
    "variable_length_bytes",
    "fixed_length_utf32",
    "null_terminated_bytes",
)


def bind(named: Named) -> DataType:
    """The data type behind one of `NAMES`."""
    if named.name == "fixed_length_utf32":
        return _utf32(named)
    if named.name == "null_terminated_bytes":
        return _fixed_bytes(named)
    check_members(named, "data type")
    return _string(named) if named.name == "string" else _bytes(named)


def length_bytes(named: Named, multiple_of: int = 1) -> int:
    """The configured size of an item, checked."""
    length = named.configuration["length_bytes"]
    good = isinstance(length, int) and not isinstance(length, bool) and 0 <= length < 2**31
    if not good or length % multiple_of:
        message = f"expected a multiple of {multiple_of} below 2^31, got {length!r}"
        raise invalid("data type", named.name, "length_bytes", message)
    return int(length)


def _string(named: Named) -> DataType:
    def decode(json: Any, dialect: Dialect) -> Any:
        if old(dialect) and json == 0 and not isinstance(json, bool):
            return ""
        if not isinstance(json, str):
            raise wrong(named, "a string", json)
        return json

    def encode(value: Scalar, dialect: Dialect) -> Any:
        return str(value[()])

    return DataType(named, np.dtype(np.dtypes.StringDType()), decode, encode, zero="")


def _bytes(named: Named) -> DataType:
    def decode(json: Any, dialect: Dialect) -> Any:
        if old(dialect) and json == 0 and not isinstance(json, bool):
            return b""
        if isinstance(json, str):
            return from_base64(json, named)
        if isinstance(json, list):
            return byte_list(json, named)
        raise wrong(named, "Base64 text or a list of bytes", json)

    def encode(value: Scalar, dialect: Dialect) -> Any:
        return to_base64(bytes(value[()]))

    return DataType(named, np.dtype(object), decode, encode, zero=b"")


def byte_list(json: list[Any], named: Named) -> bytes:
    """Bytes from a list of integers 0 to 255."""
    if all(isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 255 for b in json):
        return bytes(json)
    raise wrong(named, "integers from 0 to 255", json)


def _utf32(named: Named) -> DataType:
    check_members(named, "data type", required=("length_bytes",), optional=("endian",))
    characters = length_bytes(named, multiple_of=4) // 4
    dtype = in_order(named, np.dtype(f"U{characters}"))

    def decode(json: Any, dialect: Dialect) -> Any:
        if old(dialect) and json == 0 and not isinstance(json, bool):
            return ""
        if not isinstance(json, str):
            raise wrong(named, "a string", json)
        # Base64 of the whole item is always longer than the longest text.
        if dialect == "v3-draft" and len(json) > characters:
            data = from_base64(json, named)
            if len(data) == dtype.itemsize:
                return np.frombuffer(data, dtype)[0:1].reshape(())
        if len(json) > characters:
            raise wrong(named, f"a string of at most {characters} characters", json)
        return json

    def encode(value: Scalar, dialect: Dialect) -> Any:
        return str(value[()])

    return DataType(named, dtype, decode, encode, zero="")


def _fixed_bytes(named: Named) -> DataType:
    check_members(named, "data type", required=("length_bytes",))
    length = length_bytes(named)

    def decode(json: Any, dialect: Dialect) -> Any:
        if old(dialect) and json == 0 and not isinstance(json, bool):
            return b""
        if not isinstance(json, str):
            raise wrong(named, "a string", json)
        # The draft has plain text, and Base64 of the whole item where text cannot say it.
        # The latter is always longer than the item, so the two cannot be confused.
        if dialect == "v3-draft" and len(json.encode()) <= length:
            return json.encode()
        data = from_base64(json, named)
        if len(data) > length:
            raise wrong(named, f"at most {length} bytes in Base64", json)
        return data

    def encode(value: Scalar, dialect: Dialect) -> Any:
        data = bytes(value[()])
        if dialect == "v3-draft":
            try:
                return data.decode("ascii")
            except UnicodeDecodeError:
                return to_base64(data.ljust(length, b"\0"))
        return to_base64(data)

    return DataType(named, np.dtype(f"S{length}"), decode, encode, zero=b"")
