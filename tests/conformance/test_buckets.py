"""Requirements tested on a bucket as well as a directory and a dictionary."""

from __future__ import annotations

import pytest

import omnizarr as oz
from omnizarr.stores import resolve
from tests.conformance.test_v1 import example as version_1_example
from tests.conformance.test_v2_examples import both_examples
from tests.servers.fixtures import Cloud


@pytest.mark.shows("V1-01")
def test_a_bucket_and_a_dictionary_hold_the_same_version_1_bytes(cloud: Cloud) -> None:
    held: dict[str, bytes] = {}
    version_1_example(held)
    bucket = resolve(f"{cloud.url}/example", storage_options=cloud.options)
    version_1_example(bucket)
    assert {key: bucket.get(key) for key in bucket.list()} == held  # type: ignore[attr-defined]


@pytest.mark.shows("V2-01")
def test_a_bucket_and_a_dictionary_hold_the_same_version_2_bytes(cloud: Cloud) -> None:
    array: dict[str, bytes] = {}
    group: dict[str, bytes] = {}
    both_examples(array, group)
    places = [resolve(f"{cloud.url}/{n}", storage_options=cloud.options) for n in ("a", "g")]
    both_examples(*places)
    for held, place in zip((array, group), places, strict=True):
        assert {key: place.get(key) for key in place.list()} == held  # type: ignore[attr-defined]


@pytest.mark.shows("D3-10", "V3-33")
def test_a_key_that_is_too_long_for_object_stores_is_an_error(s3: Cloud) -> None:
    group = oz.create_group(resolve(s3.url, storage_options=s3.options))
    with pytest.raises(oz.InvalidArgument, match="xxx"):
        group.create_array("/".join(["x" * 100] * 11), shape=1, dtype="i4")
    assert list(group) == []
