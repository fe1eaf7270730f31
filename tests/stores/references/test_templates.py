"""Templates: the same as Jinja where they are understood, an error otherwise."""

from __future__ import annotations

from typing import Any

import jinja2.sandbox
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from omnizarr.errors import StoreError
from omnizarr.stores.references.templates import MAX_TEXT, Template

NAMES: dict[str, Any] = {"i": 3, "j": -7, "u": "server/path", "v": "x"}


def _jinja(text: str) -> str:
    return jinja2.sandbox.SandboxedEnvironment().from_string(text).render(**NAMES)


numbers = st.one_of(st.integers(0, 999).map(str), st.sampled_from("ij"))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from([" + ", "-", " * ", "//", " % "]), inner)
    return st.one_of(joined.map("".join), inner.map("({})".format), inner.map("(-{})".format))


@given(st.recursive(numbers, _larger, max_leaves=8))
def test_calculations_are_those_of_jinja(expression: str) -> None:
    text = f"a{{{{{expression}}}}}b"
    try:
        expected = _jinja(text)
    except ZeroDivisionError:
        with pytest.raises(StoreError, match="divides by zero"):
            Template.of(text).render(NAMES)
        return
    assume(len(expected) < 20)
    assert Template.of(text).render(NAMES) == expected


@given(st.lists(st.sampled_from(["{{u}}", "{{ v }}", "/plain", "{{ 'te' + \"xt\" }}", "{{u+v}}"])))
def test_texts_are_those_of_jinja(parts: list[str]) -> None:
    text = "".join(parts)
    assert Template.of(text).render(NAMES) == _jinja(text)


@given(st.text(max_size=60))
def test_any_text_is_rendered_or_refused(text: str) -> None:
    for template in (text, "{{" + text + "}}"):
        try:
            found = Template.of(template).render(NAMES)
        except StoreError:
            continue
        assert len(found) <= MAX_TEXT


def test_a_template_is_called_with_its_variables() -> None:
    names = {"f": Template.of("{{c}}/{{d}}.nc"), "i": 2}
    assert Template.of("s3://{{f(c='text', d=i + 1)}}").render(names) == "s3://text/3.nc"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ ''.__class__ }}", "not understood"),
        ("{{ u|upper }}", "not understood"),
        ("{{ f() }}", "not a template"),
        ("{{ u() }}", "not a template"),
        ("{{ open('/etc/passwd') }}", "not understood"),
        ("{{ nobody }}", "not defined"),
        ("{{ 2 ** 9 }}", "not understood"),
        ("{{ 1", "without"),
        ("{{ u * 3 }}", "not a whole number"),
        ("{{ 9999999999999999999999 }}", "63 bits"),
        ("{{ 4611686018427387904 * 4 }}", "63 bits"),
        ("{{" + "(" * 500 + "1" + ")" * 500 + "}}", "longer"),
        ("{{" + "-" * 500 + "1}}", "nested"),
        ("x" * (MAX_TEXT + 1), "longer"),
        ("{{long + long}}", "more than"),
        ("{{long}}{{long}}", "more than"),
        ("{{}}", "not understood"),
        ("{{1 2}}", "not understood"),
        ("{% for i in range(9) %}{{ i }}{% endfor %}{{", "without"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        Template.of(text).render({**NAMES, "long": "y" * (MAX_TEXT - 1)})
