"""Versions, references and models: icechunk, kerchunk, VirtualiZarr, pydantic-zarr."""

# ruff: noqa: PLC0415 - a package is imported only in its own environment

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.downstream.workloads.contents import tree

RNG = np.random.default_rng(16)


def write_icechunk(folder: Path) -> None:
    import icechunk
    import zarr

    storage = icechunk.local_filesystem_storage(str(folder / "repository"))
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    group = zarr.group(session.store, attributes={"title": "first"})
    array = group.create_array("deep/values", shape=(20, 20), chunks=(5, 10), dtype="f4")
    array[...] = RNG.normal(size=(20, 20)).astype("f4")
    group.create_array("deep/extra", shape=3, dtype="i4")
    session.commit("first")
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="r+")
    group["deep/values"][:5] = 7
    group.attrs["title"] = "second"
    del group["deep/extra"]
    session.commit("second")


def read_icechunk(folder: Path) -> dict[str, Any]:
    import icechunk
    import zarr

    storage = icechunk.local_filesystem_storage(str(folder / "repository"))
    repository = icechunk.Repository.open(storage)
    found: dict[str, Any] = {}
    for step in repository.ancestry(branch="main"):
        session = repository.readonly_session(snapshot_id=step.id)
        if step.message in ("first", "second"):
            group = zarr.open_group(session.store, mode="r")
            found[step.message] = dict(tree(group, ""))
    return found


def make_hdf5(path: Path, day: int) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["time"] = np.array([day], dtype="i4")
        file["time"].make_scale("time")
        options: Any = {"chunks": (1, 4, 5), "compression": "gzip", "shuffle": True}
        file.create_dataset("t2m", data=RNG.normal(size=(1, 8, 5)), **options)
        file["t2m"].attrs["units"] = "K"
        file["t2m"].dims[0].attach_scale(file["time"])


def write_kerchunk(folder: Path) -> None:
    from kerchunk.combine import MultiZarrToZarr
    from kerchunk.hdf import SingleHdf5ToZarr

    parts = []
    for day in range(3):
        path = folder / f"day{day}.h5"
        make_hdf5(path, day)
        parts.append(SingleHdf5ToZarr(str(path)).translate())
    combined = MultiZarrToZarr(parts, concat_dims=["time"], coo_map={"time": "data:time"})
    (folder / "references.json").write_text(json.dumps(combined.translate()))


def read_kerchunk(folder: Path) -> dict[str, Any]:
    import xarray as xr

    options = {"fo": str(folder / "references.json")}
    backend: Any = {"consolidated": False, "storage_options": options}
    with xr.open_dataset("reference://", engine="zarr", backend_kwargs=backend) as data:
        return {"data": data.load().to_dict()}


def write_virtualizarr(folder: Path) -> None:
    import icechunk
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    path = folder / "day0.h5"
    make_hdf5(path, 0)
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    data = open_virtual_dataset(f"file://{path}", registry, HDFParser())
    data.vz.to_kerchunk(str(folder / "references.json"), format="json")
    config = icechunk.RepositoryConfig.default()
    place = f"file://{folder}/"
    store = icechunk.local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(place, store))
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(folder / "repository")),
        config=config,
        authorize_virtual_chunk_access={place: None},
    )
    session = repository.writable_session("main")
    data.vz.to_icechunk(session.store)
    session.commit("virtual")


def read_virtualizarr(folder: Path) -> dict[str, Any]:
    import icechunk
    import xarray as xr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    registry = ObjectStoreRegistry({"file://": LocalStore()})
    manifest = HDFParser()(f"file://{folder / 'day0.h5'}", registry)
    with xr.open_zarr(manifest, consolidated=False, zarr_format=3) as data:
        found = {"manifest": data.load().to_dict()}
    repository = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(folder / "repository")),
        authorize_virtual_chunk_access={f"file://{folder}/": None},
    )
    session = repository.readonly_session("main")
    with xr.open_zarr(session.store, consolidated=False, zarr_format=3) as data:
        found["icechunk"] = data.load().to_dict()
    return {**found, "kerchunk": read_kerchunk(folder)}


def write_pydantic_zarr(folder: Path) -> None:
    import zarr
    from pydantic_zarr.v2 import GroupSpec as GroupV2
    from pydantic_zarr.v3 import GroupSpec as GroupV3

    for version, spec in ((2, GroupV2), (3, GroupV3)):
        group = zarr.open_group(folder / f"source-v{version}", mode="w", zarr_format=version)
        group.attrs["title"] = "source"
        array = group.create_array("a/b", shape=(10, 4), chunks=(5, 4), dtype="i4", fill_value=-1)
        array[...] = np.arange(40).reshape(10, 4)
        copied = spec.from_zarr(group).to_zarr(
            zarr.storage.LocalStore(folder / f"copy-v{version}"), path=""
        )
        copied["a/b"][...] = array[...]


def read_pydantic_zarr(folder: Path) -> dict[str, Any]:
    import zarr
    from pydantic_zarr.v2 import GroupSpec as GroupV2
    from pydantic_zarr.v3 import GroupSpec as GroupV3

    found = {}
    for version, spec in ((2, GroupV2), (3, GroupV3)):
        for kind in ("source", "copy"):
            name = f"{kind}-v{version}"
            found[name] = spec.from_zarr(zarr.open_group(folder / name, mode="r")).model_dump()
    return found
