"""Runs pytest sessions in forks of one process that has imported what they need, for the tests of the plug-in. Every
line of standard input is a request; every line of standard output is the exit status of its session.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

# The sessions need these modules. Each would import them again, which takes longer than its tests.
import dyno.library.baseline
import dyno.library.function
import dyno.pytest_plugin
import dyno.report.tables.units
import dyno.report.tables.wording  # noqa: F401


def run_session(home: str, words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs pytest in this process as `python -m pytest` does, with the files `out` and `err` as its streams."""
    os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, name in enumerate((os.devnull, "out", "err")):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = ["pytest", *words]
    sys.path.insert(0, str(Path.cwd()))
    status = pytest.main(list(words))
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status)


def prepare() -> None:
    """Imports pytest's own plug-ins, and excludes all imported objects from the collections before each sample."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--version"])
    gc.collect()
    gc.freeze()


def main() -> None:
    prepare()
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = run_session(**json.loads(line))
            finally:
                os._exit(status)
        _, ended = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


if __name__ == "__main__":
    main()
