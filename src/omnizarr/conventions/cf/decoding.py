"""From attributes to a way of reading: packing, times, durations, booleans and texts together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.cf.packing import Packing, Values
from omnizarr.conventions.cf.text import charset, read_text, write_text
from omnizarr.conventions.cf.times import UNITS, Times, is_time
from omnizarr.errors import InvalidMetadata

TimesAs = Literal["auto", "cftime"] | None


@dataclass(frozen=True)
class Decoding:
    """How stored values become meant ones, and back."""

    packing: Packing
    times: Times | None = None
    duration: str | None = None  # a unit, for numbers that xarray wrote from timedelta64
    boolean: bool = False  # bytes that xarray wrote from booleans
    encoding: str | None = None  # of bytes that are text

    @classmethod
    def of(
        cls,
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        fill: Any = None,
        times: TimesAs = "auto",
        valid_only: bool = True,
    ) -> Decoding:
        """What attributes say about values of a stored type."""
        if times not in ("auto", "cftime", None):
            raise InvalidMetadata(f"times must be 'auto', 'cftime' or None, got {times!r}")
        packing = Packing.of(dtype, attributes, fill, valid_only)
        if dtype.kind not in "iuf":
            return cls(packing, encoding=charset(attributes, dtype))
        written = str(attributes.get("dtype", ""))
        if times is not None and is_time(attributes):
            return cls(packing, Times.of(attributes, times == "cftime"))
        if (
            times is not None
            and written.startswith("timedelta64")
            and attributes.get("units") in UNITS
        ):
            return cls(packing, duration=attributes["units"])
        return cls(packing, boolean=written == "bool" and dtype.kind in "iu")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded values."""
        if self.times is not None:
            return self.times.dtype
        if self.duration is not None:
            return np.dtype("m8[ns]")
        if self.encoding is not None:
            return np.dtype(f"U{self.packing.stored.itemsize}")
        return np.dtype(bool) if self.boolean else self.packing.dtype

    def decode(self, stored: Any) -> Values:
        """Decoded values."""
        values = np.asarray(stored)
        if self.boolean:
            return values.astype(bool)
        if self.encoding is not None:
            return read_text(values, self.encoding).astype(self.dtype)
        if self.times is None and self.duration is None:
            return self.packing.decode(values)
        absent = self.packing.is_missing(values)
        packed = self.packing.packed
        numbers = self.packing.decode(values) if packed else self.packing.as_seen(values)
        if self.times is not None:
            return self.times.decode(numbers, absent)
        length = UNITS[self.duration or ""]
        present = np.where(absent, 0, numbers)
        ticks = present * length if present.dtype.kind != "f" else np.rint(present * length)
        return np.where(absent, np.timedelta64("NaT", "ns"), ticks.astype("m8[ns]"))

    def encode(self, values: Any) -> Values:
        """Values to store; raises where one cannot be stored without loss of its meaning.

        Numbers for times are taken as they are, in the units that are stated.
        """
        given = np.asarray(values)
        if self.times is not None and given.dtype.kind not in "iuf":
            return self.packing.encode(*self.times.encode(given))
        if self.duration is not None:
            return self.packing.encode(*_elapsed(given, UNITS[self.duration]))
        if self.packing.stored.kind == "S":
            return write_text(given, self.encoding, self.packing.stored)
        if self.packing.stored.kind not in "iuf" or self.packing.plain:
            return given
        return self.packing.encode(given)


def _elapsed(values: Values, unit: int) -> tuple[Values, npt.NDArray[np.bool_]]:
    if values.dtype.kind != "m":
        raise InvalidMetadata(f"expected durations (timedelta64), got {values.dtype}")
    absent = np.isnat(values)
    whole, rest = np.divmod(np.where(absent, 0, values.astype("m8[ns]").view("i8")), unit)
    return (whole + rest / unit if rest.any() else whole), absent
