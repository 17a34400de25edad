"""Tables of published experiments, each next to a run that repeats it."""
