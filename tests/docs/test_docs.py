"""Compares the documentation with the code: everything that exists is documented, and nothing else."""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from documentation import (
    PAGES,
    ROOT,
    anchors,
    blocks,
    commands,
    contents,
    files,
    links,
    named,
    read,
    relative,
    rows,
    sections,
)
from facts import differences, keys, parse
from needed import unavailable
from shell import Shell

from dyno import registry
from dyno.bundles import bundle
from dyno.cli import INTERRUPTED
from dyno.cli import commands as cli
from dyno.cli import compare as cli_compare
from dyno.cli import run as cli_run
from dyno.contracts.engine import EngineSpec
from dyno.contracts.versions import InstalledVersion
from dyno.crash import known_results
from dyno.engines.postgresql.server import places
from dyno.fields import FIELDS, JSON
from dyno.host import ceilings
from dyno.host import facts as host
from dyno.host.keep_awake import wakeups
from dyno.options import RunRequest
from dyno.report import export
from dyno.results import SCHEMA, Attempt, create, load
from dyno.runner import plan, plan_file
from dyno.servers.process import program
from dyno.stats import estimate, verdict
from dyno.stats.metric import METRICS
from dyno.stats.two_runs import CHANCE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLES = ROOT / "examples"


def ours(kind: str) -> list[str]:
    """Names of the engines or suites that come with Dyno. Installed plug-ins have their own documentation."""
    return sorted(registry.find_own(kind))


def plain(cell: str) -> str:
    return cell.replace("`", "").strip()


# --- engines ------------------------------------------------------------------------------------------------


# --- suites -------------------------------------------------------------------------------------------------


# --- commands -----------------------------------------------------------------------------------------------


def test_exit_statuses_are_documented() -> None:
    table = named(sections(read("reference/commands.md"))["Exit status"])
    statuses = (0, cli_run.FAILED, 2, cli_run.NOTHING, cli_compare.UNTESTABLE, cli.STOPS_GIT, INTERRUPTED)
    assert set(table) == {str(status) for status in statuses}


# --- formats ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_files(run_file: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """`run_file` and further runs that fill the remaining fields: an open loop of 600 operations on an engine with a
    server, and a cold phase that one of the engines doesn't support.
    """
    place, found = tmp_path_factory.mktemp("runs"), [run_file]
    shell = Shell(place, place / "work")
    for words in (
        "selftest -e synthetic:server=yes --rate 400 --duration 1.5",
        "records -e sqlite,memory -p records=200 --phases rand-key-cold,update",
        "selftest -e synthetic:wait_us=100 --limit p50<1ns --duration 0.1 --warmup 0",
    ):
        path = place / f"{len(found)}.json"
        samples = [] if "--limit" in words else ["--samples", "1"]
        ended = shell.dyno("run", *words.split(), *samples, "-o", path)
        assert ended.status == 0, ended.err
        found.append(path)
    return found


def test_json_of_show_is_documented(run_files: list[Path], tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []
    for run_file in run_files:
        first, *rest = run_file.read_text().splitlines()
        header = json.loads(first)
        # Causes a doubt about the machine.
        header["host"]["filesystem"] |= {"ram_backed": True, "mount_point": "/", "type": "tmpfs"}
        planted = tmp_path / "planted.json"
        planted.write_text("\n".join([json.dumps(header), *rest]) + "\n")
        whole: Any = export.as_data(load(planted))
        assert whole["machine_doubts"] and any(cell["doubts"] for cell in whole["cells"])
        seen += [(path, value) for path, value in keys(whole) if not path.startswith(("plan.", "host."))]
        servers = [cell["server"] for cell in whole["cells"] if cell["server"]]
        assert all(set(server) == set(whole["cells"][0]["client"]) for server in servers)
    # docs/reference/measured-quantities.md documents the fields of a cell.
    shown = {f"cells[].{field.key}" for field in FIELDS if JSON in field.shown}
    undocumented, gone = differences(seen, {*named(read("reference/show-json.md")), *shown})
    assert not undocumented and not gone
    # Fields that exist on every machine must have been compared.
    filled = {path for path, value in seen if value not in (None, {}, [])}
    assert {f"cells[].{name}" for name in ("series[][].p99_ns", "response_ns.p99", "server.*", "loop.name")} <= filled


def test_show_prints_the_documented_json(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.dyno.main(["show", str(run_file), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == export.as_data(load(run_file))


LEFT_OUT = {"plan.least", "plan.load_from", "plan.plain_tcp", "plan.profile"}
"""Options that the header lacks if they have their usual value."""


def lines_of(run_file: Path) -> list[dict[str, Any]]:
    """Returns the lines of a run file without their checksums."""
    lines = [json.loads(line) for line in run_file.read_text().splitlines()]
    assert all(line.pop("crc32") for line in lines)
    return lines


def test_lines_of_the_run_file_are_documented(run_files: list[Path]) -> None:
    lines = [line for run_file in run_files for line in lines_of(run_file)]
    headers, trials, ends = ([line for line in lines if line["kind"] == kind] for kind in ("run", "trial", "end"))
    assert len(headers) == len(run_files) and len(headers) + len(trials) + len(ends) == len(lines)
    page = sections(read("reference/run-file.md"))
    options = set(named(sections(read("reference/run-options.md"))["In the run file"])) - LEFT_OUT
    # Known crashes come from a cache, and are documented separately. `experiment`, `missing` and `left_out` are in
    # replicas only, and `definition` in runs of a suite that the user defines.
    elsewhere = {"experiment": None, "missing": None, "left_out": None, "definition": None}
    seen = [pair for line in headers for pair in keys({**elsewhere, **line, "crashed": None})]
    assert set(named(page["Crashes"])) == {*known_results.NAMES, *known_results.WAYS}
    undocumented, gone = differences(seen, set(named(page["The first line"])) | options | host_keys())
    assert not undocumented and not gone
    seen = [pair for line in trials for pair in keys(line)]
    # docs/reference/measured-quantities.md documents the fields of samples.
    documented = {*named(page["Trial lines"]), *(f"samples[].{field.name}" for field in FIELDS)}
    undocumented, gone = differences(seen, documented)
    assert not undocumented and not gone
    assert {field.name for field in fields(Attempt)} <= documented


def test_every_field_of_a_run_file_is_read(run_files: list[Path]) -> None:
    for run_file in run_files:
        header, *trials = lines_of(run_file)
        trials = [line for line in trials if line["kind"] != "end"]
        del header["cells"]
        run = load(run_file)
        assert run.recorded == header
        lines = [{"kind": "trial", **asdict(attempt)} for attempt in run.attempts]
        assert json.loads(msgspec.json.encode(lines)) == trials


@pytest.mark.parametrize("name", ours("suite"))
def test_suite_declarations_survive_writing_and_loading(name: str, tmp_path: Path) -> None:
    engine, *_ = (spec for spec in registry.engines_for(registry.suite(name)) if not spec.explain_unavailability())
    # The suite sql has no phases of its own.
    query = {"transactions": {"query": {"script": "SELECT 1"}}} if name == "sql" else None
    run_plan = plan.make(RunRequest(suite=name, engines=[engine.name], definition=query))
    header = json.loads(json.dumps({"plan": run_plan.data(), **run_plan.declared, "host": {}}))
    create(tmp_path / "r.json", header, run_plan.cells)
    assert {**header, "kind": "run", "schema": SCHEMA} == load(tmp_path / "r.json").recorded


def host_keys() -> set[str]:
    return {f"host.{name}" for name in named(sections(read("reference/run-file.md"))["The machine"])}


@pytest.mark.usefixtures("processes")
def test_facts_of_a_machine_are_documented(tmp_path: Path) -> None:
    facts = host.facts(tmp_path) | {"pressure": host.pressure(0), "wakeups": wakeups(0.05)}
    facts |= {"ceilings": ceilings.probe(tmp_path, 0.01)}
    undocumented, gone = differences(list(keys({"host": facts})), {"host"} | host_keys())
    assert not undocumented and not gone


def toml_blocks() -> list[str]:
    return [block.text for page in PAGES for block in blocks(contents(page)) if block.language == "toml"]


def test_plan_file_examples_make_a_plan(tmp_path: Path) -> None:
    texts = [text for text in toml_blocks() if re.search(r"^suite = ", text, re.MULTILINE)]
    assert texts
    for text in texts:
        path = tmp_path / "plan.toml"
        path.write_text(text)
        assert plan.make(plan_file.read(path)).cells
    examples = [tomllib.loads(b.text) for b in blocks(read("reference/plan-files.md")) if b.language == "toml"]
    # Other machines load servers only, and these examples have embedded engines.
    left_out = {"budget", "load-from", "plain-tcp"}
    assert set(examples[0]) | set(examples[1]) == {"suite", *plan_file.KEYS} - left_out, "every key, of two one"


# --- doubts and claims --------------------------------------------------------------------------------------


def test_metrics_are_documented() -> None:
    assert list(named(sections(read("explanations/statistics.md"))["Ratios"])) == list(METRICS)


def test_plans_of_every_sql_engine_are_documented() -> None:
    table = rows(sections(read("reference/suites/sql.md"))["Plans and rows"])
    described = {name for cells in table for name in cells[0].split(", ")}
    engines = [registry.engine(name) for name in ours("engine")]
    assert described == {spec.name for spec in engines if "sql" in spec.ports and not spec.floor}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("The interval", f"The interval is for {estimate.CONFIDENCE * 100:g} %"),
        ("The interval", f"**From {estimate.FEWEST_ORDERED} trials on**"),
        ("The interval", f"**For {estimate.FEWEST_TRIALS} to {estimate.FEWEST_ORDERED - 1} trials**"),
        ("The interval", f"**Under {estimate.FEWEST_TRIALS} trials**"),
        ("Ratios", f"At {verdict.CONFIDENCE * 100:g} % each"),
        ("Ratios", f"within the margin, which is {verdict.MARGIN * 100:g} %"),
        ("The gate", f"at {(1 - CHANCE) * 100:g} % for the row by itself"),
        ("Until it is narrow", f"It looks from {plan.UNTIL_BLOCKS} blocks on"),
    ],
)
def test_figures_of_the_statistics_are_documented(section: str, said: str) -> None:
    assert said in " ".join(sections(read("explanations/statistics.md"))[section].split())


# --- what readers copy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_relative_links_resolve(page: Path) -> None:
    for target in links(contents(page)):
        file, _, anchor = target.partition("#")
        goal = (page.parent / file).resolve() if file else page
        assert goal.exists(), target
        if anchor:
            assert anchor in anchors(contents(goal)), target


class Planned(Exception):
    """Raised in place of executing a run: its plan is complete, and nothing is measured."""


def plugin_names() -> set[str]:
    groups: set[str] = set()
    for project in EXAMPLES.glob("*/pyproject.toml"):
        for group in tomllib.loads(project.read_text())["project"]["entry-points"].values():
            groups |= set(group)
    return groups


def example_commands() -> list[tuple[str, list[str]]]:
    return [(relative(page), words) for page in PAGES for words in commands(contents(page))]


def shell_line(value: str | list[str]) -> str:
    return value if isinstance(value, str) else shlex.join(value)


@pytest.mark.parametrize(("page", "words"), example_commands(), ids=shell_line)
def test_example_commands_parse(page: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        parse(words)
    except click.exceptions.Exit:
        # --version and --help are done when they are parsed.
        return
    plugins = re.compile(rf"(^|[,:=])({'|'.join(plugin_names())})($|[,:])")
    fleet = "--fleet" in words
    if words[:1] not in (["run"], ["replicate"]) or fleet or any(plugins.search(word) for word in words):
        return

    def execute(*_: object) -> None:
        raise Planned

    # A reader may have several versions of a server; this machine's only version stands in for all of them.
    elsewhere, here = re.compile(r"program=/opt/[^,+]+"), program("postgres", places=places())
    if here is None and any(map(elsewhere.search, words)):
        unavailable("there is no PostgreSQL here to stand for another version")
    words = [elsewhere.sub(f"program={here}", word) for word in words]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db.example/test")
    example = next(b.text for b in blocks(read("reference/plan-files.md")) if b.language == "toml")
    for name, text in {"plan.toml": example, **files(contents(ROOT / page))}.items():
        Path(name).write_text(text)
    for name in (word for word in words if word.endswith(".dyno")):
        Path(name).write_bytes(bundle.pack(ROOT / "tests/data/run-schema-3.json"))
        words = [*words, "--trust"]
    monkeypatch.setattr("dyno.runner.parent.execute", execute)
    # The plan doesn't depend on whether its engines are installed: some are only downloaded for the long runs.
    monkeypatch.setattr(EngineSpec, "explain_unavailability", lambda *_: None)
    stand_in = "dyno.contracts.versions.choose_installed"
    monkeypatch.setattr(stand_in, lambda engine, text, line: [InstalledVersion(text, tmp_path, None, {})])
    # Some commands make no plan: `dyno replicate` alone lists experiments.
    with suppress(Planned):
        cli.dyno.main(words, standalone_mode=False)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_documented_extras_exist(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named_ = re.findall(r"(?:dyno-bench|\.)\[([\w,]+)\]['\"]", contents(page))
    assert {name for names in named_ for name in names.split(",")} <= set(extras)


@pytest.mark.parametrize("page", ["contributing/an-engine.md", "contributing/a-suite.md"])
def test_quoted_code_is_from_the_examples(page: str) -> None:
    files = [p.read_text() for p in EXAMPLES.rglob("*") if p.suffix in (".py", ".toml")]
    quoted = [block.text for block in blocks(read(page)) if block.language in ("python", "toml")]
    assert quoted
    for text in quoted:
        # A quoted method is dedented on the page.
        depths = [textwrap.indent(text, " " * depth) for depth in (0, 4, 8)]
        assert any(found in file for file in files for found in depths), text


def test_examples_stay_small() -> None:
    lines = (EXAMPLES / "plugin-engine" / "dyno_sqlite_kv.py").read_text().splitlines()
    assert len(lines) < 120


def test_glossary_terms_are_unique_and_in_named_files() -> None:
    listed = rows(sections(read("contributing/glossary.md"))["Code"])
    words = [plain(cells[0]) for cells in listed]
    assert len(set(words)) == len(words), "one word, one meaning"
    for word, _, where in listed:
        files = [*Path(registry.__file__).parent.glob(plain(where))]
        assert files, f"{where} does not exist"
        name = plain(word).partition(" (")[0]
        assert any(name in file.read_text() for file in files), f"{name} is not in {where}"
