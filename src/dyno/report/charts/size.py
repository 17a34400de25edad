"""Size on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.report.charts import bars, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured, remarks
from dyno.results import Run

DOUBTS = ("few", "partial", "attempts", "unsettled")
"""Those that concern a size; the others speak of times."""


def records(run: Run) -> list[Record]:
    """The smallest first; without engines that keep no files."""
    found = [
        {
            **record,
            "remarks": remarks(row, DOUBTS),
            "bytes_on_disk": row.summary.bytes_on_disk,
            "write_amplification": row.summary.write_amplification,
            "instead": "",
        }
        for row, record in measured(run)
        if row.summary.bytes_on_disk is not None
    ]
    groups = {group: at for at, group in enumerate(dict.fromkeys(map(_group, found)))}
    return sorted(found, key=lambda record: (groups[_group(record)], record["bytes_on_disk"]))


def _group(record: Record) -> tuple[str, str | None, str]:
    return record["phase"], record["tier"], repr(record["params"])


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    tooltip = [
        {"field": "figure", "title": "on disk"},
        {"field": "write_amplification", "title": "write amplification", "format": ".3~r"},
        {"field": "remarks", "title": "remarks"},
    ]
    made = bars.spec(engines, "bytes_on_disk", "on disk", units.size, tooltip)
    # Its ticks are round in powers of ten and not in those of two; the figures stand beside the bars.
    made["layer"][1]["encoding"]["x"]["axis"] |= {"labels": False}
    return made


CHART = Chart(
    name="size",
    title="Size on disk",
    reading="Blocks that the engine's files take on the file system after the phase, once it had come to rest: the"
    " median over trials. Shorter is better. Write amplification: bytes sent to the device for each byte that was"
    " given to be stored.",
    needs="engines that keep files",
    columns=(
        Column("engine", "engine"),
        Column("bytes_on_disk", "on disk", "bytes"),
        Column("write_amplification", "write amplification", "ratio"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
)
