"""The rows of a run in the order of every report: grouped by phase and tier, then by parameters. The best comes first
and the floor last."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from dyno.contracts.histogram import LOWEST, curve
from dyno.contracts.model import TIERS, Tier
from dyno.report.tables import display, units
from dyno.report.tables.sections import REMARKS, Section
from dyno.results import Run
from dyno.stats.cache import cache_by_run
from dyno.stats.doubts import ACHIEVED, Doubt, doubts
from dyno.stats.metric import BANDWIDTH, TIME, Metric, estimate_metric, rank
from dyno.stats.summary import NOT_YET, CellSummary, summarize

BY = ", by "
BEYOND = 10
"""p99.99 is shown if more operations than this took longer."""
BAR = 12
EIGHTHS = " ▏▎▍▌▋▊▉"
COLUMNS = (
    *("engine", "parameters", "counted", "time", "rate", "each", "bandwidth", "bar", "interval"),
    *("cpu", "client", "server", "p50", "p99", "p99.99", "max", "resp p50", "resp p99"),
    *("memory", "client memory", "server memory", "on disk", REMARKS),
)
"""Columns on a terminal."""
NOT_IN_DOCUMENTS = ("parameters", "counted", "time", "bar")
"""Columns that Markdown and HTML lack. They have a column for each parameter instead of 'parameters'."""


@dataclass(frozen=True)
class Row:
    """A summary with its doubts."""

    summary: CellSummary
    doubts: tuple[Doubt, ...]
    tool: str | None = None
    """The outside tool that measured the rows of its group; None if Dyno measured."""
    apart: bool = False
    """Whether other rows of the phase were measured by another tool. Such rows are in separate tables."""

    @property
    def place(self) -> str:
        """The phase, with the tool if other tools measured it too."""
        if self.apart and self.tool:
            return f"{self.summary.phase}{BY}{self.tool}"
        return self.summary.phase

    @property
    def name(self) -> str:
        return self.summary.cell.label + (" (floor)" if self.summary.cell.floor else "")

    @cached_property
    def speed(self) -> float | None:
        """The figure by which the row is ranked; more is better."""
        return rank(self.summary)

    def remarks(self) -> list[str]:
        """Returns the row's last column: its tool, doubts, codes of caveats, and medians of kinds and parts of the
        latency."""
        row = self.summary
        if len(row.latency_by_kind_ns) > 1:
            by_kind = row.latency_by_kind_ns
        else:
            by_kind = {}
        # Without spaces before units, where a narrow column would break the line.
        medians = [
            ", ".join(f"{name} {_format_duration(times['p50'])}" for name, times in of.items())
            for of in (by_kind, row.latency_by_part_ns)
        ]
        # Bytes that client and server read from the device.
        read = [used.get("read_bytes") for used in (row.client or {}, row.server) if used is not None]
        if None in read:
            read_bytes = None
        else:
            read_bytes = sum(part or 0 for part in read)
        # Operations of an open loop, per second of the wall clock.
        offered, served = row.offered_per_second, row.served_per_second
        behind = offered is not None and served is not None and served < offered * ACHIEVED
        return [
            *filter(None, [reported_by_text(row.reported_by)]),
            *(doubt.short for doubt in self.doubts),
            *([f"read {units.size(read_bytes).replace(' ', '')}"] if row.temperature == "cold" else []),
            *(caveat.code for caveat in row.caveats if caveat.code != "floor"),
            *(f"p50 of {text}" for text in medians if text),
            *([f"offered {units.rate(offered)}/s, served {units.rate(served)}/s"] if behind else []),
        ]


def _format_duration(ns: int | None) -> str:
    """Formats a time without a blank. The least value of a histogram stands for 0, too."""
    if ns == LOWEST:
        return "0"
    return units.duration(ns).replace(" ", "")


def reported_by_text(tool: str | None) -> str:
    """Returns 'reported by sysbench 1.0.20', the text that is shown with every figure that Dyno did not measure."""
    if tool:
        return f"reported by {tool}"
    return ""


def figure(summary: CellSummary, by: Metric) -> str:
    """Returns a row's figure in a table. A percentile is over the operations of all trials together; for other
    metrics, the figure is the median over trials."""
    if by.pooled is not None:
        return units.duration(by.pooled(summary))
    median = estimate_metric(summary, by)
    if median is None:
        return units.UNKNOWN
    return units.estimate(median, by.kind)[0]


def ranked_by_bandwidth(summary: CellSummary) -> bool:
    return summary.about.metric == BANDWIDTH.name and summary.bandwidth is not None


def bandwidth(summary: CellSummary) -> str:
    """Returns the bandwidth; empty if the suite counts no bytes, so that the column is dropped."""
    if summary.bandwidth is None:
        return ""
    return units.bandwidth(summary.bandwidth.median)


def costs(summary: CellSummary, apart: bool) -> dict[str, str]:
    """Returns the CPU time per item by column: `client` and `server`, or a single `cpu`. Empty if there is no such
    process, or if the run file doesn't have it."""
    if summary.client is None:
        client = ""
    else:
        client = units.cpu_time(summary.client_cpu_ns)
    if summary.server is None:
        server = ""
    else:
        server = units.cpu_time(summary.server_cpu_ns)
    if apart:
        return {"client": client, "server": server}
    return {"cpu": client}


def memory(summary: CellSummary, apart: bool) -> dict[str, str]:
    """Returns the peak of memory by column, like `costs`."""
    peaks = {"client memory": summary.client_peak_bytes, "server memory": summary.server_peak_bytes}
    texts = {name: "" if peak is None else units.size(peak) for name, peak in peaks.items()}
    if apart:
        return texts
    return {"memory": texts["client memory"]}


@dataclass(frozen=True)
class Group:
    """Rows that may be compared: those of one phase at one tier, measured by Dyno or by one outside tool."""

    phase: str
    tier: Tier | None
    rows: tuple[Row, ...]

    @cached_property
    def best(self) -> float | None:
        """The highest figure by which rows are ranked, without the floor's."""
        speeds = [row.speed for row in self.rows if not row.summary.cell.floor]
        return max((speed for speed in speeds if speed is not None), default=None)

    @property
    def empty(self) -> bool:
        """Whether no row was measured yet."""
        return all(row.summary.why == NOT_YET for row in self.rows)

    @property
    def place(self) -> str:
        """Distinguishes the group from the other groups of its tier."""
        return self.rows[0].place


@cache_by_run
def groups(run: Run) -> tuple[Group, ...]:
    """Returns the groups. Phases are in the plan's order, and tiers from volatile to power."""
    order = {phase: at for at, phase in enumerate(run.plan.phases)}
    summaries = summarize(run)
    # The tools that measured each phase; None for Dyno.
    tools: dict[str, list[str | None]] = {}
    for summary in summaries:
        known = tools.setdefault(summary.phase, [])
        if (summary.samples or summary.reported_by) and summary.reported_by not in known:
            known.append(summary.reported_by)
    rows = []
    for summary in summaries:
        known = tools[summary.phase]
        # A row without a figure is in the same group as the other rows of its phase.
        if summary.reported_by in known or not known:
            tool = summary.reported_by
        else:
            tool = known[0]
        rows.append(Row(summary, tuple(doubts(summary, run)), tool, len(known) > 1))
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in run.cells))}

    def place(row: Row) -> tuple[object, ...]:
        cell = row.summary.cell
        at = order[row.summary.phase], TIERS.index(cell.tier), row.tool or ""
        return *at, combinations[cell.combination], cell.floor, row.speed is None, -(row.speed or 0.0)

    rows.sort(key=place)
    grouped = groupby(rows, key=lambda row: (row.summary.phase, row.summary.cell.tier, row.tool))
    return tuple(Group(phase, tier, tuple(of)) for (phase, tier, _), of in grouped)


def has_server(of: Iterable[Group]) -> bool:
    """Returns whether any row has a server, so that the server's figures get a column next to the client's."""
    return any(row.summary.server is not None for group in of for row in group.rows)


@cache_by_run
def varying_params(run: Run) -> tuple[str, ...]:
    """Returns the parameters that differ between cells."""
    first = run.cells[0].params
    return tuple(name for name in first if any(cell.params[name] != first[name] for cell in run.cells))


def named_rows(run: Run) -> Iterator[tuple[str, CellSummary]]:
    """Yields the rows without null engines, in the order of the tables. Each has a unique name for other tools, such
    as 'rand-key/sqlite'. It includes parameters, tier and outside tool if they distinguish rows."""
    changing = varying_params(run)
    rows = [row.summary for group in groups(run) for row in group.rows if not row.summary.cell.floor]
    several_tiers = len({row.cell.tier_name for row in rows}) > 1
    several_tools = len({row.reported_by for row in rows}) > 1
    for row in rows:
        parts = [row.phase, row.cell.asked, *(f"{name}={row.cell.params[name]}" for name in changing)]
        parts += [row.cell.tier_name] if several_tiers and row.cell.tier_name else []
        parts += [row.reported_by] if several_tools and row.reported_by else []
        yield "/".join(parts), row


# -- as sections --------------------------------------------------------------------------------------------


def sections(run: Run, of: Sequence[Group]) -> list[Section]:
    """Returns a section for each group. It has those columns of a terminal for which any row of the run has a
    value."""
    changing, apart = varying_params(run), has_server(of)
    rows = [[cells(row, group.best, changing, apart) for row in group.rows] for group in of]
    used = [name for name in COLUMNS if any(each[name] for group in rows for each in group)]
    if all(row.summary.bytes_on_disk is None for group in of for row in group.rows) and "on disk" in used:
        used.remove("on disk")
    sections = []
    for group, texts in zip(of, rows, strict=True):
        title, remark = group.place, display.explain_tier(group.tier)
        if group.empty:
            sections.append(Section(title, remark, lines=["Nothing was measured."]))
            continue
        summaries = [row.summary for row in group.rows]
        unit = summaries[0].unit
        section = Section(
            title,
            remark,
            used,
            [[each[name] for name in used] for each in texts],
            left=("engine", "parameters", "bar", REMARKS),
            rigid=("engine", "bar"),
            spare=("bar",),
            row_styles=["dim" if row.cell.floor else "" if row.valid else "red" for row in summaries],
            column_styles={"bar": "cyan", REMARKS: "yellow"},
            plain_heads={"counted": f"{unit}s", "rate": f"{unit}/s", "each": f"a {unit}", "bar": ""}
            | {"interval": "[95 %]"}
            | {f"{who} memory": f"{who} mem" for who in ("client", "server")},
        )
        sections.append(section)
    return sections


def document_sections(run: Run, of: Sequence[Group]) -> Iterator[Section]:
    """Yields sections for Markdown and HTML. They have a column for each parameter, and each table has only columns
    for which it has values."""
    changing, apart = varying_params(run), has_server(of)
    for group in of:
        rows = [row.summary for row in group.rows]
        heads = {"rate": f"{rows[0].unit}/s", "each": f"a {rows[0].unit}", "interval": "95 %"}
        texts = [cells(row, None, changing, apart) for row in group.rows]
        columns = {"engine": [row.name for row in group.rows]}
        columns |= {name: [str(row.cell.params[name]) for row in rows] for name in changing}
        for name in COLUMNS[1:]:
            if name not in NOT_IN_DOCUMENTS:
                columns[heads.get(name, name)] = [each[name] or units.UNKNOWN for each in texts]
        columns[heads[_figure(rows[0])]] = [_rate(row) for row in rows]
        columns[REMARKS] = [each[REMARKS] for each in texts]
        used = [name for name in columns if name == "95 %" or set(columns[name]) != {units.UNKNOWN}]
        words = [name for name in changing if any(isinstance(row.cell.params[name], str) for row in rows)]
        yield Section(
            group.place,
            display.tier(group.tier),
            used,
            list(zip(*(columns[name] for name in used), strict=True)),
            left=("engine", REMARKS, *words),
        )


def _figure(row: CellSummary) -> str:
    """Returns the column with the row's main figure: items per second, or the time of each item."""
    if row.about.metric == TIME.name:
        return "each"
    return "rate"


def _rate(row: CellSummary) -> str:
    if row.throughput is not None:
        if row.about.metric == TIME.name:
            return figure(row, TIME)
        return units.rate(row.throughput.median)
    return (row.why or "no number").split(":", 1)[0]


def cells(row: Row, best: float | None, changing: Sequence[str], apart: bool) -> dict[str, str]:
    """Returns a row's cells by column. A cell without a value is empty. `apart`: whether clients and servers have
    separate columns of CPU time and memory."""
    summary = row.summary
    texts = {
        **dict.fromkeys(COLUMNS, ""),
        "engine": row.name,
        "parameters": units.params(summary.cell.params, changing),
        REMARKS: ", ".join(row.remarks()),
    }
    if summary.throughput is None:
        return {**texts, _figure(summary): _rate(summary).split(" ", 1)[0]}
    responses = {f"resp {name}": summary.response_ns[name] for name in ("p50", "p99")}
    if best and not summary.cell.floor:
        eighths = round((row.speed or 0.0) / best * BAR * 8)
    else:
        eighths = 0
    ranked = (summary.throughput, "items")
    if ranked_by_bandwidth(summary) and summary.bandwidth is not None:
        ranked = (summary.bandwidth, BANDWIDTH.kind)
    elif summary.about.metric == TIME.name and (times := estimate_metric(summary, TIME)) is not None:
        ranked = (times, TIME.kind)
    # Columns in which no row has a text are dropped.
    far = curve((sample.histogram for sample in summary.samples), [99.99], BEYOND)
    longest = summary.latency_ns["max"]
    return {
        **texts,
        "counted": units.count(summary.items),
        "time": units.duration(summary.elapsed_ns),
        _figure(summary): _rate(summary),
        "bandwidth": bandwidth(summary),
        "bar": "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip(),
        "interval": units.estimate(*ranked)[1],
        **costs(summary, apart),
        "p50": units.duration(summary.latency_ns["p50"]),
        "p99": units.duration(summary.latency_ns["p99"]),
        # With fewer operations beyond it, p99.99 would be one of the longest.
        "p99.99": units.duration(far[0][1]) if far else "",
        "max": "" if longest is None else units.duration(longest),
        **{name: "" if ns is None else units.duration(ns) for name, ns in responses.items()},
        **memory(summary, apart),
        "on disk": units.size(summary.bytes_on_disk),
    }
