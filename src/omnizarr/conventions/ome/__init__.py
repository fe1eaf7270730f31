"""OME-Zarr: images, labels and plates from microscopes.

Specification: https://ngff.openmicroscopy.org. Metadata of any version is converted to one model,
that of the newest version that can be written; `versions` has one conversion per version.
"""
