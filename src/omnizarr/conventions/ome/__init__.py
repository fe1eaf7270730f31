"""OME-Zarr: images, labels and plates of microscopes.

Specification: https://ngff.openmicroscopy.org. Metadata of any version become one model, that of
the newest version that is written; `versions` has a step for each version. Writing and migrating
are bulk work and live in `omnizarr.ops`; users find all of it in `omnizarr.ome`.
"""
