"""Out-of-core arrays: an engine for each library."""
