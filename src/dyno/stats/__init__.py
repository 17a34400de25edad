"""Statistics of run files: pure functions of results, without access to clocks, files or screens."""
