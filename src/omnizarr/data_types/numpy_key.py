"""Typed keys of values that may hold NumPy's scalars, small arrays and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr.data_types.data_type import own_type
from omnizarr.model.typed_key import MAX_SIZE, Key, typed_key


def value_key(value: Any) -> Key | None:
    """Return what `typed_key` does, also for what NumPy has: type and unit, shape and bits."""
    return typed_key(value, _tokens)


def _tokens(value: Any) -> Key | None:
    if isinstance(value, np.dtype):
        return (own_type(value),) if value.metadata is None else None
    if not isinstance(value, np.generic) and type(value) is not np.ndarray:
        return None
    dtype = value.dtype
    if dtype.hasobject or dtype.kind == "T" or dtype.metadata is not None:
        return None  # its bytes are addresses
    return None if value.nbytes > MAX_SIZE else (own_type(dtype), value.shape, value.tobytes())
