"""What a handle of an array does with it, apart from what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from omnizarr.errors import InvalidMetadata, known_names


@dataclass(frozen=True, slots=True)
class ArrayConfig:
    """How one handle of an array reads and writes.

    order
        ``"F"``: values that are read have the first axis fastest in memory.
    write_empty_chunks
        Whether chunks of nothing but the fill value are stored; None: as the setting says.
    """

    order: Literal["C", "F"] = "C"
    write_empty_chunks: bool | None = None

    def __post_init__(self) -> None:
        if self.order not in ("C", "F"):
            raise InvalidMetadata(f"order must be 'C' or 'F', got {self.order!r}")

    @classmethod
    def of(cls, given: Any) -> ArrayConfig:
        """From a mapping, or an object with such attributes; None leaves all as it is."""
        if given is None or isinstance(given, cls):
            return given or cls()
        known = [f.name for f in fields(cls)]
        if not isinstance(given, Mapping):
            given = {name: getattr(given, name) for name in known if hasattr(given, name)}
        unknown = sorted(given.keys() - set(known))
        if unknown:
            raise InvalidMetadata(
                f"config has an unknown member {unknown[0]!r}; {known_names(unknown[0], known)}"
            )
        return cls(**given)
