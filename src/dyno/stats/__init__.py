"""Numbers out of run files: pure functions of results, without a clock, a file or a screen."""
