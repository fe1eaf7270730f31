"""Maps: affine transforms, levels by resolution, regions by coordinates, pyramids."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given

import omnizarr as oz
from omnizarr.bulk.pyramid import downsample
from omnizarr.geo import Affine
from tests.golden import archives

BOUNDS = (5.0, 40.0, 15.0, 50.0)
NUMBERS = st.floats(-1e6, 1e6).filter(lambda v: abs(v) > 1e-3)


def heights() -> np.ndarray[Any, Any]:
    return np.arange(40 * 100, dtype="f4").reshape(40, 100)


@given(st.lists(NUMBERS, min_size=6, max_size=6), st.floats(0, 1000), st.floats(0, 1000))
def test_a_transform_and_its_inverse_undo_each_other(
    values: list[float], column: float, row: float
) -> None:
    assume(abs(values[0] * values[4] - values[1] * values[3]) > 1e-3 * abs(values[0] * values[4]))
    affine = Affine.of(values)
    found = affine.column_row(*affine.xy(column, row))
    size = max(map(abs, values)) / min(abs(v) for v in values)
    np.testing.assert_allclose(found, (column, row), atol=1e-9 * size * max(1, column, row))
    assert Affine.from_gdal(affine.gdal) == affine
    assert Affine.from_gdal(" ".join(map(repr, affine.gdal))) == affine


@pytest.mark.parametrize(
    "values", [[1, 2, 3], "abcdef", [1, 1, 0, 1, 1, 0], [1, 0, np.nan, 0, 1, 0]]
)
def test_a_transform_without_sense_is_refused(values: Any) -> None:
    with pytest.raises(oz.InvalidMetadata):
        Affine.of(values)


@pytest.mark.parametrize("convention", ["multiscales", "geozarr"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_written_map_is_read_by_bounds_and_resolution(convention: Any, zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    made = oz.geo.write(
        store,
        heights(),
        crs="EPSG:4326",
        bounds=BOUNDS,
        levels=3,
        convention=convention,
        zarr_format=zarr_format,
    )
    found = oz.geo.open(store)
    for each in (made, found):
        assert str(each.crs) == "EPSG:4326"
        assert each.bounds == BOUNDS
        assert [level.shape for level in each.levels] == [(40, 100), (20, 50), (10, 25)]
        assert each.resolutions == (0.25, 0.5, 1.0)
    coarse = np.empty((10, 25), heights().dtype)
    downsample(heights(), (4, 4), "mean", coarse)
    np.testing.assert_allclose(found.read(resolution=1), coarse)
    np.testing.assert_array_equal(found.read((5, 49, 6, 50)), heights()[:4, :10])
    np.testing.assert_array_equal(found.read((5.05, 49.9, 5.1, 49.95)), heights()[:1, :1])


EIGHTHS = st.lists(st.integers(-8, 88), min_size=2, max_size=2, unique=True).map(sorted)


@given(EIGHTHS, EIGHTHS)
def test_a_box_has_exactly_the_pixels_that_it_touches(xs: list[int], ys: list[int]) -> None:
    left, right, bottom, top = (v / 8 + 0.03 for v in (*xs, *ys))  # never on an edge
    data = np.arange(100).reshape(10, 10)
    group = oz.create_group({})
    group.create_array("0", data=data, attributes={"spatial:transform": [1, 0, 0, 0, -1, 10]})
    found = oz.geo.open(group.store, path="0")
    edges = np.arange(10)
    columns = (edges + 1 > left) & (edges < right)
    rows = (10 - edges > bottom) & (9 - edges < top)
    if not (columns.any() and rows.any()):
        with pytest.raises(oz.SelectionError, match="outside the map"):
            found.read((left, bottom, right, top))
    else:
        expected = data[np.ix_(rows, columns)]
        np.testing.assert_array_equal(found.read((left, bottom, right, top)), expected)


@pytest.mark.parametrize("start", [-180, 0, -30])
@pytest.mark.parametrize("flipped", [False, True])
@given(st.integers(-180, 179), st.integers(1, 360), st.booleans())
def test_a_box_over_the_edge_of_the_earth_has_the_pixels_of_both_sides(
    start: int, flipped: bool, left: int, width: int, named_twice: bool
) -> None:
    longitudes = np.arange(start, start + 360)
    step = -1 if flipped else 1
    group = oz.create_group({}, attributes={"proj:code": "EPSG:4326"})
    where = [step, 0, start + 360 * flipped, 0, -1, 1]
    group.create_array("0", data=longitudes[None, ::step], attributes={"spatial:transform": where})
    found = oz.geo.open(group.store, path="0")
    right = left + width
    if named_twice and right > 180 and width < 360:
        right -= 360  # as the box of a place across the antimeridian is mostly written
    expected = (np.arange(left, left + width) - start) % 360 + start
    np.testing.assert_array_equal(found.read((left, 0, right, 1))[0], expected[::step])


@pytest.mark.parametrize("crs", [None, "EPSG:32601"])
def test_a_box_that_is_not_in_order_is_refused_without_longitudes(crs: str | None) -> None:
    found = oz.geo.write({}, heights(), bounds=(-180, -90, 180, 90), crs=crs)
    for box in ((170, -10, -170, 10), (0, 10, 5, -10), (0, np.nan, 5, 10), (0, 5)):
        with pytest.raises(oz.SelectionError, match="xmin, ymin, xmax, ymax"):
            found.read(box)
        with pytest.raises(oz.SelectionError, match="xmin, ymin, xmax, ymax"):
            found.levels[0].select(box)


def test_a_map_with_a_gap_at_the_antimeridian_is_not_joined() -> None:
    found = oz.geo.write({}, heights(), bounds=(-170, -90, 170, 90), crs=4326)
    with pytest.raises(oz.SelectionError, match="does not go around the Earth; read the parts"):
        found.read((160, -10, -160, 10))
    with pytest.raises(oz.SelectionError, match="outside the map"):
        found.read((175, -10, -175, 10))
    with pytest.raises(oz.SelectionError, match="ymin > ymax"):
        found.read((0, 10, 5, -10))
    east = oz.geo.write({}, heights(), bounds=(170, 0, 190, 40), crs=4326)
    np.testing.assert_array_equal(east.read((-180, 0, -170, 40)), heights()[:, 50:])


def test_the_level_is_the_coarsest_that_is_fine_enough() -> None:
    found = oz.geo.write({}, heights(), bounds=BOUNDS, levels=3)
    names = [found.level(r).array.path[-1:] for r in (0.1, 0.25, 0.4, 0.5, 0.99, 1, 50)]
    assert names == ["0", "0", "0", "1", "1", "2", "2"]
    with pytest.raises(oz.SelectionError, match="greater than 0"):
        found.level(0)


def test_a_transform_is_found_in_every_attribute() -> None:
    expected = Affine(0.5, 0, 10, 0, -0.5, 50)
    group = oz.create_group({})
    group.create_array("ref", shape=(), attributes={"GeoTransform": "10 0.5 0 50 0 -0.5"})
    by_mapping = group.create_array("a", shape=(4, 6), attributes={"grid_mapping": "ref"})
    node = {"spatial:transform": [0.5, 0, 10.25, 0, -0.5, 49.75], "spatial:registration": "node"}
    by_node = group.create_array("b", shape=(4, 6), attributes=node)
    group.create_array("lat", data=49.75 - np.arange(4) * 0.5)
    group.create_array("lon", data=(10.25 + np.arange(6) * 0.5).astype("f4"))
    by_axes = group.create_array("c", shape=(4, 6), dimension_names=["lat", "lon"])
    for array in (by_mapping, by_node, by_axes):
        assert oz.geo.read_transform(array) == expected
    uneven = group.create_array("d/c", shape=(4, 6), dimension_names=["lat", "lon"])
    group.create_array("d/lat", data=[1.0, 2, 4, 8])
    assert oz.geo.read_transform(uneven) is None


def test_levels_in_their_own_groups_are_found() -> None:
    root = oz.create_group({})
    for name, step in (("r10m", 10), ("r20m", 20)):
        size = 120 // step
        root.create_array(f"{name}/b02", shape=(size, size))
        root.create_array(f"{name}/b03", shape=(size, size))
    layout = [
        {"asset": "r10m", "spatial:transform": [10, 0, 5000, 0, -10, 9000]},
        {"asset": "r20m", "derived_from": "r10m", "transform": {"scale": [2, 2]}},
    ]
    root.attrs.update({"multiscales": {"layout": layout}, "proj:code": "EPSG:32633"})
    with pytest.raises(oz.WrongNode, match=": b02, b03; choose one with variable="):
        oz.geo.open(root.store)
    found = oz.geo.open(root.store, variable="b03")
    assert [level.array.path for level in found.levels] == ["r10m/b03", "r20m/b03"]
    assert found.resolutions == (10, 20)
    assert str(found.crs) == "EPSG:32633"


TILES: dict[str, Any] = {
    "id": "mine",
    "supportedCRS": "http://www.opengis.net/def/crs/EPSG/0/32633",
    "tileMatrices": [
        {"id": str(i), "cellSize": 10 * 2**i, "pointOfOrigin": [5000, 9000]} for i in range(3)
    ],
}  # fmt: skip


SCALES = st.sampled_from([1.0, 1.5, 2.0, 3.0])
OFFSETS = st.sampled_from([0.0, 0.5, 1.0, 4.0])


@given(st.lists(st.tuples(SCALES, SCALES, OFFSETS, OFFSETS), min_size=1, max_size=4), st.booleans())
def test_levels_are_where_the_transforms_of_a_layout_have_them(
    steps: list[tuple[float, ...]], with_band: bool
) -> None:
    """Each is relative to the level before; the shapes alone would give another place."""
    root = oz.create_group({}, attributes={"spatial:transform": [10, 0, 500, 0, -10, 900]})
    layout: list[dict[str, Any]] = [{"asset": "0"}]
    expected = [(10.0, -10.0, 500.0, 900.0)]
    for number, (rows, columns, down, right) in enumerate(steps, 1):
        one = [1.0] if with_band else []
        none = [0.0] if with_band else []
        moved = {"scale": [*one, rows, columns], "translation": [*none, down, right]}
        layout.append({"asset": str(number), "derived_from": str(number - 1), "transform": moved})
        a, e, c, f = expected[-1]
        expected.append((a * columns, e * rows, c + a * right, f + e * down))
    for number, entry in enumerate(layout):
        shape = (20 - number, 20 - number)
        root.create_array(entry["asset"], shape=(1, *shape) if with_band else shape)
    root.attrs["multiscales"] = {"layout": layout}
    found = [level.transform for level in oz.geo.open(root.store).levels]
    np.testing.assert_allclose([(t.a, t.e, t.c, t.f) for t in found if t is not None], expected)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"transform": {"scale": [2]}}, "'scale' has a number for each axis"),
        ({"transform": {"scale": [2, 2], "translation": ["a", 0]}}, "'translation' has a number"),
        ({"transform": {"scale": [2, 2]}, "derived_from": "1"}, "in a circle"),
    ],
)
def test_relative_transforms_without_sense_are_named(extra: Any, message: str) -> None:
    root = oz.create_group({}, attributes={"spatial:transform": [10, 0, 500, 0, -10, 900]})
    root.create_array("0", shape=(8, 8))
    root.create_array("1", shape=(4, 4))
    layout = [{"asset": "0"}, {"asset": "1", "derived_from": "0", **extra}]
    root.attrs["multiscales"] = {"layout": layout}
    with pytest.raises(oz.InvalidMetadata, match=rf"multiscales: .*{message}"):
        oz.geo.open(root.store)


def test_levels_of_a_tile_matrix_set_are_found() -> None:
    root = oz.create_group({})
    for name, size in (("0", 8), ("1", 4)):
        root.create_array(f"{name}/b02", shape=(size, size))
    stated: dict[str, Any] = {"tile_matrix_set": TILES, "resampling_method": "average"}
    root.attrs["multiscales"] = stated
    found = oz.geo.open(root.store)
    assert [level.array.path for level in found.levels] == ["0/b02", "1/b02"], "2 is not stored"
    assert str(found.crs) == "EPSG:32633"
    assert found.bounds is None
    with pytest.raises(oz.InvalidMetadata, match="has no coordinates; read it by index"):
        found.read((0, 0, 1, 1))


def test_levels_of_a_named_tile_matrix_set_are_placed_by_coordinates() -> None:
    root = oz.create_group({}, attributes={"multiscales": {"tile_matrix_set": "WebMercatorQuad"}})
    with pytest.raises(oz.InvalidMetadata, match="no child has the name of a tile matrix"):
        oz.geo.open(root.store)
    for name, size in (("9", 4), ("10", 8)):
        root.create_array(f"{name}/b", shape=(size, size), dimension_names=["y", "x"])
        root.create_array(f"{name}/x", data=(np.arange(size) + 0.5) / size, dimension_names=["x"])
        root.create_array(f"{name}/y", data=1 - np.arange(size) / size, dimension_names=["y"])
    found = oz.geo.open(root.store, variable="b")
    assert [level.array.path for level in found.levels] == ["10/b", "9/b"]
    assert found.resolutions == (0.125, 0.25)


def test_a_layout_of_an_earlier_draft_is_read() -> None:
    root = oz.create_group({})
    for name, size in (("L0", 8), ("L1", 4)):
        root.create_array(f"levels/{name}", shape=(size, size))
    layout = [{"id": "a", "path": "levels/L0"}, {"id": "levels/L1", "derived_from": "a"}]
    root.attrs["multiscales"] = {"version": "1.0", "layout": layout}
    assert [level.shape for level in oz.geo.open(root.store).levels] == [(8, 8), (4, 4)]


def test_odd_lengths_keep_the_corner_and_whole_factors() -> None:
    store: dict[str, bytes] = {}
    group = oz.create_group(
        store, attributes={"multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}]}]}
    )
    group.create_array("0", shape=(7, 9), attributes={"spatial:transform": [1, 0, 0, 0, -1, 7]})
    group.create_array("1", shape=(4, 5))
    assert oz.geo.open(store).levels[1].transform == Affine(2, 0, 0, 0, -2, 7)


def test_of_several_pyramids_one_is_chosen_and_the_others_are_named() -> None:
    """B4: the second was ignored silently."""
    stated = [{"datasets": [{"path": "0"}]}, {"name": "fine", "datasets": [{"path": "1"}]}]
    group = oz.create_group({}, attributes={"multiscales": stated})
    group.create_array("0", shape=(4, 4))
    group.create_array("1", shape=(8, 8))
    with pytest.warns(oz.OmnizarrWarning, match=r"several pyramids: 0, 1 \(fine\)"):
        assert oz.geo.open(group.store).levels[0].shape == (4, 4)
    for wanted, shape in ((0, (4, 4)), (1, (8, 8)), ("fine", (8, 8))):
        assert oz.geo.open(group.store, multiscale=wanted).levels[0].shape == shape
    for wanted in (2, -1, "coarse"):
        with pytest.raises(oz.NoSuchLabel, match=r"known: 0, 1 \(fine\)"):
            oz.geo.open(group.store, multiscale=wanted)


@pytest.mark.parametrize("rank", [2, 5])
@pytest.mark.parametrize(("source", "target"), [(2, 3), (3, 2)])
def test_a_pyramid_states_its_version_and_stays_a_map_after_conversion(
    rank: int, source: int, target: int
) -> None:
    """B4: version 0.1 of the convention is also that of OME-Zarr 0.1, which came from it."""
    a: dict[str, bytes] = {}
    b: dict[str, bytes] = {}
    oz.geo.write(a, np.ones((1,) * (rank - 2) + (8, 8)), levels=2, zarr_format=source)
    [stated] = oz.open(a).attrs["multiscales"]
    assert stated == {
        "version": "0.1", "datasets": [{"path": "0"}, {"path": "1"}], "type": "mean",
    }  # fmt: skip
    oz.convert(a, b, zarr_format=target)
    assert oz.open(b).attrs["multiscales"] == [stated]
    assert [level.shape for level in oz.geo.open(b).levels] == [(8, 8), (4, 4)]


@pytest.mark.parametrize(
    "stated",
    [
        *([], {}, {"layout": []}, [{"datasets": [{"asset": "0"}]}], "0"),
        *([{"datasets": [{"path": 0}]}], {"tile_matrix_set": {"tileMatrices": [{}]}}),
    ],
)
def test_multiscales_without_sense_are_named(stated: Any) -> None:
    group = oz.create_group({}, attributes={"multiscales": stated})
    with pytest.raises(oz.InvalidMetadata, match=r"multiscales|tile_matrix_set: expected"):
        oz.geo.open(group.store)


def test_levels_outside_the_group_are_refused() -> None:
    root = oz.create_group({})
    root.create_array("secret", shape=(2, 2))
    group = root.create_group("map")
    group.attrs["multiscales"] = [{"datasets": [{"path": "../secret"}]}]
    with pytest.raises(oz.InvalidMetadata, match="points outside"):
        oz.geo.open(root.store, path="map")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1}, "factor"),
        ({"levels": 0}, "levels"),
        ({"method": "median"}, "method"),
        ({"convention": "cog"}, "convention"),
        ({"bounds": BOUNDS, "transform": [1, 0, 0, 0, 1, 0]}, "mutually exclusive"),
        ({"attributes": {"_FillValue": -1}, "method": "gaussian"}, "missing values"),
        ({"dimension_names": [None, "x"]}, "rows and columns"),
        ({"dimension_names": ["x"]}, "rows and columns"),
        ({"crs": "nowhere"}, "coordinate reference system"),
    ],
)
def test_options_without_sense_are_refused_before_anything_is_stored(
    options: dict[str, Any], message: str
) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.geo.write(store, heights(), **options)
    assert store == {}


def test_a_map_without_georeferencing_is_read_by_index_only() -> None:
    found = oz.geo.write({}, heights(), levels=2)
    assert (found.crs, found.bounds, found.resolutions) == (None, None, (None, None))
    assert found.read().shape == (40, 100)
    with pytest.raises(oz.InvalidMetadata, match="has no coordinates"):
        found.read(BOUNDS)
    with pytest.raises(oz.InvalidMetadata, match="is unknown; use"):
        found.level(1)


def test_a_system_that_cannot_be_written_is_refused_before_anything_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyproj", None)
    store: dict[str, bytes] = {}
    with pytest.raises(oz.CannotExpress, match=r"pip install 'omnizarr\[geo\]'"):
        oz.geo.write(store, heights(), crs="EPSG:4326")
    assert store == {}
    assert str(oz.geo.write(store, heights(), crs="EPSG:4326", way="gdal").crs) == "EPSG:4326"


@pytest.mark.parametrize(
    "name", ["v2_none", "v2_zlib", "v3draft_gzip", "v3_none", "v3_gzip", "v3_zstd"]
)
def test_maps_of_gdal_are_read_and_placed(name: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "zarr.json: metadata_encoding: an earlier state")
        found = oz.geo.open(archives.store(archives.MAPS, f"{name}.zarr"))
    np.testing.assert_array_equal(found.read(), np.arange(192).reshape(12, 16))
    assert found.crs is not None
    assert found.crs.code == "EPSG:32633"
    assert found.bounds == (500000, 5000000, 500160, 5000120)
    assert oz.cf.decode(found.levels[0].array)[0, 1] == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("convention", ["multiscales", "geozarr"])
def test_levels_with_a_variable_have_coordinates_next_to_it(
    tmp_path: Path, convention: Any, zarr_format: Any
) -> None:
    path = tmp_path / "m.zarr"
    options: dict[str, Any] = {"crs": "EPSG:4326", "bounds": BOUNDS, "zarr_format": zarr_format}
    made = oz.geo.write(
        path, heights(), variable="height", levels=2, convention=convention, **options
    )
    assert [level.array.path for level in made.levels] == ["0/height", "1/height"]
    assert oz.geo.open(path).bounds == BOUNDS
    for group, step in (("0", 0.25), ("1", 0.5)):
        with xr.open_dataset(path, group=group, engine="omnizarr") as level:
            assert level["x"].values[0] == 5 + step * 0.4 / 2
            assert level["y"].values[-1] == 40 + step / 2
            assert level["height"].dims == ("y", "x")
    with pytest.raises(oz.InvalidArgument, match="rotated"):
        oz.geo.write({}, heights(), variable="height", transform=[1, 1, 0, -1, 1, 0])


def test_a_transform_in_the_order_of_gdal_is_refused_with_a_remedy() -> None:
    given = [4e6, 100, 0, 3e6, 0, -100]
    with pytest.raises(
        oz.InvalidArgument, match=r"GDAL's order; pass omnizarr\.geo\.Affine\.from_g"
    ):
        oz.geo.write({}, heights(), transform=given)
    affine = oz.geo.Affine.from_gdal(given)
    assert oz.geo.write({}, heights(), transform=affine).levels[0].transform == affine
    turned = [0, 1, 0, 1, 0, 0]  # rows and columns exchanged
    assert oz.geo.write({}, heights(), transform=turned).levels[0].transform is not None


def test_the_compression_of_maps_is_known_to_gdal_and_notices_damage() -> None:
    for zarr_format, known in ((2, {"bytes", "numcodecs.blosc"}), (3, {"bytes", "zstd"})):
        store: dict[str, bytes] = {}
        array = oz.geo.write(store, heights(), zarr_format=zarr_format, levels=1).levels[0].array
        assert {codec.name for codec in array.metadata.model.codecs} == known
        if zarr_format == 3:
            key = array.chunk_key((0, 0))
            store[key] = store[key][:-1] + bytes([store[key][-1] ^ 1])
            with pytest.raises(oz.ChunkError):
                array[...]


def test_missing_chunks_of_a_map_are_no_data() -> None:
    def fill(data: Any, **options: Any) -> Any:
        return oz.geo.write({}, data, method="nearest", **options).levels[0].array.fill_value

    assert np.isnan(fill(heights().astype("f4")))
    assert fill(heights().astype("i2"), attributes={"_FillValue": -5}) == -5
    assert fill(heights().astype("i2"), zarr_format=2) is None
    assert fill(heights().astype("i2"), zarr_format=2, attributes={"_FillValue": -5}) == -5
    assert fill(heights().astype("i2"), fill_value=7) == 7
