"""An extension as a document states it: a name, a configuration, and whether it may be skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnizarr._frozen import NOTHING, freeze


@dataclass(frozen=True, slots=True)
class Named:
    """A codec, data type, grid, key encoding or transformer, not yet bound to code.

    `stated` and `where` are for errors: the name in the document, where that is another one,
    and its place there.
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    must_understand: bool = True
    stated: str = field(default="", compare=False)
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Named things are shared by all equal nodes, whoever gave the configuration.
        object.__setattr__(self, "configuration", freeze(self.configuration))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.configuration.items())
        return f"{self.name}({inside})" if inside else self.name

    def replace(self, **configuration: Any) -> Named:
        """The same name with some members of the configuration changed."""
        return replace(self, configuration={**self.configuration, **configuration})

    def without(self, *members: str) -> Named:
        """The same name with some members of the configuration left out."""
        kept = {k: v for k, v in self.configuration.items() if k not in members}
        return replace(self, configuration=kept)
