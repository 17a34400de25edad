"""A static site of many runs, which needs no server: a list, a page for each run, comparisons of two runs, and the
history of each cell. `dyno.report.page` builds the pages of single runs."""
