"""Tests that on a narrow terminal every command prints each word and figure that it prints in a pipe, and that no
line is cut.

Only decoration (bars) may be missing. Output is compared as words, so that folding and repeating are allowed.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from madeup import a_cell, changed, of_rates, reads, recorded, written
from rich.cells import cell_len
from rich.console import Console

from dyno import published, registry
from dyno.cli import doctor, engines
from dyno.cli.commands import dyno
from dyno.cli.console import PIPE_WIDTH
from dyno.fields import Sample
from dyno.report import outcomes
from dyno.report.outcomes import CRASHES, TIERS
from dyno.report.replicate import replica
from dyno.report.tables import sections
from dyno.results import Run
from dyno.suites.http.stages import STAGES

WIDTHS = (40, 80, 120)
QUIET = (1.0, 1.01, 0.99, 1.002, 0.998, 1.001)
NOISY = (1.0, 1.3, 0.8, 1.2, 0.9, 1.1)
HEADS = {"p50", "p99", "[95", "[99"}
BAR = re.compile(r"[█▏▎▍▌▋▊▉]+")
PHASES = ("insert-blind-indices", "read-random-key")
ENGINES = {"postgresql-thin": (1.0, QUIET), "lmdb": (1.5, NOISY), "memory-of-python": (3.35, QUIET)}
SIZES = (100, 2_000, 30_000, 400_000)


# Headings of tables that are missing in narrow output, where a list of paragraphs replaces the table.
OF_KEYS = {
    "engine",
    "metric",
    "parameters",
    "tier",
    "suite",
    "experiment",
    "published",
    "phase",
    "row",
    "mode",
    "where",
    "what",
    "value_size",
}


def missing(wide: str, narrow: str) -> list[str]:
    """Returns words of the wide output that the narrow one lacks. Figures count as often as they occur, other words
    once. Longer words may be broken; the last tests of this file compare their characters."""
    wide, narrow = (BAR.sub("", re.sub(r"\x1b\[[0-9;]*m", "", text)) for text in (wide, narrow))
    there = Counter(word.rstrip(":") for word in narrow.split())
    wanted = Counter(word.rstrip(":") for word in wide.split())
    return [
        word
        for word, count in wanted.items()
        if there[word] < (count if re.search(r"\d", word) and word not in HEADS else 1)
        and len(word) <= sections.LONGEST_WORD
        and word not in {*OF_KEYS, "value_size"}
    ]


def a_run(factor: float) -> Run:
    """Returns a run of three engines and four sizes, with all that a row can have: latencies, CPU time and
    remarks."""
    rows = [
        (
            a_cell(name, records=10_000, value_size=size),
            {phase: [1e6 * factor * rate * each for each in noise] for phase in PHASES},
        )
        for name, (rate, noise) in ENGINES.items()
        for size in SIZES
    ]
    run = of_rates(*rows, phases=list(PHASES), created=f"2026-01-0{1 + int(factor)}T10:00:00+00:00")

    def full(_: str, sample: Sample) -> Sample:
        client = {"user_ns": 28_000 * sample.items, "system_ns": 400 * sample.items}
        histogram = recorded(1_234_567, 9_876_543)
        return replace(
            sample, histogram=histogram, client=client, client_peak_bytes=123 << 20, temperature="lukewarm"
        )

    return changed(run, full)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("narrow")
    for name, factor in (("a", 0.5), ("b", 1.3)):
        written(a_run(factor), home / f"{name}.json")
    for at in range(8):
        run = reads(**{"a-rather-long-name": [1e6 * (1 + (at > 3)) * each for each in QUIET]})
        written(
            replace(run, recorded={**run.recorded, "created": f"2026-01-0{at + 1}T10:00:00+00:00"}),
            home / f"h{at}.json",
        )
    header = {"dyno_crash": 1}
    (home / "empty.json").write_text(json.dumps(header))
    return home


def printed(home: Path, monkeypatch: pytest.MonkeyPatch, width: int | None, *arguments: str) -> str:
    monkeypatch.chdir(home)
    environment = {"TERM": "xterm", "FORCE_COLOR": "1", "COLUMNS": str(width)} if width else {"FORCE_COLOR": None}
    ended = CliRunner().invoke(dyno, list(arguments), env=environment, standalone_mode=False)
    assert ended.exception is None, ended.exception
    return ended.output


COMMANDS = (
    "compare a.json",
    "compare a.json --baseline lmdb --metric p50",
    "compare a.json b.json",
    "check b.json --against a.json",
    "history " + " ".join(f"h{at}.json" for at in range(8)),
    "show a.json",
    "show a.json --all",
    "extrapolate a.json --to value_size=1_000_000 --hold-out 400_000",
    "list",
    "list records",
    "list sqlite",
    "list suites",
    "list engines",
    "replicate",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_output_is_complete_at_any_width(home: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    piped = printed(home, monkeypatch, None, *command.split())
    assert "\x1b" not in piped
    for width in WIDTHS:
        narrow = printed(home, monkeypatch, width, *command.split())
        assert not missing(piped, narrow), width


@pytest.mark.parametrize("command", ["compare a.json", "show a.json", "show a.json --all"])
def test_sentences_wrap_at_the_terminals_width(home: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    piped = printed(home, monkeypatch, None, *command.split()).splitlines()
    assert any(len(line) > 100 and line.endswith(".") for line in piped), "sentences of one line"
    coloured = printed(home, monkeypatch, 80, *command.split())
    lines = re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines()
    # A command may be wider: it is copied as a whole.
    assert [line for line in lines if cell_len(line) > 80 and "dyno " not in line] == []
    # Wrapped lines are indented like the first.
    assert all(line.startswith("  ") for line in lines if "not measured in turns" in line)


def test_list_gives_overview_and_details_by_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(home, monkeypatch, 80, "list").splitlines()
    assert len(lines) < 1.2 * len({*registry.names("suite"), *registry.names("engine")})
    suite = printed(home, monkeypatch, None, "list", "records")
    assert (
        all(word in suite for word in ("rand-key", "value_size", "--preset NAME", "sqlite")) and "uring" not in suite
    )
    engine = printed(home, monkeypatch, None, "list", "sqlite")
    assert "journal_mode" in engine and "value_size" not in engine and "lmdb" not in engine
    # Both a suite and an engine have this name.
    both = printed(home, monkeypatch, None, "list", "memory")
    assert "memory: phases" in both and "engine " in both


def in_width(draw: Callable[[Console], None], width: int) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=width, highlight=False))
    return out.getvalue()


CRASHED: dict[str, Any] = {
    "engine": "a-long-engine-name",
    "tier": "power",
    "settings": {"synchronous": "full", "journal": True},
    "traced": "proven",
    "killed": {"count": 100, "outcomes": {"ok": 98, "lost": 2}, "lost": 3},
    "cut": {"count": 1_000, "outcomes": {"ok": 1_000}, "lost": 0},
    "model": "ext4",
    "recovery": {"count": 200, "outcomes": {"ok": 200}, "lost": 0},
    "birth": {"count": 10, "outcomes": {"ok": 10}, "lost": 0},
    "device": None,
    "verdict": "broken",
    "why": "acknowledged commits were lost after SIGKILL",
    "version": "1.0",
}
ON_DEVICE = {**CRASHED, "device": CRASHED["cut"], "system": "xfs"}
PROVEN: dict[str, Any] = {
    "engine": "a-long-engine-name",
    "tier": "power",
    "settings": {"synchronous": "full"},
    "version": "1.0",
    "flushes": {"fdatasync": 100, "fsync": 2},
    "flushed": 99,
    "writes": {"pwrite64": 300},
    "written": 100,
    "commits": 100,
    "verdict": "broken",
    "why": "one commit was acknowledged before it was flushed",
}
FACTS: dict[str, Any] = {
    "cpu": {"model": "AMD EPYC 9B14 96-Core Processor", "mhz": 2_600, "logical_cores": 2, "available_cores": 2},
    "filesystem": {
        "mount_point": "/var/a/rather/long/path/to/a/mount/point",
        "type": "ext4",
        "options": ["rw", "a=b"],
    },
}
SECONDS = dict.fromkeys(STAGES, 0.01)
REQUEST: dict[str, Any] = {
    "hops": [
        {
            "method": "GET",
            "url": "http://localhost/",
            "http_code": 200,
            "http_version": "1.1",
            "primary_ip": "127.0.0.1",
            "primary_port": 80,
            "reused": False,
            "stages": SECONDS,
        }
    ],
    "total_time": 0.07,
    "redirect_count": 0,
    "redirect_time": 0.0,
    "size_download": 1_234,
    "speed_download": 17_628,
    "error": None,
    "doubts": [],
}


def replicated(console: Console) -> None:
    """Prints each published experiment with an unrelated run, so that only published columns have figures."""
    for name in published.names():
        sections.render(replica.sections(published.experiment(name), a_run(1)), console, aligned=False)


TABLES: dict[str, Callable[[Console], None]] = {
    "crash": lambda console: CRASHES.render(
        [CRASHED, {**CRASHED, "device": CRASHED["cut"], "system": "xfs"}], console
    ),
    "selftest --tiers": lambda console: TIERS.render([PROVEN], console),
    "doctor": lambda console: doctor.render(FACTS, [], console),
    "http": lambda console: outcomes.print_waterfall(REQUEST, console),
    "run --dry-run": lambda console: engines.print_plan("records", PHASES, a_run(1).cells, "That is all.", console),
    "replicate NAME": replicated,
}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_complete_at_any_width(name: str) -> None:
    piped = in_width(TABLES[name], PIPE_WIDTH)
    for width in WIDTHS:
        assert not missing(piped, in_width(TABLES[name], width)), width


@pytest.mark.parametrize("width", WIDTHS)
def test_table_lines_fit_the_terminal_width(width: int) -> None:
    draw = random.Random(width)
    texts = ["few-trials", "ops", "1,234", "a longer remark", "µs – ≥", "数据", "x" * 50, ""]
    for _ in range(60):
        columns = [
            sections.Column(f"head {at}", left=draw.random() < 0.5, folds=draw.random() < 0.5, key=at < 2)
            for at in range(7)
        ]
        rows = [[" ".join(draw.choices(texts, k=draw.randint(0, 4))) for _ in columns] for _ in range(5)]
        text = in_width(lambda console, c=columns, r=rows: sections.print_table(c, r, console, indent=4), width)  # type: ignore[misc]
        assert max(map(cell_len, text.splitlines())) <= width
        assert not (Counter("".join("".join(row) for row in rows)) - Counter(text) - Counter(" "))


def test_a_bar_is_dropped_before_anything_is_folded() -> None:
    columns = [
        sections.Column("engine", left=True),
        sections.Column("op/s"),
        sections.Column("", left=True, spare=True),
    ]
    rows = [("lmdb", "1,234,567", "█" * 30)]
    assert "█" in in_width(lambda console: sections.print_table(columns, rows, console), 60)
    assert in_width(lambda console: sections.print_table(columns, rows, console), 40).split() == [
        "engine",
        "op/s",
        *rows[0][:2],
    ]
