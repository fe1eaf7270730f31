"""A napari reader for OME-Zarr and any Zarr array."""
