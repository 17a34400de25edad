"""The machine's own ceilings, and what share of them each row reaches, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from dyno.report.tables import row_titles, units
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.ceilings import CeilingShare, probed, shares

MOST_LINES = 40
MEANING = (
    "of the flushes: operations of what writes at tier power, of the flushes that one writer reaches alone; over"
    " 100 % where several share one. of the memory: bytes moved. of one core: CPU time of client and server"
)


def ceilings(run: Run) -> str:
    """'at most 5,400 flushes/s, 47.3 GB/s of memory, 391 prime searches/s on a core'; nothing where nobody probed."""
    found = probed(run) or {}
    flushes, memory, core = (
        found.get(name) for name in ("flushes_per_second", "memory_bytes_per_second", "core_events_per_second")
    )
    told = [
        f"{units.rate(flushes)} flushes/s" if flushes else "",
        f"{memory / 1e9:.1f} GB/s of memory" if memory else "",
        f"{units.rate(core)} prime searches/s on a core" if core else "",
    ]
    said = ", ".join(filter(None, told))
    return f"at most {said} (probed {found.get('probed') or 'once'})" if said else ""


def lines(run: Run) -> Iterator[str]:
    """'lmdb, insert: 82 % of the flushes, 31 % of one core': of each row of which any is known."""
    changing = varying(run)
    for share in shares(run):
        if told := ", ".join(_told(share)):
            cell = share.row.cell
            params = units.params({name: cell.params[name] for name in changing})
            yield f"{row_titles.named(cell.label, share.row.phase, row_titles.tier(cell.tier), params)}: {told}"


def _told(share: CeilingShare) -> Iterator[str]:
    for value, of in ((share.flushes, "the flushes"), (share.memory, "the memory"), (share.cores, "one core")):
        if value is not None:
            yield f"{value:.0%} of {of}"


def render(run: Run, console: Console) -> None:
    """Nothing where nobody probed the machine."""
    if probed(run) is None:
        return
    found = list(lines(run))
    console.print()
    console.print(Text("Of this machine's own ceilings", "bold"))
    for line in found[:MOST_LINES]:
        console.print(Text(f"  {line}"), soft_wrap=True)
    if len(found) > MOST_LINES:
        console.print(Text(f"  and {len(found) - MOST_LINES} more", "dim"))
    console.print(Text(f"  {MEANING}", "dim"), soft_wrap=True)
