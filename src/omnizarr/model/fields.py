"""Fields of a metadata document, read with every problem recorded, not only the first.

A reader asks for fields one by one; a wrong field is recorded and a harmless substitute returned,
so that the rest is still checked. `Fields.done` raises if anything was wrong, so no substitute
leaves the reader. `validate` uses the same readers and shows the same list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from omnizarr._json import kind_of
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.model.node import Named

T = TypeVar("T")

MAX_RANK = 64  # NumPy's limit
MAX_LENGTH = 2**63 - 1


class Fields:
    """The fields of one JSON object, and the problems found in them."""

    def __init__(self, key: str, values: Mapping[str, Any], problems: list[Problem]) -> None:
        self.key = key
        self.values = values
        self.problems = problems

    def error(self, field: str, message: str) -> None:
        """Record that `field` is wrong."""
        self.problems.append(Problem(self.key, field, message))

    def warn(self, field: str, message: str) -> None:
        """Record that `field` is unusual but can be read."""
        self.problems.append(Problem(self.key, field, message, "warning"))

    def done(self, what: str) -> None:
        """Raise if anything was wrong."""
        if any(p.level == "error" for p in self.problems):
            raise InvalidMetadata.of(self.problems, what)

    def require(self, *names: str) -> None:
        """Record each missing name."""
        for name in names:
            if name not in self.values:
                self.error(name, "required, but missing")

    def get(self, name: str) -> Any:
        """Return the value unchanged, or None."""
        return self.values.get(name)

    def integers(self, name: str, *, least: int = 0) -> tuple[int, ...]:
        """Return a list of integers of at least `least`, such as a shape."""
        value: Any = self.values.get(name)
        if name not in self.values:
            return ()
        if not self.expect(name, isinstance(value, list), "a list of integers", value):
            return ()
        for i, v in enumerate(value):
            good = isinstance(v, int) and not isinstance(v, bool) and v >= least
            if not self.expect(f"{name}[{i}]", good, f"an integer >= {least}", v):
                return ()
            if v > MAX_LENGTH:
                self.error(f"{name}[{i}]", f"{v} does not fit into 63 bits")
                return ()
        found = tuple(value)
        if len(found) > MAX_RANK:
            self.error(name, f"{len(found)} dimensions is more than NumPy's limit of {MAX_RANK}")
            return ()
        if math.prod(found) > MAX_LENGTH and 0 not in found:
            self.error(name, f"the product of {list(found)} does not fit into 63 bits")
        return found

    def expect(self, field: str, good: bool, what: str, value: object) -> bool:
        """Return `good`; record the kind of value that was expected if it is False."""
        if not good:
            self.error(field, f"expected {what}, got {kind_of(value)}")
        return good

    def items(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the place and the value of each entry of a list; a missing list is empty."""
        value = self.values.get(name, [])
        if self.expect(name, isinstance(value, list), "a list", value):
            for i, each in enumerate(value):
                yield f"{name}[{i}]", each

    def attributes(self, name: str = "attributes") -> dict[str, Any]:
        """Return an object of any JSON values; a missing one is empty."""
        value: Any = self.values.get(name, {})
        return value if self.expect(name, isinstance(value, dict), "an object", value) else {}

    def choice(self, name: str, allowed: tuple[T, ...]) -> T:
        """Return one of a few constants; the first replaces an invalid value."""
        value = self.values.get(name)
        if name not in self.values:
            return allowed[0]
        for constant in allowed:
            if value == constant and type(value) is type(constant):
                return constant
        words = " or ".join(repr(c) for c in allowed)
        self.expect(name, False, words, value)
        return allowed[0]

    def chunks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the chunk shape for an array of that shape."""
        found = self.integers("chunks")
        if self.get("shape") == [*shape] and self.get("chunks") == [*found]:  # both are valid
            self.check_chunks("chunks", found, shape)
        return found

    def check_chunks(self, field: str, chunks: Sequence[int], shape: Sequence[int]) -> None:
        """Record a chunk shape that no array of that shape can have."""
        if len(shape) != len(chunks):
            self.error(field, f"has {len(chunks)} entries, but shape has {len(shape)}")
        for i, (length, chunk) in enumerate(zip(shape, chunks, strict=False)):
            if chunk == 0 and length:
                message = "a chunk cannot have length 0 where the array does not"
                self.error(f"{field}[{i}]", message)


def named(fields: Fields, field: str, value: object) -> Named:
    """Return an extension from a string, or an object with a name and a configuration."""
    if isinstance(value, str) and value:
        return Named(value)
    if not isinstance(value, dict):
        fields.expect(field, False, "a name or an object with 'name'", value)
        return Named("")
    found: Any = value.get("name")
    configuration = value.get("configuration", {})
    understand = value.get("must_understand", True)
    good = isinstance(found, str) and bool(found)
    if not fields.expect(f"{field}.name", good, "a non-empty string", found):
        found = ""
    is_object = isinstance(configuration, dict)
    if not fields.expect(f"{field}.configuration", is_object, "an object", configuration):
        configuration = {}
    known = isinstance(understand, bool)
    if not fields.expect(f"{field}.must_understand", known, "true or false", understand):
        understand = True
    for other in value.keys() - {"name", "configuration", "must_understand"}:
        fields.error(f"{field}.{other}", "unknown member")
    return Named(found, configuration, understand)
