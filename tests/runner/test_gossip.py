"""Texts and values from engines, suites and tools. If one can't be stored, the trial ends with a line that names its
source and the field. No text harms a terminal, in any output of Dyno.

The engines and suites are in `tests/plugins/gossip`. All engines of a kind share a run with a harmless engine.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Ended, Shell, is_one_line, small

pytestmark = pytest.mark.usefixtures("processes")

PLUGINS = [TESTS / "plugins" / "gossip"]
WANTED = r"expected text, a finite number of at most 64 bits, yes or no, or None, got"
NUMBER = r"expected a whole number from 0 up, got"
VALID = None
Cells = dict[tuple[str, str], dict[str, Any]]

ENGINES = {
    "settings=nan": rf"settings: cache: {WANTED} nan \(float\)",
    "settings=infinite": rf"settings: cache: {WANTED} -inf \(float\)",
    "settings=nested": rf"settings: cache: {WANTED} \{{'deeper': .*\(dict\)",
    "settings=nested-deeply": rf"settings: cache: {WANTED} .* \(dict\)",
    "settings=object": rf"settings: cache: {WANTED} <object .* \(object\)",
    "settings=list": rf"settings: cache: {WANTED} \[1, 2\] \(list\)",
    "settings=large": rf"settings: cache: {WANTED} .*",
    "settings=many": "settings: expected at most 1,000 values",
    "settings=no-name": r"settings: expected names of 1 to 200 characters, got 1 \(int\)",
    "settings=pairs": r"settings: expected values by name, got \[\('cache', 1\)\] \(list\)",
    "release=none": "version: expected text, got None",
    "release=bytes": r"version: expected text, got b'1.0' \(bytes\)",
    "caveats=text": r"caveats: expected a Caveat, got 'slow' \(str\)",
    "caveats=number": r"caveats: the text of code: expected text, got 7 \(int\)",
    "caveats=code": r"caveats: expected a code of letters, digits, .*, got 'a \[/red\] \| code' \(str\)",
    "caveats=no-code": r"caveats: expected a code of .*, got \['a'\] \(list\)",
    "caveats=many": "caveats: expected at most 100 caveats",
    "caveats=harmful+release=harmful+settings=harmful": VALID,
}
MANY_FAILED = r"error: 50\.0 % of the operations failed \(over 1 % a row has no number\); the first: OSError: "
FAILING = {
    "raises=harmful": rf"{MANY_FAILED}\\x1b\[31mred.*",
    "raises=long": rf"{MANY_FAILED}x+\.\.\. .*",
    "fails=harmful": r"error in insert-blind-noindices: OSError: \\x1b\[31mred.*",
    "fails=long": r"error in .*: OSError: x{3991}\.\.\. \(9,996,009 characters more\)",
    "fails=unspeakable": r"error in .*: Unspeakable: \(its message can't be read: RuntimeError\)",
    "refuses=harmful": r"refused in conformance: \\x1b\[31mred.*",
    "fails=harmful+prints=harmful": r"error in .*",
}
REPORTS = {
    "good": VALID,
    "harmful": VALID,
    "too-long": r"void: impossible figures: measured 3\.6e\+03 s, but only \S+ s passed",
    "too-many": r"void: impossible figures: 500,000,000,000,000,000 ops do not fit into 1e-06 s",
    "too-busy": r"void: impossible figures: the client used 3\.6e\+03 s of CPU time, but \d+ cores had \S+ s",
    "negative": rf"error in tool: the report of phase tool: operations: {NUMBER} -10 \(int\)",
    "fraction": rf"error in tool: the report of phase tool: items: {NUMBER} 2\.5 \(float\)",
    "nan-fact": rf"error in tool: phase tool: facts: ratio: {WANTED} nan \(float\)",
    "object-fact": rf"error in tool: phase tool: facts: ratio: {WANTED} <object .* \(object\)",
    "no-tool": "error in tool: the report of phase tool: tool: expected text, got None",
}


def ran(tmp: Path, suite: str, engines: str, *words: object) -> Shell:
    shell = Shell(tmp, tmp / "work", PLUGINS)
    ended = shell.dyno("run", suite, "-e", engines, *words, "--retries", 0, "-o", shell.file)
    assert ended.err == f"Written to {shell.file}\n"
    assert ended.status == 1
    harmless(ended)
    return shell


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    engines = ",".join(f"talker:{how}" for how in (*ENGINES, *FAILING))
    words = small(samples=1, phases="insert-blind-noindices,rand-key")
    yield ran(tmp_path_factory.mktemp("talked"), "records", f"memory,{engines}", *words)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    yield ran(tmp_path_factory.mktemp("reported"), "fibs", ",".join(f"fibber:report={how}" for how in REPORTS))


@pytest.fixture(scope="module")
def rows(talked: Shell) -> Cells:
    return talked.cells()


@pytest.fixture(scope="module")
def reports(reported: Shell) -> Cells:
    return reported.cells()


def harmless(ended: Ended) -> None:
    """Checks that the output can be encoded and has no control characters."""
    for text in (ended.out, ended.err):
        assert [each for each in set(text) if not each.isprintable() and each not in "\n\t\r\N{NO-BREAK SPACE}"] == []
    assert "Traceback" not in ended.err


def judged(told: dict[str, Any], why: str | None) -> None:
    assert told["valid"] is (why is VALID), told["why"]
    assert why is VALID or re.fullmatch(why, told["why"]), told["why"]


@pytest.mark.claim("A report that can't be stored ends the trial")
@pytest.mark.parametrize("how", ENGINES)
def test_engine_metadata_is_accepted_only_if_storable(rows: Cells, how: str) -> None:
    why = ENGINES[how]
    judged(rows[f"talker:{how}", "rand-key"], why and f"error in insert-blind-noindices: engine talker: {why}")


@pytest.mark.claim("Text from engines and files can't harm its reader")
@pytest.mark.parametrize("how", FAILING)
def test_engine_failures_are_reported_as_sanitized_text(rows: Cells, how: str) -> None:
    judged(rows[f"talker:{how}", "rand-key"], FAILING[how])


@pytest.mark.claim("No sample reports more than was possible")
@pytest.mark.parametrize("how", REPORTS)
def test_tool_report_is_valid_only_if_possible(reports: Cells, how: str) -> None:
    judged(reports[f"fibber:report={how}", "tool"], REPORTS[how])


def test_other_engines_of_the_run_are_valid(talked: Shell, rows: Cells) -> None:
    for name in ("memory", "null"):
        assert all(cell["valid"] for (engine, _), cell in rows.items() if engine == name)
    assert talked.shown()["complete"] is True


@pytest.mark.claim("Text from engines and files can't harm its reader")
def test_run_file_keeps_engine_text_escaped_and_truncated(talked: Shell, reported: Shell) -> None:
    attempts = {str(sorted(a["settings"])): a for a in talked.attempts("talker") if a["settings"]}
    (attempt,) = attempts.values()
    (harmful,) = (name for name in attempt["settings"] if name.startswith("\\x1b[31mred"))
    assert attempt["settings"][harmful] == attempt["version"] == attempt["caveats"][0]["text"] == harmful
    assert attempt["settings"]["two"] == "two\\nlines"
    assert attempt["settings"]["fine"] == "ä" * 4000 + "... (9,996,000 characters more)"
    assert "\\udc80\\ud800" in harmful
    with_facts = next(a for a in reported.attempts() if a["facts"])
    (sample,) = with_facts["samples"]
    assert {*with_facts["facts"].values(), *sample["facts"], sample["reported_by"], sample["first_error"]} == {
        harmful
    }


SHOWN = ("show", "show --samples --csv", "show --markdown", "report", "compare")


@pytest.mark.claim("Text from engines and files can't harm its reader")
@pytest.mark.parametrize("how", SHOWN)
def test_reports_show_engine_text_without_control_characters(talked: Shell, reported: Shell, how: str) -> None:
    command, *flags = how.split()
    for shell in (talked, reported):
        # Reading needs no plug-in, and so no process of its own.
        ended = Shell(shell.home, shell.work).dyno(command, shell.file, *flags)
        # `compare` refuses a run of one block.
        assert ended.status in (0, 2 if command == "compare" else 0), ended.err
        harmless(ended)


def test_site_is_built_from_runs_with_harmful_text(talked: Shell, reported: Shell) -> None:
    ended = talked.dyno("site", talked.file, reported.file, "-o", talked.home / "site")
    assert ended.status == 0, ended.err
    harmless(ended)


# -- declarations ---------------------------------------------------------------------------------------------------

UNFIT = "is not one line of text that can be shown"


@pytest.mark.claim("Text from engines and files can't harm its reader")
def test_list_reports_harmful_declarations_with_escapes(shell: Shell) -> None:
    shell.plugins = PLUGINS
    ended = shell.dyno("list")
    assert ended.status == 0, ended.err
    harmless(ended)
    output = ended.out
    assert re.search(rf"engine harmful-title \(gossip:HARMFUL_TITLE\): title: \\x1b\[31mred.* {UNFIT}", output)
    assert re.search(rf"engine harmful-gap .*: ports: ordered-kv: gaps: reason: .* {UNFIT}", output)
    assert re.search(rf"suite harmful-suite .*: phases: title: .* {UNFIT}", output)
    assert "engine harmful-exit (gossip_exits:ENGINE) can't be imported: SystemExit: 0" in output
    assert re.search(r"engine harmful-import .* can't be imported: ImportError: \\x1b\[31mred", output)
    # The other engines are listed.
    assert "talker" in output and "fibber" in output


BROKEN = {
    "engine broken-import": "can't be imported: GeneratorExit: not today",
    "engine broken-modules": "modules is None, expected tuple",
    "engine broken-object": "can't be imported: AttributeError",
    "engine broken-option": "options: help is None, expected str",
    "engine broken-ports": "ports is None, expected Mapping",
    "engine broken-title": "title is None, expected str",
    "suite broken-missing": "ports is missing",
    "suite broken-phase": "phases: unit is None, expected str",
}
"""The expected error for each broken plug-in."""


RUN_EACH = """
import sys
from dyno.cli import commands, console
console.prepare()
for name in sys.argv[1:]:
    print(commands.run_command(["run", "records", "-e", f"memory,{name}", "-o", "other.json"]))
"""


def test_broken_declaration_is_named_and_others_unaffected(shell: Shell) -> None:
    shell.plugins = [TESTS / "plugins" / "broken"]
    ended = shell.dyno("list")
    assert ended.status == 0, ended.err
    for name, why in BROKEN.items():
        (line,) = (line for line in ended.out.splitlines() if line.startswith(f"{name} ("))
        assert why in line
    details = shell.dyno("list", "broken-needs")
    assert "has a faulty `needs`: ZeroDivisionError: by design" in " ".join(details.out.split())
    ran = shell.dyno("run", "records", "-e", "memory", *small(samples=1), "-o", shell.file)
    assert ran.status == 0, ran.err
    faulty = [name.removeprefix("engine ") for name in BROKEN if name.startswith("engine")]
    faulty += ["broken-needs", "broken-refuse", "broken-starting"]
    ended = shell.sh(sys.executable, "-c", RUN_EACH, *faulty)
    assert ended.out.split() == ["2"] * len(faulty), ended
    for name, line in zip(faulty, ended.err.splitlines(), strict=True):
        assert line.startswith("dyno: ") and name in line


@pytest.mark.parametrize("name", ["harmful-title", "harmful-needs", "harmful-import"])
def test_harmful_engine_declaration_is_a_one_line_error(shell: Shell, name: str) -> None:
    shell.plugins = PLUGINS
    ended = shell.dyno("run", "records", "-e", f"memory,{name}", "-o", shell.file)
    assert (ended.status, ended.out) == (2, "")
    assert is_one_line(ended.err) and name in ended.err
    harmless(ended)


def test_selftest_tiers_output_has_no_control_characters(shell: Shell) -> None:
    if shutil.which("strace") is None:
        pytest.skip("nothing is traced without strace")
    shell.plugins = PLUGINS
    engines = "talker:settings=nan,talker:release=harmful,talker:refuses=harmful"
    ended = shell.dyno("selftest", "--tiers", "-e", engines)
    assert ended.status == 1, ended.err
    assert "engine talker: settings: cache: expected text" in " ".join(ended.out.split())
    harmless(ended)
