"""A test engine, not a real one: to import it is to leave the program."""

raise SystemExit(0)
