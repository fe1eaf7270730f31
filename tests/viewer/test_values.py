"""Decoded values: equal to NumPy for every type and selection, exact where that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import SelectionError
from omnizarr.viewer import values
from omnizarr.viewer.values import encode_text, json_value, parse_selection, transfer_type
from tests.viewer.conftest import client_of

SHAPE = (7, 11)
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _numbers(dtype: Any) -> Any:
    values = np.random.default_rng(3).integers(-90, 90, SHAPE)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


DATA: dict[str, Any] = {
    **{name: _numbers(name) for name in ("i1", "i2", ">i4", "u1", ">u2", "u4", "f2", "f4", ">f8")},
    **{name: _numbers(name) for name in ("i8", "u8", ">i8", "c8", ">c16", "?")},
    **{name: _numbers(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "int4")},
    "times": _numbers("i8").view("M8[s]"),
    "fine times": _numbers("i8").view("M8[ns]"),
    "years": _numbers("i8").view("M8[Y]"),
    "durations": _numbers("i8").view("m8[h]"),
}
DATA["f4"][0, :3] = np.nan, np.inf, -np.inf
DATA["times"][1, 1] = "NaT"
TEXTS = {
    "U": np.array([[f"{i}ü{j}" for j in range(3)] for i in range(4)]),
    "S": np.array([[b"a\xff", b""], [b"c", b"\x00d"]]),
    "V": np.array([b"abc", b"\x00\x01\x02"], "V3"),
    "record": np.array(
        [(1, 2.5, b"x"), (-(2**40), np.nan, b"y")], [("a", "i8"), ("b", "f4"), ("c", "S1")]
    ),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: Any) -> Iterator[httpx.Client]:
    group = oz.create_group(tmp_path_factory.mktemp("values") / "a.zarr")
    for name, data in DATA.items():
        group.create_array(name, data=data, chunks=(3, 4))
    for name, data in TEXTS.items():
        group.create_array(name, data=data)
    group.create_array("string", data=np.array(["ä", "", "long" * 9]), dtype="string")
    group.create_array("scalar", data=np.int16(-7))
    group.create_array("none", shape=(0, 4), dtype="i2", chunks=(1, 4))
    group.create_array("sharded", data=DATA["i2"], chunks=(2, 3), shards=(4, 6))
    holes = group.create_array("holes", shape=(20, 20), dtype="u1", chunks=(5, 5), fill_value=9)
    holes[0:5, 0:5] = 1
    group.create_array(
        "cf", data=np.array([0, 1, 36]), attributes={"units": "hours since 2000-01-01"}
    )
    group.create_array(
        "360", data=np.array([59, -1]),
        attributes={"units": "days since 2001-01-01", "calendar": "360_day", "_FillValue": -1},
    )  # fmt: skip
    with client_of(group) as client:
        yield client


def _get(client: httpx.Client, path: str, select: str, **more: Any) -> httpx.Response:
    return client.get("api/values", params={"path": path, "select": select, **more})


def _all_parts(work: Any) -> Any:
    """Return the result of work in parts."""
    while True:
        try:
            next(work)
        except StopIteration as e:
            return e.value


def _numpy(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    shape = [int(n) for n in answer.headers["x-shape"].split(",") if n]
    dtype = np.dtype(answer.headers["x-dtype"]).newbyteorder("<")
    return np.frombuffer(answer.content, dtype).reshape(shape)


def _expected(values: Any) -> Any:
    """Return values as they should arrive, computed from NumPy's own conversions."""
    if values.dtype.kind == "M":
        since = (values - np.datetime64("1970-01-01")) / np.timedelta64(1, "us")
        return since / 1000
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "h")
    return np.abs(values) if values.dtype.kind == "c" else values


@st.composite
def selections(draw: Any, shape: tuple[int, ...] = SHAPE) -> tuple[Any, ...]:
    items: list[Any] = []
    for length in shape:
        if draw(st.booleans()):
            items.append(draw(st.integers(0, length - 1)))
        else:
            start, stop = sorted((draw(st.integers(0, length)), draw(st.integers(0, length))))
            items.append(slice(start, stop, draw(st.integers(1, length + 2))))
    return tuple(items)


def _text(selection: tuple[Any, ...]) -> str:
    return ",".join(
        str(i) if isinstance(i, int) else f"{i.start}:{i.stop}:{i.step}" for i in selection
    )


@quiet
@given(name=st.sampled_from([*DATA, "sharded"]), selection=selections())
def test_selected_values_are_those_of_numpy(
    client: httpx.Client, name: str, selection: tuple[Any, ...]
) -> None:
    found = _numpy(_get(client, name, _text(selection)))
    wanted = _expected(np.asarray(DATA["i2" if name == "sharded" else name][selection]))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted.astype("f8"), rtol=1e-6)


@pytest.mark.parametrize("name", DATA)
def test_every_type_arrives_as_the_type_that_is_announced(client: httpx.Client, name: str) -> None:
    announced = client.get("api/node", params={"path": name}).json()["display"]["transfer"]
    answer = _get(client, name, "0:7,0:11")
    assert answer.headers["x-dtype"] == announced == transfer_type(DATA[name].dtype)
    if DATA[name].dtype.kind in "iuf" and DATA[name].dtype.itemsize < 8:
        assert (
            _numpy(answer).tobytes()
            == np.asarray(DATA[name]).astype(f"<{np.dtype(announced).str[1:]}").tobytes()
        )


@quiet
@given(name=st.sampled_from(["i8", "u8", "c8", "f4", "u1", "times"]), selection=selections())
def test_exact_values_lose_nothing(
    client: httpx.Client, name: str, selection: tuple[Any, ...]
) -> None:
    answer = _get(client, name, _text(selection), exact="1")
    found, wanted = answer.json(), np.asarray(DATA[name][selection])
    assert answer.headers["x-dtype"] == "text"
    if name in ("i8", "u8"):
        assert found == json.loads(json.dumps(wanted.astype("U").tolist()))
    elif name == "times":
        assert found == json.loads(
            json.dumps(np.where(np.isnat(wanted), None, wanted.astype("U")).tolist())
        )
    else:
        as_floats = np.array(found, "f8")
        pairs = np.stack([wanted.real, wanted.imag], -1) if name == "c8" else wanted
        np.testing.assert_array_equal(as_floats.reshape(pairs.shape), pairs)


def test_texts_records_and_bytes_are_json(client: httpx.Client) -> None:
    assert _get(client, "U", "1:3,0:2").json() == [["1ü0", "1ü1"], ["2ü0", "2ü1"]]
    assert _get(client, "U", "1,0").json() == "1ü0"
    assert _get(client, "S", "0:2,0:2").json() == [["a\\xff", ""], ["c", "\x00d"]]
    assert _get(client, "V", "0:2").json() == ["616263", "000102"]
    assert _get(client, "record", "0:2").json() == [[1, 2.5, "x"], [-(2**40), "NaN", "y"]]
    assert _get(client, "string", "0:3").json() == ["ä", "", "long" * 9]
    shown = client.get("api/node", params={"path": "record"}).json()["display"]
    assert (shown["kind"], shown["transfer"], shown["fields"]) == ("table", "text", ["a", "b", "c"])


def test_arrays_without_axes_or_elements_can_be_read(client: httpx.Client) -> None:
    answer = _get(client, "scalar", "")
    assert (_numpy(answer).tolist(), answer.headers["x-shape"]) == (-7, "")
    assert _get(client, "scalar", "", exact="1").json() == -7
    assert _numpy(_get(client, "none", "0:0,0:4")).shape == (0, 4)
    assert client.get("api/node", params={"path": "none"}).json()["display"]["kind"] == "none"
    assert client.get("api/node", params={"path": "scalar"}).json()["display"]["kind"] == "scalar"


def test_a_header_says_that_no_chunk_of_an_answer_is_stored(client: httpx.Client) -> None:
    assert "x-missing" not in _get(client, "holes", "0:10,0:10").headers
    assert "x-missing" not in _get(client, "holes", "0,0").headers
    answer = _get(client, "holes", "5:20:3,0:20")
    assert (answer.headers["x-missing"], set(_numpy(answer).flat)) == ("1", {9})
    assert _get(client, "holes", "19,19").headers["x-missing"] == "1"


def test_times_of_cf_are_milliseconds_since_1970(client: httpx.Client) -> None:
    day = 86_400_000
    start = 10_957 * day  # 2000-01-01
    assert _numpy(_get(client, "cf", "0:3")).tolist() == [0, 1, 36]
    found = _numpy(_get(client, "cf", "0:3", decode="time"))
    assert found.tolist() == [start, start + day / 24, start + 1.5 * day]
    assert _numpy(_get(client, "i2", "0,0", decode="time")).dtype == "int16"  # no time


@quiet
@given(
    st.sampled_from(["noleap", "365_day", "360_day", "all_leap", "366_day", "julian"]),
    st.lists(st.integers(-(10**5), 10**5), min_size=1, max_size=5),
    st.sampled_from(["days since 1970-02-28", "hours since 2001-03-01 06:00"]),
)
def test_times_of_other_calendars_are_the_dates_that_cf_decodes(
    calendar: str, numbers: list[int], units: str
) -> None:
    pytest.importorskip("cftime")
    group = oz.create_group(oz.storage.MemoryStore())
    attributes = {"units": units, "calendar": calendar}
    group.create_array("t", data=np.array(numbers), attributes=attributes)
    wanted = values.Wanted(f"0:{len(numbers)}", decode="time")
    found = _all_parts(values.read_values(group["t"], wanted))
    expected = [date.isoformat() for date in oz.cf.decode(group["t"])[:]]
    assert (found.dtype, json.loads(found.body)) == ("text", expected)


def test_days_that_other_calendars_lack_are_sent(client: httpx.Client) -> None:
    assert _get(client, "360", "0:2", decode="time").json() == ["2001-02-30T00:00:00", None]


@quiet
@given(data=st.data())
def test_values_read_in_parts_are_those_of_numpy(data: Any) -> None:
    shape = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 12)))
    numbers = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    chunks: Any = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 5)))
    if data.draw(st.booleans()):
        cuts = data.draw(st.sets(st.integers(1, max(1, shape[0] - 1)), max_size=6))
        edges = [0, *sorted(cut for cut in cuts if cut < shape[0]), shape[0]]
        chunks = [np.diff(edges).tolist(), chunks[1]]
    array = oz.create_array(data=numbers, chunks=chunks)
    selection, text = [], []
    for length in shape:
        start = data.draw(st.integers(0, length - 1))
        stop = data.draw(st.integers(start, length))
        step = data.draw(st.integers(1, 8))
        one = data.draw(st.booleans())
        selection.append(start if one else slice(start, stop, step))
        text.append(f"{start}" if one else f"{start}:{stop}:{step}")
    expected = numbers[tuple(selection)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "PART_CHUNKS", data.draw(st.integers(1, 5)))
        patch.setattr(values, "PART_BYTES", data.draw(st.integers(1, 400)))
        for exact in (False, True):
            wanted = values.Wanted(",".join(text), exact=exact)
            found = _all_parts(values.read_values(array, wanted))
            assert found.shape == expected.shape
            if exact:
                assert json.loads(found.body) == expected.tolist()
            else:
                assert found.body == expected.tobytes()


def test_a_selection_of_too_many_chunks_is_refused(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a.zarr", shape=(2**24,), chunks=(1,), dtype="u1")
    with client_of(array) as client:
        for more in ({}, {"extremes": "1"}):
            select = "0:16000000:64" if more else "0:16000000"
            answer = client.get("api/values", params={"select": select, **more})
            assert answer.status_code == 413
            assert "16000000 chunks" in answer.json()["error"]
        assert _get(client, "", "0:5000").content == bytes(5000)


@pytest.mark.parametrize(
    "select",
    [
        *("", "0", "0,0,0", "a,b", "-1,0", "0:8,0", "7,0", "0,11", "0:3:0,0", "3:2,0", "0:3:-1,0"),
        *("0:,0", ":3,0", "0:1:1:1,0", "...,0", "None,0", "1e1,0", "٣,0", "0, 0", "0;0", "+1,0"),
        *("9" * 50 + ",0", "0:" + "9" * 50 + ",0", "0x1,0", ",", "0,", "[0],0", "1_0,0"),
    ],
)
def test_a_bad_selection_is_refused(client: httpx.Client, select: str) -> None:
    answer = _get(client, "i2", select)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


@given(st.text(max_size=30), st.lists(st.integers(0, 50), max_size=3).map(tuple))
def test_any_text_is_a_selection_within_bounds_or_an_error(text: str, shape: Any) -> None:
    try:
        found = parse_selection(text, shape)
    except SelectionError:
        return
    np.empty(shape, "?")[found]


def test_answers_are_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("wide", shape=(10**6, 10**6), dtype="u1", chunks=(1000, 1000))
    group.create_array("texts", shape=(10**6,), dtype="U4", chunks=(1000,))
    with client_of(group) as client:
        for path, select in (
            ("wide", "0:4097,0:4096"),  # 16 MiB and 4 KiB
            ("wide", "0:1000000:1000,0:1000000:1000"),  # few values in a million chunks
            ("wide", "0:1000000,0:1000000"),
            ("texts", "0:1000000"),
        ):
            answer = _get(client, path, select)
            assert answer.status_code == 413
            assert "error" in answer.json()
        assert len(_get(client, "wide", "0:4096,0:4096").content) == 2**24
        assert len(_get(client, "wide", "999999,0:1000000").content) == 10**6


@quiet
@given(data=st.data())
def test_extremes_are_those_of_every_so_many_values(data: Any) -> None:
    length = data.draw(st.integers(1, 60))
    chunk, step = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 25))
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    elements = st.sampled_from([np.nan, np.inf, -np.inf, *range(-5, 6)])
    numbers = np.array(data.draw(st.lists(elements, min_size=length, max_size=length)), "f4")
    array = oz.create_array(data=numbers, chunks=(chunk,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "MAX_PIECE", data.draw(st.integers(1, 300)))
        wanted = values.Wanted(f"{start}:{stop}:{step}", extremes=True)
        found = _all_parts(values.read_extremes(array, wanted))
    low, high = np.frombuffer(found.body).reshape(found.shape)
    parts = [numbers[i : min(i + step, stop)] for i in range(start, stop, step)]
    parts = [part[np.isfinite(part)] for part in parts]
    np.testing.assert_array_equal(low, [part.min() if part.size else np.nan for part in parts])
    np.testing.assert_array_equal(high, [part.max() if part.size else np.nan for part in parts])


def test_extremes_are_decoded_and_of_one_axis_of_numbers(client: httpx.Client) -> None:
    def ask(path: str, **more: str) -> httpx.Response:
        return client.get("api/values", params={"path": path, "extremes": "1", **more})

    answer = ask("i2", select="3,0:11:4")
    assert (answer.headers["x-shape"], answer.headers["x-dtype"]) == ("2,3", "float64")
    parts = [DATA["i2"][3, n : n + 4] for n in (0, 4, 8)]
    wanted = [[part.min() for part in parts], [part.max() for part in parts]]
    np.testing.assert_array_equal(np.frombuffer(answer.content).reshape(2, 3), wanted)
    times = np.frombuffer(ask("times", select="1,0:11:11").content)
    stored = DATA["times"][1]
    known = stored[~np.isnat(stored)].astype("M8[ms]").astype("f8")
    assert times.tolist() == [known.min(), known.max()]
    for path, select in (("i2", "0:7,0:11:4"), ("i2", "3,4"), ("U", "0,0:3")):
        assert ask(path, select=select).status_code == 400


def test_extremes_need_little_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(values, "MAX_PIECE", 2**16)
    array = oz.create_array(tmp_path / "a.zarr", data=np.arange(2**20, dtype="i4"), chunks=2**12)
    pieces: list[int] = []
    read = oz.Array.read

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        found = read(self, *args, **options)
        pieces.append(found.nbytes)
        return found

    monkeypatch.setattr(oz.Array, "read", counted)
    wanted = values.Wanted(f"0:{2**20}:{2**18}", extremes=True)
    found = _all_parts(values.read_extremes(array, wanted))
    ends = np.arange(4) * 2**18
    np.testing.assert_array_equal(np.frombuffer(found.body), [*ends, *(ends + 2**18 - 1)])
    assert max(pieces) <= 2**16
    assert len(pieces) == 64


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("t", data=DATA["i2"], chunks=(3, 4))
    (tmp_path / "a.zarr" / "t" / "c" / "1" / "2").write_bytes(b"damaged")
    with client_of(group) as client:
        answer = _get(client, "t", "0:7,0:11")
        assert answer.status_code == 422
        found = answer.json()
        assert set(found) == {"error", "chunk", "key"}
        assert (found["chunk"], found["key"]) == ([1, 2], "t/c/1/2")
        assert str(tmp_path) not in answer.text
        np.testing.assert_array_equal(_numpy(_get(client, "t", "0:3,0:11")), DATA["i2"][:3])


def test_plain_values_are_json() -> None:
    given = {"a": [np.nan, -np.inf, 2**60, np.float32(1.5)], "b": (b"x", None, True, 1 + 2j)}
    wanted = {"a": ["NaN", "-Infinity", str(2**60), 1.5], "b": ["x", None, True, [1, 2]]}
    assert json_value(given) == wanted
    assert json.loads(encode_text(np.array([[], []]))) == [[], []]
