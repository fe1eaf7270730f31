"""Arrays of libraries whose types NumPy does not know, such as PyTorch's, are data (D6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array
import numpy as np
import pytest

import omnizarr as oz

VALUES = np.arange(12, dtype="f4").reshape(3, 4)


class ForeignType:
    """A data type of a library without NumPy."""

    def __repr__(self) -> str:
        return "torch.float32"


class Tensor:
    """An array with the attributes that all libraries have."""

    dtype = ForeignType()

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.shape, self.ndim = values.shape, values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Tensor:
        return type(self)(self.values[key])


class WithArray(Tensor):
    """A tensor as of PyTorch."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.values, dtype)


class WithDLPack(Tensor):
    """A tensor that only DLPack leads to."""

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def assigned(tensor: Any) -> oz.Array:
    array = oz.create_array(shape=VALUES.shape, dtype="f4")
    array[...] = tensor
    return array


def appended(tensor: Any) -> oz.Array:
    array = oz.create_array(shape=(0, 4), dtype="f4")
    array.append(tensor)
    return array


def streamed(tensor: Any) -> oz.Array:
    array = oz.create_array(shape=VALUES.shape, dtype="f4")
    with array.writer() as writer:
        writer[...] = tensor
    return array


def member(tensor: Any) -> oz.Array:
    group = oz.create_group({})
    group["x"] = tensor
    found: oz.Array = group["x"]
    return found


def saved(save: Callable[..., Any]) -> Callable[[Any], Any]:
    def run(tensor: Any) -> Any:
        store: dict[str, bytes] = {}
        save(store, tensor)
        found = oz.load(store)
        return found["arr_0"] if isinstance(found, dict) else found

    return run


@pytest.mark.parametrize("kind", [WithArray, WithDLPack])
@pytest.mark.parametrize(
    "store",
    [
        lambda t: oz.create_array({}, data=t),
        lambda t: oz.create_array({}, data=t, shape=(3, 4), dtype="f4"),
        lambda t: oz.create_array(data=t),
        lambda t: oz.ome.write({}, t, axes="yx").levels[0],
        lambda t: oz.geo.write({}, t, crs="EPSG:4326", bounds=(0, 0, 4, 3)).levels[0].array,
        saved(oz.save),
        *(assigned, appended, streamed, member),
    ],
)
def test_a_tensor_is_stored_with_its_type(store: Callable[[Any], Any], kind: type[Tensor]) -> None:
    """D6: every function that takes data, by `__array__` and by DLPack."""
    stored = store(kind(VALUES))
    assert stored.dtype == np.float32
    assert np.array_equal(stored[...], VALUES)


def test_lazy_arrays_are_read_in_parts() -> None:
    parts: list[tuple[int, ...]] = []

    def part(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        parts.append(block.shape)
        return block

    lazy = dask.array.ones((64, 64), chunks=16).map_blocks(part, meta=np.empty((0, 0)))
    assert oz.create_array({}, data=lazy, chunks=16)[...].all()
    assert set(parts) == {(16, 16)}
