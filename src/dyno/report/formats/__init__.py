"""Exports a run in the formats of other tools: CI servers, dashboards and plotters. docs/reference/ci.md describes
them.

Null engines are left out, because they measure Dyno's own cost.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from statistics import fmean, median, stdev
from typing import NamedTuple
from xml.etree import ElementTree

from dyno.contracts.histogram import count_values, percentiles
from dyno.contracts.sanitize import sanitize
from dyno.contracts.value_types import JsonMapping
from dyno.report.formats.profiles import folded, speedscope
from dyno.report.tables import units
from dyno.report.tables.notes import absent
from dyno.report.tables.table import named_rows, varying_params
from dyno.results import Run, damaged_file_error
from dyno.stats.metric import METRICS, estimate_metric
from dyno.stats.summary import CellSummary

BENCHER_MEASURES = {
    "throughput": "throughput",
    "latency": "p50",
    "latency-p99": "p99",
    "response-p99": "response-p99",
}
"""Dyno's metric for each measure of Bencher."""
HLOG_COLUMNS = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
GAUGES = {
    "dyno_throughput": "Items per second: the median over trials.",
    "dyno_throughput_low": "Lower end of its 95 % interval.",
    "dyno_throughput_high": "Upper end of its 95 % interval.",
    "dyno_client_cpu_seconds": "CPU time of the client for each item.",
    "dyno_server_cpu_seconds": "CPU time of the server for each item.",
    "dyno_disk_bytes": "Size of the store on disk.",
    "dyno_valid": "1 if the row has a number, else 0.",
}
SUMMARIES = {
    "dyno_latency_seconds": "Latency of one operation.",
    "dyno_response_seconds": "Response time of one operation, from when it was due.",
}


def bencher(run: Run) -> str:
    """Returns Bencher Metric Format: rows with a number, and their measures with intervals. Throughput is in items
    per second, latency in ns, CPU time in ns per item."""
    rows = {}
    for name, row in named_rows(run):
        if row.valid:
            measures = rows[name] = dict[str, dict[str, float]]()
            for measure, metric in BENCHER_MEASURES.items():
                if (of := estimate_metric(row, METRICS[metric])) is not None:
                    values = {"value": of.median, "lower_value": of.low, "upper_value": of.high}
                    measures[measure] = {end: value for end, value in values.items() if value is not None}
            if row.client_cpu_ns is not None:
                measures["cpu-time"] = {"value": row.client_cpu_ns}
            if row.server_cpu_ns is not None:
                measures["server-cpu-time"] = {"value": row.server_cpu_ns}
    return json.dumps(rows, indent=2) + "\n"


def github_action(run: Run) -> str:
    """Returns JSON for github-action-benchmark's tool `customBiggerIsBetter`: the throughput of rows with a number,
    with its interval."""
    entries = []
    for name, row in named_rows(run):
        if (rate := row.throughput) is not None:
            entry = {"name": name, "unit": f"{row.unit}/s", "value": rate.median}
            if rate.low is not None and rate.high is not None:
                entry["range"] = f"{rate.low:.6g} – {rate.high:.6g}"
            p50, p99 = (units.duration(row.latency_ns[at]) for at in ("p50", "p99"))
            entries.append({**entry, "extra": f"{len(row.samples)} trials; latency p50 {p50}, p99 {p99}"})
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def pyperf(run: Run) -> str:
    """Returns pyperf's JSON, version 1.0, with a benchmark for each row with a number, and a run for each trial. The
    single value of a run is seconds per item (elapsed time divided by items), so that `pyperf compare_to` compares
    throughput."""
    description = f"dyno, suite {run.plan.suite}"
    metadata = {"cpu_model_name": run.header.host.cpu.model, "description": description, "unit": "second"}
    benchmarks = []
    for name, row in named_rows(run):
        # pyperf reads dates without a time zone.
        dates = {a.block: a.started.partition("+")[0].replace("T", " ") for a in row.attempts}
        runs = [
            {"metadata": {"date": dates[block]}, "values": [1 / rate]}
            for block, sample in zip(row.blocks, row.samples, strict=True)
            if (rate := sample.per_second)
        ]
        if runs:
            benchmarks.append({"metadata": {"name": name, "loops": 1, "inner_loops": 1}, "runs": runs})
    known = {name: value for name, value in metadata.items() if value}
    return json.dumps({"version": "1.0", "metadata": known, "benchmarks": benchmarks}, indent=2) + "\n"


def hlog(run: Run) -> str:
    """Returns HdrHistogram's interval log, version 1.2. It has a line for each trial and phase whose operations were
    timed one by one, with all latencies in ns, tagged by row. A line has the start time of its trial, because a run
    file has no start times of phases. The column of the maximum is in ms, as usual in such logs."""
    lines = []
    for name, row in named_rows(run):
        # A tag can't contain commas or blanks.
        tag = re.sub(r"[\s,]", "_", name)
        starts = {attempt.block: attempt.started for attempt in row.attempts}
        for block, sample in zip(row.blocks, row.samples, strict=True):
            if sample.histogram is not None:
                try:
                    start = datetime.fromisoformat(starts[block]).timestamp()
                except ValueError as error:
                    raise damaged_file_error(run.path, error) from None
                most = percentiles([sample.histogram])["max"] or 0
                encoded = b64encode(sample.histogram).decode()
                figures = f"{start:.3f},{sample.elapsed_ns / 1e9:.3f},{most / 1e6:.3f},{encoded}"
                lines.append((start, f"Tag={tag},{figures}"))
    # Readers expect lines in the order of time.
    lines.sort(key=lambda line: line[0])
    head = ["#[Logged with Dyno]", "#[Histogram log format version 1.2]"]
    if lines:
        first = min(attempt.started for attempt in run.attempts)
        head.append(f"#[StartTime: {lines[0][0]:.3f} (seconds since epoch), {first}]")
    return "\n".join([*head, HLOG_COLUMNS, *(line for _, line in lines)]) + "\n"


def openmetrics(run: Run) -> str:
    """Returns OpenMetrics 1.0: gauges, and latencies as summaries, in seconds and bytes. It includes rows without a
    number."""
    lines = dict[str, list[str]]()
    for family, help_ in {**GAUGES, **SUMMARIES}.items():
        unit = family.rpartition("_")[2]
        lines[family] = [f"# TYPE {family} {'gauge' if family in GAUGES else 'summary'}"]
        lines[family] += [f"# UNIT {family} {unit}"] if unit in ("seconds", "bytes") else []
        lines[family].append(f"# HELP {family} {help_}")
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    for _, row in named_rows(run):
        cell, rate = row.cell, row.throughput
        labels = {"suite": cell.suite, "engine": cell.asked, "phase": row.phase, "tier": cell.tier_name or ""}
        labels |= {"unit": row.unit, **({"reported_by": row.reported_by} if row.reported_by else {})}
        # Label names allow no other characters.
        labels |= {re.sub(r"[^a-zA-Z0-9_]", "_", f"param_{name}"): str(value) for name, value in cell.params.items()}
        text = ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels.items())
        cpu = (None if ns is None else ns / 1e9 for ns in (row.client_cpu_ns, row.server_cpu_ns))
        rates = (None, None, None) if rate is None else (rate.median, rate.low, rate.high)
        gauges = (*rates, *cpu, row.bytes_on_disk, int(row.valid))
        for family, value in zip(GAUGES, gauges, strict=True):
            if value is not None:
                lines[family].append(f"{family}{{{text}}} {float(value)!r}")
        for family, times in zip(SUMMARIES, (row.latency_ns, row.response_ns), strict=True):
            for name, quantile in QUANTILES.items():
                if (ns := times.get(name)) is not None:
                    lines[family].append(f'{family}{{{text},quantile="{quantile}"}} {ns / 1e9!r}')
    return "\n".join([*chain.from_iterable(lines.values()), "# EOF"]) + "\n"


# -- JUnit XML ----------------------------------------------------------------------------------------------


class Case(NamedTuple):
    group: str
    name: str
    seconds: float = 0.0
    failure: str | None = None
    skipped: str | None = None
    output: str = ""


def junit(run: Run) -> str:
    """Returns a run's test cases. A row without a number fails; a phase that makes no sense for an engine is
    skipped."""
    suite, cases = run.plan.suite, list[Case]()
    for name, row in named_rows(run):
        output = ""
        if (rate := row.throughput) is not None:
            output = f"{units.rate(rate.median)} {row.unit}/s, 95 % {units.interval(rate.low, rate.high)}"
        seconds = (row.elapsed_ns or 0) / 1e9
        cases.append(Case(f"{row.cell.suite}.{row.phase}", name, seconds, row.why, output=output))
    cases += [Case(suite, line, skipped="not measured") for line in absent(run)]
    return _document(f"dyno {suite}", cases)


def format_gate(data: JsonMapping, strict: bool = False) -> str:
    """Returns the test cases of a gate, from the JSON of `dyno check`. A row fails if it is slower than the margin
    allows, or has lost its number. An unclear row is skipped, or with `strict` fails."""
    cases = []
    for row in [*data["changes"], *data["lost"]]:
        params = [f"{name}={value}" for name, value in row["params"].items()]
        name = "/".join([row["phase"], row["engine"], *params, *filter(None, [row["tier"]])])
        failure: str | None = f"no number now: {row.get('why')}"
        skipped, output = None, ""
        if "state" in row:
            if row["state"] == "unclear":
                unclear = row["text"]
            else:
                unclear = None
            if row["state"] == "slower":
                failure = row["text"]
            else:
                failure = unclear if strict else None
            skipped = unclear
            if strict:
                skipped = None
            output = f"{row['metric']}: {row['text']}"
        cases.append(Case(f"dyno.{row['phase']}", name, 0.0, failure, skipped, output))
    return _document("dyno check", cases)


def _document(name: str, cases: list[Case]) -> str:
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.failure is not None for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.skipped is not None for case in cases)),
    }
    root = ElementTree.Element("testsuites", {"name": name, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    for case in cases:
        attributes = {"classname": case.group, "name": case.name, "time": f"{case.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", {key: sanitize(text) for key, text in attributes.items()})
        if case.failure is not None:
            ElementTree.SubElement(element, "failure", {"message": sanitize(case.failure)})
        elif case.skipped is not None:
            ElementTree.SubElement(element, "skipped", {"message": sanitize(case.skipped)})
        if case.output:
            ElementTree.SubElement(element, "system-out").text = sanitize(case.output)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


PART = "-time"
"""Suffix of the parts user-time and system-time."""

# -- hyperfine ----------------------------------------------------------------------------------------------


def hyperfine(run: Run) -> str:
    """Returns hyperfine's JSON, with a result for each row with a number. `times` has an operation's latency to three
    digits. Operations of several trials are pooled, as hyperfine has only one."""
    entries = []
    for _, row in named_rows(run):
        pairs = count_values(sample.histogram for sample in row.samples)
        times = [ns / 1e9 for ns, count in pairs for _ in range(count)]
        if not times:
            continue
        parts = {
            part.removesuffix(PART): [
                (ns / 1e9, count) for ns, count in count_values(sample.by_part.get(part) for sample in row.samples)
            ]
            for part in row.about.parts
        }
        entry: dict[str, object] = {
            "command": row.cell.label,
            "mean": fmean(times),
            "stddev": stdev(times) if len(times) > 1 else None,
            "median": median(times),
            **{part: sum(s * n for s, n in of) / sum(n for _, n in of) for part, of in parts.items() if of},
            "min": min(times),
            "max": max(times),
            "times": times,
            "exit_codes": _exit_codes(row, len(times)),
        }
        own = {name: str(value) for name, value in row.cell.params.items() if name in varying_params(run)}
        entries.append({**entry, **({"parameters": own} if own else {})})
    return json.dumps({"results": entries}, indent=2, ensure_ascii=False) + "\n"


def _exit_codes(row: CellSummary, count: int) -> list[int]:
    """Returns the exit statuses of a row's runs, in the order of their values: Dyno counts them only."""
    known = [str(sample.facts["exit_statuses"]) for sample in row.samples if "exit_statuses" in sample.facts]
    each = [part.split("x") for text in known for part in text.split()]
    codes = sorted(int(code) for times, code in each for _ in range(int(times)))
    if len(codes) == count:
        return codes
    return [0] * count


FORMATS: Mapping[str, Callable[[Run], str]] = {
    "junit": junit,
    "bmf": bencher,
    "github-action-benchmark": github_action,
    "openmetrics": openmetrics,
    "hlog": hlog,
    "pyperf": pyperf,
    "hyperfine": hyperfine,
    "folded": folded,
    "speedscope": speedscope,
}
