"""Every problem of a document names its place and the section of the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import Problem
from omnizarr.formats.format import section_of


@pytest.mark.parametrize(
    ("key", "field", "section"),
    [
        ("a/b/zarr.json", "codecs[1].configuration.level", "Zarr 3, codecs"),
        ("zarr.json", "", "Zarr 3, metadata documents"),
        ("a/.zarray", "dtype", "Zarr 2, dtype"),
        (".zmetadata", "metadata['a']", "zarr-python, metadata"),
        ("meta", "order", "Zarr 1, order"),
        ("meta/root/a.array.json", "chunk_grid", "Zarr 3 draft, chunk_grid"),
    ],
)
def test_a_field_has_a_section(key: str, field: str, section: str) -> None:
    assert section_of(Problem(key, field, "is wrong")) == section


@pytest.mark.parametrize(
    ("field", "pointer"),
    [
        ("", ""),
        ("codecs[0].configuration.level", "/codecs/0/configuration/level"),
        ("consolidated_metadata.metadata['a/b.c']", "/consolidated_metadata/metadata/a~1b.c"),
        ("attributes.ome.multiscales[0].axes[1]", "/attributes/ome/multiscales/0/axes/1"),
        ('metadata["it\'s"]', "/metadata/it's"),
    ],
)
def test_a_field_is_a_json_pointer(field: str, pointer: str) -> None:
    assert Problem("zarr.json", field, "").pointer == pointer


def follow(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer leads to, or its parent if the last member is missing."""
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            document = document[int(name)]
        elif isinstance(document, dict):
            document = document.get(name)
    return document


WRONG = st.sampled_from([None, -1, "x", [], {}, [-1], [{}], {"name": 5}, {"name": "of-nobody"}])


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
@given(data=st.data())
def test_every_problem_of_a_wrong_document_has_key_place_and_rule(
    zarr_format: Any, data: Any
) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, data=np.ones((4, 4)), chunks=(2, 2), zarr_format=zarr_format)
    names = {1: "meta", 2: ".zarray", "3-draft": "array.json", 3: "zarr.json"}
    key = next(key for key in store if key.endswith(names[zarr_format]))
    document = json.loads(store[key])
    wrong = data.draw(
        st.dictionaries(st.sampled_from(sorted(document)), WRONG, min_size=1, max_size=3)
    )
    changed = {**document, **wrong}
    store[key] = json.dumps(changed).encode()
    try:
        problems = oz.validate(store)
    except oz.NodeNotFound:
        return  # the version is one of the members that are wrong
    for problem in problems:
        assert problem.key
        assert section_of(problem).startswith(("Zarr ", "zarr-python"))
        assert problem.field or "zarr_format" in wrong or "node_type" in wrong, problem
        follow(changed, problem.pointer)


def test_problems_of_a_stored_hierarchy_name_the_document(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path)
    group.create_array("a", data=np.ones(3))
    (tmp_path / "a/zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    problems = oz.validate(tmp_path)
    assert {p.key for p in problems} == {"a/zarr.json"}
    assert {p.pointer for p in problems} >= {"/shape", "/data_type", "/codecs"}
