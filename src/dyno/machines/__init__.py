"""Other machines, reached through a scheduler of Dask that the user has started."""
