"""Tables of a run, for the terminal and for the page."""
