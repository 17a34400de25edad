"""Output of runs for people and programs: text, Markdown, CSV, JSON. Pure functions of results and statistics."""
