"""Value types with the limits that the run file's decoder enforces: see `dyno.results`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypedDict

from msgspec import Meta

from dyno.contracts.value_types import LEAST, MOST, MOST_HISTOGRAM, MOST_REAL, MOST_TEXT

Text = Annotated[str, Meta(max_length=MOST_TEXT)]
Histogram = Annotated[bytes, Meta(max_length=MOST_HISTOGRAM * 3 // 4)]
"""An encoded histogram, which is base64 text in JSON."""
Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[int, Meta(ge=1, le=MOST)]
Change = Annotated[int, Meta(ge=LEAST, le=MOST)]
Real = Annotated[float, Meta(ge=-MOST_REAL, le=MOST_REAL)]
Amount = Count | Annotated[float, Meta(ge=0, le=MOST_REAL)]
Percent = Annotated[int, Meta(ge=0, le=100)] | Annotated[float, Meta(ge=0, le=100)]

Value = Text | Change | Real | bool
Fact = Text | Change | Real | bool | None


class _Used(TypedDict, total=False):
    """Counters of processes or a device: see `host.usage.Usage`."""

    user_ns: Count | None
    system_ns: Count | None
    voluntary_switches: Count | None
    involuntary_switches: Count | None
    major_faults: Count | None
    asked_bytes: Count | None
    """Read by system calls, from any source."""
    read_bytes: Count | None
    """Read from the device."""
    written_bytes: Change | None
    """Bytes of pages that were changed, less those of pages that were dropped before a flush; may be negative."""
    core_wait_ns: Count | None
    """Time in which threads were ready to run and waited for a core. Earlier files lack it."""
    minor_faults: Count | None
    """Page faults that did not wait for a device. Earlier files lack this and the rest."""
    read_calls: Count | None
    """System calls that read from anything but a socket."""
    write_calls: Count | None
    """System calls that wrote to anything but a socket."""
    device_wait_ns: Count | None
    """Time in which threads waited for a block device; null unless the kernel counts it."""
    peak_resident_bytes: Count | None


class Residency(TypedDict):
    file_bytes: Count
    resident_bytes: Count | None
    evicted_by: Text


class Point(TypedDict):
    from_ns: Count
    interval_ns: Positive
    operations: Count
    p50_ns: Count | None
    p99_ns: Count


class Machine(TypedDict):
    """A machine whose clients loaded a server. Times are in ns; unknown is None."""

    clients: Positive
    processes: Positive
    cores: Annotated[float, Meta(gt=0, le=MOST_REAL)]
    operations: Count
    elapsed_ns: Count
    cpu_ns: Count | None
    late_p99_ns: Count | None
    response_p99_ns: Count | None
    round_trip_ns: Count | None
    """Shortest time of a TCP connection to the server."""
    offset_ns: Change
    """How far the machine's clock was ahead of the one of the machine with the server."""
    uncertainty_ns: Count
    skew_ns: Count
    """How far the clocks certainly moved against each other during the phase."""


class LoopCost(TypedDict):
    name: Text
    clock: Text
    operation_ns: Amount
    span_ns: Amount


class Loop(LoopCost, total=False):
    python: Text


class _Strain(TypedDict, total=False):
    steal_percent: Percent | None
    swapped_in_bytes: Count | None
    swapped_out_bytes: Count | None
    memory_stall_ns: Count | None
    io_stall_ns: Count | None
    cpu_stall_ns: Count | None
    throttled_ns: Count | None
    thermal_throttles: Count | None
    elapsed_ns: Count | None


if TYPE_CHECKING:
    # Code reads and writes these tables by computed keys.
    Used = Mapping[str, int | None]
    Strain = Mapping[str, float | None]
else:
    Used = _Used
    Strain = _Strain


class Resources(TypedDict, total=False):
    """Resources of a whole trial."""

    client: Used | None
    server: Used | None
    peak_anonymous_bytes: Count | None
