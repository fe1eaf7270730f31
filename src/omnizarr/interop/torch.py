"""A dataset of PyTorch whose items are batches; workers and ranks each read their share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

from omnizarr import batches
from omnizarr.errors import InvalidArgument


class BatchDataset(IterableDataset):  # type: ignore[misc]  # PyTorch may be missing
    """The batches of `omnizarr.batches` as tensors, for a ``DataLoader`` without a batch size.

    Each worker of the loader reads its share, by fork or spawn, and in distributed training each
    rank. Every epoch has the order of the first one unless `set_epoch` is called before it.

    Args:
        arrays: An array, view or NumPy array, or a tuple or mapping of several.
        size: The rows, or samples, of a batch.
        seed: A number from which the order follows, the same for all ranks. By default one is
            drawn; with several ranks, give one.
        rank: The number of this process, by default that of ``torch.distributed``, or 0.
        ranks: The number of all processes, by default those of ``torch.distributed``, or 1.
        options: Options of `omnizarr.batches`, such as `budget`, `sample` and `drop_last`.

    Raises:
        InvalidArgument: If the arrays do not fit each other, an option is not valid, or several
            ranks have no seed.

    Examples:
        >>> from omnizarr.interop.torch import BatchDataset  # doctest: +SKIP
        >>> images = oz.create_array(shape=(100, 4, 4), chunks=(10, 4, 4))  # doctest: +SKIP
        >>> data = BatchDataset(images, 64, seed=1)  # doctest: +SKIP
        >>> loader = torch.utils.data.DataLoader(data, None, num_workers=2)  # doctest: +SKIP
    """

    def __init__(
        self,
        arrays: Any,
        size: int,
        *,
        seed: int | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        **options: Any,
    ) -> None:
        if reserved := {"worker", "workers"} & options.keys():
            raise InvalidArgument(f"{min(reserved)} is chosen by the loader; give rank and ranks")
        # Here, since workers that are spawned do not know of it.
        joined = distributed.is_available() and distributed.is_initialized()
        self._rank = (distributed.get_rank() if joined else 0) if rank is None else rank
        self._ranks = (distributed.get_world_size() if joined else 1) if ranks is None else ranks
        if self._ranks > 1 and seed is None:
            raise InvalidArgument("ranks must have one order: give all of them the same seed")
        self._arrays, self._size, self._options = arrays, size, options
        self._seed = secrets.randbits(32) if seed is None else seed
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # with running workers
        self._batches(0, 1)  # which raises if an option is not valid

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next epoch, also for persistent workers."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        number, count = (0, 1) if info is None else (info.id, info.num_workers)
        return map(_tensors, self._batches(number, count))

    def _batches(self, number: int, count: int) -> Iterator[Any]:
        return batches(
            self._arrays,
            self._size,
            seed=self._seed + int(self._epoch),
            worker=self._rank * count + number,
            workers=self._ranks * count,
            **self._options,
        )


def _tensors(batch: Any) -> Any:
    """Return a batch with tensors, which share the memory of its arrays."""
    if isinstance(batch, np.ndarray):
        return torch.from_numpy(batch)
    if isinstance(batch, Mapping):
        return {name: torch.from_numpy(values) for name, values in batch.items()}
    return tuple(map(torch.from_numpy, batch))
