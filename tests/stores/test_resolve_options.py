"""D3: every function that opens a bucket takes the options of the bucket."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import Command, Context, Group
from click.testing import CliRunner

import omnizarr as oz
from omnizarr import aio, cf, geo, ome
from omnizarr.cli.main import main
from omnizarr.cli.options import parse_value
from omnizarr.errors import StoreError
from omnizarr.interop.zarr.zarr_python import to_zarr
from omnizarr.stores import resolve
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.resolve import options_for_two
from tests.servers.fixtures import Cloud

DATA = np.arange(64, dtype="u2").reshape(8, 8)
# Names of parameters that a place is given by.
PLACES = ("store", "source", "what", "destination", "dest")
# Take nodes that are open, or name a kind of store only.
OPEN_NODES = {"suggest_chunks"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine that runs the tests."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def functions() -> dict[str, Callable[..., Any]]:
    found = {}
    for module in (oz, ome, geo, cf, aio):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[f"{module.__name__.removeprefix('omnizarr')}.{name}".lstrip(".")] = value
    return found


def test_every_function_that_takes_a_store_takes_its_options() -> None:
    """D3."""
    lacking = []
    for name, function in functions().items():
        given = inspect.signature(function).parameters
        if name in OPEN_NODES or not any(place in given for place in PLACES):
            continue
        passed_on = [p for p in given.values() if p.kind is p.VAR_KEYWORD]
        if "storage_options" not in given and not passed_on:
            lacking.append(name)
    assert not lacking


def test_every_function_reaches_a_bucket_by_options(s3: Cloud, tmp_path: Path) -> None:
    """D3: what one function wrote to a bucket, the others read, check, copy and convert."""
    url, options = s3.url, {"storage_options": s3.options}
    oz.save(f"{url}/saved", DATA, **options)
    assert np.array_equal(oz.load(f"{url}/saved", **options), DATA)
    oz.create_group(f"{url}/group", zarr_format=2, **options).create_array("a", data=DATA)
    assert oz.consolidate_metadata(f"{url}/group", **options).consolidated
    assert oz.open(f"{url}/group", **options, use_consolidated=True)["a"].shape == (8, 8)
    made = oz.create_hierarchy(
        store=f"{url}/many", nodes={"g": oz.create_group().metadata}, **options
    )
    assert [name for name, _ in made][-1] == "g"
    assert oz.validate(f"{url}/group", **options) == []
    assert oz.verify(f"{url}/group", **options).ok
    assert oz.repair(f"{url}/group", **options) == []
    assert to_zarr(f"{url}/group", **options).store == resolve(f"{url}/group", **options)  # type: ignore[arg-type]

    oz.convert(f"{url}/group", f"{url}/three", **options)
    oz.convert(f"{url}/group", str(tmp_path / "here"), **options)
    oz.convert(str(tmp_path / "here"), f"{url}/again", **options)
    oz.convert(tmp_path / "here", f"{url}/own", destination_options=s3.options)
    oz.copy(f"{url}/group", f"{url}/copy", **options)
    oz.copy(f"{url}/group", str(tmp_path / "copied"), **options)
    for name in ("three", "again", "own", "copy"):
        assert np.array_equal(oz.open(f"{url}/{name}/a", **options)[...], DATA), name

    ome.write(f"{url}/image", f"{url}/three/a", levels=1, version="0.4", **options)
    ome.write_labels(f"{url}/image", "cells", DATA, **options)
    assert all(p.level == "warning" for p in ome.validate(f"{url}/image", **options))
    oz.convert(f"{url}/image", f"{url}/image5", **options)
    oz.convert(f"{url}/image", in_place=True, **options)
    assert oz.undo_conversion(f"{url}/image", **options)
    ome.write_plate(f"{url}/plate", {"A/1": [DATA]}, levels=1, **options)
    for name, kind in (("image5", ome.Image), ("plate", ome.Plate)):
        assert isinstance(ome.open(f"{url}/{name}", **options), kind)
    geo.write(f"{url}/map", DATA, bounds=(0, 0, 8, 8), **options)
    assert geo.open(f"{url}/map", **options).bounds == (0, 0, 8, 8)
    cf.create(f"{url}/set", **options)
    assert cf.open(f"{url}/set", **options).dimensions == {}


def commands(group: Group, *start: str) -> dict[tuple[str, ...], Command]:
    found: dict[tuple[str, ...], Command] = {}
    context = Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, Group):
            found |= commands(command, *start, name)
        else:
            found[*start, name] = command
    return found


def test_every_command_reaches_a_bucket_by_options(s3: Cloud, tmp_path: Path) -> None:
    """D3: ``--storage-option KEY=VALUE``, and ``--destination-option`` where there are two."""
    url = s3.url
    oz.save(f"{url}/a", DATA, storage_options=s3.options)
    ome.write(f"{url}/i", DATA, levels=1, version="0.4", storage_options=s3.options)
    cf.create(f"{url}/c", storage_options=s3.options)
    geo.write(f"{url}/m", DATA, bounds=(0, 0, 8, 8), storage_options=s3.options)
    words = {
        ("info",): [f"{url}/a"],
        ("ls",): ["-lr", f"{url}/i"],
        ("inventory",): [f"{url}/i"],
        ("tree",): [f"{url}/i"],
        ("cat",): [f"{url}/a"],
        ("head",): [f"{url}/a"],
        ("explain",): [f"{url}/a"],
        ("stats",): [f"{url}/a"],
        ("diff",): [f"{url}/a", f"{url}/a"],
        ("du",): [f"{url}/i"],
        ("preview",): [f"{url}/a", str(tmp_path / "a.png")],
        ("serve",): [f"{url}/a", "--port", "0", "--seconds", "0"],
        ("create",): [f"{url}/new", "--shape", "3"],
        ("attrs",): [f"{url}/a", "--set", "a=1"],
        ("consolidate",): [f"{url}/c"],
        ("copy",): [f"{url}/a", f"{url}/copied"],
        ("rechunk",): [f"{url}/a", f"{url}/rechunked", "--chunks", "2,8"],
        ("import",): [str(tmp_path / "a.npy"), f"{url}/imported"],
        ("export",): [f"{url}/a", str(tmp_path / "b.h5")],
        ("pyramid",): [f"{url}/a", f"{url}/pyramid"],
        ("validate",): [f"{url}/i"],
        ("verify",): [f"{url}/i"],
        ("repair",): [f"{url}/i"],
        ("convert",): [f"{url}/a", f"{url}/b", "--to", "2"],
        ("ome", "info"): [f"{url}/i"],
        ("ome", "validate"): [f"{url}/i"],
        ("cf", "info"): [f"{url}/c"],
        ("cf", "validate"): [f"{url}/c"],
        ("geo", "info"): [f"{url}/m"],
    }
    assert words.keys() == commands(main).keys()
    np.save(tmp_path / "a.npy", DATA)
    given = [w for k, v in s3.options.items() for w in ("--storage-option", f"{k}={v}")]
    for name, arguments in words.items():
        done = CliRunner().invoke(main, [*name, *arguments, *given])
        assert done.exit_code == 0, (name, done.output)
    other = [w.replace("--storage", "--destination") for w in given]
    for name in (("convert",), ("pyramid",)):
        there = f"{url}/{name[-1]}-there"
        source = str(tmp_path / "a")
        oz.save(source, DATA, overwrite=True)
        done = CliRunner().invoke(main, [*name, source, there, *other])
        assert done.exit_code == 0, (name, done.output)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("true", True), ("30", 30), ("0.5", 0.5), ("null", None), ('"30"', "30")),
        *(('{"a": 1}', {"a": 1}), ("", ""), ("eu-west-1", "eu-west-1")),
        *(("007", "007"), ("1e5", "1e5"), ("NaN", "NaN"), ("a=b", "a=b")),
    ],
)
def test_a_value_is_json_or_text(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_an_option_without_a_value_is_an_error() -> None:
    done = CliRunner().invoke(main, ["info", "s3://b/x", "--storage-option", "anonymous"])
    assert done.exit_code == 2
    assert "expected KEY=VALUE, got 'anonymous'" in done.output


# Plain HTTP


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"])
def test_a_server_of_the_environment_is_asked(
    s3: Cloud, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """D3: over plain HTTP too, as s3fs does."""
    options = {k: v for k, v in s3.options.items() if k != "endpoint"}
    monkeypatch.setenv(name, s3.server.url)
    oz.save(f"{s3.url}/a", DATA, storage_options=options)
    monkeypatch.delenv(name)
    assert np.array_equal(oz.load(f"{s3.url}/a", storage_options=s3.options), DATA)


def test_an_endpoint_of_the_environment_is_pickled_with_the_store(
    s3: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: buckets of one name on two servers are two stores, and workers ask the same server."""
    options = {k: v for k, v in s3.options.items() if k != "endpoint"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
    here = resolve(s3.url, storage_options=options)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert here != resolve(s3.url, storage_options=options)
    here.set("k", b"1")
    assert here.get("k") == b"1"


def test_an_emulator_of_google_is_asked(gs: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """D3: a host and a port without a scheme, as gcsfs takes it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gs.server.url.removeprefix("http://"))
    resolve(gs.url, storage_options={"bearer_token": "token"}).set("k", b"1")
    assert resolve(gs.url, storage_options=gs.options).get("k") == b"1"


def test_options_can_have_the_names_of_environment_variables(s3: Cloud) -> None:
    """D3: with their prefix, in capitals; such credentials were not seen as credentials."""
    names = {
        "endpoint": "AWS_ENDPOINT_URL",
        "region": "aws_region",
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "aws_secret_access_key",
    }
    store = resolve(s3.url, storage_options={names[k]: v for k, v in s3.options.items()})
    assert isinstance(store, ObjectStore)
    assert store.bucket.access == "credentials"
    store.set("k", b"1")
    assert resolve(s3.url, storage_options=s3.options).get("k") == b"1"


def test_a_url_that_may_not_be_asked_is_an_error_at_once(s3: Cloud) -> None:
    """D3: no six tries, and a remedy."""
    options = {**s3.options, "client_options": {"allow_http": False}}
    store = resolve(s3.url, storage_options=options)
    with pytest.raises(StoreError, match="allow_http") as e:
        store.get("k")
    assert "attempt" not in str(e.value)
    assert not s3.server.log


def test_options_that_nothing_takes_are_refused(tmp_path: Path) -> None:
    """D3: an archive on the disk dropped them."""
    for where in ("x.zip", tmp_path, "file:///x", {}, "memory://x"):
        with pytest.raises(StoreError, match="storage_options"):
            resolve(where, storage_options={"region": "x"})
    with pytest.raises(StoreError, match="storage_options"):
        oz.convert(tmp_path / "a", tmp_path / "b", storage_options={"region": "x"})
    assert options_for_two("x.zip", "s3://b/x.zip", {"a": 1}, None) == (None, {"a": 1})
    assert options_for_two("s3://b", "gs://b", {"a": 1}, {}) == ({"a": 1}, {})
