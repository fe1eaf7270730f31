"""A codec pipeline for zarr-python 3: its API and metadata, with this package's engine below.

>>> import zarr
>>> zarr.config.set({"codec_pipeline.path": "omnizarr.zarr_pipeline.Pipeline"})

The environment variable ``ZARR_CODEC_PIPELINE__PATH`` does the same. What the engine does not know
is left to zarr-python's own pipeline, with a warning.
"""

from omnizarr.interop.zarr.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
