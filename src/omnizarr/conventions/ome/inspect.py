"""Looking at JSON values of unknown shape: each method records what is wrong, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from omnizarr._json import kind_of
from omnizarr.errors import Problem

ADVICE = "advice: "


@dataclass(frozen=True)
class Inspector:
    """A place in a document, and the list that its problems go to."""

    key: str
    field: str
    problems: list[Problem]

    def inside(self, name: str) -> Inspector:
        """The place of a member of this object."""
        return replace(self, field=self._place(name))

    def _place(self, name: str) -> str:
        dot = "." if name and self.field and not self.field.endswith(".") else ""
        return f"{self.field}{dot if not name.startswith('[') else ''}{name}".rstrip(".")

    def error(self, name: str, message: str) -> None:
        """Record something that must not be."""
        self.problems.append(Problem(self.key, self._place(name), message))

    def warn(self, name: str, message: str) -> None:
        """Record something that should not be."""
        self.problems.append(Problem(self.key, self._place(name), message, "warning"))

    def advise(self, name: str, message: str) -> None:
        """Record something that the texts recommend, but that their strict schemas do not want."""
        self.warn(name, ADVICE + message)

    def is_object(self, name: str, value: Any) -> bool:
        """Whether a value is an object; recorded where not."""
        if not isinstance(value, dict):
            self.error(name, f"expected an object, got {kind_of(value)}")
        return isinstance(value, dict)

    def objects(
        self, name: str, value: Any, *, least: int = 0
    ) -> Iterator[tuple[Inspector, dict[str, Any]]]:
        """The objects of a list, each with its place."""
        if not isinstance(value, list):
            what = (
                "required, but missing"
                if value is None
                else f"expected a list, got {kind_of(value)}"
            )
            self.error(name, what)
            return
        if len(value) < least:
            self.error(name, f"has {len(value)} entries; expected at least {least}")
        for i, item in enumerate(value):
            if self.is_object(f"{name}[{i}]", item):
                yield self.inside(f"{name}[{i}]"), item

    def text(self, name: str, item: dict[str, Any], *, required: bool = False) -> str | None:
        """A string, where there is one."""
        value = item.get(name)
        if name not in item:
            if required:
                self.error(name, "required, but missing")
            return None
        if not isinstance(value, str):
            self.error(name, f"expected a string, got {kind_of(value)}")
            return None
        return value

    def integer(
        self, name: str, item: dict[str, Any], *, least: int | None = None, required: bool = False
    ) -> int | None:
        """An integer of at least `least`, where there is one."""
        value = item.get(name)
        if name not in item:
            if required:
                self.error(name, "required, but missing")
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or (least is not None and value < least):
            at_least = "" if least is None else f" of at least {least}"
            self.error(name, f"expected an integer{at_least}, got {kind_of(item[name])}")
            return None
        return value

    def number(self, name: str, value: Any) -> None:
        """Record where a value is not a number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.error(name, f"expected a number, got {kind_of(value)}")

    def numbers(self, name: str, value: Any) -> list[float] | None:
        """A list of numbers, where it is one."""
        good = isinstance(value, list) and not any(
            isinstance(n, bool) or not isinstance(n, (int, float)) for n in value
        )
        if not good:
            self.error(name, f"expected a list of numbers, got {kind_of(value)}")
            return None
        found: list[float] = value
        return found
