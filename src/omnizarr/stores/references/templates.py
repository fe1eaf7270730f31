"""Templates of kerchunk references: text with ``{{ expressions }}``, read without running code.

Specification: https://fsspec.github.io/kerchunk/spec.html, version 1, ``jinja-str``. Of that
language these are understood, which Python writes in the same way: names, whole numbers, text in
quotes, ``+ - * // %``, parentheses, and other templates called with keywords, ``{{f(c='text')}}``.
Anything else is an error. The length of expressions, numbers and results is limited.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from omnizarr.errors import StoreError

MAX_TEXT = 2**13  # characters of a template, and of what becomes of it
MAX_EXPRESSION = 2**9
MAX_NUMBER = 2**63
MAX_DEPTH = 32  # of parentheses and signs

Value: TypeAlias = "int | str | Template"
Names: TypeAlias = Mapping[str, Value]

_OPEN, _CLOSE = "{{", "}}"
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class Template:
    """A text and the expressions in it."""

    text: str
    parts: tuple[str | ast.expr, ...]

    @classmethod
    def of(cls, text: str) -> Template:
        """Read a template; raise if it has something that cannot be an expression."""
        if len(text) > MAX_TEXT:
            raise StoreError(f"the template {text[:40]!r}… is longer than {MAX_TEXT} characters")
        parts: list[str | ast.expr] = []
        at = 0
        while (start := text.find(_OPEN, at)) >= 0:
            end = text.find(_CLOSE, start)
            if end < 0:
                raise StoreError(f"the template {text!r} has '{{{{' without '}}}}'")
            parts += [text[at:start], _parse(text, text[start + 2 : end].strip())]
            at = end + 2
        return cls(text, (*parts, text[at:]))

    def render(self, names: Names) -> str:
        """Return the text with the values of its expressions."""
        found = ""
        for part in self.parts:
            value = part if isinstance(part, str) else self._value(part, names, 0)
            if isinstance(value, Template):
                raise StoreError(f"in {self.text!r} a template is used without its parentheses")
            found += str(value)
            if len(found) > MAX_TEXT:
                raise StoreError(f"{self.text!r} makes a text of more than {MAX_TEXT} characters")
        return found

    def _value(self, node: ast.expr, names: Names, depth: int) -> Value:
        if depth > MAX_DEPTH:
            _refuse(self.text, f"it is nested more than {MAX_DEPTH} deep")
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return self._bounded(number)
            case ast.Name(id=name):
                if name not in names:
                    _refuse(self.text, f"the name {name!r} is not defined")
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._joined(operator.sub, 0, self._value(inner, names, depth + 1))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                first = self._value(left, names, depth)  # as long as sums may be
                return self._joined(
                    _OPERATORS[type(sign)], first, self._value(right, names, depth + 1)
                )
            case ast.Call(func=ast.Name(id=name), args=[], keywords=given):
                called = names.get(name)
                if not isinstance(called, Template):
                    _refuse(self.text, f"{name!r} is not a template with variables")
                return called.render(
                    {each.arg or "": self._value(each.value, names, depth + 1) for each in given}
                )
        return _refuse(self.text, f"{ast.unparse(node)[:40]!r} is not understood")

    def _joined(self, sign: Callable[[int, int], int], a: Value, b: Value) -> Value:
        if sign is operator.add and isinstance(a, str) and isinstance(b, str):
            if len(a) + len(b) > MAX_TEXT:
                _refuse(self.text, f"a text has more than {MAX_TEXT} characters")
            return a + b
        if not isinstance(a, int) or not isinstance(b, int):
            _refuse(self.text, "it calculates with something that is not a whole number")
        try:
            return self._bounded(sign(a, b))
        except ZeroDivisionError:
            _refuse(self.text, "it divides by zero")

    def _bounded(self, number: int) -> int:
        if abs(number) >= MAX_NUMBER:
            _refuse(self.text, "a number has more than 63 bits")
        return number


def has_expressions(text: str) -> bool:
    """Return True if a text is a template, not plain text."""
    return _OPEN in text


def _parse(template: str, text: str) -> ast.expr:
    if len(text) > MAX_EXPRESSION:
        _refuse(template, f"an expression is longer than {MAX_EXPRESSION} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of calls that cannot be right
            found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        reason = e.msg if isinstance(e, SyntaxError) else str(e)
        return _refuse(template, f"{text[:40]!r} is not understood ({reason})")
    return found if "\\" not in text else _refuse(template, "it has a backslash")


def _refuse(template: str, reason: str) -> NoReturn:
    raise StoreError(
        f"cannot use the template {template!r}: {reason}; understood are names, whole"
        " numbers, quoted text, + - * // %, parentheses and f(name='text')"
    )
