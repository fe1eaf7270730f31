"""zarr-python's names on omnizarr, which `omnizarr.as_zarr` puts in place.

`installing` puts the names in place and removes them again. `opening` and `creation` have the
functions, `arrays` and `groups` are what they return, `asynchronous` has the awaitable forms. All
are omnizarr's, with zarr-python's defaults, properties and errors. Objects that only describe
(metadata, data types, codecs, configuration) and stores are those of the installed zarr-python
where there is one (`library`), so that a program can compare them and pass them on.
"""
