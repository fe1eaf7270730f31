"""CF and the NetCDF data model: what attributes say about values, dimensions and times."""
