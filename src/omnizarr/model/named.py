"""An extension as a document states it: a name, a configuration, and whether it may be skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnizarr.model.frozen import NOTHING, freeze


@dataclass(frozen=True, slots=True)
class Named:
    """A codec, data type, grid, key encoding or transformer, not yet bound to code."""

    name: str
    configuration: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    must_understand: bool = True

    def __post_init__(self) -> None:
        # Named things are shared by all equal nodes, whoever gave the configuration.
        object.__setattr__(self, "configuration", freeze(self.configuration))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.configuration.items())
        return f"{self.name}({inside})" if inside else self.name

    def replace(self, **configuration: Any) -> Named:
        """The same name with some members of the configuration changed."""
        return Named(self.name, {**self.configuration, **configuration}, self.must_understand)

    def without(self, *members: str) -> Named:
        """The same name with some members of the configuration left out."""
        kept = {k: v for k, v in self.configuration.items() if k not in members}
        return Named(self.name, kept, self.must_understand)
