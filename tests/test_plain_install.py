"""The package without optional packages: everything can be inspected (D1)."""

from __future__ import annotations

import builtins
import inspect
import pickle
import pydoc
from pathlib import Path
from typing import Any

import omnizarr as oz
from tests.plain_install import run_plain

REFERENCES = Path(__file__).parent / "stores/references/data/kerchunk.parq"
NEED_PACKAGES = ["from_dask", "serve", "xarray", "zarr"]


def test_a_plain_install_can_be_inspected() -> None:
    """D1: help, star imports, getmembers and completion raise nothing."""
    done = run_plain(
        "import omnizarr, omnizarr as oz, inspect, pydoc, rlcompleter, omnizarr.storage as s\n"
        "assert 'create_array' in pydoc.render_doc(omnizarr)\n"
        "assert dict(inspect.getmembers(omnizarr))['create_array']\n"
        "from omnizarr import *; create_array; ome.write\n"
        "assert 'oz.create_array' in str(rlcompleter.Completer(globals()).attr_matches('oz.c'))\n"
        "[getattr(omnizarr, name) for name in dir(omnizarr)]\n"
        "s.HTTPStore; [getattr(s, name) for name in dir(s)]\n"
        f"for name in {NEED_PACKAGES}:\n"
        "    assert not hasattr(oz, name) and name not in dir(oz) and name not in oz.__all__\n"
        "assert not hasattr(s, 'LMDBStore') and 'LMDBStore' not in dir(s)\n"
    )
    assert done.returncode == 0, done.stderr
    assert set(NEED_PACKAGES) <= {*dir(oz)} & {*oz.__all__}


def test_a_folder_with_the_name_of_a_package_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "lmdb").mkdir()
    done = run_plain("import omnizarr as oz; assert 'LMDBStore' not in dir(oz.storage)", tmp_path)
    assert done.returncode == 0, done.stderr


STATEMENTS = {
    "oz.storage.LMDBStore": ("AttributeError", "lmdb"),
    "oz.storage.RedisStore": ("AttributeError", "redis"),
    "oz.xarray": ("AttributeError", "xarray"),
    "oz.from_dask": ("AttributeError", "dask"),
    "oz.serve": ("AttributeError", "serve"),
    "import omnizarr.xarray": ("ImportError", "xarray"),
    "from omnizarr.storage import LMDBStore": ("ImportError", "lmdb"),
    "from omnizarr import xarray": ("ImportError", "xarray"),
    "oz.open('s3://bucket/x.zarr')": ("ImportError", "cloud"),
    "from omnizarr.cli.inspect import serve; serve.callback('x', '', False, (), '1MB')": (
        *("ImportError", "serve"),
    ),
    "oz.open('lmdb:///x')": ("ImportError", "lmdb"),
    f"oz.open({str(REFERENCES)!r})": ("ImportError", "references"),
    "oz.open('icechunk:///x')": ("ImportError", "icechunk"),
    "oz.open('ftp://host/x')": ("ImportError", "fsspec"),
    "oz.import_file('a.h5', {})": ("ImportError", "hdf5"),
    "oz.import_file('a.tif', {})": ("ImportError", "tiff"),
    "oz.create_array({}, shape=4, dtype='bfloat16')": ("ImportError", "ml"),
}
CODECS: dict[str, tuple[dict[str, Any], ...]] = {
    "images": (
        {"zarr_format": 2, "compressors": {"id": "imagecodecs_png"}},
        {"serializer": "imagecodecs_png", "compressors": None},
        {"compressors": "imagecodecs_lzw"},
    ),
    "pcodec": ({"zarr_format": 2, "compressors": "pcodec"},),
    "zfp": (
        {"compressors": None, "serializer": {"name": "zfp"}},
        {"compressors": None, "serializer": {"name": "numcodecs.zfpy"}},
    ),
}
for _extra, _every in CODECS.items():
    for _options in _every:
        _made = f"oz.create_array({{}}, shape=(4, 4), dtype='f4', **{_options})[...]"
        STATEMENTS[_made] = ("ImportError", _extra)


def test_errors_name_the_package_to_install(tmp_path: Path) -> None:
    """D1: the error is a MissingPackage and Python's usual class for such a statement."""
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "a.tif").write_bytes(b"II*\0")
    done = run_plain(
        "import builtins, omnizarr as oz, omnizarr.storage\n"
        f"for statement, (error, extra) in {STATEMENTS}.items():\n"
        "    try:\n        exec(statement)\n"
        "    except oz.MissingPackage as e:\n"
        "        assert isinstance(e, getattr(builtins, error)), (statement, type(e))\n"
        "        assert f\"pip install 'omnizarr[{extra}]'\" in str(e), (statement, e)\n"
        "    else:\n        raise AssertionError(statement)\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_package_error_can_be_pickled() -> None:
    for made in (oz.errors.MissingModule("m"), oz.errors.MissingAttribute("m")):
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is type(made)
        assert str(again) == "m"


def test_help_shows_every_public_name() -> None:
    """D1: also with all packages; nothing raises and nothing is left out."""
    text = pydoc.plain(pydoc.render_doc(oz))
    functions = {n for n, v in inspect.getmembers(oz) if inspect.isfunction(v)}
    assert functions
    for name in functions - {*vars(builtins)}:
        assert f"    {name}(" in text or f"    {name} = " in text  # another name of one
