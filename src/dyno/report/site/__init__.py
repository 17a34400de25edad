"""A static site of many runs, without a server: a list, a page for each run, comparisons of two runs, and the history
of each cell. `dyno.report.page` builds the pages of single runs."""
