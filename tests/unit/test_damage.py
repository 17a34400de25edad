"""Guards that a run file is right once it is read, whatever was in it: what is damaged is said in one line, with the
place and what was expected, text can do no harm, only files are read, and nothing is written that can't be read."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, is_one_line, small

from dyno import results
from dyno.histogram import percentiles
from dyno.model import Cell, UsageError
from dyno.results import Attempt
from dyno.results.parse import MOST_BYTES, MOST_LINE
from dyno.run.parent import _kept
from dyno.run.planfile import MOST_BYTES as MOST_PLAN_BYTES

WHOLE = TESTS / "data" / "run-schema-2.json"
"""Three blocks of lmdb, sqlite and two null engines, in four phases, of which one is cold."""
COLD = 2
"""Which of the samples that is."""
HUGE = 2**63


def text(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r.json"


def damage(file: Path, at: int, place: str, value: Any) -> None:
    """Puts a value in the place `samples.0.items` of a line."""
    lines = WHOLE.read_text().splitlines()
    found = whole = json.loads(lines[at])
    *path, last = place.split(".")
    for step in path:
        found = found[int(step)] if isinstance(found, list) else found.setdefault(step, {})
    if value is DELETED:
        del found[last]
    else:
        found[int(last) if isinstance(found, list) else last] = value
    lines[at] = text(whole)
    file.write_text("".join(f"{line}\n" for line in lines))


def said(file: Path) -> str:
    with pytest.raises(UsageError) as caught:
        results.load(file)
    line = str(caught.value)
    assert "\n" not in line
    return line.removeprefix(f"{file} ")


DELETED = object()
POINT = dict.fromkeys(("from_ns", "operations", "p50_ns", "p99_ns"), 10**9)
HEADER: tuple[tuple[str, Any, str], ...] = (
    ("plan", [], "plan: expected `object`, got `array`"),
    ("plan.samples", "3", "plan.samples: expected `int`, got `str`"),
    ("plan.samples", 0, "plan.samples: expected `int` >= 1"),
    ("plan.seed", DELETED, "plan: object missing required field `seed`"),
    ("plan.phases", [], "plan.phases: expected `array` of length >= 1"),
    ("plan.phases", ["mixed", "mixed"], "plan.phases: one is there twice"),
    ("plan.phases", [{}], "plan.phases[0]: expected `str`, got `object`"),
    ("plan.budget", -1, "plan.budget: expected `int` >= 0"),
    ("plan.budget", [1], "plan.budget: expected `int | float`, got `array`"),
    ("plan.until", 1.5, "plan.until: expected `float` <= 1.0"),
    ("plan.memory", HUGE, f"plan.memory: expected `int` <= {HUGE - 1}"),
    ("host.cpu", [], "host.cpu: expected `object | null`, got `array`"),
    ("host.cpu.model", 5, "host.cpu.model: expected `str | null`, got `int`"),
    ("host.filesystem.ram_backed", "no", "host.filesystem.ram_backed: expected `bool | null`, got `str`"),
    ("host.steal_percent", 100.1, "host.steal_percent: expected `float` <= 100.0"),
    ("host.memory.total_bytes", -1, "host.memory.total_bytes: expected `int` >= 0"),
    ("phases", {}, "phases: expected `array | null`, got `object`"),
    ("phases", [{"title": "x"}], "phases[0]: object missing required field `name`"),
    ("phases", [{"name": "mixed", "kinds": {"get": 1}}], "phases[0].kinds[...]: expected `bool`, got `int`"),
    ("layout", {"columns": [{"title": "x"}]}, "layout.columns[0]: object missing required field `of`"),
    ("layout", {"columns": [{"title": "x", "of": "y", "name": "z"}]}, "layout.columns[0].of: invalid enum value 'y'"),
    ("charts", [{"name": "x"}], "charts[0]: object missing required field `title`"),
    ("created", "yesterday", "created: expected a date and a time by ISO 8601"),
    ("cells", [], "cells: expected `array` of length >= 1"),
    ("cells.0", [], "cells[0]: expected `object`, got `array`"),
    ("cells.0.tier", "safe", "cells[0].tier: invalid enum value 'safe'"),
    ("cells.0.options", {"a": [1]}, "cells[0].options[...]: expected `bool | int | float | str`, got `array`"),
    ("cells.0.options", {"a": None}, "cells[0].options[...]: expected `bool | int | float | str`, got `null`"),
    ("cells.1.params.mix", DELETED, "cells[1].params: not those of the first cell"),
    ("cells.1.params.clients", 0, "cells[1].params.clients: expected a number of clients"),
    ("cells.1.params.clients", "many", "cells[1].params.clients: expected a number of clients"),
    ("cells.1.params.rate", -5, "cells[1].params.rate: expected operations a second, or max"),
    ("cells.1.params.records", HUGE, f"cells[1].params[...]: expected `int` <= {HUGE - 1}"),
)
TRIAL: tuple[tuple[str, Any, str], ...] = (
    ("cell", 4, "cell: 4 of 4, counted from 0"),
    ("cell", -1, "cell: expected `int` >= 0"),
    ("block", "0", "block: expected `int`, got `str`"),
    ("started", "later", "started: expected a date and a time by ISO 8601, with its zone"),
    ("started", "2026-01-01T00:00:00", "started: expected a date and a time by ISO 8601, with its zone"),
    ("started", "0001-01-01T00:00:00+14:00", "started: expected a date and a time by ISO 8601, with its zone"),
    ("settings", {"a": {"b": 1}}, "settings[...]: expected `bool | int | float | str | null`, got `object`"),
    ("settings", 5, "settings: expected `object | null`, got `int`"),
    ("resources", [], "resources: expected `object`, got `array`"),
    ("loop", {"name": "native"}, "loop: object missing required field `clock`"),
    ("loop.operation_ns", -1.5, "loop.operation_ns: expected `float` >= 0.0"),
    ("strain.steal_percent", 250, "strain.steal_percent: expected `int` <= 100"),
    ("strain.swapped_in_bytes", -1, "strain.swapped_in_bytes: expected `int` >= 0"),
    ("absent", {"none": "why"}, "the phase none is not in the plan"),
    ("caveats", [{"code": 5, "text": "x"}], "caveats[0].code: expected `str`, got `int`"),
    ("samples.0.phase", "none", "the phase none is not in the plan"),
    ("samples.0.phase", "mixed", "samples: two are of one phase"),
    ("samples.0.items", -1, "samples[0].items: expected `int` >= 0"),
    ("samples.0.items", HUGE, f"samples[0].items: expected `int` <= {HUGE - 1}"),
    ("samples.0.items", 1.5, "samples[0].items: expected `int`, got `float`"),
    ("samples.0.items", True, "samples[0].items: expected `int`, got `bool`"),
    ("samples.0.items", DELETED, "samples[0]: object missing required field `items`"),
    ("samples.0.errors", 2, "samples[0].errors: 2 of 1 operations"),
    ("samples.0.clients", 0, "samples[0].clients: expected `int` >= 1"),
    ("samples.0.histogram", 5, "samples[0].histogram: expected `str | null`, got `int`"),
    ("samples.0.client", [1], "samples[0].client: expected `object | null`, got `array`"),
    ("samples.0.client.user_ns", -1, "samples[0].client.user_ns: expected `int` >= 0"),
    ("samples.0.server", {"user_ns": "x"}, "samples[0].server.user_ns: expected `int | null`, got `str`"),
    ("samples.0.facts", {"a": []}, "samples[0].facts[...]: expected `bool | int | float | str | null`, got `array`"),
    ("samples.0.series", [{}], "samples[0].series[0]: object missing required field `from_ns`"),
    ("samples.0.series", [{**POINT, "interval_ns": 1}], "samples[0].series: more than 10000 intervals"),
    ("samples.0.series", [{**POINT, "interval_ns": 0}], "samples[0].series[0].interval_ns: expected `int` >= 1"),
    (f"samples.{COLD}.residency.resident_bytes", 10**9, f"samples[{COLD}].residency: more is resident than there is"),
)


def name(of: Any) -> str:
    return "deleted" if of is DELETED else of if isinstance(of, str) else text(of)


@pytest.mark.parametrize(("place", "value", "why"), HEADER, ids=name)
def test_a_header_of_the_wrong_shape_is_damage(file: Path, place: str, value: Any, why: str) -> None:
    damage(file, 0, place, value)
    assert said(file) == f"is damaged in line 1: {why}"


@pytest.mark.parametrize(("place", "value", "why"), TRIAL, ids=name)
def test_a_trial_of_the_wrong_shape_is_damage(file: Path, place: str, value: Any, why: str) -> None:
    damage(file, 3, place, value)
    assert said(file) == f"is damaged in line 4: {why}"


LINES = (
    (b'{"kind":"trial","kind":"trial"}', 'the key "kind" is there twice'),
    (b'{"kind":"later","a":[{"b":1,"b":1}]}', 'the key "b" is there twice'),
    (b'{"kind":"later","a":NaN}', "NaN is not a number of JSON"),
    (b'{"kind":"later","a":-Infinity}', "-Infinity is not a number of JSON"),
    (b'{"kind":"later","a":1e999}', "1e999 is not a number of JSON"),
    (b'{"kind":"later","a":' + b"9" * 5_000 + b"}", "a number of 5000 digits"),
    (b'{"kind":"later","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    (b'{"kind":"later","a":"\xff"}', "not UTF-8 from byte 21 on"),
    (b'{"kind":"later",}', "not JSON from character 16 on"),
    (b"[1]", "not an object"),
    (b'{"kind":"end"}', "object missing required field `why`"),
)


@pytest.mark.parametrize(("line", "why"), LINES, ids=lambda of: str(of)[:40])
def test_a_line_that_has_no_one_meaning_is_damage(file: Path, line: bytes, why: str) -> None:
    first, *rest = WHOLE.read_bytes().splitlines()
    file.write_bytes(b"\n".join([first, line, *rest, b""]))
    assert said(file) == f"is damaged in line 2: {why}"


def test_a_line_is_read_whoever_wrote_it(file: Path) -> None:
    """With spaces, other escapes, other digits and the line breaks of another system: not as Dyno writes it."""
    lines = [json.dumps(json.loads(line), indent=None, sort_keys=True) for line in WHOLE.read_text().splitlines()]
    lines[1] = lines[1].replace('"ok"', '"\\u006fk"').replace('"steal_percent": 0.0', '"steal_percent": 0.00e1')
    file.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    first, second = results.load(WHOLE), results.load(file)
    assert (first.header, first.cells, first.attempts) == (second.header, second.cells, second.attempts)


def test_what_a_later_dyno_adds_is_passed_over(file: Path) -> None:
    header, *lines = map(json.loads, WHOLE.read_text().splitlines())
    later = {"a": [{"b": [[]]}]}
    for found in (header, header["plan"], header["host"], header["host"]["cpu"], header["cells"][0]):
        found["later"] = later
    for line in lines:
        for found in (line, line["loop"], line["strain"], line["resources"], line["samples"][0]):
            found["later"] = later
        line["samples"][0]["client"]["later"] = 5
    file.write_text("".join(f"{text(line)}\n" for line in (header, *lines, {"kind": "later", **later})))
    assert results.load(file).attempts == results.load(WHOLE).attempts
    assert "later" not in text(results.load(file).header)


# -- text -----------------------------------------------------------------------------------------------------

EVIL = "\x1b[2J\x9b31m\u202e[/bold]:smile:\ud800\x7f"
SHOWN = "\\x1b[2J\\x9b31m\\u202e[/bold]:smile:\\ud800\\x7f"


@pytest.mark.parametrize("escaped", [True, False])
def test_text_of_a_run_file_steers_no_terminal(shell: Shell, escaped: bool) -> None:
    evil = EVIL if escaped else EVIL.replace("\ud800", "")
    lines = [json.loads(line) for line in WHOLE.read_text().splitlines()]
    lines[0]["cells"][0]["engine"] = lines[0]["host"]["cpu"]["model"] = evil
    lines[0]["cells"][0]["options"] = {evil: evil}
    lines[1] |= {"outcome": "crash", "why": f"{evil}\nof two lines", "settings": {evil: evil}}
    lines[2]["loop"]["name"] = evil
    made = "".join(f"{json.dumps(line, ensure_ascii=escaped)}\n" for line in lines)
    if not escaped:
        # Which JSON wants escaped.
        made = made.replace("\x9b", "\\u009b")
    shell.file.write_text(made, encoding="utf-8")
    for form in ((), ("--json",), ("--csv",), ("--markdown",)):
        ended = shell.dyno("show", shell.file, *form)
        assert (ended.status, ended.err) == (0, "")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ended.out)
        wanted = SHOWN if escaped else SHOWN.replace("\\ud800", "")
        assert wanted in (ended.out if form != ("--json",) else ended.out.replace("\\\\", "\\")).replace("\\[", "[")


def test_text_that_has_no_end_is_cut(file: Path) -> None:
    damage(file, 3, "why", "x" * 60_000)
    assert results.load(file).attempts[2].why == "x" * 4_000 + "... (56,000 characters more)"


# -- histograms -----------------------------------------------------------------------------------------------


def packed(plain: bytes) -> str:
    body = zlib.compress(plain, 9)
    return base64.b64encode(bytes.fromhex("1c849314") + len(body).to_bytes(4, "big") + body).decode()


def plain(encoded: str) -> bytes:
    return zlib.decompress(base64.b64decode(encoded)[8:])


def a_histogram() -> str:
    return next(s.histogram for a in results.load(WHOLE).attempts for s in a.samples if s.histogram is not None)


def test_a_histogram_that_counts_more_than_there_is_room_for_is_none() -> None:
    # Thrice nearly 2 to the 62nd, in nine bytes each; and in three histograms: less than nothing.
    most = b"\xfe" + b"\xff" * 8
    head = plain(a_histogram())[:40]
    assert percentiles([packed(head + most)])["max"] == 0
    for found in ([packed(head + most * 3)], [packed(head + most)] * 3):
        with pytest.raises(ValueError, match=r"^not a histogram: it counts "):
            percentiles(found)


def test_a_histogram_that_unpacks_to_very_much_is_none() -> None:
    with pytest.raises(ValueError, match=r"^not a histogram: over 1,048,576 bytes"):
        percentiles([packed(plain(a_histogram())[:40] + bytes(100 << 20))])


# -- what is no file ------------------------------------------------------------------------------------------

READERS = (
    ("show", "{file}"),
    ("compare", "{file}"),
    ("check", "{file}", "--against", "{file}"),
    ("report", "{file}", "-o", "x.html"),
    ("plot", "{file}", "-o", "charts/"),
    ("site", "{file}", "-o", "site"),
    ("run", "records", "-e", "memory", *small(samples=1), "-o", "{file}", "--resume"),
    ("run", "records", "-e", "memory", *small(samples=1), "-o", "{file}", "--overwrite"),
)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_pipe_is_not_waited_for(shell: Shell, words: tuple[str, ...]) -> None:
    os.mkfifo(shell.file)
    ended = shell.dyno(*(word.replace("{file}", "r.json") for word in words))
    assert (ended.status, ended.out) == (2, "") and is_one_line(ended.err) and " is a pipe, " in ended.err
    assert [path.name for path in shell.home.iterdir()] == ["r.json"] and shell.file.is_fifo()


def test_what_is_no_file_is_refused_in_one_line(shell: Shell) -> None:
    (shell.home / "loop.json").symlink_to("loop.json")
    (shell.home / "zero.json").symlink_to("/dev/zero")
    (shell.home / "pipe.toml").symlink_to("pipe")
    os.mkfifo(shell.home / "pipe")
    (shell.home / "zero.toml").symlink_to("/dev/zero")
    for words, why in (
        (("show", "loop.json"), "can't read loop.json: Too many levels of symbolic links"),
        (("show", "zero.json"), "can't read zero.json: it is a device, not a file"),
        (("show", "/dev/zero"), "can't read /dev/zero: it is a device, not a file"),
        (("show", "."), "can't read .: Is a directory"),
        (("run", "pipe.toml"), "can't read pipe.toml: it is a pipe, not a file"),
        (("run", "zero.toml"), "can't read zero.toml: it is a device, not a file"),
    ):
        assert shell.dyno(*words) == (2, "", f"dyno: {why}\n")


def test_a_site_passes_over_what_is_no_file(shell: Shell) -> None:
    os.mkfifo(shell.home / "pipe.json")
    shell.file.write_bytes(WHOLE.read_bytes())
    ended = shell.dyno("site", ".", "-o", "site")
    assert ended.status == 0, ended.err
    assert [path.name for path in (shell.home / "site" / "runs").iterdir()] == ["r.html"]


def test_what_is_too_large_is_not_read(shell: Shell) -> None:
    # Which takes no room on the disk.
    for name, most in (("r.json", MOST_BYTES), ("plan.toml", MOST_PLAN_BYTES)):
        with (shell.home / name).open("wb") as sparse:
            sparse.truncate(most + (5 << 20))
    assert shell.dyno("show", "r.json").err == "dyno: can't read r.json: it has 2,053 MiB, of 2,048 at most\n"
    assert shell.dyno("run", "plan.toml").err == "dyno: can't read plan.toml: it has 6 MiB, of 1 at most\n"


def test_a_line_without_an_end_is_not_read_whole(file: Path) -> None:
    file.write_bytes(WHOLE.read_bytes())
    with file.open("r+b") as grown:
        grown.truncate(file.stat().st_size + MOST_LINE)
    assert said(file) == "is damaged in line 14: longer than 64 MiB"


# -- what is written ------------------------------------------------------------------------------------------


@pytest.fixture
def written(file: Path) -> tuple[Path, Attempt]:
    """A run file without trials, and one that may be added."""
    run = results.load(WHOLE)
    results.create(file, run.header, run.cells)
    return file, run.attempts[0]


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


# Made when it is wanted: some is large.
UNREADABLE: tuple[tuple[Callable[[], Mapping[str, Any]], str], ...] = (
    (lambda: {"settings": {"a": float("nan")}}, "Out of range float values are not JSON compliant"),
    (lambda: {"settings": {"a": float("inf")}}, "Out of range float values are not JSON compliant"),
    (lambda: {"settings": {"a": b"x"}}, "bytes is not JSON"),
    (lambda: {"settings": {"a": {1, 2}}}, "set is not JSON"),
    (lambda: {"settings": {"a": object()}}, "object is not JSON"),
    (lambda: {"settings": {"a": (1, 2)}}, "settings[...]: expected `bool | int | float | str | null`, got `array`"),
    (lambda: {"settings": {"a": 2**64}}, f"settings[...]: expected `int` <= {HUGE - 1}"),
    (lambda: {"settings": {"a": deep()}}, "maximum recursion depth exceeded"),
    (lambda: {"settings": [1]}, "settings: expected `object | null`, got `array`"),
    (lambda: {"caveats": ("x",)}, "caveats[0]: expected `object`, got `str`"),
    (lambda: {"version": 5}, "version: expected `str | null`, got `int`"),
    (lambda: {"duration_ns": -1}, "duration_ns: expected `int` >= 0"),
    (lambda: {"cell": 4}, "cell: 4 of 4, counted from 0"),
    (lambda: {"absent": {"none": "why"}}, "the phase none is not in the plan"),
    (lambda: {"output": "x" * (65 << 20)}, "a line of 65 MiB, of 64 at most"),
)


@pytest.mark.parametrize(("changed", "why"), UNREADABLE, ids=[why[:40] for _, why in UNREADABLE])
def test_a_line_that_could_not_be_read_is_not_written(
    written: tuple[Path, Attempt], changed: Callable[[], Mapping[str, Any]], why: str
) -> None:
    file, attempt = written
    before = file.read_bytes()
    with pytest.raises(UsageError) as caught:
        results.append(file, replace(attempt, **changed()))
    line = str(caught.value)
    assert line.startswith(f"can't write to {file} what could not be read again: {why}") and "\n" not in line
    assert file.read_bytes() == before
    results.append(file, attempt)
    assert results.load(file).attempts == (attempt,)


def test_in_place_of_an_attempt_that_can_not_be_kept_is_said_so(written: tuple[Path, Attempt]) -> None:
    file, attempt = written
    bad = {"settings": {"a": float("nan")}, "resources": {"client": [1]}, "loop": {}, "spent_ns": {"phase": -1}}
    ended = _kept(file, replace(attempt, **bad))
    assert results.load(file).attempts == (ended,)
    assert (ended.outcome, ended.samples) == ("error", ())
    assert ended.why and ended.why.startswith("its results can't be kept: ")


def test_nor_is_a_header(file: Path) -> None:
    run = results.load(WHOLE)
    cell = run.cells[0]
    made: tuple[tuple[Mapping[str, Any], Cell], ...] = (
        ({**run.header, "host": {"cpu": 5}}, cell),
        (run.header, replace(cell, params={**cell.params, "records": HUGE})),
        (run.header, replace(cell, options={"a": float("nan")})),
    )
    for header, one in made:
        with pytest.raises(UsageError, match=r"^can't write to .* what could not be read again: "):
            results.create(file, header, [one])
        assert not file.exists()


def test_text_that_could_do_harm_does_not_keep_a_run_from_being_resumed() -> None:
    cell = results.load(WHOLE).cells[0]
    evil = replace(cell, options={"a": EVIL, "b": "plain", "c": 1.5})
    assert results.kept([cell]) == (cell,)
    assert results.kept([evil]) == (replace(cell, options={"a": SHOWN, "b": "plain", "c": 1.5}),)


# -- the end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b"", b"{", b'{"kind":"trial"', b"x" * 100_000])
def test_a_torn_line_is_cut_off_and_no_more(file: Path, torn: bytes) -> None:
    file.write_bytes(WHOLE.read_bytes() + torn)
    results.mend(file)
    assert file.read_bytes() == WHOLE.read_bytes()
    file.write_bytes(torn)
    results.mend(file)
    assert file.read_bytes() == b""


def test_damage_is_one_line_whatever_command_looks(shell: Shell) -> None:
    """The histogram of one sample, which is decoded only when it is looked at."""
    damage(shell.file, 3, "samples.1.histogram", packed(b"x" * 60))
    for words in (*(("show", *form) for form in ((), ("--json",), ("--csv",))), ("compare",), ("plot", "-o", "c/")):
        status, out, err = shell.dyno(words[0], "r.json", *words[1:])
        assert (status, out) == (2, "") and is_one_line(err)
        assert err.startswith("dyno: r.json is damaged: not a histogram: ")
