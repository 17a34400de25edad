"""Makes a run file small for publication: histograms keep only percentiles and counts, and values that equal their
default are left out. Readers print the same tables and verdicts."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import groupby
from pathlib import Path

from dyno import results
from dyno.contracts.histogram import Recorder, count_values, curve, percentiles
from dyno.contracts.value_types import JsonObject
from dyno.fields import HISTOGRAMS, Sample, plain
from dyno.results import Attempt


def compact(path: Path) -> bytes:
    """Returns the lines of the run file, shortened."""
    run = results.load(path)
    last = {id(attempt) for attempt in run.final()}
    rows = defaultdict[tuple[int, str], list[Sample]](list)
    for attempt in run.attempts:
        for sample in attempt.samples:
            # Tables merge the last attempts only.
            if id(attempt) in last:
                rows[attempt.cell, sample.phase].append(sample)
            else:
                _reduce_histograms([sample])
    for samples in rows.values():
        _reduce_histograms(samples)
    attempts = iter(run.attempts)
    lines = []
    for line in map(results.parse_line, results.lines(path)):
        if line["kind"] == "trial":
            shortened = [_drop_defaults(plain(sample), Sample) for sample in next(attempts).samples]
            line = _drop_defaults({**line, "samples": shortened}, Attempt)
        lines.append(results.encode(line) + b"\n")
    return b"".join(lines)


def _reduce_histograms(samples: Sequence[Sample]) -> None:
    """Reduces the histograms of a row's samples together, so that merged ones have the same percentiles, too."""
    groups = defaultdict[tuple[str, str], list[bytes]](list)
    for sample in samples:
        for field in HISTOGRAMS:
            for name, histogram in _by_name(getattr(sample, field)).items():
                groups[field, name].append(histogram)
    merged = {key: _shown_percentiles(histograms) for key, histograms in groups.items()}
    for sample in samples:
        for field in HISTOGRAMS:
            value = getattr(sample, field)
            reduced = {name: _reduce(each, merged[field, name]) for name, each in _by_name(value).items()}
            if isinstance(value, Mapping):
                setattr(sample, field, {**value, **reduced})
            elif value is not None:
                setattr(sample, field, reduced[""])


def _by_name(value: Mapping[str, bytes | None] | bytes | None) -> dict[str, bytes]:
    if not isinstance(value, Mapping):
        value = {"": value}
    return {name: histogram for name, histogram in value.items() if histogram is not None}


def _shown_percentiles(histograms: Sequence[bytes]) -> set[int]:
    """Returns the percentiles that tables show, in ns."""
    known = {ns for ns in percentiles(histograms).values() if ns is not None}
    return known | {ns for _, ns in curve(histograms, [99.99])}


def _reduce(histogram: bytes, merged: set[int]) -> bytes | None:
    """Returns a histogram with the same percentiles, number of values and mean. Values between two percentiles are
    replaced by their mean. `merged` has the percentiles of the merged histogram."""
    marks = sorted(merged | _shown_percentiles([histogram]))

    def section(pair: tuple[int, int]) -> tuple[int, bool]:
        return bisect_left(marks, pair[0]), pair[0] in marks

    recorder = Recorder()
    for _, group in groupby(count_values([histogram]), section):
        pairs = list(group)
        count = sum(times for _, times in pairs)
        recorder.add_many(round(sum(ns * times for ns, times in pairs) / count), count)
    return recorder.encode()


def _drop_defaults(line: JsonObject, kind: type) -> JsonObject:
    defaults = {}
    for each in fields(kind):
        if each.default is not MISSING:
            defaults[each.name] = each.default
        elif each.default_factory is not MISSING:
            defaults[each.name] = each.default_factory()
    return {name: value for name, value in line.items() if name not in defaults or value != defaults[name]}
