"""Docstrings of public names: sections in Google style, and examples that run."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import registry

MODULES = [
    *("omnizarr", "omnizarr.aio", "omnizarr.cf", "omnizarr.codecs", "omnizarr.geo"),
    *("omnizarr.jobs", "omnizarr.ome", "omnizarr.storage", "omnizarr.testing", "omnizarr.xarray"),
]
# Not omnizarr.testing.stores: its suites are classes of tests, whose use the module shows.
# Methods that implement an interface are documented where the interface is, one class or page each.
INTERFACES = {
    "omnizarr.stores": "docs/stores.md describes the methods of a store",
    "omnizarr.codecs.codec.Configured": "ArrayArrayCodec and its siblings describe the methods",
    "omnizarr.codecs.pipeline.CodecPipeline": "codecs only pass it on",
    "omnizarr.bulk.job.Job": "Job describes plan and settle",
    "omnizarr.interop.xarray.engine.Engine": "xarray describes its BackendEntrypoint",
    "omnizarr.errors.OmnizarrError": "errors are raised, not made, by users",
    "omnizarr.errors.OmnizarrWarning": "warnings are issued, not made, by users",
}
# Classes that other functions make: their constructors are not for users.
MADE_BY_OTHERS = {
    "cf.Dataset": "cf.open and cf.create make it",
    "cf.Variable": "cf.decode makes it",
    "jobs.Plan": "Job.plan makes it",
    "jobs.Progress": "run makes it",
    "jobs.Phase": "Job.plan makes it",
    "jobs.Task": "Job.plan makes it",
    "geo.Level": "geo.open makes it",
    "geo.Map": "geo.open and geo.write make it",
    "ome.Image": "ome.open and ome.write make it",
    "ome.Labels": "Image.labels",
    "ome.ImageLabel": "Image.label",
    "ome.Metadata": "Image.metadata",
    "ome.Multiscale": "Image.multiscale",
    "ome.Transform": "Image.transform",
    "codecs.CodecPipeline": "bind_pipeline makes it",
    "ome.Plate": "ome.open and ome.write_plate make it",
    "ome.Series": "ome.open makes it",
    "ome.Version": "ome.VERSIONS has all of them",
    "ome.Well": "ome.open makes it",
    "xarray.Engine": "xarray makes it: open_dataset(path, engine='omnizarr')",
}
NO_EXAMPLE = {
    "codecs.bind_pipeline": "it needs a Spec",
    "omnizarr.Array.at": "locations are made inside the package",
    "codecs.Spec": "codecs are given it",
}
SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Examples|Note|Warns):")
ENTRY = re.compile(r" {4}(\*{0,2}\w+)(?: \([^)]*\))?: \S")


class Doc:
    """The sections of a docstring in Google style."""

    def __init__(self, text: str | None) -> None:
        self.text = inspect.cleandoc(text or "")
        self.sections: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self.text.splitlines():
            if found := SECTION.fullmatch(line):
                lines = self.sections.setdefault(found[1], [])
            elif line and not line.startswith(" "):
                lines = []  # prose between sections
            else:
                lines.append(line)

    def entries(self, section: str) -> set[str]:
        found = (ENTRY.match(line) for line in self.sections.get(section, []))
        return {match[1] for match in found if match}

    @property
    def parameters(self) -> set[str]:
        return self.entries("Args") | self.entries("Attributes")

    @property
    def tells_result(self) -> bool:
        """True if there is such a section, or the summary says what is returned."""
        summary = re.match(r"(Return|Yield)\b", self.text)
        return bool(summary or {"Returns", "Yields"} & self.sections.keys())

    @property
    def has_example(self) -> bool:
        return any(line.startswith("    >>> ") for line in self.sections.get("Examples", []))


class Public:
    """A public name and its docstring."""

    def __init__(self, name: str, value: Any, made: bool = True) -> None:
        self.name, self.value, self.made = name, value, made

    @cached_property
    def doc(self) -> Doc:
        return Doc(self.value.__doc__)

    def problems(self) -> list[str]:
        if not self.doc.text:
            return ["no docstring"]
        if isinstance(self.value, (property, cached_property)):
            return []
        missing = [f"parameter {name}" for name in self._parameters() if self.made]
        missing = [m for m in missing if m.split()[1] not in self.doc.parameters]
        if not inspect.isclass(self.value):
            if self._function.__annotations__.get("return") not in ("None", None):
                missing += [] if self.doc.tells_result else ["Returns"]
            missing += [f"error {e}" for e in raised(self._function) - self.doc.entries("Raises")]
        if not self.doc.has_example and self.made and self.name not in NO_EXAMPLE:
            missing.append("example")
        return missing

    @property
    def _function(self) -> Callable[..., Any]:
        return inspect.unwrap(self.value)

    def _parameters(self) -> list[str]:
        if hasattr(self.value, "takes"):  # see omnizarr.bulk.options
            return [field.name for field in dataclasses.fields(self.value.takes)]
        if not inspect.isclass(self.value):
            return parameters(self._function)
        if issubclass(self.value, enum.Enum):
            return []
        if dataclasses.is_dataclass(self.value):
            own = [
                f for f in dataclasses.fields(self.value) if f.init and not f.metadata.get("help")
            ]
            return [f.name for f in own if f.name[0] != "_"]
        init = inspect.getattr_static(self.value, "__init__")
        if not inspect.isfunction(init) or getattr(self.value, "_is_protocol", False):
            return []
        return [p for p in parameters(init) if p not in Doc(init.__doc__).parameters]


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters in the definition of a function, not those of a decorator."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    if code.co_flags & inspect.CO_VARARGS:
        names.append(f"*{code.co_varnames[count]}")
        count += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        names.append(f"**{code.co_varnames[count]}")
    return [name for name in names if name not in ("self", "cls")]


def raised(function: Callable[..., Any]) -> set[str]:
    """Return the names of errors of this package that a function itself raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    names = {c.func.id for c in calls if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
    return {name for name in names if name in oz.errors.__all__}


def public() -> Iterator[Public]:
    """Yield all public functions and classes, and what these define, each once."""
    seen: set[Any] = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            where = f"{module.__name__.removeprefix('omnizarr.')}.{name}"
            if not callable(value) or inspect.ismodule(value) or id(value) in seen:
                continue
            if not getattr(value, "__module__", "").startswith("omnizarr"):
                continue
            seen.add(id(value))
            made = where not in MADE_BY_OTHERS and not _implements(value, "errors")
            yield Public(where, value, made)
            if inspect.isclass(value) and not _implements(value):
                yield from _members(where, value, seen)


def _implements(value: Any, part: str = "") -> bool:
    """Return True if a class is derived from an interface whose methods are described there."""
    bases = value.__mro__ if inspect.isclass(value) else ()
    names = [f"{base.__module__}.{base.__qualname__}" for base in bases if part in base.__module__]
    return any(name.startswith(tuple(INTERFACES)) for name in names)


def _members(where: str, owner: type, seen: set[Any]) -> Iterator[Public]:
    for name in dir(owner):
        value = inspect.getattr_static(owner, name)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        is_function = inspect.isfunction(value)
        if name.startswith("_") or not (
            is_function or isinstance(value, (property, cached_property))
        ):
            continue
        if id(value) in seen or (is_function and not value.__module__.startswith("omnizarr")):
            continue
        seen.add(id(value))
        yield Public(f"{where}.{name}", value)


NAMES = {item.name: item for item in public()}


def test_docstrings_have_parameters_result_errors_and_an_example() -> None:
    found = {name: item.problems() for name, item in NAMES.items()}
    missing = {name: problems for name, problems in found.items() if problems}
    assert missing == {}


def test_the_lists_name_what_exists() -> None:
    stated = {*MADE_BY_OTHERS, *NO_EXAMPLE}
    assert stated <= NAMES.keys()


# The awaitable functions have the docstrings of the blocking ones.
EXAMPLES = {item.doc.text: name for name, item in reversed(NAMES.items()) if ">>>" in item.doc.text}


@pytest.mark.parametrize("name", sorted(EXAMPLES.values()))
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_examples(name, NAMES[name].doc.text, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_examples(name, importlib.import_module(name).__doc__ or "", tmp_path, monkeypatch)


def run_examples(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples in a docstring in an empty folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_table", {**registry._table})
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, {"np": np, "oz": oz}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=options, verbose=False)
    said: list[str] = []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


InvalidArgument = oz.InvalidArgument
