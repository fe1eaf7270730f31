"""Checking the configuration of an extension against what its code knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from typing import Any

from omnizarr import registry
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.model.named import Named


def check_members(
    named: Named, kind: str, *, required: Iterable[str] = (), optional: Iterable[str] = ()
) -> None:
    """Raise when a member is missing, or not known: it might change what the data mean."""
    required, optional = set(required), set(optional)
    given = named.configuration.keys()
    problems = [
        Problem("", f"configuration.{member}", f"{kind} {named.name!r} needs it")
        for member in sorted(required - given)
    ]
    problems += [
        Problem("", f"configuration.{member}", f"not a member that {kind} {named.name!r} knows")
        for member in sorted(given - required - optional)
    ]
    if problems:
        raise InvalidMetadata.of(problems, f"{kind} {named.name!r}")


def invalid(kind: str, name: str, member: str, message: str) -> InvalidMetadata:
    """The error for one wrong member of a configuration."""
    return InvalidMetadata.of([Problem("", f"configuration.{member}", message)], f"{kind} {name!r}")


def with_defaults(kind: registry.Kind, named: Named) -> Named:
    """The extension with the defaults of its class, which may be others tomorrow.

    Only of classes of other packages: those of this one have defaults that documents may leave
    out. So has a class with a `bind` of its own.
    """
    target = registry.find(kind, named.name)
    if not isinstance(target, type) or not dataclasses.is_dataclass(target):
        return named
    others = [c for c in target.__mro__ if not c.__module__.startswith("omnizarr.")]
    if target not in others or any("bind" in vars(c) for c in others):
        return named
    found: dict[str, Any] = {}
    for f in dataclasses.fields(target):
        value: Any = f.default
        if f.default_factory is not dataclasses.MISSING:
            value = f.default_factory()
        if f.init and value is not None and value is not dataclasses.MISSING:
            value = value.value if isinstance(value, Enum) else value
            found[f.name] = list(value) if isinstance(value, tuple) else value
    return named.replace(**{**found, **named.configuration})
