"""The codec pipeline for zarr-python: batches of chunks go to the compiled kernel in one call."""
