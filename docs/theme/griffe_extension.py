"""Describe for the reference what the code says in another way than its signatures.

The functions and methods of ``omnizarr.aio`` are made at run time from others, functions of jobs
take the arguments of a dataclass (see ``omnizarr.bulk.options``), and docstrings have examples,
blocks of text and lists that Markdown writes differently.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import griffe

MADE_FROM = {"_function", "_method", "_listing"}  # in aio.py
K = TypeVar("K", bound=griffe.Object)
TERM = re.compile(r"^[a-z_, ]+$")


class Reference(griffe.Extension):
    """Complete the objects of the package before the reference is written."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Write the docstring of an object in Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Give functions their arguments, and replace the assignments in ``omnizarr.aio``."""
        for kind in _objects(pkg, griffe.Class):
            _explain_fields(pkg, kind)
        for function in _objects(pkg, griffe.Function):
            for decorator in function.decorators:
                if str(decorator.value).startswith("takes("):
                    _give_arguments(function, _find(pkg, decorator.value.arguments[0]))
        aio = pkg.members.get("aio")
        if isinstance(aio, griffe.Module):
            for scope in (aio, *aio.classes.values()):
                for name, member in list(scope.members.items()):
                    source = _source(pkg, member)
                    if source is not None:
                        scope.set_member(name, _awaitable(name, source))


def _objects(scope: griffe.Object, kind: type[K]) -> Iterator[K]:
    """Yield the classes, or the functions, of a package."""
    for member in scope.members.values():
        if isinstance(member, kind):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _objects(member, kind)


def _explain_fields(pkg: griffe.Module, kind: griffe.Class) -> None:
    """Show the default and the help that calls of `option` and `field` declare."""
    for member in kind.members.values():
        call = member.value if isinstance(member, griffe.Attribute) else None
        if not isinstance(call, griffe.ExprCall) or str(call.function) not in ("option", "field"):
            continue
        if str(call.function) == "option":
            member.value, text = call.arguments
        else:
            named = {each.name: each.value for each in call.arguments}
            told: Any = named.get("metadata")
            if told is None:
                continue
            told = told if isinstance(told, griffe.ExprCall) else _find(pkg, told).value
            member.value = "{}" if "default_factory" in named else None
            text = told.arguments[0]
        member.docstring = griffe.Docstring(ast.literal_eval(str(text)), parent=member)


def _give_arguments(function: griffe.Function, options: Any) -> None:
    """Show the fields of a dataclass as the arguments of a function."""
    parameters: dict[str, griffe.Parameter] = {}
    lines: dict[str, str] = {}
    for kind in (options, *options.mro()):
        keyword = "_" not in kind.members
        for name, member in kind.members.items():
            keyword = keyword or name == "_"
            if name in parameters or not isinstance(member, griffe.Attribute) or name == "_":
                continue
            lines[name] = f"    {name}: {member.docstring.value}"
            place = griffe.ParameterKind.keyword_only
            place = place if keyword else griffe.ParameterKind.positional_or_keyword
            parameters[name] = griffe.Parameter(
                name, annotation=member.annotation, kind=place, default=member.value
            )
    order = sorted(parameters, key=lambda name: parameters[name].kind.name, reverse=True)
    function.parameters = griffe.Parameters(*(parameters[name] for name in order))
    if function.docstring is not None:
        before, end, after = function.docstring.value.partition("\nReturns:")
        if not end:
            before, end, after = before.partition("\nRaises:")
        section = "\n".join(["", "Args:", *(lines[name] for name in order), ""])
        function.docstring.value = f"{before}{section}{end}{after}"


def _find(pkg: griffe.Module, name: Any) -> Any:
    found = pkg[name.canonical_path.removeprefix("omnizarr.")]
    return found.final_target if found.is_alias else found


def _source(pkg: griffe.Module, member: griffe.Object | griffe.Alias) -> griffe.Function | None:
    """Return the function from which an attribute is made, or None."""
    value = member.value if isinstance(member, griffe.Attribute) else None
    if not isinstance(value, griffe.ExprCall) or str(value.function) not in MADE_FROM:
        return None
    argument = value.arguments[0]
    path = argument.canonical_path if isinstance(argument, griffe.Expr) else ""
    owner_path, _, name = path.removeprefix("omnizarr.").rpartition(".")
    owner = pkg[owner_path]
    found = owner.members.get(name) or owner.all_members[name]
    if found.is_alias:
        found = found.final_target
    return found if isinstance(found, griffe.Function) else None


def _awaitable(name: str, source: griffe.Function) -> griffe.Function:
    made = griffe.Function(
        name,
        parameters=source.parameters,
        returns=source.returns,
        docstring=source.docstring,
        lineno=source.lineno,
        endlineno=source.endlineno,
    )
    made.labels.add("async")
    return made


def as_markdown(text: str) -> str:
    """Return a docstring with fenced examples and blocks, and with lists of definitions."""
    lines = text.splitlines()
    result: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(">>> "):
            end = _until(lines, at, lambda later: not later.strip())
            result += ["```pycon", *lines[at:end], "```"]
            at = end
        elif line.endswith("::") and not line.startswith(" "):
            end = _until(lines, at + 1, lambda later: later.strip() and not later.startswith(" "))
            block = dedented(lines[at + 1 : end])
            head = line[:-2].rstrip()
            result += [*([f"{head}:"] if head else []), "", "```text", *block, "```", ""]
            at = end
        elif _is_term(lines, at):
            end = _until(lines, at + 1, lambda later: not later.startswith("    "))
            terms = ", ".join(f"`{term.strip()}`" for term in line.split(","))
            body = [part.strip() for part in lines[at + 1 : end]]
            result += [f"- {terms}: {body[0]}", *(f"    {part}" for part in body[1:])]
            at = end
        else:
            result.append(line)
            at += 1
    return "\n".join(result)


def _is_term(lines: list[str], at: int) -> bool:
    """Return True if a line is a name, or several, and the next one explains it."""
    following = lines[at + 1] if at + 1 < len(lines) else ""
    begins = at == 0 or not lines[at - 1].strip() or lines[at - 1].startswith("    ")
    return begins and bool(TERM.match(lines[at])) and following.startswith("    ")


def _until(lines: list[str], start: int, stops: Any) -> int:
    end = start
    while end < len(lines) and not stops(lines[end]):
        end += 1
    return end


def dedented(lines: list[str]) -> list[str]:
    """Return lines without their common indentation and without empty ones at the ends."""
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    cut = min(widths, default=0)
    return "\n".join(line[cut:] for line in lines).strip("\n").splitlines()
