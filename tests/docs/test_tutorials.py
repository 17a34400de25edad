"""Runs each tutorial, with fewer and smaller trials (SHORTER) or, by `make nightly`, as written: its blocks in order,
in an empty directory. Checks key facts of what it prints.

A shell block runs in bash, which stops at the first failure; with smaller trials, plain commands of Dyno run in the
test's process. A block of another language whose first line is a comment that names a file is saved as that file. A
`text` block shows what a reader sees; its figures differ from machine to machine, so FACTS has what must be the same.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from documentation import DOCS, blocks, contents, files
from needed import require, unavailable
from shell import Shell

from dyno import registry
from dyno.contracts.model import UsageError
from dyno.host import confine

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(900)]

LONGEST_BLOCK = 900.0
"""Seconds."""
PAGES = sorted((DOCS / "tutorials").glob("*.md"))
NEEDED = {
    "two-settings": ["postgresql", "redis", "valkey"],
    "archive": ["rocksdb"],
    "own-sql": ["duckdb", "postgresql"],
    "larger-than-memory": ["zarr"],
    "machines-and-stores": ["sysbench", "fio", "versitygw"],
}
SHORTER = {
    "choose-a-store": {
        "samples = 4": "samples = 1",
        "--samples 3": "--samples 1",
        "budget = 0.3": "budget = 0.03",
        "records = 2_000": "records = 200",
    },
    # With less work, the load generator is the limit, and nothing is compared.
    "two-settings": {"--samples 3": "--samples 1"},
    "open-loop": {
        "--samples 3": "--samples 1",
        "--samples 2": "--samples 1",
        "--budget 0.3": "--budget 0.03",
        "--duration 1": "--duration 0.3",
    },
    "archive": {"samples = 2": "samples = 1", "variables = 100": "variables = 10", "batch = 500": "batch = 50"},
    "larger-than-memory": {
        "--samples 2": "--samples 1",
        "--budget 0.5": "--budget 0.05",
        "rows=300000": "rows=30000",
        "rows=2400000": "rows=240000",
        "shape=256x256x512": "shape=64x64x128",
        "chunks=64x64x64,1x256x512": "chunks=16x16x16,1x64x128",
    },
    "machines-and-stores": {
        "--samples 2": "--samples 1",
        "--samples 3": "--samples 1",
        "--samples 5": "--samples 1",
        "--budget 0.2": "--budget 0.05",
        "--budget 0.3": "--budget 0.05",
        "area=16M": "area=2M",
    },
    "own-sql": {
        "--samples 3": "--samples 1",
        "samples = 3": "samples = 1",
        # --try, too, ends with the budget, and has to reach 20 operations.
        "budget = 0.3": "budget = 0.2",
        "rows = 20_000": "rows = 2_000",
    },
    "an-index": {"samples = 3": "samples = 1", "budget = 0.2": "budget = 0.02", "rows = 20_000": "rows = 2_000"},
    "a-gate": {"budget = 0.1": "budget = 0.02", "base head head base base head head base": "base head"},
    "python-and-notebooks": {"samples=3": "samples=1", "budget=0.2": "budget=0.02"},
    "bisect": {},
    "upgrade": {"samples = 10": "samples = 2", "budget = 0.5": "budget = 0.05", "rows = 200_000": "rows = 2_000"},
}
"""For each tutorial, parts of its text and what replaces them in `make test`. `make nightly` replaces nothing."""
# For each tutorial, what its output must contain, in this order.
FACTS = {
    "choose-a-store": [
        r"mix=90:10.*clients=4",
        r"survives SIGKILL",
        r"lmdb +\d",
        r"against sqlite",
        r"flushed to the device",
        r"stores\.html",
    ],
    "two-settings": [r"set\.wal_compression=on", r"against postgresql", r"valkey", r"against redis"],
    "open-loop": [r"rate=1000", r"resp p99", r"sqlite", r"response-p99|p99 of the response"],
    "archive": [r"half_hours=1,2,4,8|half_hours=1", r"rocksdb +", r"17,?520", r"extrapolated"],
    "larger-than-memory": [r"confined to 300 MiB", r"numpy_memmap +", r"zarr +"],
    "machines-and-stores": [r"primes", r"What differs", r"flush", r"versitygw", r"USD"],
    "own-sql": [
        r"query",
        r"operations, 20 with the same answer of all",
        r"order, operation 1 \(",
        r"history +order +day",
        r"against sqlite",
    ],
    "an-index": [
        r"sqlite indexed +process",
        r"history  tier process  against sqlite",
        r"sqlite indexed +[≥\d–]",
    ],
    "a-gate": [
        r"test_find: .* time",
        r"test_find is slower than the baseline allows",
        r"exit status 1",
        r"\d of 1 rows slower by more than 50 %",
        r"gate\.xml",
    ],
    "python-and-notebooks": [
        r"rand-key sqlite \d+ op",
        r"update sqlite \d+ op",
        r"rand-key: lmdb against sqlite",
        r"throughput_median",
        r"throughput\.svg",
        r"fastest / slowest trial",
    ],
    "bisect": [
        r"CPU time +FAIL",
        r"is the first bad commit",
        r"Change 6",
    ],
    "upgrade": [
        r"1\.1\.3 ready: duckdb 1\.1\.3 sha256:\w{64}",
        r"duckdb 1\.2\.2 +\d",
        r"against 1\.1\.3, the oldest",
        r"duckdb \(process\), history: ",
        r"duckdb 1\.4\.\d",
    ],
}


def test_twelve_tutorials_have_facts_and_moderate_length() -> None:
    assert {page.stem for page in PAGES} == set(FACTS) == set(SHORTER) and len(PAGES) == 12
    for page in PAGES:
        assert 300 <= len(contents(page).split()) <= 750, page.stem


def shorten(text: str, replacements: dict[str, str]) -> str:
    for part, replacement in replacements.items():
        assert part in text, f"SHORTER replaces {part!r}, which the tutorial no longer has"
        text = text.replace(part, replacement)
    return text


def run_block(shell: Shell, text: str, in_this_process: bool) -> str:
    """Returns the output of a shell block. Its plain commands of Dyno may run in this process."""
    parts = [text]
    if in_this_process and not text.startswith("for "):
        parts = text.replace("\\\n", " ").splitlines()
    output = ""
    for part in parts:
        if in_this_process and re.fullmatch(r"dyno [^|&>;]*", part):
            ended = Shell(shell.home, shell.work).dyno(*shlex.split(part)[1:])
        else:
            ended = shell.sh("bash", "-eo", "pipefail", "-c", f"exec 2>&1\n{part}", patience=LONGEST_BLOCK)
        output += ended.out + ended.err
        assert ended.status == 0, f"{part}\n{output}"
    return output


@pytest.mark.parametrize("sizes", ["shorter", pytest.param("as-written", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorial_commands_succeed_and_print_expected_facts(
    page: Path, sizes: str, tmp_path: Path, place: Path, record_property: Callable[[str, object], None]
) -> None:
    for name in NEEDED.get(page.stem, ()):
        require(registry.engine(name))
    text = contents(page)
    if sizes == "shorter":
        text = shorten(text, SHORTER[page.stem])
    if "--confine" in text:
        try:
            with confine.create_group(2**28, place / "tried.group"):
                pass
        except (UsageError, confine.CannotConfine) as error:
            unavailable(str(error))
    shell = Shell(tmp_path, place, given={"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
    output, began = "", time.monotonic()
    for block in blocks(text):
        if block.language == "sh":
            output += run_block(shell, block.text, in_this_process=sizes == "shorter")
        for name, content in files(f"```{block.language}\n{block.text}```").items():
            (tmp_path / name).write_text(content)
    record_property("seconds", round(time.monotonic() - began, 1))
    at = 0
    for fact in FACTS[page.stem]:
        found = re.compile(fact).search(output, at)
        assert found, f"{fact!r} is missing in:\n{output[at:]}"
        at = found.end()
