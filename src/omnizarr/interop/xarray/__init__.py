"""The xarray engine: ``xarray.open_dataset(path, engine="omnizarr")``."""
