"""`dyno` with two small published experiments instead of all, for tests that kill it. Not a test itself."""

from __future__ import annotations

from dataclasses import replace

from dyno import published
from dyno.published import Experiment

SMALL = {"quick": {"param": {"packer": ["zlib"], "batch": [1, 16]}, "samples": 3}}
"""A size of acid-batch-2013: the whole has 64 cells, null engines included."""
RECORDS = {"quick": {"engine": ["lmdb", "memory"], "samples": 2, "budget": 0.05}}
"""A size of acid-2013 without servers."""


def experiments() -> dict[str, Experiment]:
    sizes = {"acid-batch-2013": {"quick": {**SMALL["quick"], "samples": 1}}, "acid-2013": RECORDS}
    return {name: replace(published.experiment(name), sizes=size) for name, size in sizes.items()}


if __name__ == "__main__":
    from dyno.cli import main

    small = experiments()
    published.experiment = lambda name, cpus=None: small[name]
    published.names = lambda: list(small)
    main()
