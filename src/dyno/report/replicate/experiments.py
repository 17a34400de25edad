"""All published experiments on one page, from a directory with a run file for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from dyno import __version__, published, results
from dyno.published import Experiment
from dyno.report.page import parts
from dyno.report.replicate import orders, replica, verdicts
from dyno.report.tables import units
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.findings import FindingResult

if TYPE_CHECKING:
    import jinja2

ORDERS = ("published order", "order here")
FINDINGS = ("its first finding", "here", "ratio [99 %]", "all findings")
HEADS = ("experiment", "year", "question", "trials", *ORDERS, *FINDINGS)
PROGRAM = ("base.js", "theme.js")


@dataclass(frozen=True)
class Replica:
    """An experiment and the run that repeats it. `run` is None if there is no run file."""

    experiment: Experiment
    run: Run | None
    why: str = ""
    """Why there is no run."""

    @property
    def sections(self) -> list[Section]:
        if self.run is None:
            return [Section(self.experiment.citation, lines=[f"not run: {self.why}"])]
        return list(replica.sections(self.experiment, self.run))


def run_file(directory: Path, name: str) -> Path:
    return directory / f"{name}.json"


def replicas(directory: Path, reasons: Mapping[str, str]) -> list[Replica]:
    """Reads the run files of a directory. `reasons`: why experiments were not run. Raises UsageError for a damaged
    file."""
    found = []
    for name in published.names():
        file = run_file(directory, name)
        run = results.load(file) if file.exists() else None
        why = reasons.get(name, "it has no run file in this directory")
        if run is None:
            original = None
        else:
            original = replica.original(run)
        found.append(Replica(original or published.experiment(name), run, why))
    return found


def overview(of: list[Replica]) -> Section:
    """Returns a table with a row for each experiment: its question, and what this machine says of its findings."""
    rows = [tuple(_row(each)) for each in of]
    legend = [
        "ratio: of the first finding that was compared, as in the experiment's own table; no ratio mixes the"
        " published machine with this one",
        orders.LEGEND,
        f"{units.UNKNOWN}: not known, or no two rows can be compared: the tables of the experiment say why",
    ]
    words = tuple(head for head in HEADS if head not in ("year", "trials", "ratio [99 %]"))
    return Section(
        "Published experiments, and what this machine says of them", "", HEADS, rows, words, HEADS[:1], legend=legend
    )


def _row(of: Replica) -> Iterator[str]:
    original = of.experiment
    yield original.name
    yield str(original.year or units.UNKNOWN)
    yield original.question
    if of.run is None:
        yield from ("0", orders.published_order(original), *[units.UNKNOWN] * 4, f"not run: {of.why}")
        return
    ended, planned = of.run.progress
    yield str(ended) if of.run.complete else f"{ended} of {planned}"
    yield from (orders.published_order(original), orders.order_here(original, of.run)[0])
    checked = findings.check(of.run, original.findings)
    yield from _first_finding(next((each for each in checked if each.checks or each.shortfalls), None))
    yield verdicts.counts([each.kind for each in checked]) or units.UNKNOWN


def _first_finding(result: FindingResult | None) -> tuple[str, str, str]:
    if result is None:
        return (units.UNKNOWN,) * 3
    if result.finding.says:
        text = f"“{result.finding.says}”"
    else:
        text = result.finding.shows
    if result.shortfalls:
        return text, result.kind, verdicts.shortfalls(result)
    compared = [check for check in result.checks if check.ratio is not None]
    return text, result.kind, verdicts.figures(compared) if compared else units.UNKNOWN


def template() -> jinja2.Template:
    """Returns the page's template. Raises UsageError if Jinja2 is missing."""
    return parts.template("experiments.html", _text)


def page(of: list[Replica]) -> str:
    """Returns the page, which is self-contained. Raises UsageError if a library is missing."""
    program = parts.program(*map(parts.text, PROGRAM))
    text: str = template().render(
        overview=overview(of),
        replicas=of,
        style=parts.text("page.css"),
        program=program,
        allowed=parts.source_hash(program),
        dyno=__version__,
    )
    return text


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
