"""Guards what a tier promises. Tiers `process` and `power`: a process that is killed by SIGKILL while it commits has
lost no transaction that it had acknowledged, and half of none. Tier `power`: every commit flushes to the device, seen
by its system calls; tier `process` with flushing off: it does not, or the two would not be told apart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import committer
import pytest
from committer import FORGETFUL, after, key
from stores import Store, journals, require, stores, unavailable

from dyno import registry
from dyno.model import Tier
from dyno.suites.records.port import INDEXES, Key, Record

SCRIPT = str(Path(committer.__file__))
KILLED_AFTER = (1, 40, 83)
"""Acknowledgements of each of three processes in turn, each on the store that the one before left."""
TRANSACTIONS = 20
FORGETFUL_PROCESS, FORGETFUL_POWER = (Store(FORGETFUL, tier) for tier in FORGETFUL.tiers)

every_durable_store = pytest.mark.parametrize(
    "store",
    list({str(s): s for s in (*stores(Tier.PROCESS, Tier.POWER), *journals(Tier.PROCESS, Tier.POWER))}.values()),
    ids=str,
)


def arguments(store: Store, home: Path, acks: int, start: int = 0, marked: int = 0) -> list[str]:
    job = {
        "engine": store.spec.name,
        "tier": store.tier.value,
        "given": dict(store.given),
        "home": str(home),
        "start": start,
        "marked": marked,
    }
    return [sys.executable, SCRIPT, json.dumps(job), str(acks)]


# -- what SIGKILL leaves -----------------------------------------------------------------------------------


def killed(store: Store, home: Path, start: int, acks: int) -> int:
    """Has a process commit from transaction `start` on, and kills it when it has acknowledged `acks` of them.

    Returns how many transactions it has acknowledged, those in `start` and those after the kill was sent included.
    """
    reading, writing = os.pipe()
    process = subprocess.Popen(arguments(store, home, writing, start), pass_fds=[writing])
    os.close(writing)
    done = start
    try:
        with os.fdopen(reading) as told:
            for line in told:
                assert int(line) == done
                done += 1
                if done == start + acks:
                    process.kill()
    finally:
        process.kill()
        process.wait()
    assert done >= start + acks, f"it ended by itself with status {process.returncode} after {done - start}"
    return done


def held(store: Store, home: Path) -> dict[Key, Record]:
    """All records of the store, opened again; every one of them found by its key and its indexes too."""
    with store.open(home) as port, port.reading() as reader:
        every = reader.scanner(1_000_000)(("", ""))
        for found in every:
            assert reader.get((found["name"], found["location"])) == found
            for index, function in INDEXES.items():
                assert reader.finder(index)(function(found)) == found
        names = [found["name"] for found in every]
        assert names == sorted(set(names)), "the scan is out of order"
        for gone in {key(number) for number in range(2 * len(every))} - {(n, n.upper()) for n in names}:
            assert reader.get(gone) is None
            for index, function in INDEXES.items():
                assert reader.finder(index)(function({"name": gone[0], "location": gone[1]})) is None
    return {(found["name"], found["location"]): found for found in every}


def survived(store: Store, home: Path, acknowledged: int) -> int:
    """How many transactions the store holds: all acknowledged ones and perhaps the one that was in flight."""
    found = held(store, home)
    for steps in (acknowledged, acknowledged + 1):
        if found == after(steps):
            return steps
    lost = sorted(name for (name, _), row in after(acknowledged).items() if found.get((name, name.upper())) != row)
    pytest.fail(f"{acknowledged} transactions were acknowledged, and of their records these are not right: {lost}")


@every_durable_store
def test_a_killed_process_has_lost_nothing_that_it_acknowledged(store: Store, tmp_path: Path) -> None:
    require(store.spec)
    held_by_now = 0
    for acks in KILLED_AFTER:
        acknowledged = killed(store, tmp_path, held_by_now, acks)
        held_by_now = survived(store, tmp_path, acknowledged)


def test_an_engine_that_acknowledges_what_it_only_buffers_is_caught(tmp_path: Path) -> None:
    acknowledged = killed(FORGETFUL_PROCESS, tmp_path, 0, 40)
    with pytest.raises(pytest.fail.Exception, match="were acknowledged, and of their records these are not right"):
        survived(FORGETFUL_PROCESS, tmp_path, acknowledged)


@pytest.mark.parametrize("lost", [slice(None), slice(1), slice(20, None)], ids=["whole", "one record", "half"])
def test_a_store_that_lost_of_its_last_transaction_is_caught(lost: slice, tmp_path: Path) -> None:
    store, acknowledged = Store(registry.engine("sqlite"), Tier.PROCESS), 33
    kept = after(acknowledged)
    last = sorted(kept.keys() - after(acknowledged - 1).keys())
    assert len(last) == max(committer.SIZES)
    for gone in last[lost]:
        del kept[gone]
    with store.open(tmp_path) as port:
        port.insert(kept.values())
    with pytest.raises(pytest.fail.Exception, match="these are not right"):
        survived(store, tmp_path, acknowledged)


# -- what is flushed ---------------------------------------------------------------------------------------

CALLS = (
    *("fsync", "fdatasync", "msync", "sync", "syncfs"),
    *("open", "openat", "close"),
    *("write", "writev", "pwrite64", "pwritev", "pwritev2"),
    *("access", "faccessat", "faccessat2"),
)
LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")
UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<begun>.*?) *<unfinished \.\.\.>$")
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")


def whole(lines: Iterable[str]) -> Iterator[str]:
    """strace's lines, those that another thread's had cut in two put together where they ended."""
    begun: dict[str, str] = {}
    for line in lines:
        if cut := UNFINISHED.match(line):
            begun[cut["pid"]] = cut["begun"]
        elif end := RESUMED.match(line):
            yield f"{end['pid']} {begun.pop(end['pid'], '')}{end['rest']}"
        else:
            yield line


def flushes(trace: Iterable[str]) -> int:
    """Successful flushes to the device between the two markers, by strace's output with -f."""
    count, marked, synchronous = 0, False, set[str]()
    for line in whole(trace):
        if not (found := LINE.match(line)):
            continue
        call, given, result = found["call"], found["arguments"], found["result"]
        first = given.split(",", 1)[0]
        if call.startswith("open") and result != "-1":
            synchronous.discard(result)
            if re.search(r"\bO_D?SYNC\b", given):
                synchronous.add(result)
        elif call == "close":
            synchronous.discard(first)
        elif "access" in call:
            marked = committer.BEGIN in given or (marked and committer.END not in given)
        elif marked and result != "-1":
            count += flushing(call, given, first in synchronous)
    return count


def flushing(call: str, given: str, synchronous: bool) -> bool:
    if call == "msync":
        return "MS_SYNC" in given
    if "write" in call:
        return synchronous or bool(re.search(r"\bRWF_D?SYNC\b", given))
    return True


def trace(store: Store, home: Path) -> int:
    """Flushes in 20 transactions of one record each, in a process that strace watches."""
    tracer = shutil.which("strace")
    if tracer is None:
        unavailable("strace is not installed: apt-get install strace")
    if subprocess.run([str(tracer), "-o", os.devnull, "true"], capture_output=True).returncode:
        unavailable("strace may not trace here")
    written = home.with_suffix(".trace")
    # A question mark: a call that this architecture may not have.
    calls = ",".join("?" + call for call in CALLS)
    command = [str(tracer), "-f", "-qq", "-o", str(written), "-e", f"trace={calls}", "-e", "signal=none"]
    subprocess.run([*command, *arguments(store, home, 2, marked=TRANSACTIONS)], check=True)
    with written.open() as lines:
        return flushes(lines)


def flushing_is_off(settings: Any) -> bool:
    """Whether a tier's settings say so: sync=False, synchronous=off, fsync_mode=NONE."""
    told = [str(value).lower() for name, value in settings.items() if "sync" in name and name != "map_async"]
    return bool(told) and all(value in ("false", "off", "none", "no", "0") for value in told)


@pytest.mark.parametrize(
    "store",
    list({str(s): s for s in (*stores(Tier.POWER), *journals(Tier.POWER))}.values()),
    ids=str,
)
def test_at_tier_power_every_commit_is_flushed(store: Store, tmp_path: Path) -> None:
    require(store.spec)
    assert trace(store, tmp_path / "home") >= TRANSACTIONS


@pytest.mark.parametrize(
    "store",
    [
        s
        for s in {str(s): s for s in (*stores(Tier.PROCESS), *journals(Tier.PROCESS))}.values()
        if flushing_is_off(s.spec.tiers[Tier.PROCESS])
    ],
    ids=str,
)
def test_at_tier_process_with_flushing_off_commits_are_not_flushed(store: Store, tmp_path: Path) -> None:
    require(store.spec)
    assert trace(store, tmp_path / "home") < TRANSACTIONS


def test_an_engine_that_claims_power_and_does_not_flush_is_caught(tmp_path: Path) -> None:
    assert trace(FORGETFUL_POWER, tmp_path / "home") == 0


BETWEEN = f"""\
7 fsync(3)                          = 0
7 access("{committer.BEGIN}", F_OK) = -1 ENOENT (No such file or directory)
%s
7 access("{committer.END}", F_OK) = -1 ENOENT (No such file or directory)
7 fsync(3)                          = 0
"""


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("", 0),
        ("7 fsync(3)    = 0\n8 fdatasync(4) = 0", 2),
        ("7 fsync(3)    = -1 EINVAL (Invalid argument)", 0),
        ("7 msync(0x7f00, 4096, MS_SYNC) = 0\n7 msync(0x7f00, 4096, MS_ASYNC) = 0", 1),
        ('7 pwrite64(5, "x"..., 4096, 0) = 4096', 0),
        ('7 openat(AT_FDCWD, "a", O_RDWR|O_DSYNC|O_CLOEXEC) = 5\n7 pwrite64(5, "x"..., 4096, 0) = 4096', 1),
        ('7 openat(AT_FDCWD, "a", O_RDWR|O_DSYNC) = 5\n7 close(5) = 0\n7 write(5, "x", 1) = 1', 0),
        ('7 openat(AT_FDCWD, "O_DSYNCED", O_RDWR) = 5\n7 write(5, "x", 1) = 1', 0),
        ("7 fdatasync(4 <unfinished ...>\n8 fsync(3) = 0\n7 <... fdatasync resumed>) = 0", 2),
        ("7 fdatasync(4 <unfinished ...>", 0),
        ('7 pwritev2(4, [{iov_base="x", iov_len=1}], 1, 0, RWF_DSYNC) = 1', 1),
    ],
)
def test_the_counter_of_flushes_counts_what_reached_the_device_between_the_markers(lines: str, count: int) -> None:
    assert flushes((BETWEEN % lines).splitlines()) == count


def test_the_history_writes_in_every_way_and_deletes_only_what_is_there() -> None:
    assert {kind for kind, _ in islice(committer.history(), 10)} == {"insert", "replace", "delete"}
    # A KeyError otherwise.
    assert len(after(500)) > len(after(100)) > 100
