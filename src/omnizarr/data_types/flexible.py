"""Text and bytes, of fixed and of variable length.

Specification: registered extensions ``string``, ``bytes``, ``fixed_length_utf32``, and
zarr-python's ``null_terminated_bytes`` and ``raw_bytes``; in version 1 and 2 ``<U12``, ``|S12``,
``|V5``, and ``|O`` with a vlen filter; ``r<bits>`` in version 3 and its draft, which also has a
string extension. ``object`` is version 2's ``|O`` with an object codec such as json2. In memory,
``string`` is NumPy's ``StringDType`` and ``bytes`` an object array of `bytes`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from omnizarr.data_types import data_type
from omnizarr.data_types.data_type import DataType, Scalar, from_base64, old, to_base64, wrong
from omnizarr.errors import InvalidMetadata
from omnizarr.model import Dialect, Named
from omnizarr.model.node import check_members, invalid

TEXT_NAMES = ("string", "bytes", "variable_length_bytes")


def bind_text(named: Named) -> DataType:
    """Return the data type for one of `TEXT_NAMES`, whose items have any length."""
    check_members(named, "data type")
    if named.name == "string":
        text = np.dtype(np.dtypes.StringDType())
        return DataType(named, text, partial(_as_text, named), _encode_text, zero="")

    def decode(json: Any, dialect: Dialect) -> Any:
        if isinstance(json, list):
            return byte_list(json, named)
        return from_base64(_as_text(named, json, dialect), named)

    def encode(value: Scalar, dialect: Dialect) -> Any:
        return to_base64(bytes(value[()]))

    return DataType(named, np.dtype(object), decode, encode, zero=b"")


def _as_text(named: Named, json: Any, dialect: Dialect) -> str:
    """Return a string, or "" for the 0 that early writers stored for items of zero bytes."""
    if isinstance(json, str):
        return json
    if _is_zero(json, dialect):
        return ""
    raise wrong(named, "a string", json)


def length_bytes(named: Named, multiple_of: int = 1) -> int:
    """Return the configured size of an item, checked."""
    length: Any = named.configuration["length_bytes"]
    if type(length) is not int or not 0 <= length < 2**31 or length % multiple_of:
        message = f"expected a multiple of {multiple_of} below 2^31, got {length!r}"
        raise invalid("data type", named.name, "length_bytes", message)
    return length


def _is_zero(json: Any, dialect: Dialect) -> bool:
    """Return True for the 0 that early writers stored for items of zero bytes."""
    return old(dialect) and json == 0 and not isinstance(json, bool)


def _encode_text(value: Scalar, dialect: Dialect) -> Any:
    return str(value[()])


def byte_list(json: list[Any], named: Named) -> bytes:
    """Return the bytes in a list of integers 0 to 255."""
    if all(type(b) is int and 0 <= b <= 255 for b in json):
        return bytes(json)
    raise wrong(named, "integers from 0 to 255", json)


def bind_utf32(named: Named) -> DataType:
    """Return the data type of text of a fixed length."""
    check_members(named, "data type", required=("length_bytes",), optional=("endian",))
    characters = length_bytes(named, multiple_of=4) // 4
    dtype = data_type.in_order(named, np.dtype(f"U{characters}"))

    def decode(json: Any, dialect: Dialect) -> Any:
        json = _as_text(named, json, dialect)
        # Base64 of the whole item is always longer than the longest text.
        if dialect == "v3-draft" and len(json) > characters:
            data = from_base64(json, named)
            if len(data) == dtype.itemsize:
                return np.frombuffer(data, dtype)[0:1].reshape(())
        if len(json) > characters:
            raise wrong(named, f"a string of at most {characters} characters", json)
        return json

    return DataType(named, dtype, decode, _encode_text, zero="")


def bind_fixed_bytes(named: Named) -> DataType:
    """Return the data type of byte strings of a fixed length."""
    check_members(named, "data type", required=("length_bytes",))
    length = length_bytes(named)

    def decode(json: Any, dialect: Dialect) -> Any:
        json = _as_text(named, json, dialect)
        # The draft has plain text, and Base64 of the whole item for anything else.
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


RAW_NAMES = ("raw_bytes", "object")
PATTERN = re.compile(r"r(0|[1-9][0-9]*)")


def bind_raw(named: Named) -> DataType:
    """Return the data type ``r<bits>``, ``raw_bytes`` or ``object``."""
    if named.name == "object":
        check_members(named, "data type")
        return DataType(named, np.dtype(object), lambda json, _: json, lambda value, _: value[()])
    if named.name == "raw_bytes":
        check_members(named, "data type", required=("length_bytes",))
        size = length_bytes(named)
    else:
        check_members(named, "data type")
        bits = int(named.name[1:])
        if bits == 0 or bits % 8 or bits >= 2**31:
            raise InvalidMetadata(
                f"data type {named.name!r}: the number of bits must be a positive multiple of 8"
            )
        size = bits // 8
    dtype = np.dtype(f"V{size}")

    def decode(json: Any, dialect: Dialect) -> Any:
        if _is_zero(json, dialect):
            data = bytes(size)
        elif isinstance(json, list):
            data = byte_list(json, named)
        elif isinstance(json, str) and json[:2] in ("0x", "0b") and dialect == "v3-draft":
            data = _from_digits(json, named)
        elif isinstance(json, str):
            data = from_base64(json, named)
        else:
            raise wrong(named, f"a list of {size} integers from 0 to 255", json)
        if len(data) != size:
            raise wrong(named, f"exactly {size} bytes", json)
        return np.frombuffer(data, dtype)[0:1].reshape(())

    def encode(value: Scalar, dialect: Dialect) -> Any:
        data = value.tobytes()
        if old(dialect) or named.name == "raw_bytes":
            return to_base64(data)
        return f"0x{data.hex()}" if dialect == "v3-draft" else list(data)

    return DataType(named, dtype, decode, encode, zero=np.zeros((), dtype))


def _from_digits(text: str, named: Named) -> bytes:
    """Return the bytes that ``0x…`` or ``0b…`` spells, the first one first."""
    base, per_byte = (16, 2) if text.startswith("0x") else (2, 8)
    digits = text[2:]
    good = digits.isalnum() and len(digits) % per_byte == 0
    try:
        return int(digits, base).to_bytes(len(digits) // per_byte, "big") if good else b""
    except ValueError:
        raise wrong(named, f"{text[:2]} and {per_byte} digits a byte", text) from None
