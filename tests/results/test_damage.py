"""Tests that a damaged run file is refused in one line, which says where and what was expected, and that its text is
sanitized."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, is_one_line, run_line

from dyno import results
from dyno.contracts.histogram import percentiles
from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize

WHOLE = TESTS / "data" / "run-schema-3.json"
"""Run file with three blocks of lmdb, sqlite and two null engines, in four phases, of which one is cold."""
COLD = 2
"""Index of the cold phase's sample."""
HUGE = 2**63


def text(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r.json"


def damage(file: Path, at: int, place: str, value: Any) -> None:
    """Replaces the value at a place such as `samples.0.items` in line `at` of the run file."""
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
HEX = r"^[0-9a-fA-F]{7,64}\Z"
HEADER: tuple[tuple[str, Any, str], ...] = (
    ("plan", [], "plan: expected `object`, got `array`"),
    ("plan.samples", "3", "plan.samples: expected `int`, got `str`"),
    ("plan.samples", 0, "plan.samples: expected `int` >= 1"),
    ("plan.seed", DELETED, "plan: object missing required field `seed`"),
    ("plan.phases", [], "plan.phases: expected `array` of length >= 1"),
    ("plan.phases", ["mixed", "mixed"], "plan.phases: a phase is listed twice"),
    ("plan.phases", [{}], "plan.phases[0]: expected `str`, got `object`"),
    ("plan.budget", -1, "plan.budget: expected `int` >= 0"),
    ("plan.budget", [1], "plan.budget: expected `int | float`, got `array`"),
    ("plan.until", 1.5, "plan.until: expected `float` <= 1.0"),
    ("plan.memory", HUGE, f"plan.memory: expected `int` <= {HUGE - 1}"),
    ("host.cpu", [], "host.cpu: expected `object`, got `array`"),
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
    ("created", "yesterday", "created: expected a date and a time by ISO 8601, with its zone"),
    ("commit", "1a2b3c4d5e", "commit: expected `object | null`, got `str`"),
    ("commit", {"changed": True}, "commit: object missing required field `hash`"),
    ("commit", {"hash": "1a2b3c4d5e", "changed": 1}, "commit.changed: expected `bool | null`, got `int`"),
    *(
        ("commit", {"hash": hash}, rf"commit.hash: expected `str` matching regex {HEX!r}")
        for hash in ("", "1a2b3c", "main", "1a2b3c4d5g", "a" * 65, "1a2b3c4d5e\n", "\x1b[31m1a2b3c4d5e")
    ),
    ("cells", [], "cells: expected `array` of length >= 1"),
    ("cells.0", [], "cells[0]: expected `object`, got `array`"),
    ("cells.0.tier", "safe", "cells[0].tier: invalid enum value 'safe'"),
    ("cells.0.options", {"a": [1]}, "cells[0].options[...]: expected `bool | int | float | str`, got `array`"),
    ("cells.0.options", {"a": None}, "cells[0].options[...]: expected `bool | int | float | str`, got `null`"),
    ("cells.1.params.mix", DELETED, "cells[1].params: not the parameters of the first cell"),
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
    ("samples.0.phase", "mixed", "samples: two samples are of the same phase"),
    ("samples.0.items", -1, "samples[0].items: expected `int` >= 0"),
    ("samples.0.items", HUGE, f"samples[0].items: expected `int` <= {HUGE - 1}"),
    ("samples.0.items", 1.5, "samples[0].items: expected `int`, got `float`"),
    ("samples.0.items", True, "samples[0].items: expected `int`, got `bool`"),
    ("samples.0.items", DELETED, "samples[0]: object missing required field `items`"),
    ("samples.0.errors", 2, "samples[0].errors: 2 of 1 operations"),
    ("samples.0.clients", 0, "samples[0].clients: expected `int` >= 1"),
    ("samples.0.histogram", 5, "samples[0].histogram: expected `bytes | null`, got `int`"),
    ("samples.0.client", [1], "samples[0].client: expected `object | null`, got `array`"),
    ("samples.0.client.user_ns", -1, "samples[0].client.user_ns: expected `int` >= 0"),
    ("samples.0.server", {"user_ns": "x"}, "samples[0].server.user_ns: expected `int | null`, got `str`"),
    ("samples.0.facts", {"a": []}, "samples[0].facts[...]: expected `bool | int | float | str | null`, got `array`"),
    ("samples.0.series", [{}], "samples[0].series[0]: object missing required field `from_ns`"),
    ("samples.0.series", [{**POINT, "interval_ns": 1}], "samples[0].series: more than 10000 intervals"),
    ("samples.0.series", [{**POINT, "interval_ns": 0}], "samples[0].series[0].interval_ns: expected `int` >= 1"),
    (
        f"samples.{COLD}.residency.resident_bytes",
        10**9,
        f"samples[{COLD}].residency: resident_bytes exceeds file_bytes",
    ),
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
def test_ambiguous_or_invalid_json_line_is_damage(file: Path, line: bytes, why: str) -> None:
    first, *rest = WHOLE.read_bytes().splitlines()
    file.write_bytes(b"\n".join([first, line, *rest, b""]))
    assert said(file) == f"is damaged in line 2: {why}"


def test_equivalent_json_formatting_is_read_alike(file: Path) -> None:
    """The file is valid JSON, but its spaces, escapes, digits and line breaks differ from Dyno's own."""
    lines = [json.dumps(json.loads(line), indent=None, sort_keys=True) for line in WHOLE.read_text().splitlines()]
    lines[1] = lines[1].replace('"ok"', '"\\u006fk"').replace('"steal_percent": 0.0', '"steal_percent": 0.00e1')
    file.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    first, second = results.load(WHOLE), results.load(file)
    assert (first.recorded, first.cells, first.attempts) == (second.recorded, second.cells, second.attempts)


def test_fields_of_later_versions_are_ignored(file: Path) -> None:
    header, *lines = map(json.loads, WHOLE.read_text().splitlines())
    later: dict[str, object] = {"a": [{"b": [[]]}]}
    for found in (header, header["plan"], header["host"], header["host"]["cpu"], header["cells"][0]):
        found["later"] = later
    for line in lines:
        for found in (line, line["loop"], line["strain"], line["resources"], line["samples"][0]):
            found["later"] = later
        line["samples"][0]["client"]["later"] = 5
    file.write_text("".join(f"{text(line)}\n" for line in (header, *lines, {"kind": "later", **later})))
    assert results.load(file).attempts == results.load(WHOLE).attempts
    assert "later" not in text(results.load(file).recorded)


# -- text -----------------------------------------------------------------------------------------------------

EVIL = "\x1b[2J\x9b31m\u202e[/bold]:smile:\ud800\x7f"
SHOWN = "\\x1b[2J\\x9b31m\\u202e[/bold]:smile:\\ud800\\x7f"


@pytest.mark.parametrize("escaped", [True, False])
def test_control_characters_of_run_files_are_escaped(shell: Shell, escaped: bool) -> None:
    evil = EVIL if escaped else EVIL.replace("\ud800", "")
    lines = [json.loads(line) for line in WHOLE.read_text().splitlines()]
    lines[0]["cells"][0]["engine"] = lines[0]["host"]["cpu"]["model"] = evil
    lines[0]["cells"][0]["options"] = {evil: evil}
    lines[1] |= {"outcome": "crash", "why": f"{evil}\nof two lines", "settings": {evil: evil}}
    lines[2]["loop"]["name"] = evil
    made = "".join(f"{json.dumps(line, ensure_ascii=escaped)}\n" for line in lines)
    if not escaped:
        # The file has raw and escaped control characters.
        made = made.replace("\x9b", "\\u009b")
    shell.file.write_text(made, encoding="utf-8")
    for form in ((), ("--json",), ("--csv",), ("--markdown",)):
        ended = shell.dyno("show", shell.file, *form)
        assert (ended.status, ended.err) == (0, "")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ended.out)
        wanted = SHOWN if escaped else SHOWN.replace("\\ud800", "")
        # JSON and Markdown escape a backslash by another one, and Markdown a bracket.
        text = ended.out.replace("\\\\", "\\") if form in (("--json",), ("--markdown",)) else ended.out
        assert wanted in text.replace("\\[", "[")


def test_long_reason_is_cut_with_a_mark(file: Path) -> None:
    damage(file, 3, "why", "x" * 60_000)
    assert results.load(file).attempts[2].why == "x" * 4_000 + "... (56,000 characters more)"


def test_mark_of_already_cut_text_is_kept(file: Path) -> None:
    told = sanitize("é\n" * 10_000, keep="\n")
    damage(file, 3, "why", told)
    assert results.load(file).attempts[2].why == told


def test_reasons_may_have_line_breaks_unlike_settings(file: Path) -> None:
    damage(file, 3, "absent", {"mixed": "one\ntwo"})
    assert results.load(file).attempts[2].absent == {"mixed": "one\ntwo"}
    damage(file, 3, "settings", {"a": "one\ntwo"})
    assert results.load(file).attempts[2].settings == {"a": "one\\ntwo"}


def test_long_versions_and_caveats_are_cut(file: Path) -> None:
    damage(file, 3, "version", "x" * 60_000)
    version = results.load(file).attempts[2].version
    damage(file, 3, "caveats", [{"code": "made-up", "text": "x" * 60_000}])
    for text in (version, results.load(file).attempts[2].caveats[0].text):
        assert text is not None and "x" * 1_000 in text and len(text) < 5_000


# -- histograms -----------------------------------------------------------------------------------------------


def packed(plain: bytes) -> bytes:
    body = zlib.compress(plain, 9)
    return bytes.fromhex("1c849314") + len(body).to_bytes(4, "big") + body


def plain(encoded: bytes) -> bytes:
    return zlib.decompress(encoded[8:])


def a_histogram() -> bytes:
    return next(s.histogram for a in results.load(WHOLE).attempts for s in a.samples if s.histogram is not None)


def test_histogram_whose_counts_overflow_is_refused() -> None:
    # The sum of three counters of nearly 2 ** 62 overflows, whether they are in one histogram or in three.
    most = b"\xfe" + b"\xff" * 8
    head = plain(a_histogram())[:40]
    assert percentiles([packed(head + most)])["max"] == 0
    for found in ([packed(head + most * 3)], [packed(head + most)] * 3):
        with pytest.raises(ValueError, match=r"^not a histogram: it counts "):
            percentiles(found)


def test_histogram_that_unpacks_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^not a histogram: over 1,048,576 bytes"):
        percentiles([packed(plain(a_histogram())[:40] + bytes(100 << 20))])


@pytest.mark.parametrize("name", ["histogram", "response", "late", "by_kind.get", "by_part.dns", "by_machine.a"])
def test_damaged_histogram_is_reported_with_its_line(file: Path, name: str) -> None:
    damage(file, 3, f"samples.1.{name}", base64.b64encode(packed(b"x" * 60)).decode())
    where = name.partition(".")[0]
    assert said(file).startswith(f"is damaged in line 4: samples[1].{where}: not a histogram: ")


def test_histogram_of_too_many_operations_is_damage(file: Path) -> None:
    # ZigZag: twice the count. Nine bytes have 64 bits.
    content = plain(a_histogram())[:40] + b"\xfe" + b"\xff" * 7 + b"\x00"
    damage(file, 3, "samples.1.histogram", base64.b64encode(packed(content)).decode())
    assert "counts over 4,398,046,511,104 operations" in said(file)


# -- checksums -----------------------------------------------------------------------------------------------


@pytest.fixture
def summed(file: Path) -> list[bytes]:
    """The lines of a run file with checksums, which is at `file`."""
    lines = [run_line(json.loads(line)) for line in WHOLE.read_bytes().splitlines()]
    file.write_bytes(b"".join(lines))
    assert results.load(file).attempts == results.load(WHOLE).attempts
    return lines


CHANGED = "its content was changed: it does not have its checksum"


@pytest.mark.claim("A changed digit in a run file is noticed")
@pytest.mark.parametrize(
    ("at", "pattern"),
    [
        (2, rb'"items":\d'),
        (2, rb'"elapsed_ns":\d'),
        (-1, rb'"busy_ns":\d'),
        (0, rb'"seed":\d'),
        (0, rb'"total_bytes":\d'),
    ],
)
def test_changed_digit_is_damage(file: Path, summed: list[bytes], at: int, pattern: bytes) -> None:
    match = re.search(pattern, summed[at])
    assert match
    digit = match.end() - 1
    other = b"%d" % ((int(summed[at][digit : digit + 1]) + 1) % 9)
    summed[at] = summed[at][:digit] + other + summed[at][digit + 1 :]
    file.write_bytes(b"".join(summed))
    assert said(file) == f"is damaged in line {range(1, len(summed) + 1)[at]}: {CHANGED}"


def test_line_without_checksum_among_others_is_damage(file: Path, summed: list[bytes]) -> None:
    *before, last = summed
    bare = re.sub(rb',"crc32":"[0-9a-f]{8}"', b"", last)
    file.write_bytes(b"".join([*before, bare]))
    assert said(file) == f"is damaged in line {len(summed)}: it has no checksum, but the first line has one"


def test_truncated_last_line_is_ignored(file: Path, summed: list[bytes]) -> None:
    file.write_bytes(b"".join(summed)[:-30])
    assert len(results.load(file).attempts) == len(summed) - 2


def test_each_written_line_has_a_checksum(file: Path) -> None:
    run = results.load(WHOLE)
    results.create(file, run.recorded, run.cells)
    results.append(file, run.attempts[0])
    results.extend(file, 9)
    results.end(file, "time")
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4 and lines == [run_line(json.loads(line)) for line in lines]
    # A file of an earlier version that is resumed has them in its later lines.
    file.write_bytes(WHOLE.read_bytes())
    results.end(file, "time")
    assert results.load(file).ending == "time"


# -- commands ------------------------------------------------------------------------------------------------


def test_damage_is_one_line_in_every_command(shell: Shell) -> None:
    damage(shell.file, 3, "samples.1.histogram", base64.b64encode(packed(b"x" * 60)).decode())
    for words in (*(("show", *form) for form in ((), ("--json",), ("--csv",))), ("compare",), ("plot", "-o", "c/")):
        status, out, err = shell.dyno(words[0], "r.json", *words[1:])
        assert (status, out) == (2, "") and is_one_line(err)
        assert err.startswith("dyno: r.json is damaged in line 4: samples[1].histogram: not a histogram: ")
