"""Files of other formats: HDF5, NetCDF, TIFF and NumPy, read into Zarr and written from it; PNG."""
