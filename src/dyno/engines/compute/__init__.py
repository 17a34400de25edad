"""Engines for numeric libraries, including servers of Dask and Spark."""

ENGINES = ("cudf", "cupy", "dask_cupy", "jax", "numexpr", "numpy", "pandas", "polars", "pyarrow", "python", "torch")
"""The engines that the module `engines` declares."""
