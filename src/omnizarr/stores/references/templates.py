"""Templates of kerchunk references: text with ``{{ expressions }}``, read without running code.

Specification: https://fsspec.github.io/kerchunk/spec.html, version 1, ``jinja-str``. Of that
language these are understood: names, whole numbers, text in quotes, ``+ - * // %``,
parentheses, and other templates called with keywords, ``{{f(c='text')}}``. Anything else is an
error. The length of expressions, numbers and results is limited.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from omnizarr.errors import StoreError

MAX_TEXT = 2**13  # characters of a template, and of what becomes of it
MAX_NUMBER = 2**63
MAX_DEPTH = 32  # of parentheses

Value: TypeAlias = "int | str | Template"
Names: TypeAlias = Mapping[str, Value]
Expression: TypeAlias = Callable[[Names], Value]

_OPEN, _CLOSE = "{{", "}}"
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+)|'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)"
    |(?P<name>[A-Za-z_]\w*)|(?P<sign>//|[-+*%(),=]))\s*""",
    re.VERBOSE | re.ASCII,
)
_SUMS = {"+": operator.add, "-": operator.sub}
_PRODUCTS = {"*": operator.mul, "//": operator.floordiv, "%": operator.mod}


@dataclass(frozen=True, slots=True)
class Template:
    """A text and the expressions in it."""

    text: str
    parts: tuple[str | Expression, ...]

    @classmethod
    def of(cls, text: str) -> Template:
        """Read a template; raise if it has something that is not understood."""
        if len(text) > MAX_TEXT:
            raise StoreError(f"the template {text[:40]!r}… is longer than {MAX_TEXT} characters")
        parts: list[str | Expression] = []
        at = 0
        while (start := text.find(_OPEN, at)) >= 0:
            end = text.find(_CLOSE, start)
            if end < 0:
                raise StoreError(f"the template {text!r} has '{{{{' without '}}}}'")
            parts += [text[at:start], _Parser(text, text[start + 2 : end]).read()]
            at = end + 2
        return cls(text, (*parts, text[at:]))

    def render(self, names: Names) -> str:
        """Return the text with the values of its expressions."""
        found: list[str] = []
        length = 0
        for part in self.parts:
            value = part if isinstance(part, str) else part(names)
            if isinstance(value, Template):
                raise StoreError(f"in {self.text!r} a template is used without its parentheses")
            found.append(str(value))
            length += len(found[-1])
            if length > MAX_TEXT:
                raise StoreError(f"{self.text!r} makes a text of more than {MAX_TEXT} characters")
        return "".join(found)


def has_expressions(text: str) -> bool:
    """Return True if a text is a template, not plain text."""
    return _OPEN in text


class _Parser:
    """Reads one expression: sums of products of factors."""

    def __init__(self, template: str, text: str) -> None:
        self.template, self.tokens, self.at, self.depth = template, _tokens(template, text), 0, 0

    def read(self) -> Expression:
        found = self._sum()
        if self.at < len(self.tokens):
            self._fail(f"{self._peek()!r} is not expected there")
        return found

    def _peek(self) -> str | None:
        """Return the next token if it is a sign, else its kind; None at the end."""
        if self.at == len(self.tokens):
            return None
        kind, text = self.tokens[self.at]
        return text if kind == "sign" else kind

    def _take(self, wanted: str | None = None) -> str:
        if wanted is not None and self._peek() != wanted:
            self._fail(f"expected {wanted!r}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def _sum(self) -> Expression:
        found = self._product()
        while (sign := self._peek()) in _SUMS:
            self._take()
            found = self._joined(_SUMS[sign or ""], found, self._product())
        return found

    def _product(self) -> Expression:
        found = self._factor()
        while (sign := self._peek()) in _PRODUCTS:
            self._take()
            found = self._joined(_PRODUCTS[sign or ""], found, self._factor())
        return found

    def _factor(self) -> Expression:
        kind = self._peek()
        if kind == "-":
            self._take()
            return self._nested(lambda: self._joined(operator.sub, _constant(0), self._factor()))
        if kind == "(":
            self._take()
            found = self._nested(self._sum)
            self._take(")")
            return found
        if kind == "number":
            return _constant(self._number(self._take()))
        if kind in ("single", "double"):
            return _constant(self._take())
        if kind == "name":
            return self._name(self._take())
        return self._fail("an expression is incomplete")

    def _nested(self, read: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(f"it is nested more than {MAX_DEPTH} deep")
        found = read()
        self.depth -= 1
        return found

    def _name(self, name: str) -> Expression:
        if self._peek() == "(":
            return self._call(name)

        def look_up(names: Names) -> Value:
            if name not in names:
                self._fail(f"the name {name!r} is not defined")
            return names[name]

        return look_up

    def _call(self, name: str) -> Expression:
        """Read the keywords with which a template is called."""
        self._take("(")
        given: dict[str, Expression] = {}
        while self._peek() != ")":
            if given:
                self._take(",")
            keyword = self._take("name")
            self._take("=")
            given[keyword] = self._nested(self._sum)
        self._take(")")

        def call(names: Names) -> Value:
            called = names.get(name)
            if not isinstance(called, Template):
                self._fail(f"{name!r} is not a template with variables")
            return called.render({key: value(names) for key, value in given.items()})

        return call

    def _joined(
        self, sign: Callable[[int, int], int], left: Expression, right: Expression
    ) -> Expression:
        def join(names: Names) -> Value:
            a, b = left(names), right(names)
            if sign is operator.add and isinstance(a, str) and isinstance(b, str):
                return self._short(a + b)
            if not isinstance(a, int) or not isinstance(b, int):
                return self._fail("it calculates with something that is not a whole number")
            try:
                return self._bounded(sign(a, b))
            except ZeroDivisionError:
                return self._fail("it divides by zero")

        return join

    def _number(self, text: str) -> int:
        return self._bounded(int(text) if len(text) < 20 else MAX_NUMBER)

    def _bounded(self, number: int) -> int:
        if abs(number) >= MAX_NUMBER:
            self._fail("a number has more than 63 bits")
        return number

    def _short(self, text: str) -> str:
        if len(text) > MAX_TEXT:
            self._fail(f"a text has more than {MAX_TEXT} characters")
        return text

    def _fail(self, reason: str) -> NoReturn:
        raise StoreError(
            f"cannot use the template {self.template!r}: {reason}; understood are names, whole"
            " numbers, quoted text, + - * // %, parentheses and f(name='text')"
        )


def _constant(value: Value) -> Expression:
    return lambda names: value


def _tokens(template: str, text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if not text[at:].strip():
                break
            raise StoreError(
                f"cannot use the template {template!r}: {text[at:].strip()[:20]!r} is not"
                " understood"
            )
        kind = match.lastgroup or ""
        found.append((kind, match[kind]))
        at = match.end()
    return found
