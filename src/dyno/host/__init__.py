"""The machine Dyno runs on: facts, counters, page cache, file systems, processes. Imports nothing of Dyno's."""
