"""Out-of-core arrays: an engine for each library."""

ENGINES = ("numpy_memmap", "numpy_memory")
"""The engines that the module `engines` declares."""
