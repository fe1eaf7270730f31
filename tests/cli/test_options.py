"""Shapes, codecs and values as they are typed."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import click
import numpy as np
import pytest

import omnizarr as oz
from omnizarr.cli.inspect import parse_selection
from omnizarr.cli.main import main
from omnizarr.cli.options import FIELDS, codec_options, parse_chunks, parse_codecs
from tests.cli.conftest import run


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("100", 100), ("1,100,100", (1, 100, 100)), ("(4, 5)", (4, 5)), ("7,", (7,))),
        *(("time=-1,lat=100", {"time": -1, "lat": 100}), ("-1,10", (-1, 10))),
        *(("auto", "auto"), ("16MB", "16MB"), ("1.5 GiB", "1.5 GiB")),
    ],
)
def test_a_shape_has_lengths_names_or_a_size(text: str, value: object) -> None:
    assert parse_chunks(text) == value


@pytest.mark.parametrize("text", ["", "0", "a", "1,b", "x=", "x=1,x=2", "=3", "x=1,2", "-2"])
def test_a_wrong_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|at least"):
        parse_chunks(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("zstd:5", ["bytes", "zstd"]),
        ("gzip:9,crc32c", ["bytes", "gzip", "crc32c"]),
        ("blosc:zstd:5:bitshuffle", ["bytes", "blosc"]),
        ("blosc:cname=lz4:clevel=1", ["bytes", "blosc"]),
        ("transpose:1-0,bytes:big,zstd", ["transpose", "bytes", "zstd"]),
        ("none", ["bytes"]),
        ('[{"name": "zstd", "configuration": {"level": 3, "checksum": true}}]', ["bytes", "zstd"]),
    ],
)
def test_codecs_with_short_names_make_an_array(text: str, names: list[str]) -> None:
    array = oz.create_array(shape=(4, 6), dtype="f4", **codec_options(parse_codecs(text)))
    assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == names
    array[...] = np.arange(24).reshape(4, 6)
    assert np.array_equal(array[...], np.arange(24).reshape(4, 6))


@pytest.mark.parametrize("text", ["zlib:1", "bz2:9", "lzma", "lz4", "blosc:lz4:3:shuffle", "none"])
def test_codecs_of_version_2_have_short_names_too(text: str) -> None:
    options = codec_options(parse_codecs(text))
    array = oz.create_array(shape=100, dtype="i4", zarr_format=2, **options)
    array[...] = np.arange(100)
    assert np.array_equal(array[...], np.arange(100))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zsdt:5", "unknown codec 'zsdt'; did you mean 'zstd'?"),
        ("crc32c:1", "too many arguments in 'crc32c:1'; expected crc32c alone"),
        ("gzip:1:2", "expected gzip:LEVEL"),
        ("[{]", "not JSON"),
    ],
)
def test_wrong_codecs_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_codecs(text)


@pytest.mark.parametrize("text", ["0", "0,:10", "...,::2", "1:3,-2:", "[2, :, 1:-1]", ":"])
def test_a_selection_means_what_it_means_to_numpy(text: str) -> None:
    data = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    expected: Any = eval(f"data[{text.strip('[]')}]")
    assert np.array_equal(data[parse_selection(text)], expected)


def test_a_selection_may_name_dimensions() -> None:
    names = ("time", None, "lat")
    assert parse_selection("lat=1:3, time=-1", names) == (-1, slice(None), slice(1, 3))
    with pytest.raises(oz.InvalidArgument, match="no dimension 'lon'; known: time, lat"):
        parse_selection("lon=2", names)
    with pytest.raises(oz.InvalidArgument, match="name all dimensions or none"):
        parse_selection("0,lat=2", names)


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "0,,1", "1.5", "None"])
def test_a_wrong_selection_is_refused(text: str) -> None:
    with pytest.raises(oz.InvalidArgument, match="is not an index or a slice"):
        parse_selection(text)


def test_a_profile_is_a_storage_option(in_tmp: Any) -> None:
    done = run("info", "s3://bucket/x", "--storage-option", "profile=no-such-profile")
    assert done.exit_code == 3
    assert "no-such-profile" in done.output


JOBS: dict[str, Any] = {
    "copy": oz.jobs.Copy,
    "convert": oz.jobs.Convert,
    "rechunk": oz.jobs.Rechunk,
    "verify": oz.jobs.Verify,
    "stats": oz.jobs.Stats,
    "diff": oz.jobs.Diff,
    "import": oz.jobs.Import,
    "export": oz.jobs.Export,
    "pyramid": oz.jobs.BuildPyramid,
}
# Options that only programs have: those of another command, or without a way to type them.
OF_PROGRAMS = {"dimension_separator", "options", "factors", "rules"}


@pytest.mark.parametrize("name", JOBS)
def test_a_command_has_the_options_that_its_job_declares(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    params = {each.name: each for each in command.params}
    for field in fields(JOBS[name]):
        if not field.kw_only or "help" not in field.metadata or field.name in OF_PROGRAMS:
            continue
        if (name, field.name) == ("pyramid", "path"):
            continue
        option = params[field.name]
        assert isinstance(option, click.Option)
        assert option.help
        if field.name not in {*FIELDS, "storage_options", "compression"}:
            first = field.metadata["help"].split(" ")[0]
            assert option.help.startswith(first), field.name
            unset = field.default in (None, ()) or field.default is False
            assert option.default == field.default or unset, field.name
