"""Checking the configuration of an extension against what its code knows."""

from __future__ import annotations

from collections.abc import Iterable

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
