"""Units of length and time by the names that OME-Zarr uses, and the factors between them."""

from __future__ import annotations

from omnizarr.errors import InvalidMetadata, known_names

_PREFIXES = {
    "yotta": 1e24, "zetta": 1e21, "exa": 1e18, "peta": 1e15, "tera": 1e12, "giga": 1e9,
    "mega": 1e6, "kilo": 1e3, "hecto": 1e2, "": 1.0, "deci": 1e-1, "centi": 1e-2, "milli": 1e-3,
    "micro": 1e-6, "nano": 1e-9, "pico": 1e-12, "femto": 1e-15, "atto": 1e-18, "zepto": 1e-21,
    "yocto": 1e-24,
}  # fmt: skip
_SPACE = {
    **{f"{prefix}meter": factor for prefix, factor in _PREFIXES.items()},
    "angstrom": 1e-10,
    "inch": 0.0254,
    "foot": 0.3048,
    "yard": 0.9144,
    "mile": 1609.344,
    "parsec": 3.0856775814913673e16,
}
_TIME = {
    **{f"{prefix}second": factor for prefix, factor in _PREFIXES.items()},
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_SHORT = {
    "m": "meter", "cm": "centimeter", "mm": "millimeter", "um": "micrometer", "µm": "micrometer",
    "μm": "micrometer", "micron": "micrometer", "nm": "nanometer", "pm": "picometer",
    "s": "second", "ms": "millisecond", "us": "microsecond", "µs": "microsecond",
    "ns": "nanosecond", "min": "minute", "h": "hour", "d": "day",
}  # fmt: skip


def unit_name(text: str) -> str:
    """The name that OME-Zarr uses for a unit that people write as ``um`` or ``µm``."""
    return _SHORT.get(text, text)


def unit_kind(unit: str | None) -> str | None:
    """``space``, ``time``, or None where a unit is not known."""
    name = None if unit is None else unit_name(unit)
    return "space" if name in _SPACE else "time" if name in _TIME else None


def unknown_unit(name: str) -> InvalidMetadata:
    """Return the error for a unit that is neither of space nor of time."""
    known = known_names(name, (*_SPACE, *_TIME, *_SHORT))
    return InvalidMetadata(f"unit {name!r} is not known; {known}")


def unit_factor(source: str, target: str) -> float:
    """How many of `target` one of `source` is."""
    a, b = unit_name(source), unit_name(target)
    if a == b:
        return 1.0
    for table in (_SPACE, _TIME):
        if a in table and b in table:
            return table[a] / table[b]
    for name in (a, b):
        if name not in _SPACE and name not in _TIME:
            raise unknown_unit(name)
    raise InvalidMetadata(f"unit {source!r} cannot become {target!r}: one is length, one is time")
