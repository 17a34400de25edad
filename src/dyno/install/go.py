"""A program that Go builds of its source. All that is fetched and built beside it is thrown away."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from dyno.contracts.programs import GoModule, Program
from dyno.install.tools import InstallError, run


def build(program: Program, source: GoModule, into: Path, work: Path) -> None:
    """The program in directory `into`; `work` is for everything else. Raises NotHad."""
    if shutil.which("go") is None:
        raise InstallError(
            f"building it needs Go{source.least and f' {source.least} or later'}, and there is no go here"
        )
    environment = {
        "GOPATH": str(work / "go"),
        "GOMODCACHE": str(work / "go" / "pkg" / "mod"),
        "GOCACHE": str(work / "cache"),
        "GOTMPDIR": str(work),
        "GOWORK": "off",
        # No other Go than the one that is here, and no C compiler.
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        # Read-only files could not be thrown away.
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw -trimpath -buildvcs=false".strip(),
    }
    checkout = _source(source, work, environment)
    run(["go", "build", "-o", into / program.file, source.package], checkout, environment)


def _source(source: GoModule, work: Path, environment: dict[str, str]) -> Path:
    """The module's files, which are those that were pinned."""
    # An exact version: Go would ask for a list of all versions otherwise, which not every module proxy has.
    words = ["go", "mod", "download", "-json", f"{source.path}@{source.version}"]
    try:
        found = json.loads(run(words, work, environment))
    except ValueError:
        raise InstallError("go mod download did not say what it fetched") from None
    if found["Sum"] != source.sum:
        raise InstallError(
            f"{source.path}@{source.version} is not what was pinned: {found['Sum']}, and not {source.sum}"
        )
    checkout = work / "source"
    shutil.copytree(found["Dir"], checkout)
    for name, text in source.files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return checkout
