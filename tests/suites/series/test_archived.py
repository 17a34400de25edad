"""Tests the dataset of PB files of an EPICS Archiver Appliance: files written with the protocol's own classes are
read back exactly, and other content is left out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needed import unavailable
from shell import Shell

from dyno.contracts.model import Refused
from dyno.suites.series import archive
from dyno.suites.series.dataset import HALF_HOUR, SECOND, START, Facility
from dyno.suites.series.pb_files import PbDataset

pytestmark = pytest.mark.usefixtures("processes")

YEAR, YEAR_START = 2009, 1_230_768_000
"""The year of the generated samples, and its start in seconds."""


def written(path: Path, name: str, rows: Iterable[tuple[int, Any, int, int]], kind: str = "DOUBLE") -> None:
    """Writes a PB file: a header line, then an escaped line for each sample."""
    try:
        from epicsarchiver.retrieval import EPICSEvent_pb2 as events
        from epicsarchiver.retrieval.pb import escape_bytes
    except ImportError:
        unavailable("the library epicsarchiver-retrieval-client is not installed")
    known: Any = events
    about = known.PayloadInfo(type=getattr(known, f"SCALAR_{kind}"), pvname=name, year=YEAR)
    lines = [about.SerializeToString()]
    for ts, value, stat, sevr in rows:
        event = getattr(known, f"Scalar{kind.title()}")(
            secondsintoyear=ts // SECOND - YEAR_START, nano=ts % SECOND, val=value
        )
        if sevr:
            event.severity, event.status = sevr, stat
        lines.append(event.SerializeToString())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(escape_bytes(line) + b"\n" for line in lines))


def samples_of(pv: int, count: int = 200) -> list[tuple[int, float, int, int]]:
    """Returns samples of the simulated facility; status and severity are both zero or both not, as in real files."""
    found = Facility(1, 5, count).samples(np.full(count, pv), np.arange(count))
    return list(zip(*(values.tolist() for values in found[1:]), strict=True))


def test_samples_round_trip_and_arrive_in_time_order(tmp_path: Path) -> None:
    rows = {f"SR:{pv}": samples_of(pv) for pv in range(3)}
    for name, each in rows.items():
        # Each variable has two files.
        written(tmp_path / "in" / name / "a.pb", name, each[:120])
        written(tmp_path / "in" / name / "b.pb", name, each[120:])
    dataset = PbDataset(tmp_path / "in", tmp_path / "kept", 100)
    assert dataset.names == [*rows] and dataset.total == 600 and dataset.left_out == 0
    for pv, each in enumerate(rows.values()):
        found = dataset.one(pv)
        assert list(zip(*(values.tolist() for values in found), strict=True)) == each
    arrivals = list(dataset.arrivals())
    assert sum(arrival.new for arrival in arrivals) == 600 and 5 < len(arrivals) < 12
    assert not any(arrival.replaced for arrival in arrivals)
    times = np.concatenate([arrival.batch.ts for arrival in arrivals])
    assert (np.diff(times) >= 0).all() and dataset.start <= times[0] and times[-1] < dataset.end
    assert (dataset.start, dataset.end) == (START, START + HALF_HOUR)
    further = list(dataset.further_batches(2))
    assert [len(arrival.batch.ts) for arrival in further] == [3, 3]
    assert dataset.end <= further[0].batch.ts[0] < further[1].batch.ts[0]


def test_values_other_than_finite_scalars_are_left_out(tmp_path: Path) -> None:
    rows = samples_of(0, 20)
    wild = [(rows[0][0] + 1, math.nan, 0, 0), (rows[0][0] + 2, math.inf, 0, 0)]
    again = (rows[5][0], rows[5][1] + 1, 3, 2)
    written(tmp_path / "a.pb", "SR:0", [*rows, *wild, again])
    written(tmp_path / "b.pb", "SR:1", [(rows[0][0], "text", 0, 0)], kind="STRING")
    dataset = PbDataset(tmp_path, tmp_path / "kept", 100)
    assert dataset.names == ["SR:0"] and dataset.total == 20 and dataset.left_out == 1
    # If two samples have the same time, the last one counts.
    assert dataset.one(0).val[5] == again[1]


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.pb", "SR:1", [(START, "text", 0, 0)], kind="STRING")
    with pytest.raises(Refused, match="no PB file in it has a sample"):
        PbDataset(tmp_path, tmp_path / "kept", 100)
    (tmp_path / "b.pb").write_bytes(b"\x01\x02 no such thing\nat all\n")
    with pytest.raises(Refused, match=r"b\.pb: is not a PB file"):
        PbDataset(tmp_path / "b.pb", tmp_path / "kept", 100)


def test_a_path_without_files_is_a_usage_error(tmp_path: Path) -> None:
    assert archive("") == ""
    for text in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match="expected a file of an Archiver Appliance"):
            archive(str(text))


def test_a_run_uses_pb_files(shell: Shell) -> None:
    place = shell.home / "lts"
    for pv in range(5):
        written(place / f"{pv}.pb", f"SR:{pv}", samples_of(pv))
    words = ("--phases", "insert,extract-one-hot", "-p", f"archive={place}", "-p", "batch=100", "-p", "reads=2")
    ended = shell.dyno("run", "series", "-e", "sqlite", *words, "--samples", 1, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    cells = shell.cells()
    assert all(cell["valid"] for cell in cells.values()), {key: cell["why"] for key, cell in cells.items()}
    (insert,) = (s for line in shell.attempts("sqlite") for s in line["samples"] if s["phase"] == "insert")
    assert insert["items"] == 1_000
