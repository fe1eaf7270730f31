"""Tests of the codec pipeline for zarr-python."""
