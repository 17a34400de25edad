"""Runs the suite ndarrays like a user: its rows show the array, its chunks and the axis of each slice."""

from __future__ import annotations

import pytest
from needed import require
from shell import Shell

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

RUN = ("run", "ndarrays", "-e", "numpy_memmap", "-p", "shape=40x50x60", "--samples", 1, "--budget", 0.2)


def test_each_axis_is_read_for_each_chunk_shape(shell: Shell) -> None:
    require(registry.engine("numpy_memmap").reduce_to_port("ndarrays"))
    chunks = "16x16x16,1x50x60"
    ended = shell.dyno(*RUN, "-p", f"chunks={chunks}", "-p", "slices=3", "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    for text in (*(f"chunks={each}" for each in chunks.split(",")), "shape=40x50x60", "read-axis-2-cold"):
        assert text in ended.out, text
    lines = shell.attempts("numpy_memmap")
    assert len(lines) == 2
    for line in lines:
        samples = {sample["phase"]: sample for sample in line["samples"]}
        assert len(samples) == 7 and not any(sample["void"] for sample in samples.values())
        assert samples["write"]["bytes"] == 40 * 50 * 60 * 4
        for axis, floats in enumerate((50 * 60, 40 * 60, 40 * 50)):
            cold, hot = (samples[f"read-axis-{axis}-{how}"] for how in ("cold", "hot"))
            assert (cold["temperature"], cold["items"], cold["bytes"]) == ("cold", 1, floats * 4)
            assert hot["temperature"] == "hot" and hot["bytes"] == hot["items"] * floats * 4 and hot["checked"]


def test_invalid_chunks_axes_shapes_and_engines_are_named(shell: Shell) -> None:
    require(registry.engine("numpy_memmap").reduce_to_port("ndarrays"))
    phases = "read-axis-2-hot,read-axis-3-cold"
    ended = shell.dyno(*RUN, "-p", "chunks=16x16,8x8x8", "--phases", phases, "-o", shell.file)
    assert "chunks=16x16 does not fit shape=40x50x60" in ended.out
    assert "shape=40x50x60 has no axis 3" in ended.out
    ended = shell.run_here("run", "ndarrays", "-e", "sqlite")
    assert ended.status == 2 and "sqlite has no port of suite ndarrays" in ended.err
    for shape in ("64x0", "2x2x2x2x2"):
        ended = shell.run_here("run", "ndarrays", "-p", f"shape={shape}")
        assert ended.status == 2 and f"shape={shape}: expected up to 4 lengths" in ended.err
