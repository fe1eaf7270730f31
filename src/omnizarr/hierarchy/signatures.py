"""Signatures and help of the functions that pass options on.

Options are declared once, as typed dictionaries in `options`; ``inspect.signature``, ``help`` and
completion then show them as the keywords that they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar

from omnizarr.hierarchy.options import DEFAULTS, ArrayOptions

F = TypeVar("F", bound=Callable[..., Any])
_WORDS = inspect.cleandoc(ArrayOptions.__doc__ or "").partition("\n\n")[2]


def shows(
    options: type, *, explained: bool = False, returns: str | None = None
) -> Callable[[F], F]:
    """Return a decorator for a function whose ``**`` argument has the members of `options`.

    Its help also explains them where `explained`, and names what it `returns` where type checkers
    are told less.
    """

    def give(function: F) -> F:
        function.__signature__ = Expanded(function, options, returns)  # type: ignore[attr-defined]
        if explained and function.__doc__:
            function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\nOptions:\n\n{_WORDS}"
        return function

    return give


class Expanded(inspect.Signature):
    """A signature that is made when it is first looked at, so that importing stays quick."""

    def __init__(self, function: Callable[..., Any], options: type, returns: str | None) -> None:
        self._of = function, options, returns

    @cached_property
    def _made(self) -> inspect.Signature:
        function, options, returns = self._of
        own = inspect.signature(_copy(function))
        kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=DEFAULTS.get(name),
                annotation=getattr(type_, "__forward_arg__", type_),
            )
            for name, type_ in options.__annotations__.items()
            if name not in own.parameters
        ]
        made = own.replace(parameters=[*kept, *more])
        return made if returns is None else made.replace(return_annotation=returns)

    # What the methods of the base class look at

    @property
    def _parameters(self) -> Any:
        return self._made.parameters

    @property
    def _return_annotation(self) -> Any:
        return self._made.return_annotation

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """A plain signature with some parts changed."""
        return self._made.replace(**changes)

    def __reduce__(self) -> Any:
        return self._made.__reduce__()


def _copy(function: Any) -> FunctionType:
    """The function without the signature that it was given."""
    made = FunctionType(function.__code__, function.__globals__, argdefs=function.__defaults__)
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    return made
