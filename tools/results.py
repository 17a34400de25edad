"""Writes the pages of docs/results/: one for each run file there, and their index. `--check` compares.

    python tools/results.py [--check] [--add RUN NAME]

`--add` takes in a run file as NAME.json, if its samples agree with each other, without the names, paths and addresses
of its machine, and with percentiles and counts instead of histograms. In a page, people write the text, and the tool
fills the part between `<!-- measured -->` and `<!-- /measured -->`. Each number of the text must stand in the page's
measured part, which a test checks.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from pages.compact import compact
from pages.text import DOCS, by_hand, table

from dyno import registry, results
from dyno.bundles.bundle import RUN_FILE, pack
from dyno.contracts.model import VERSION, UsageError
from dyno.published import Experiment
from dyno.report.replicate import replica, verdicts
from dyno.report.tables import notes, sections, text, versions
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.versions import compare_versions

FOLDER = DOCS / "results"
INDEX = "index"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
MEASURED = re.compile(rf"{BEGIN}\n.*?{END}", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,])\d+(?:[,. ]\d+)*(?:\.\d+)?")
NEW = "# {name}\n\n{begin}\n{end}\n"


def page(name: str, run: Run) -> str:
    """Returns the measured part of a run's page: the tables of its experiment, or its own."""
    experiment = replica.original(run)
    measured = f"Measured on {_day(run)}: [run file]({name}.json)"
    if experiment is None:
        plan = f"[plan]({name}.toml). To repeat it: `dyno run {name}.toml`."
        return "\n\n".join([f"{measured}, {plan}", *_compare_versions(run), text.as_markdown(run)])
    preset = replica.size(experiment, run)
    size = ""
    if preset is not None:
        size = f" --preset {preset}"
    usual = registry.suite(run.plan.suite).presets[run.header.preset or "quick"].samples
    if run.plan.samples != experiment.plan_at_preset(preset).get("samples", usual):
        size += f" --samples {run.plan.samples}"
    repeat = f"To repeat it: `dyno replicate {experiment.name}{size}`."
    return "\n\n".join([f"{measured}. {repeat}", sections.markdown(replica.sections(experiment, run))])


def _compare_versions(run: Run) -> list[str]:
    """Returns the comparison of the versions of engines, if the run has any."""
    if not any(VERSION in cell.options for cell in run.cells):
        return []
    of = compare_versions(run)
    return [sections.markdown(versions.list_sections(run, of), versions.summarize_versions(run, of))]


def index(runs: dict[str, Run]) -> str:
    """Returns the measured part of the index: the machines, the experiments with their verdicts, and the suites with
    their engines."""
    originals = {name: replica.original(run) for name, run in runs.items()}
    machines = dict.fromkeys(notes.machine(run) for run in runs.values())
    parts = [sections.bullets(f"machine: {sections.plain(each)}" for each in machines)]
    replicas = [
        (
            *_link(name, runs[name]),
            sections.plain(of.citation),
            sections.plain(of.question),
            _verdicts(of, runs[name]),
        )
        for name, of in originals.items()
        if of is not None
    ]
    if replicas:
        parts.append(table(("experiment", "date", "published as", "question", "findings here"), replicas))
    own = [
        (*_link(name, run), sections.plain(", ".join(notes.engines(run))))
        for name, run in runs.items()
        if originals[name] is None
    ]
    if own:
        parts.append(table(("suite", "date", "engines"), own))
    return "\n\n".join(parts)


def _day(run: Run) -> str:
    return (run.header.created or "")[:10]


def _link(name: str, run: Run) -> tuple[str, str]:
    return f"[{name}]({name}.md)", _day(run)


def _verdicts(experiment: Experiment, run: Run) -> str:
    return verdicts.counts([each.kind for each in findings.check(run, experiment.findings)])


def pages() -> dict[str, str]:
    """The text of each page, by its name, with the measured parts made anew from the run files."""
    runs = {path.stem: results.load(path) for path in sorted(FOLDER.glob("*.json"))}
    made = {INDEX: index(runs), **{name: page(name, run) for name, run in runs.items()}}
    return {name: filled(name, measured) for name, measured in made.items()}


def filled(name: str, measured: str) -> str:
    """Returns the text of the page with this measured part. A page that there is not yet gets a heading."""
    path = FOLDER / f"{name}.md"
    written = path.read_text(encoding="utf-8") if path.exists() else NEW.format(name=name, begin=BEGIN, end=END)
    return MEASURED.sub(lambda _: f"{BEGIN}\n{measured.strip()}\n{END}", written)


def unfounded(written: str) -> list[str]:
    """Returns the numbers in what people wrote on a page that its measured part doesn't have."""
    measured = "".join(MEASURED.findall(written)).replace(sections.NO_BREAK, " ")
    known = set(NUMBER.findall(measured))
    return [number for number in NUMBER.findall(by_hand(written)) if number not in known]


def add(path: Path, name: str) -> None:
    """Takes in a run file. Raises UsageError for one that can't be published."""
    with ZipFile(io.BytesIO(pack(path))) as bundle:
        content = bundle.read(RUN_FILE)
    with TemporaryDirectory() as place:
        whole = Path(place, RUN_FILE)
        whole.write_bytes(content)
        (FOLDER / f"{name}.json").write_bytes(compact(whole))


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case [] | ["--check"]:
            pass
        case ["--add", path, name]:
            try:
                add(Path(path), name)
            except UsageError as error:
                print(error, file=sys.stderr)
                return 2
        case _:
            print("expected nothing, --check, or --add RUN NAME", file=sys.stderr)
            return 2
    current = pages()
    paths = {name: FOLDER / f"{name}.md" for name in current}
    stale = [name for name, path in paths.items() if not path.exists() or path.read_text("utf-8") != current[name]]
    wrong = [f"{path.stem}.md has no run file" for path in FOLDER.glob("*.md") if path.stem not in current]
    for name, whole in current.items():
        wrong += [f"{name}.md: its measured part has no {number}" for number in unfounded(whole)]
    if "--check" in arguments:
        wrong += [f"{name}.md is not what its run file says: run tools/results.py" for name in stale]
    else:
        for name in stale:
            paths[name].write_text(current[name], encoding="utf-8")
    for line in sorted(wrong):
        print(f"docs/results/{line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
