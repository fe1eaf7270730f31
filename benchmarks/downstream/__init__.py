"""Packages that run on zarr-python, on omnizarr in its place."""
