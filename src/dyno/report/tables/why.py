"""Accounts of an item's time as tables, and why rows differ as sentences and as JSON."""

from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from dyno.contracts.value_types import JsonObject
from dyno.report import why_json
from dyno.report.tables import display, profiles, units, wording
from dyno.report.tables.comparison import row_data
from dyno.report.tables.sections import Section
from dyno.report.tables.table import reported_by_text
from dyno.stats.account import (
    CLIENT_CPU,
    CLIENT_KERNEL,
    CLIENT_USER,
    CORE_WAIT,
    DEVICE_WAIT,
    HARNESS,
    OTHER_WAIT,
    PARTS,
    SERVER_CPU,
    SERVER_KERNEL,
    SERVER_USER,
    Account,
    has_server,
)
from dyno.stats.profile import RowProfile
from dyno.stats.why import Difference, Explained, Explanation

SCHEMA = 1
EMBEDDED_HEADS = {CLIENT_USER: "user", CLIENT_KERNEL: "kernel"}
"""Column heads if no row has a server."""
HEADS = {
    HARNESS: "harness",
    CLIENT_USER: "client, user",
    CLIENT_KERNEL: "client, kernel",
    SERVER_USER: "server, user",
    SERVER_KERNEL: "server, kernel",
    CORE_WAIT: "waiting for a core",
    DEVICE_WAIT: "device",
    OTHER_WAIT: "other waiting",
}
PHRASES = {
    HARNESS: "in Dyno's harness",
    CLIENT_USER: "CPU time of its client",
    CLIENT_KERNEL: "in its client's system calls",
    SERVER_USER: "CPU time of its server",
    SERVER_KERNEL: "in its server's system calls",
    CLIENT_CPU: "CPU time of its client, of its own or in system calls",
    SERVER_CPU: "CPU time of its server, of its own or in system calls",
    CORE_WAIT: "waiting for a core",
    DEVICE_WAIT: "waiting for the device",
    OTHER_WAIT: "waiting for something else",
}
EMBEDDED_PHRASES = {
    CLIENT_USER: "CPU time of its own",
    CLIENT_KERNEL: "in system calls",
    CLIENT_CPU: "CPU time, of its own or in system calls",
}
NEVER_RULED_OUT = (HARNESS,)
"""The harness is the same for all rows."""
COUNT_NAMES = {
    "read_calls": "read calls",
    "write_calls": "write calls",
    "asked_bytes": "bytes read by calls",
    "read_bytes": "bytes from the device",
    "written_bytes": "bytes to the device",
    "minor_faults": "page faults",
    "major_faults": "page faults from the device",
    "voluntary_switches": "waits",
    "involuntary_switches": "lost cores",
}
MEANS = "Time of an item, means over the samples: the parts add up to the total."
CORE_TIME = "several cores worked at once: the parts are core time, and more than the elapsed time"
ELSEWHERE = "Other waiting: for locks, a network, timers, and devices that the kernel doesn't account."
DOES_NOT_KNOW = "Dyno doesn't know why: the parts that differ make less than half of it."


def list_accounts(of: Sequence[Explained], changing: Sequence[str]) -> list[Section]:
    """Returns a section for each table, with the account of each row and sentences on the differences."""
    sections = []
    for table in of:
        parts = [part for part in PARTS if any(part in account.parts for account in table.accounts)]
        rows = [
            (
                account.row.cell.label,
                units.duration(account.mean_total_ns),
                *(units.duration(account.mean_parts_ns.get(part)) for part in parts),
            )
            for account in table.accounts
        ]
        first = table.table
        title = display.join_parts(
            first.phase,
            display.tiers(first.tiers),
            units.params(first.params, changing),
            reported_by_text(first.reported_by),
            between="  ",
        )
        lines = [f"{row.cell.label}: no account: {why}" for row, why in table.without]
        lines += [each for explanation in table.explanations for each in explain(explanation)]
        overlapping = [account.row.cell.label for account in table.accounts if account.core_time]
        if overlapping:
            lines.append(f"{display.join_names(overlapping)}: {CORE_TIME}")
        names = name_parts(table.accounts)
        heads = ("engine", "total", *(names[part] for part in parts)) if rows else ()
        sections.append(Section(title, "", heads, rows, lines=lines))
    return sections


def name_parts(accounts: Sequence[Account]) -> Mapping[str, str]:
    """Returns the names of the parts in tables and charts. Without a server, the client's are the engine's."""
    if has_server(accounts):
        return HEADS
    return {**HEADS, **EMBEDDED_HEADS}


def explain(of: Explanation) -> list[str]:
    """Returns sentences on why a row differs from its base: the parts, what was ruled out, and counts."""
    name, base = of.row.cell.label, of.base.cell.label
    if name == base:
        base = "before"
    if of.missing:
        return [f"{name} and {base}: no account: {of.missing}"]
    if of.whole is None or not (of.named or of.ruled_out):
        return [f"{name} and {base}: no difference to explain ({wording.verdict(of.verdict)})"]
    phrases = _phrases(of)
    more = of.whole.ns > 0
    low, high = sorted((abs(of.whole.low), abs(of.whole.high)))
    interval = units.interval(low, high, units.duration)
    lead = f"{name} takes {units.duration(abs(of.whole.ns))} {'longer' if more else 'less'} than {base} [{interval}]"
    if of.undisturbed:
        lead += " without waiting for a core"
    parts = [_phrase(of.parts[part], phrases[part]) for part in of.named]
    text = f"{lead}: {'; '.join(parts)}." if parts else f"{lead}."
    if not of.explained:
        text += f" {DOES_NOT_KNOW}"
    out = [phrases[part] for part in of.ruled_out if part not in NEVER_RULED_OUT]
    if out:
        text += f" Ruled out: {'; '.join(out)}."
    lines = [text]
    if counts := of.differing_counts():
        figures = [f"{_count(name, pair)} {COUNT_NAMES[name]}" for name, pair in counts.items()]
        lines.append(f"  For an item, {name} and {base}: {', '.join(figures)}")
    if own := of.differing_counters():
        figures = [f"{_count(name, pair)} {name}" for name, pair in own.items()]
        lines.append(f"  By the engine's own counters, for an item: {', '.join(figures)}")
    return lines


def explain_in_phase(of: Explanation) -> list[str]:
    """Returns the sentences of `explain`, the first with the phase."""
    first, *others = explain(of)
    return [f"{of.row.phase}: {first}", *others]


def _phrases(of: Explanation) -> Mapping[str, str]:
    if SERVER_USER in of.parts:
        return PHRASES
    return {**PHRASES, **EMBEDDED_PHRASES}


def _phrase(of: Difference, what: str) -> str:
    size = units.duration(abs(of.ns))
    if of.ns > 0:
        return f"{size} more {what}"
    return f"{size} less {what}"


def _count(name: str, pair: tuple[float, float]) -> str:
    if name.endswith("_bytes"):
        return " and ".join(units.size(max(value, 0.0)) for value in pair)
    return " and ".join(f"{value:.2g}" for value in pair)


# -- as JSON ------------------------------------------------------------------------------------------------


def why_data(
    runs: Sequence[str],
    tables: Sequence[Explained],
    reasons: Sequence[Explanation],
    of_profiles: Sequence[RowProfile],
) -> JsonObject:
    """Returns the JSON of `dyno why --json`."""
    data = why_json.Why(
        schema=SCHEMA,
        runs=list(runs),
        tables=[_table_data(table) for table in tables],
        reasons=[_reason_data(reason) for reason in reasons],
        profiles=[profiles.profile_data(profile) for profile in of_profiles],
    )
    plain: JsonObject = to_builtins(data)
    return plain


def _table_data(of: Explained) -> why_json.AccountTable:
    cell = of.table.rows[0][0].cell
    return why_json.AccountTable(
        phase=of.table.phase,
        tier=cell.tier_name,
        params=cell.params,
        accounts=[_account_data(account) for account in of.accounts],
        without={row.cell.label: why for row, why in of.without},
    )


def _account_data(of: Account) -> why_json.AccountRow:
    cell = of.row.cell
    return why_json.AccountRow(
        cell.asked, cell.name, of.mean_total_ns, of.core_time, of.mean_parts_ns, of.mean_counts
    )


def _reason_data(of: Explanation) -> why_json.Reason:
    return why_json.Reason(
        **row_data(of.row.phase, of.row.cell),
        baseline=of.base.cell.asked,
        kind=of.verdict.kind,
        undisturbed=of.undisturbed,
        whole=of.whole,
        parts=of.parts,
        named=list(of.named),
        ruled_out=list(of.ruled_out),
        explained=of.explained,
        counts={name: list(pair) for name, pair in of.differing_counts().items()},
        counters={name: list(pair) for name, pair in of.differing_counters().items()},
        missing=of.missing,
        text=" ".join(line.strip() for line in explain(of)),
    )
