"""Arrays of other libraries: which are taken as they are, and how others become NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def as_source(data: Any, dtype: Any = None) -> Any:
    """Return `data` where it has a shape and a type that NumPy knows, else as a NumPy array.

    Arrays of NumPy, Dask, h5py, zarr-python and this library stay as they are, so that they are
    read part by part. A list gets the type `dtype`.
    """
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        return to_numpy(data, dtype)
    if isinstance(data.dtype, np.dtype):
        return data
    try:
        np.dtype(data.dtype)
    except TypeError:  # that of PyTorch, and of most that are not made for NumPy
        return to_numpy(data)
    return data


def to_numpy(data: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """Return `data` as a NumPy array, by ``__array__``, or by DLPack where it has only that."""
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        return np.from_dlpack(data)
    return np.asarray(data, dtype)
