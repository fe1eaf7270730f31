"""Describe for the reference what the code says in another way than its signatures.

The functions and methods of ``omnizarr.aio`` are made at run time from others, and docstrings have
examples, blocks of text and lists that Markdown writes differently.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

MADE_FROM = {"_function", "_method", "_listing"}  # in aio.py
TERM = re.compile(r"^[a-z_, ]+$")


class Reference(griffe.Extension):
    """Complete the objects of the package before the reference is written."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Write the docstring of an object in Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Replace the assignments in ``omnizarr.aio`` by the functions that they make."""
        aio = pkg.members.get("aio")
        if isinstance(aio, griffe.Module):
            for scope in (aio, *aio.classes.values()):
                for name, member in list(scope.members.items()):
                    source = _source(pkg, member)
                    if source is not None:
                        scope.set_member(name, _awaitable(name, source))


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
