"""The packages that run on zarr-python: where they are installed, and which of their tests run."""

from __future__ import annotations

from dataclasses import dataclass

AS_ZARR = "omnizarr.as_zarr"


@dataclass(frozen=True)
class Package:
    """A package of the page.

    Packages with the same environment are installed together. The suite is the arguments of pytest
    in the package's source tree; without one, only the round trip runs. A second row about a
    package (`of`) has no round trip.
    """

    name: str
    title: str = ""
    environment: str = "shared"
    requires: tuple[str, ...] = ()  # beside the package itself
    suite: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()  # of pytest, beside those of all suites
    of: str = ""  # the package, if the name is another
    ours: str = AS_ZARR  # the plugin of pytest that gives omnizarr to the suite
    note: str = ""

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def distribution(self) -> str:
        return self.of or self.name


# What the suites need that the packages do not install by themselves, and the plugins of
# pytest that come with it: only these are loaded, because plugins of other packages fail where
# warnings are errors.
TEST_TOOLS = {
    "pytest": "",
    "hypothesis": "hypothesispytest",
    "pytest-asyncio": "",  # given with those suites that use it: it warns where it is not set up
    "pytest-cov": "pytest_cov",
    "pytest-doctestplus": "pytest_doctestplus",
    "filelock": "",  # of anndata's tests
    "pytest-mock": "pytest_mock",
    "pytest-recording": "recording",
    "pytest-timeout": "timeout",
    "pytest-xdist": "xdist",
}
PLUGINS = tuple(plugin for plugin in TEST_TOOLS.values() if plugin)

BACKENDS = "xarray/tests/test_backends"
XARRAY_SUITE = (
    *(f"{BACKENDS}.py", f"{BACKENDS}_datatree.py", "-k", "zarr"),
    *("-o", "addopts="),  # which name options of plugins that are not loaded
)
ZARR_SUITE = (
    *("tests", "-o", "addopts=", "--ignore=tests/benchmarks"),
    *("--ignore=tests/test_regression/scripts", "--ignore=tests/test_docs.py"),
    *("--ignore=tests/test_examples.py", "-p", "zarr.testing"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

ICECHUNK_LOCAL = " and ".join(
    f"not {name}"
    for name in (
        *("minio", "test_attribution", "test_can_read_old", "test_concurrency", "test_credentials"),
        *("processes", "test_distributed", "test_gc", "test_issue_418", "test_key_layout"),
        *("test_pickle.py", "test_repository_open_no_list_bucket", "test_request_headers"),
        *("test_stateful", "test_properties", "test_store_properties", "test_commit_properties"),
    )
)

ANNDATA_LEFT_OUT = (
    *("--ignore=tests/lazy/test_concat.py", "--ignore=tests/test_concatenate_disk.py"),
    *("--ignore=tests/test_backed_sparse.py", "--ignore=tests/test_gpu.py"),
    "--ignore=tests/test_x_layers_2d.py",
)
NO_NETWORK = "tests of data that they download fail on both libraries where there is no network"

PACKAGES: tuple[Package, ...] = (
    Package(
        "dask",
        requires=("dask[array,dataframe]", "distributed"),
        suite=("dask/array/tests/test_array_core.py", "-k", "zarr"),
    ),
    Package(
        "xarray",
        requires=("dask[array]", "distributed", "netCDF4", "h5netcdf", "scipy", "cftime"),
        suite=XARRAY_SUITE,
        plugins=("asyncio",),
    ),
    Package(
        "xarray-engine",
        title='xarray, `engine="omnizarr"`',
        suite=XARRAY_SUITE,
        plugins=("asyncio",),
        of="xarray",
        ours="omnizarr_xarray_engine",
        note="`to_zarr` and xarray's engine are replaced by [ours](../xarray.md); the tests look"
        " with zarr-python at what was written",
    ),
    Package(
        "iohub",
        requires=("tensorstore", "wget", "ngff-zarr"),
        suite=("tests/ngff",),
        note=NO_NETWORK,
    ),
    Package(
        "sgkit",
        environment="sgkit",
        note="needs zarr-python 2; `as_zarr()` stands in for version 3, and says so",
    ),
    Package("ome-zarr", title="ome-zarr-py", suite=("tests",)),
    Package("napari-ome-zarr", suite=("napari_ome_zarr",)),
    Package("bioio-ome-zarr", requires=("ngff-zarr",), suite=("bioio_ome_zarr",)),
    Package("ome-zarr-models", suite=("tests",)),
    Package(
        "anndata",
        requires=("awkward", "scanpy"),
        suite=("tests", "-k", "zarr", *ANNDATA_LEFT_OUT),
        note="the tests with zarr in their names; left out for their time are `test_concat`,"
        " `test_concatenate_disk`, `test_backed_sparse` and a few others: 482 of 1,541 tests ran",
    ),
    Package(
        "zarr-python",
        of="zarr",
        requires=("zarr[remote,optional,cli,cast-value-rs]", "numpydoc", "tomlkit"),
        suite=ZARR_SUITE,
        plugins=("asyncio",),
    ),
    Package(
        "zarr-python-3.1",
        title="zarr-python 3.1",
        environment="zarr-3.1",
        of="zarr",
        requires=("zarr[remote,optional,cli]<3.2", "numpydoc", "tomlkit"),
        suite=ZARR_SUITE,
        plugins=("asyncio",),
    ),
    Package("spatialdata", suite=("tests/io",)),
    Package("hdmf-zarr", suite=("tests/unit",)),
    Package("bio2zarr", requires=("bio2zarr[vcf]",), suite=("tests",)),
    Package(
        "cubed",
        suite=("cubed/tests/storage", "cubed/tests/test_core.py"),
        note="43 tests fail on both libraries: pydot is not installed, or a cluster of Dask has no"
        " workers",
    ),
    Package(
        "icechunk",
        requires=("mypy-boto3-s3", "dask[array]", "distributed", "xarray", "flatbuffers"),
        suite=("icechunk-python/tests", "-o", "addopts=", "-k", ICECHUNK_LOCAL),
        plugins=("pytest_asyncio.plugin",),
        note="left out are tests that need an S3 server or other processes, and those with random"
        " data",
    ),
    Package("kerchunk", requires=("h5py", "cfgrib", "eccodes"), suite=("tests",)),
    Package(
        "pydantic-zarr",
        environment="pydantic-zarr",
        requires=("zarr<3.2", "numpy<2.4", "xarray"),
        suite=("tests/test_pydantic_zarr", "-k", "not test_array_spec_from_array"),
        note="with zarr-python 3.1: its tests do not start with newer versions; left out is"
        " `test_array_spec_from_array`, 17,496 combinations of options of one function",
    ),
    Package(
        "virtualizarr",
        title="VirtualiZarr",
        requires=("netCDF4", "h5py", "imagecodecs", "hdf5plugin", "fastparquet", "arro3-core"),
        suite=("virtualizarr/tests",),
        plugins=("asyncio",),
        note=NO_NETWORK,
    ),
)
