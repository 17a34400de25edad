"""A test engine, not a real one: its import raises what is no Exception."""

raise GeneratorExit("not today")
