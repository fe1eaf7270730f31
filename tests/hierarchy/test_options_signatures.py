"""Options, declared once, are shown by `help`, `inspect.signature` and completion (D5)."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import omnizarr as oz
from omnizarr.hierarchy.options import ArrayOptions

OPTIONS = list(ArrayOptions.__annotations__)
GROUP = oz.create_group({})
FUNCTIONS: list[Callable[..., Any]] = [
    *(oz.open, oz.create_array, oz.from_dask, oz.aio.create_array),
    *(GROUP.create_array, GROUP.require_array, oz.Group.create_array),
    *(oz.ome.write, oz.ome.write_labels, oz.ome.write_plate, oz.geo.write),
    oz.cf.Dataset.create_variable,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__qualname__)
def test_a_signature_shows_the_options(function: Callable[..., Any]) -> None:
    """D5: every option is a keyword with a default."""
    shown = inspect.signature(function).parameters
    assert [name for name in OPTIONS if name not in shown] == []
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    for name in ("chunks", "shards", "compressors", "attributes"):
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default is not inspect.Parameter.empty


@pytest.mark.parametrize("function", [oz.create_array, oz.Group.create_array])
def test_help_explains_every_option(function: Callable[..., Any]) -> None:
    """D5: nothing refers to a name that is nowhere."""
    text = pydoc.plain(pydoc.render_doc(function))
    assert "ArrayOptions" not in text
    arguments = text.partition("Args:")[2].partition("Returns:")[0]
    assert [name for name in OPTIONS if f" {name}: " not in arguments] == []


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
@pytest.mark.parametrize("dtype", ["i4", "M8[s]", str])
def test_the_shown_defaults_are_used(zarr_format: int | str, dtype: Any) -> None:
    if dtype is str and zarr_format in (1, "3-draft"):
        dtype = "U3"
    given: dict[str, Any] = {"shape": 4, "dtype": dtype, "zarr_format": zarr_format}
    plain, shown = {}, {}  # type: dict[str, bytes], dict[str, bytes]
    oz.create_array(plain, **given)
    call = inspect.signature(oz.create_array).bind(shown, **given)
    call.apply_defaults()
    oz.create_array(*call.args, **call.kwargs)
    assert shown == plain


def completed(line: str, **names: Any) -> set[str]:
    """Return the completions that the tab key offers at the end of a line."""
    shell = InteractiveShell()
    shell.user_ns.update(names)
    with provisionalcompleter():
        shell.Completer.use_jedi = False
        return {c.text for c in shell.Completer.completions(line, len(line))}


def test_options_complete() -> None:
    """D5: in IPython, for functions; it evaluates no methods of nodes, whose errors help."""
    assert "chunks=" in completed("oz.create_array('x', chu", oz=oz)
    assert "shards=" in completed("oz.create_array(3, sha", oz=oz)
    assert "fill_value=" in completed("oz.Group.create_array(g, 'x', fill", oz=oz, g=GROUP)
    assert "dtype=" in completed("oz.open('x', 'w', dt", oz=oz)
    assert inspect.signature(oz.open).return_annotation == "Array | Group"
