"""Numeric libraries: an engine each, and the servers of Dask and Spark."""
