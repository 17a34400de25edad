"""The machine that Dyno runs on: facts, counters, page cache, file systems, processes. Imports no other package of
Dyno."""
