"""Engines that store arrays: NumPy, HDF5, Zarr, TileDB and Wendelin.core."""

ENGINES = ("numpy_memmap", "numpy_memory")
"""The engines that the module `engines` declares."""
