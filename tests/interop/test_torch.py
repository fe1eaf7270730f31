"""The dataset of PyTorch gives each row once, whatever the workers and ranks are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import InvalidArgument
from tests.peers import environments

COUNT = 200
torch: Any = None
BatchDataset: Any = None


@pytest.fixture(scope="module", autouse=True)
def _pytorch() -> Iterator[None]:
    """Import PyTorch, which is installed if necessary."""
    global torch, BatchDataset
    folder = str(environments.pytorch())
    sys.path.append(folder)  # known to processes that are spawned, too
    torch = importlib.import_module("torch")
    BatchDataset = importlib.import_module("omnizarr.interop.torch").BatchDataset
    yield
    sys.path.remove(folder)


@pytest.fixture
def array(tmp_path: Path) -> oz.Array:
    data = np.arange(COUNT * 6, dtype="i4").reshape(COUNT, 2, 3)
    return oz.create_array(tmp_path / "a.zarr", data=data, chunks=(5, 2, 3), shards=(20, 2, 3))


def loader(dataset: Any, **options: Any) -> Any:
    return torch.utils.data.DataLoader(dataset, batch_size=None, **options)


def numbers(batches: Iterator[Any]) -> list[int]:
    """Return the numbers of the rows in the order in which they come."""
    return [int(row[0, 0]) // 6 for batch in batches for row in batch]


@pytest.mark.parametrize(
    ("start", "persistent"), [("fork", False), ("fork", True), ("spawn", True)]
)
def test_workers_give_every_row_once_and_each_epoch_has_an_order(
    array: oz.Array, start: str, persistent: bool
) -> None:
    data = BatchDataset(array, 16, seed=3, budget=2000)
    options: Any = {"multiprocessing_context": start, "persistent_workers": persistent}
    load, found = loader(data, num_workers=2, **options), list[list[int]]()
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        found.append(numbers(load))
    assert sorted(found[0]) == sorted(found[1]) == [*range(COUNT)]
    assert found[0] == found[2] != found[1]


def test_this_process_and_its_threads_read_the_order_of_batches(array: oz.Array) -> None:
    expected = numbers(oz.batches(array, 16, seed=7))
    data = BatchDataset(array, 16, seed=7)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: numbers(loader(data)), range(4))
        assert [*found] == [expected] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_share_the_rows(array: oz.Array, workers: int) -> None:
    found = list[int]()
    for rank in range(3):
        data = BatchDataset(array, 16, seed=1, rank=rank, ranks=3)
        found += numbers(loader(data, num_workers=workers))
    assert sorted(found) == [*range(COUNT)]


def test_ranks_are_those_of_torch_distributed(array: oz.Array, tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert sorted(numbers(BatchDataset(array, 16))) == [*range(COUNT)]
    finally:
        torch.distributed.destroy_process_group()


def test_windows_and_several_arrays_come_as_tensors(array: oz.Array) -> None:
    labels = np.arange(COUNT)
    data = BatchDataset({"x": array, "y": labels}, 8, seed=2, drop_last=True)
    for batch in loader(data):
        assert (batch["x"][:, 0, 0] // 6 == batch["y"]).all()
    for one, other in loader(BatchDataset((array, labels), 8)):
        assert isinstance(one, torch.Tensor)
        assert (one[:, 0, 0] // 6 == other).all()
    for batch in loader(BatchDataset(array, 4, sample=(5, 2, 2))):
        assert batch.shape == (4, 5, 2, 2)
        assert (batch[:, 1:, 0, 0] - batch[:, :-1, 0, 0] == 6).all()


def test_invalid_options_are_errors_before_workers_start(array: oz.Array) -> None:
    with pytest.raises(InvalidArgument, match="the same seed"):
        BatchDataset(array, 16, rank=0, ranks=2)
    with pytest.raises(InvalidArgument, match="chosen by the loader"):
        BatchDataset(array, 16, workers=2)
    with pytest.raises(InvalidArgument, match="larger than the array"):
        BatchDataset(array, 16, sample=(5, 2, 9))
