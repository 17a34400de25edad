"""Tests the commands as a shell runs them: exit status, one line on standard error, only the result on standard
output.

Covers the statuses (0 done, 1 done and something failed, 2 usage error, 3 nothing measured; for failing runs see
`tests/runner/test_faults.py`), and that neither a user's mistake nor a damaged file shows a traceback.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from shell import COMMAND, DATA, FAULTY, PATIENCE, Ended, Shell, is_one_line, run_line, small

import dyno.engines
from dyno import registry

RUN = ("run", "records", "-e", "memory", *small(samples=1))
COMMANDS = ("run", "list", "doctor", "show")
PRINTING = (
    ("show", "{file}"),
    ("show", "{file}", "--json"),
    ("show", "{file}", "--csv"),
    ("show", "{file}", "--markdown"),
    ("list",),
    ("list", "engines"),
    ("doctor", "--json"),
    ("--version",),
    ("--help",),
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, bytes]:
    """Output of a small run, and its run file."""
    home = tmp_path_factory.mktemp("ran")
    shell = Shell(home, home / "work")
    ended = shell.dyno(*RUN, "-o", "r.json")
    return ended, shell.file.read_bytes()


@pytest.fixture
def shell(shell: Shell, ran: tuple[Ended, bytes]) -> Shell:
    """A shell whose directory has the run file of `ran`."""
    shell.file.write_bytes(ran[1])
    return shell


# -- a run ----------------------------------------------------------------------------------------------------


def test_successful_run_prints_only_the_result(ran: tuple[Ended, bytes], shell: Shell) -> None:
    ended, _ = ran
    assert ended.status == 0
    assert ended.err == "Written to r.json\n"
    assert not {"\x1b", "\r"} & set(ended.out)
    assert ended.out == shell.dyno("show", "r.json").out


def test_default_run_file_name_has_suite_and_time(shell: Shell) -> None:
    ended = shell.dyno(*RUN)
    assert ended.status == 0
    (name,) = (path.name for path in shell.home.glob("records-*.json"))
    assert re.fullmatch(r"records-\d{8}-\d{6}\.json", name)
    assert ended.err == f"Written to {name}\n"


def test_run_leaves_only_its_run_file(shell: Shell) -> None:
    """Afterwards the working directory has only the run file, and the work directory is empty."""
    elsewhere = shell.home / "elsewhere"
    assert shell.dyno(*RUN, "-o", "new.json", "--work", elsewhere).status == 0
    assert sorted(path.name for path in shell.home.iterdir()) == ["elsewhere", "new.json", "r.json"]
    assert list(elsewhere.iterdir()) == []
    assert shell.left() == []


# -- usage errors ---------------------------------------------------------------------------------------------

USAGE_ERRORS = (
    (("rnu",), r"command '?rnu'? is not known; did you mean run\?"),
    (("xyzzy",), r"command '?xyzzy'? is not known; there are: .*run"),
    (("--verison",), r"No such option.*--verison.*--version"),
    (("run",), r"Missing argument 'SUITE\|PLAN.toml'"),
    (("run", "record"), r"suite record is not known; did you mean records\?"),
    (("run", "records", "--sample", "3"), r"No such option.*--sample.*--samples"),
    (("run", "records", "-e", "lmbd"), r"engine lmbd is not known; did you mean lmdb\?"),
    (("run", "records", "-p", "records"), r"-p: expected NAME=VALUE\[,VALUE\.\.\.\], got 'records'"),
    (("run", "records", "-p", "records="), r"-p: expected NAME=VALUE\[,VALUE\.\.\.\], got 'records='"),
    (("run", "records", "--samples", "0"), r"Invalid value for '--samples': 0 is not in the range 1<=x<=1000000"),
    (
        ("run", "records", "--samples", str(2**63 - 1)),
        r"Invalid value for '--samples': \d+ is not in the range 1<=x<=1000000",
    ),
    *(
        ((*words, ""), rf"Invalid value for '{option}.*': expected a path, got ''")
        for words, option in (
            (("run", "records", "-o"), "-o"),
            (("run", "records", "--work"), "--work"),
            (("show", "r.json", "-o"), "-o"),
            (("report", "r.json", "-o"), "-o"),
            (("check", "r.json", "--against"), "--against"),
            (("http", "http://localhost", "-o"), "-o"),
            (("replicate", "acid-2013", "-o"), "-o"),
            (("crash", "-o"), "-o"),
            (("list", "--crash"), "--crash"),
        )
    ),
    *(
        (("run", "records", f"--{flag}", ""), rf"--{flag}: expected at least one value, got ''")
        for flag in ("engine", "phases", "clients", "rate")
    ),
    (("run", "records", "--samples", "many"), r"Invalid value for '--samples': 'many' is not a valid integer"),
    (("run", "records", "--budget", "0"), r"Invalid value for '--budget'"),
    (("run", "records", "-e", "memory", "--rate", "0"), r"suite records: parameter rate=0: expected operations "),
    (("run", "records", "-e", "memory", "--rate", "abc"), r"suite records: parameter rate=abc: expected operations "),
    (("run", "records", "-e", "memory", "--rate", "5", "-p", "rate=6"), r"rate is given twice: by --rate and by -p "),
    (("run", "records", "--duration", "0"), r"Invalid value for '--duration': expected at least 0\.01, got 0\.0"),
    (("run", "records", "--duration", "1", "--budget", "1"), r"budget .* and duration .* exclude each other"),
    (("run", "records", "--warmup", "-1"), r"Invalid value for '--warmup': expected at least 0, got -1\.0"),
    (("run", "records", "--arrivals", "posson"), r"arrivals posson is not known; did you mean poisson\?"),
    (("run", "records", "--loop", "nativ"), r"loop nativ is not known; did you mean native\?"),
    (("run", "records", "-e", "memory", "-o", "nowhere/r.json"), r"can't write nowhere/r.json: No such file"),
    (("run", "records", "-e", "memory", "--work", "r.json/work", "-o", "n.json"), r"can't use r.json/work as "),
    (("run", "nowhere.toml"), r"can't read nowhere.toml: No such file or directory"),
    (("show",), r"Missing argument 'RUN'"),
    (("show", "nowhere.json"), r"can't read nowhere.json: No such file or directory"),
    (("show", "."), r"can't read \.: Is a directory"),
    (("show", "r.json", "--json", "--csv"), r"--json, --csv, --markdown and --parquet exclude each other"),
    (("show", "r.json", "--csv", "--markdown"), r"--json, --csv, --markdown and --parquet exclude each other"),
    (("show", "r.json", "--xml"), r"No such option.*--xml"),
    (("show", "r.json", "r.json"), r"Got unexpected extra argument"),
    (("list", "engine"), r"suite or engine engine is not known; did you mean engines\?"),
    (("doctor", "--work", "r.json"), r"--work: expected a directory, got .*r\.json"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"), USAGE_ERRORS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_usage_error_is_one_line_with_status_2(shell: Shell, words: tuple[str, ...], said: str) -> None:
    status, out, err = shell.run_here(*words)
    assert status == 2, err
    assert out == ""
    assert is_one_line(err)
    assert re.match(f"dyno: {said}", err), err
    assert sorted(path.name for path in shell.home.iterdir()) == ["r.json"], "nothing was begun"


@pytest.mark.parametrize("flag", ["--budget", "--timeout", "--duration", "--warmup"])
def test_nan_or_infinite_seconds_are_a_usage_error(shell: Shell, flag: str) -> None:
    for number in ("nan", "inf"):
        status, _, err = shell.run_here(*RUN, "--retries", "0", flag, number, "-o", "n.json")
        assert status == 2
        assert is_one_line(err)


# -- damaged files --------------------------------------------------------------------------------------------


def header(**changed: Any) -> Callable[[list[bytes]], list[bytes]]:
    """Changes the header; a value of None removes its key."""

    def damage(lines: list[bytes]) -> list[bytes]:
        data = {**json.loads(lines[0]), **changed}
        whole = {key: value for key, value in data.items() if value is not None}
        return [run_line(whole), *lines[1:]]

    return damage


def trial(**changed: Any) -> Callable[[list[bytes]], list[bytes]]:
    """Changes keys of the last trial. A key `sample_x` changes `x` of its first sample."""

    def damage(lines: list[bytes]) -> list[bytes]:
        data = json.loads(lines[-1])
        for key, value in changed.items():
            if key.startswith("sample_"):
                data["samples"][0][key.removeprefix("sample_")] = value
            else:
                data[key] = value
        return [*lines[:-1], run_line(data)]

    return damage


def inserted(line: bytes, at: int = 1) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:at], line + b"\n", *lines[at:]]


def damaged(damage: Callable[[list[bytes]], list[bytes]], name: str, said: str) -> Any:
    return pytest.param(damage, said, id=name)


DAMAGED = (
    damaged(lambda lines: [], "empty", "{file} is not a run file of dyno"),
    damaged(lambda lines: [lines[0][:500]], "header torn", "{file} is not a run file of dyno"),
    damaged(lambda lines: lines[1:], "header missing", "{file} is not a run file of dyno"),
    damaged(lambda lines: [b"{}\n", *lines[1:]], "other JSON", "{file} is not a run file of dyno"),
    damaged(lambda lines: [b"[1, 2]\n"], "a list", "{file} is not a run file of dyno"),
    damaged(lambda lines: [b"suite,engine\nrecords,memory\n"], "not JSON", "{file} is not a run file of dyno"),
    damaged(lambda lines: [bytes(range(128, 256))], "binary", "{file} is not a run file of dyno"),
    damaged(header(schema=99), "later schema", "{file} has schema 99; this dyno reads 3 and 4"),
    damaged(inserted(b'{"kind":"tri'), "line torn in the middle", "{file} is damaged in line 2"),
    damaged(inserted(b"\0" * 50, 3), "zeros", "{file} is damaged in line 4"),
    damaged(inserted(b'{"kind":"trial"}'), "empty trial", "{file} is damaged"),
    damaged(inserted(b"[]"), "line is a list", "{file} is damaged"),
    damaged(inserted(b"null"), "line is null", "{file} is damaged"),
    damaged(header(cells=None), "no cells", "{file} is damaged"),
    damaged(header(cells=[]), "empty cells", "{file} is damaged"),
    damaged(header(cells=[{"suite": "records"}]), "cells without keys", "{file} is damaged"),
    damaged(header(plan=None), "no plan", "{file} is damaged"),
    damaged(header(plan={}), "empty plan", "{file} is damaged"),
    damaged(header(plan=[]), "plan is a list", "{file} is damaged"),
    damaged(header(host=[]), "host is a list", "{file} is damaged"),
    damaged(trial(samples=None), "no samples", "{file} is damaged"),
    damaged(trial(samples=[{}]), "sample without keys", "{file} is damaged"),
    damaged(trial(caveats=[{"x": 1}]), "unknown caveat", "{file} is damaged"),
    damaged(trial(sample_histogram="x"), "no histogram", "{file} is damaged"),
    damaged(trial(sample_items="x"), "items no number", "{file} is damaged"),
    damaged(trial(sample_response="x"), "no histogram of responses", "{file} is damaged"),
    damaged(trial(sample_series=5), "series no list", "{file} is damaged"),
)


@pytest.mark.parametrize(("damage", "said"), DAMAGED)
def test_damaged_run_file_is_a_one_line_error(
    shell: Shell, damage: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    content = b"".join(damage(shell.file.read_bytes().splitlines(keepends=True)))
    shell.file.write_bytes(content)
    status, out, err = shell.dyno("show", "r.json")
    assert status == 2, err
    assert out == ""
    assert is_one_line(err)
    assert err.startswith("dyno: " + said.replace("{file}", "r.json"))
    assert shell.file.read_bytes() == content


# -- the other commands ---------------------------------------------------------------------------------------


def test_version_and_help(shell: Shell) -> None:
    assert shell.dyno("--version") == (0, f"dyno {version('dyno-bench')}\n", "")
    for words in ((), ("--help",), ("-h",)):
        status, out, err = shell.dyno(*words)
        assert (status, err) == (0, "")
        assert all(re.search(rf"^  {command} ", out, re.MULTILINE) for command in COMMANDS)
    for command in COMMANDS:
        status, out, err = shell.dyno(command, "--help")
        assert (status, err) == (0, "")
        assert "Usage:" in out


def test_console_script_equals_python_module(shell: Shell) -> None:
    script = Path(COMMAND[0]).with_name("dyno")
    assert shell.sh(script, "--version") == shell.dyno("--version")


@pytest.mark.parametrize(
    "words",
    [
        ["show", "r.json"],
        ["show", "none.json"],
        ["list", "sqlite"],
        ["compare"],
        ["check", "r.json"],
        ["plot", "r.json"],
    ],
)
def test_commands_in_the_test_process_equal_commands_in_their_own(shell: Shell, words: list[str]) -> None:
    shutil.copy(DATA / "run-schema-3.json", shell.home / "r.json")
    assert shell.sh(*COMMAND, *words) == shell.dyno(*words)


def test_commands_in_the_test_process_leave_it_unchanged(shell: Shell) -> None:
    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        descriptors = [Path(f"/proc/self/fd/{number}").readlink() for number in range(3)]
        return dict(os.environ), Path.cwd(), sys.stdout, sys.stderr, handlers, descriptors, gc.get_threshold()

    before = state()
    shell.run_here("show", "r.json")
    shell.run_here("show", "none.json")
    assert state() == before


def listed(shell: Shell, *words: str) -> str:
    status, out, err = shell.dyno("list", *words)
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    return out


def row(out: str, name: str, suite: bool = False) -> str:
    """Returns the line of an engine or a suite. If both have this name, the suite's line comes first."""
    # Results of crashes are printed below.
    lists = out.partition("\nTiers tested by dyno crash")[0]
    matches = re.findall(rf"^{re.escape(name)} .*$", lists, re.MULTILINE)
    assert 1 <= len(matches) <= 2, matches
    return str(matches[0 if suite else -1])


def test_only_reading_commands_change_the_gc_threshold(shell: Shell) -> None:
    """Collections are disabled only while a command is imported."""
    program = f"""
import atexit, gc, sys
from dyno.__main__ import main
atexit.register(lambda: print(gc.isenabled(), gc.get_threshold() == {gc.get_threshold()}, file=sys.stderr))
main()
"""
    for words, as_ever in ((["doctor", "--json"], True), (["--version"], True), (["list"], False)):
        ended = shell.sh(sys.executable, "-c", program, *words)
        assert ended.err.split() == ["True", str(as_ever)]


def test_unreadable_crash_result_is_a_one_line_error(shell: Shell) -> None:
    row = {"kind": "row", "engine": "sqlite", "tier": "power", "settings": 5}
    wrong = {
        "damaged.json": f"{json.dumps({'kind': 'crash', 'schema': 1})}\n{json.dumps(row)}\n",
        "later.json": f"{json.dumps({'kind': 'crash', 'schema': [2]})}\n",
        "list.json": "[]\n",
        "empty.json": "",
    }
    for name, content in wrong.items():
        (shell.home / name).write_text(content)
    os.mkfifo(shell.home / "pipe.json")
    for name in (*wrong, "pipe.json", "/dev/zero", "."):
        status, out, err = shell.dyno("list", "--crash", name)
        assert (status, out) == (2, "") and is_one_line(err) and name in err


def test_list_shows_every_engine_and_suite(shell: Shell) -> None:
    out, engines, suites = listed(shell), listed(shell, "engines"), listed(shell, "suites")
    ours = {path.stem for path in Path(dyno.engines.__path__[0]).glob("[a-z]*.py")}
    assert len(ours) >= 7
    for name in ours:
        spec, found = registry.engine(name), row(engines, name)
        assert row(out, name)
        assert found.rstrip().endswith("ready") is not bool(spec.explain_unavailability() or spec.listing.untested)
        assert all(tier.value in found for tier in spec.tiers)
    for suite in registry.suites():
        assert row(out, suite.name, suite=True) and suite.title in suites


def test_list_shows_known_gaps_and_tiers_by_port(shell: Shell) -> None:
    out = listed(shell, "engines")
    gaps = [(spec.name, port, gap) for spec in registry.engines() for port, p in spec.ports.items() for gap in p.gaps]
    assert gaps
    for name, port, gap in gaps:
        assert f"{name}, {port}: {gap.check} ({gap.kind}): {gap.reason}" in out
    # Suites in which the null engine has tiers come first. In the others it stores nothing.
    (line,) = (at for at, text in enumerate(out.splitlines()) if text.startswith("null "))
    first, *rest = (" ".join(text.split()) for text in out.splitlines()[line : line + 3])
    assert "arrays, ndarrays, objects, records, series, sql volatile*, process, power" in first
    assert [text.partition(" –")[0] for text in rest] == ["compute, selftest", "http"]


def test_list_shows_install_commands_of_missing_engines(shell: Shell) -> None:
    site = shell.home / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['lmdb'] = None\n")
    shell.plugins = [site, FAULTY]
    out = listed(shell, "engines")
    assert " missing " in row(listed(shell), "lmdb")
    assert row(out, "lmdb").rstrip().endswith("dyno install lmdb")
    assert row(out, "absent").rstrip().endswith("dyno install absent")
    assert row(out, "sqlite").rstrip().endswith("ready")
    refused = shell.dyno("run", "records", "-e", "lmdb", "-o", "n.json")
    assert refused == (2, "", "dyno: engine lmdb needs lmdb: dyno install lmdb\n")


def test_list_names_unimportable_plugins_and_shows_others(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    out = listed(shell, "engines")
    assert "engine bad-import (faulty_bad_import:ENGINE) can't be imported: ImportError: libfaulty" in out
    assert "engine bad-attribute (faulty:NO_SUCH_NAME) can't be imported: AttributeError" in out
    assert row(out, "crasher").rstrip().endswith("ready")
    assert row(out, "lmdb").rstrip().endswith("ready")


def test_plugin_never_replaces_a_builtin_engine(shell: Shell) -> None:
    info = shell.home / "plug" / "thief-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thief\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[dyno.engines]\nlmdb = faulty:CRASHER\n")
    before = row(listed(shell), "lmdb")
    shell.plugins = [info.parent, FAULTY]
    assert row(listed(shell), "lmdb").split() == before.split()


def test_list_engines_and_suites_show_their_own_details(shell: Shell) -> None:
    engines = listed(shell, "engines")
    assert "journal_mode" in engines
    assert "map_size_gib" in engines
    assert "rand-key" not in engines
    suites = listed(shell, "suites")
    for name in ("rand-key", "insert-blind-indices", "value_size", "quick", "standard", "full"):
        assert re.search(rf"^{name} ", suites, re.MULTILINE), name
    assert "journal_mode" not in suites


def test_doctor_json_has_facts_and_findings(shell: Shell) -> None:
    status, out, err = shell.dyno("doctor", "--json", "--work", shell.home)
    data = json.loads(out)
    assert set(data) == {"facts", "findings"}
    assert data["facts"]["cpu"]["logical_cores"] == os.cpu_count()
    noise = data["facts"]["noise"]
    assert noise["spread"] > 0
    large, small = (noise["samples"][f"{percent}_percent"] or 10**6 for percent in (10, 3))
    assert 3 <= large <= small
    bad = [finding for finding in data["findings"] if finding["severity"] == "bad"]
    assert status == (1 if bad else 0)
    assert err == ""


# -- pipes ----------------------------------------------------------------------------------------------------


def test_reader_that_stops_early_causes_no_traceback(shell: Shell) -> None:
    for form in ("", "--json"):
        line = f"set -o pipefail; {' '.join(COMMAND)} show r.json {form} | head -1"
        _, out, err = shell.sh("bash", "-c", line)
        assert out.count("\n") == 1
        assert err == ""


def closed_pipe(shell: Shell, words: tuple[str, ...]) -> tuple[int, str]:
    """Runs a command whose output pipe is closed. Returns its status and standard error."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [*COMMAND, *(word.replace("{file}", "r.json") for word in words)],
            cwd=shell.home,
            env=shell.environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
    finally:
        os.close(writing)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_closed_output_pipe_is_no_error(shell: Shell, words: tuple[str, ...]) -> None:
    status, err = closed_pipe(shell, words)
    assert err == ""
    # The exit status of doctor depends on its findings, even if its output can't be written.
    assert status == 0 or (status, words[0]) == (1, "doctor")
