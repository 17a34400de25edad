"""A static site over many runs: a list, a page for each, any two compared, and the history of a cell. It needs no
server. What a page says of one run is in `dyno.report.page`."""
