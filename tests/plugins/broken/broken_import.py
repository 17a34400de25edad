"""A test engine, not a real one: its import raises a BaseException that is no Exception."""

raise GeneratorExit("not today")
