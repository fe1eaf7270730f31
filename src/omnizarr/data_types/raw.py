"""Opaque items of a fixed number of bytes, and Python objects.

Specification: ``r<bits>`` of version 3 and its draft; ``|V5`` in version 1 and 2; zarr-python
also writes ``raw_bytes`` with ``length_bytes``. ``object`` is version 2's ``|O`` with an object
codec such as json2; version 3 has no such type.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from omnizarr.data_types.data_type import DataType, Scalar, from_base64, old, to_base64, wrong
from omnizarr.data_types.text import byte_list, length_bytes
from omnizarr.errors import InvalidMetadata
from omnizarr.model import Dialect, Named
from omnizarr.model.configuration import check_members

NAMES = ("raw_bytes", "object")
PATTERN = re.compile(r"r(0|[1-9][0-9]*)")


def bind(named: Named) -> DataType:
    """The data type ``r<bits>``, ``raw_bytes`` or ``object``."""
    if named.name == "object":
        return _object(named)
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
        if old(dialect) and json == 0 and not isinstance(json, bool):
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
    """The bytes that ``0x…`` or ``0b…`` spells, the first one first."""
    base, per_byte = (16, 2) if text.startswith("0x") else (2, 8)
    digits = text[2:]
    good = digits.isalnum() and len(digits) % per_byte == 0
    try:
        return int(digits, base).to_bytes(len(digits) // per_byte, "big") if good else b""
    except ValueError:
        raise wrong(named, f"{text[:2]} and {per_byte} digits a byte", text) from None


def _object(named: Named) -> DataType:
    check_members(named, "data type")

    def decode(json: Any, dialect: Dialect) -> Any:
        out = np.empty((), object)
        out[()] = json
        return out

    def encode(value: Scalar, dialect: Dialect) -> Any:
        return value[()]

    return DataType(named, np.dtype(object), decode, encode, zero=0)
