"""Times as numbers since a date: ``"days since 2000-01-01"`` in a calendar.

Specification: CF conventions, section 4.4. Other calendars than NumPy's need cftime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument, InvalidMetadata, MissingModule, known_names
from omnizarr.extension import as_type

Values = npt.NDArray[Any]

_NAMES = {
    1: "nanosecond nanoseconds nsec nsecs ns",
    10**3: "microsecond microseconds microsec microsecs us",
    10**6: "millisecond milliseconds millisec millisecs msec msecs ms",
    10**9: "second seconds sec secs s",
    60 * 10**9: "minute minutes min mins",
    3600 * 10**9: "hour hours hr hrs h",
    86400 * 10**9: "day days d",
}
UNITS = {name: length for length, names in _NAMES.items() for name in names.split()}
DAY = 86400 * 10**9
TICKS = dict(zip(("ns", "us", "ms", "s", "m", "h", "D"), _NAMES, strict=True))  # NumPy's units
MIXED = ("standard", "gregorian")
CALENDARS = (*MIXED, "proleptic_gregorian")
OTHER_CALENDARS = ("noleap", "365_day", "all_leap", "366_day", "360_day", "julian")

_SINCE = re.compile(r"^\s*(\S+)\s+since\s+(.+?)\s*$", re.IGNORECASE)
_DATE = re.compile(
    r"^([+-]?\d{1,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[T\s]\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?"
    r"\s*(Z|UTC|GMT|[+-]?\d{1,2}(?::?\d{2})?)?$",
    re.IGNORECASE,
)
_SHORT = re.compile(r"^[+-]?\d{4}(-\d{1,2})?$")  # a year, or a year and a month
# 1582-10-15, the first day of the Gregorian calendar, in days since 1970-01-01.
_SWITCH = int(np.datetime64("1582-10-15", "D").astype(int))


def is_time(attributes: Mapping[str, Any]) -> bool:
    """Return True if the attribute `units` describes times."""
    units = attributes.get("units")
    return isinstance(units, str) and _SINCE.match(units) is not None


def bounds_of(attributes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attributes that the bounds of times inherit, by variable (CF, section 7.1)."""
    names = (attributes.get(key) for key in ("bounds", "climatology"))
    inherited = {k: v for k, v in attributes.items() if k in ("units", "calendar")}
    return {n: inherited for n in names if isinstance(n, str) and is_time(attributes)}


@dataclass(frozen=True)
class Times:
    """A unit, a reference date and a calendar."""

    units: str  # the unit and the reference date, such as "days since 2026-01-01"
    calendar: str = "standard"
    objects: bool = False  # if True, use cftime even if NumPy could represent the dates

    def __post_init__(self) -> None:
        if self.calendar not in (*CALENDARS, *OTHER_CALENDARS):
            known = known_names(self.calendar, (*CALENDARS, *OTHER_CALENDARS))
            raise InvalidMetadata(f"unknown calendar {self.calendar!r}; {known}")
        self._split()
        if not self.with_objects:
            self._reference()

    @classmethod
    def of(cls, attributes: Mapping[str, Any], objects: bool = False) -> Times:
        """Return the times described by the attributes `units` and `calendar`."""
        calendar = str(attributes.get("calendar", "standard")).lower()
        return cls(attributes["units"], calendar, objects)

    @property
    def with_objects(self) -> bool:
        """True if decoded times are objects of cftime."""
        return self.objects or self.calendar not in CALENDARS

    @property
    def unit(self) -> int:
        """The length of the unit in nanoseconds."""
        return self._split()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded times."""
        return np.dtype(object if self.with_objects else f"M8[{self._tick()[0]}]")

    def decode(self, numbers: Values, absent: npt.NDArray[np.bool_]) -> Values:
        """Return the times of numbers; missing ones are NaT, or None among objects."""
        if numbers.dtype.kind not in "iuf":
            raise InvalidMetadata(f"units {self.units!r} need numbers, got {numbers.dtype}")
        absent = absent | np.isnan(numbers) if numbers.dtype.kind == "f" else absent
        present = np.where(absent, 0, numbers)
        if self.with_objects:
            return self._decode_objects(present, absent)
        ticks = self._ticks(present)
        early = self._before_switch(ticks, self._tick()[1]) & ~absent
        if early.any():
            raise InvalidMetadata(
                f"{numbers[early].flat[0]} {self.units} is before 1582-10-15, where NumPy's dates"
                f" differ from the calendar {self.calendar!r}; decode with times='cftime'"
            )
        out = ticks.view(self.dtype)
        return np.where(absent, np.array("NaT", self.dtype), out)

    def encode(self, times: Values) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return the numbers of times, integers if all are whole, and a mask of missing times."""
        if times.dtype.kind == "O":
            return self._encode_objects(times)
        if times.dtype.kind != "M":
            raise InvalidArgument(f"expected times (datetime64 or cftime), got {times.dtype}")
        if self.calendar not in CALENDARS:
            raise InvalidArgument(
                f"datetime64 cannot represent the calendar {self.calendar!r}; pass cftime objects,"
                " or choose the calendar 'proleptic_gregorian'"
            )
        absent = np.isnat(times)
        name, length = self._tick()
        ticks = as_type(times, np.dtype(f"M8[{name}]"))
        if (ticks.astype(times.dtype) != times)[~absent].any():
            name, length = "ns", 1
            ticks = as_type(times, np.dtype("M8[ns]"))
        early = ~absent & self._before_switch(ticks.view("i8"), length)
        if early.any():
            raise InvalidArgument(
                f"{times[early].flat[0]} is before 1582-10-15, where NumPy's dates differ from the"
                f" calendar {self.calendar!r}; pass cftime objects"
            )
        unit, start = self._split()[0], self._reference() // length
        counts = ticks.view("i8")[~absent]
        ends = (int(counts.min()), int(counts.max())) if counts.size else ()
        if any(abs(far) >= 2**63 for far in (start, *(end - start for end in ends))):
            raise InvalidArgument(
                f"{times[~absent].flat[0]} in {name} is too far from the date in {self.units!r};"
                " choose a later date or a coarser unit"
            )
        elapsed = np.where(absent, 0, ticks.view("i8") - start)
        if unit < length:
            return elapsed * (length // unit), absent
        whole, rest = np.divmod(elapsed, unit // length)
        return (whole + rest / (unit // length) if rest.any() else whole), absent

    def _before_switch(self, ticks: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the times that have another date in the calendar than in NumPy."""
        if self.calendar not in MIXED:
            return np.zeros(ticks.shape, bool)
        return np.asarray(ticks < _SWITCH * DAY // length)

    def _split(self) -> tuple[int, str]:
        """Return the length of the unit in nanoseconds, and the reference date as text."""
        found = _SINCE.match(self.units)
        if found is None:
            raise InvalidMetadata(f"units {self.units!r} are not a time; expected '… since DATE'")
        unit = found[1] if found[1] in UNITS else found[1].lower()
        if unit not in UNITS:
            raise InvalidMetadata(
                f"unit {found[1]!r} in {self.units!r} is unknown or has no fixed length; known:"
                " days, hours, minutes, seconds, milliseconds, microseconds, nanoseconds"
            )
        short = _SHORT.match(found[2])
        return UNITS[unit], found[2] + ("" if short is None else "-01" if short[1] else "-01-01")

    def _reference(self) -> int:
        """Return the reference date in nanoseconds since 1970-01-01, by the calendar's days."""
        text = self._split()[1]
        found = _DATE.match(text)
        if found is None:
            raise InvalidMetadata(f"date {text!r} in {self.units!r} is not YYYY-MM-DD hh:mm:ss")
        year, month, day = (int(found[i]) for i in (1, 2, 3))
        hour, minute, second = (int(found[i] or 0) for i in (4, 5, 6))
        if hour > 24 or minute > 59 or second > 60:
            raise InvalidMetadata(f"date {text!r} in {self.units!r} has an invalid time of day")
        days = self._days(year, month, day)
        fraction = int(((found[7] or "") + "0" * 9)[:9])
        within = ((hour * 60 + minute) * 60 + second) * 10**9 + fraction
        return days * DAY + within - _zone(found[8])

    def _days(self, year: int, month: int, day: int) -> int:
        date = (year, month, day)
        julian = self.calendar in MIXED and date < (1582, 10, 15)
        if julian and year < 1:
            raise InvalidMetadata(
                f"{self.units!r}: the calendar {self.calendar!r} has no year {year}; decode with"
                " times='cftime'"
            )
        leap = year % 4 == 0 and (julian or year % 100 != 0 or year % 400 == 0)
        lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
        switch = self.calendar in MIXED and (1582, 10, 4) < date < (1582, 10, 15)
        if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1] or switch:
            raise InvalidMetadata(f"{self.units!r}: the calendar {self.calendar!r} has no such day")
        return _day_number(year, month, day, julian)

    def _tick(self) -> tuple[str, int]:
        """Return NumPy's unit for decoded times, and its length in nanoseconds."""
        fine = self._split()[0] < 1000 or self._reference() % 1000
        return ("ns", 1) if fine else ("us", 1000)

    def _ticks(self, numbers: Values) -> npt.NDArray[np.int64]:
        length = self._tick()[1]
        step, start = self._split()[0] // length, self._reference() // length
        if numbers.size:
            ends = [numbers.min().item(), numbers.max().item()]
            if not all(np.isfinite(e) and abs(int(e) * step + start) < 2**63 - step for e in ends):
                raise InvalidMetadata(
                    f"{ends[0]!r} to {ends[1]!r} {self.units} is out of the range of {self.dtype}"
                )
        if numbers.dtype.kind != "f":
            return np.asarray(numbers.astype("i8") * step + start)
        whole = np.floor(numbers.astype("f8"))
        rest = np.rint((numbers - whole) * step).astype("i8")
        return np.asarray(whole.astype("i8") * step + rest + start)

    def _for_cftime(self) -> str:
        """Return the units in cftime's form; it ignores the zone ``-6:00`` and a lone hour."""
        found = _DATE.match(self._split()[1])
        if found is None:
            return self.units
        zone, start = found[8] or "", f"{self.units.split()[0]} since {self._split()[1]}"
        start = start.removesuffix(zone).rstrip() + (":00" if found[4] and not found[5] else "")
        minutes = abs(_zone(zone or None)) // (60 * 10**9)
        sign = "-" if zone.startswith("-") else "+"
        return f"{start} {sign}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else start

    def _decode_objects(self, numbers: Values, absent: npt.NDArray[np.bool_]) -> Values:
        cftime = _cftime(self.calendar)
        try:
            found = cftime.num2date(numbers, self._for_cftime(), self.calendar,
                                    only_use_cftime_datetimes=True)  # fmt: skip
        except (ValueError, OverflowError) as e:
            raise InvalidMetadata(f"{self.units!r}, calendar {self.calendar!r}: {e}") from e
        out = np.empty(numbers.shape, object)
        out[...] = found
        out[absent] = None
        return out

    def _encode_objects(self, times: Values) -> tuple[Values, npt.NDArray[np.bool_]]:
        cftime = _cftime(self.calendar)
        absent = np.array([t is None or t != t for t in times.flat], bool).reshape(times.shape)
        present = times[~absent]
        for time in present:
            if not isinstance(time, cftime.datetime):
                raise InvalidArgument(
                    f"expected objects of cftime, got {time!r} ({type(time).__name__}); pass those,"
                    " or datetime64: np.asarray(times, 'datetime64[us]')"
                )
        for other in {t.calendar for t in present} - {self.calendar}:
            if not any({other, self.calendar} <= {*each} for each in _SAME):
                raise InvalidArgument(f"times of the calendar {other!r} are not {self.calendar!r}")
        out = np.zeros(times.shape, "f8")
        if present.size:
            try:
                found = cftime.date2num(present, self._for_cftime(), self.calendar)
            except (ValueError, OverflowError) as e:
                raise InvalidArgument(f"{self.units!r}, calendar {self.calendar!r}: {e}") from e
            numbers = np.asarray(found)
            out = out.astype(numbers.dtype)
            out[~absent] = numbers
        return out, absent


_SAME = (MIXED, ("noleap", "365_day"), ("all_leap", "366_day"))


def _cftime(calendar: str) -> Any:
    try:
        import cftime  # noqa: PLC0415 - an optional package
    except ImportError as e:
        raise MissingModule(
            f"times of the calendar {calendar!r} as objects need cftime;"
            " pip install 'omnizarr[cf]', or read the numbers with times=None"
        ) from e
    return cftime


def _zone(text: str | None) -> int:
    """Return the offset of a time zone from UTC in nanoseconds."""
    if text is None or text.upper() in ("Z", "UTC", "GMT"):
        return 0
    digits = text.lstrip("+-").replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
    ahead = (int(hours) * 60 + int(minutes)) * 60 * 10**9
    return -ahead if text.startswith("-") else ahead


def _day_number(year: int, month: int, day: int, julian: bool) -> int:
    """Return the days since 1970-01-01 of the Gregorian calendar."""
    years, months = divmod(year * 12 + month - 3, 12)  # years from March: a leap day is the last
    days = years * 365 + years // 4 + (months * 153 + 2) // 5 + day
    return days - 719471 if julian else days - years // 100 + years // 400 - 719469
