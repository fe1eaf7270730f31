"""NumPy's ``longdouble`` and ``clongdouble`` with 80 significant bits in 16 bytes.

``<f16`` and ``<c32`` of versions 1 and 2, as zarr-python 2 wrote them on Intel's processors under
Linux and macOS; no other format has a name for them. They are read and written where NumPy has
the same type: elsewhere its ``longdouble`` is another number in the same or in fewer bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr.data_types.data_type import DataType, Scalar, in_order, wrong
from omnizarr.data_types.numeric import Complex, Float
from omnizarr.errors import CannotExpress, UnknownExtension
from omnizarr.model import Dialect, Named
from omnizarr.model.configuration import check_members

NAMES = ("numpy.longdouble", "numpy.clongdouble")


def bind(named: Named) -> DataType:
    """The data type behind one of `NAMES`; raises where NumPy has another one here."""
    check_members(named, "data type", optional=("endian",))
    check_platform(named.name)
    kind: type[np.longdouble | np.clongdouble] = np.longdouble
    if named.name == "numpy.clongdouble":
        kind = np.clongdouble
    dtype = in_order(named, np.dtype(kind))
    fill: Extended | ExtendedComplex = Extended(named, dtype)
    if dtype.kind == "c":
        fill = ExtendedComplex(named, dtype)
    return DataType(named, dtype, fill.decode, fill.encode, zero=0.0)


def check_platform(name: str) -> None:
    """Raise where ``longdouble`` is not the 80-bit number of Intel's processors in 16 bytes."""
    if np.dtype(np.longdouble).itemsize != 16 or np.finfo(np.longdouble).nmant != 63:
        raise UnknownExtension(
            f"data type {name!r} (<f16 or <c32) holds the 80-bit floats of Intel's processors,"
            " which NumPy does not have on this machine; read the array on x86-64 Linux or macOS"
            " and store it as float64",
            kind="data_type",
            name=name,
        )


class Extended(Float):
    """A JSON number or one of the three names, none of which has more than 64 bits."""

    def bits(self, text: str, base: int, digits: int) -> Any:
        raise wrong(self.named, 'a number, "NaN", "Infinity" or "-Infinity"', text)

    def encode(self, value: Scalar, dialect: Dialect) -> float | str:
        number = float(value[()])
        if number == value[()] or np.isnan(value[()]):
            found: float | str = super().encode(value, "v2")
            return found
        raise CannotExpress(
            f"the fill value {value[()]!r} of type {self.dtype} is no float64, and documents have"
            f" no other numbers; give {number!r}, or 0"
        )


class ExtendedComplex(Complex):
    """Two of them, real then imaginary."""

    def __init__(self, named: Named, dtype: np.dtype[np.clongdouble]) -> None:
        super().__init__(named, dtype)
        self.part = Extended(named, self.part.dtype)
