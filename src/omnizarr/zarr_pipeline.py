"""A codec pipeline for zarr-python 3: its API and metadata, with this package's engine below.

>>> import zarr
>>> zarr.config.set({"codec_pipeline.path": "omnizarr.zarr_pipeline.Pipeline"})

The environment variable ``ZARR_CODEC_PIPELINE__PATH`` does the same. What the engine does not know
is left to zarr-python's own pipeline, and logged.

zarr-python loads every registered pipeline when it opens its first array, so this module imports
nothing that is slow; the engine comes with the first read or write.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from omnizarr.errors import MissingModule

try:
    import zarr
    from zarr.core.codec_pipeline import BatchedCodecPipeline
    from zarr.registry import register_pipeline
except ImportError as e:
    raise MissingModule(
        "the codec pipeline is for zarr-python 3.1 and newer: pip install 'zarr>=3.1'"
    ) from e

# zarr-python 3.0 imports this module too, as it does with every registered pipeline, so that only
# who asks for the pipeline is refused.
_too_old = importlib.util.find_spec("zarr.core.dtype") is None


@dataclass(frozen=True)
class Pipeline(BatchedCodecPipeline):
    """Reads and writes batches of chunks with the compiled kernel of this package.

    It is zarr-python's own pipeline where the kernel does not know a codec, data type or buffer.
    """

    @classmethod
    def from_codecs(cls, *args: Any, **options: Any) -> Any:
        """Return the pipeline of an array; raise if zarr-python is too old."""
        if _too_old:
            raise MissingModule(
                "the codec pipeline needs zarr-python 3.1 or newer, found "
                f"{zarr.__version__}: pip install 'zarr>=3.1'"
            )
        return super().from_codecs(*args, **options)

    async def read(
        self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()
    ) -> Any:
        """Fill `out` from chunks; return the status of each, which newer versions look at."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        return await _batches().read(self, batch, out, drop_axes) if batch else ()

    async def write(
        self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()
    ) -> None:
        """Store `value` in chunks; chunks that are changed in part are locked."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if batch:
            await _batches().write(self, batch, value, drop_axes)

    async def read_with_zarr(self, batch: list[Any], out: Any, drop_axes: tuple[int, ...]) -> Any:
        """Fill `out` as zarr-python does without this package."""
        return await super().read(batch, out, drop_axes)

    async def write_with_zarr(
        self, batch: list[Any], value: Any, drop_axes: tuple[int, ...]
    ) -> None:
        """Store `value` as zarr-python does without this package."""
        await super().write(batch, value, drop_axes)


_module: ModuleType | None = None


def _batches() -> Any:
    """Return the module that does the work, imported at the first use."""
    global _module
    if _module is None:
        from omnizarr.interop.zarr import pipeline_batches  # noqa: PLC0415 - slow, see above

        _module = pipeline_batches
    return _module


register_pipeline(Pipeline)
