"""Cells, neurons and genomes: anndata, spatialdata, hdmf-zarr, bio2zarr, sgkit."""

# ruff: noqa: PLC0415 - a package is imported only in its own environment

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(16)


def make_cells() -> Any:
    import anndata as ad
    import pandas as pd
    import scipy.sparse

    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(["b", "a", "b", "a"]),
            "label": ["x", "yy", "zzz", "é"],
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "good": [True, False, True, True],
        },
        index=[f"cell{i}" for i in range(4)],
    )
    cells = ad.AnnData(scipy.sparse.csr_matrix(RNG.poisson(1, (4, 6)).astype("f4")), obs=obs)
    cells.var_names = [f"gene{i}" for i in range(6)]
    cells.layers["dense"] = RNG.normal(size=(4, 6))
    cells.obsm["pca"] = RNG.normal(size=(4, 2))
    cells.obsp["near"] = scipy.sparse.csc_matrix(RNG.poisson(1, (4, 4)).astype("f8"))
    cells.uns["settings"] = {"alpha": 0.5, "names": np.array(["a", "b"]), "nested": {"n": 3}}
    return cells


def show_cells(cells: Any) -> dict[str, Any]:
    def dense(value: Any) -> Any:
        return value.toarray() if hasattr(value, "toarray") else value

    return {
        "X": [type(cells.X).__name__, dense(cells.X)],
        "obs": {name: [str(c.dtype), c.astype(str).tolist()] for name, c in cells.obs.items()},
        "names": [cells.obs_names.tolist(), cells.var_names.tolist()],
        "parts": {
            f"{part} {name}": dense(value)
            for part in ("layers", "obsm", "obsp")
            for name, value in getattr(cells, part).items()
        },
        "uns": dict(cells.uns),
    }


def write_anndata(folder: Path) -> None:
    import anndata as ad

    cells = make_cells()
    for version in (2, 3):
        with ad.settings.override(zarr_write_format=version):
            cells.write_zarr(folder / f"v{version}.zarr")
            cells.write_zarr(folder / f"chunked-v{version}.zarr", chunks=(2, 6))


def read_anndata(folder: Path) -> dict[str, Any]:
    import anndata as ad
    import zarr

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.zarr")):
        found[path.name] = show_cells(ad.read_zarr(path))
        group = zarr.open_group(path, mode="r")
        sparse = ad.io.sparse_dataset(group["obsp/near"])
        found[f"{path.name} sparse"] = [sparse.format, sparse.shape, sparse.to_memory().toarray()]
        found[f"{path.name} element"] = ad.io.read_elem(group["layers/dense"])
        found[f"{path.name} lazy"] = ad.experimental.read_lazy(group).X.compute().toarray()
    return found


def write_spatialdata(folder: Path) -> None:
    from spatialdata.datasets import blobs

    np.random.seed(0)
    blobs(length=64, n_points=20).write(folder / "blobs.zarr")


def read_spatialdata(folder: Path) -> dict[str, Any]:
    import spatialdata

    data = spatialdata.read_zarr(folder / "blobs.zarr")
    found: dict[str, Any] = {"table": show_cells(data.tables["table"])}
    for name, image in {**data.images, **data.labels}.items():
        levels = getattr(image, "children", {"only": image}).values()  # a pyramid is a DataTree
        found[name] = [np.asarray(getattr(level, "image", level)) for level in levels]
    found["points"] = data.points["blobs_points"].compute().to_dict("list")
    found["shapes"] = {n: [str(g) for g in s.geometry] for n, s in data.shapes.items()}
    return found


def write_hdmf_zarr(folder: Path) -> None:
    from hdmf.common import DynamicTable, VectorData, get_manager
    from hdmf_zarr import ZarrDataIO
    from hdmf_zarr.backend import ZarrIO

    values = ZarrDataIO(data=RNG.normal(size=100), chunks=(10,))
    columns = [
        VectorData(name="value", description="numbers", data=values),
        VectorData(name="label", description="texts", data=[f"t{i}" for i in range(100)]),
    ]
    table = DynamicTable(name="table", description="rows", columns=columns)
    with ZarrIO(str(folder / "table.zarr"), manager=get_manager(), mode="w") as io:
        io.write(table)


def read_hdmf_zarr(folder: Path) -> dict[str, Any]:
    from hdmf.common import get_manager
    from hdmf_zarr.backend import ZarrIO

    with ZarrIO(str(folder / "table.zarr"), manager=get_manager(), mode="r") as io:
        table = io.read()
        return {name: np.asarray(table[name][:]).tolist() for name in ("value", "label")}


VCF = """##fileformat=VCFv4.2
##contig=<ID=1>
##INFO=<ID=DP,Number=1,Type=Integer,Description="depth">
##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts1\ts2
1\t10\tr1\tA\tC,T\t9.5\tPASS\tDP=3\tGT\t0/1\t2|1
1\t25\t.\tG\tT\t.\tPASS\tDP=7\tGT\t./.\t1/1
1\t40\tr3\tGT\tG\t3\tPASS\t.\tGT\t0/0\t0/1
"""


def write_bio2zarr(folder: Path) -> None:
    import pysam
    from bio2zarr import vcf

    text = folder / "calls.vcf"
    text.write_text(VCF)
    pysam.tabix_index(str(text), preset="vcf", force=True)
    for version in (2, 3):
        where = folder / f"calls-v{version}.vcz"
        vcf.convert([str(text) + ".gz"], where, zarr_format=version, worker_processes=0)


def read_bio2zarr(folder: Path) -> dict[str, Any]:
    from bio2zarr import vcf

    facts = ("dtype", "size", "nchunks", "shape", "chunk_shape", "compressor", "filters")
    return {
        path.name: {row["name"]: [row[fact] for fact in facts] for row in vcf.inspect(path)}
        for path in sorted(folder.glob("*.vcz"))
    }


def write_sgkit(folder: Path) -> None:
    import sgkit

    data = sgkit.simulate_genotype_call_dataset(n_variant=50, n_sample=20, seed=0)
    data["sample_kind"] = ("samples", np.array([f"k{i % 3}" for i in range(20)]))
    sgkit.save_dataset(data, folder / "calls.zarr")


def read_sgkit(folder: Path) -> dict[str, Any]:
    import sgkit

    data = sgkit.load_dataset(folder / "calls.zarr")
    counted = sgkit.count_variant_alleles(data)["variant_allele_count"].values
    return {"data": data.load().to_dict(), "counts": counted}
