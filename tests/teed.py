"""Outside tools whose output is kept as well as passed on, so that what Dyno makes of it can be held against it. Not
a test itself."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from shell import Shell


def teed(shell: Shell, home: Path, *tools: str) -> Path:
    """Has the shell find, in place of these tools, ones that keep what they print in the file that is returned."""
    home.mkdir()
    kept = home / "kept"
    kept.touch()
    for tool in tools:
        real = shutil.which(tool)
        assert real is not None, tool
        file = home / tool
        file.write_text(f'#!/bin/sh\n"{real}" "$@" | tee -a "{kept}"\n')
        file.chmod(0o755)
    shell.given["PATH"] = os.pathsep.join([str(home), os.environ["PATH"]])
    return kept


def told(kept: Path, pattern: str) -> list[float]:
    """The figures that the tools printed, in the order of their runs."""
    return [float(found) for found in re.findall(pattern, kept.read_text())]
