"""Moments and durations: 64-bit counts of a unit, as in NumPy.

Specification: registered extensions ``numpy.datetime64`` and ``numpy.timedelta64``; in
version 1 and 2 ``<M8[ns]`` and ``<m8[s]``; in the draft its datetime extension.
Configuration: ``{"unit": "ns", "scale_factor": 1}``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr.data_types.data_type import DataType, Scalar, in_order, wrong
from omnizarr.model import Dialect, Named
from omnizarr.model.configuration import check_members, invalid

NAMES = ("numpy.datetime64", "numpy.timedelta64")
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic")


def bind(named: Named) -> DataType:
    """The data type of moments or durations in a unit."""
    check_members(named, "data type", required=("unit", "scale_factor"), optional=("endian",))
    unit, scale = named.configuration["unit"], named.configuration["scale_factor"]
    if unit not in UNITS:
        raise invalid("data type", named.name, "unit", f"{unit!r} is none of {', '.join(UNITS)}")
    if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale < 2**31:
        raise invalid("data type", named.name, "scale_factor", f"{scale!r} is not in [1, 2^31)")
    code = "M8" if named.name == "numpy.datetime64" else "m8"
    brackets = "" if unit == "generic" else f"[{scale if scale > 1 else ''}{unit}]"
    dtype = in_order(named, np.dtype(f"{code}{brackets}"))

    def decode(json: Any, dialect: Dialect) -> Any:
        if json == "NaT":
            json = -(2**63)
        if isinstance(json, bool) or not isinstance(json, int) or not -(2**63) <= json < 2**63:
            raise wrong(named, '"NaT" or an integer count of the unit', json)
        return np.array(json, "i8").astype(dtype.str[0] + "i8").view(dtype)

    def encode(value: Scalar, dialect: Dialect) -> Any:
        count = int(value.view(dtype.str[0] + "i8")[()])
        return "NaT" if count == -(2**63) and dialect == "v3" else count

    zero = decode(0, "v3")
    return DataType(named, dtype, decode, encode, zero=zero)
