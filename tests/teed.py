"""Records the output of external tools while passing it on, to compare it with Dyno's reports."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from shell import Shell


def tee_tools(shell: Shell, home: Path, *tools: str) -> Path:
    """Puts recording wrappers of these tools on the shell's PATH. Returns the file with their output."""
    home.mkdir()
    output = home / "kept"
    output.touch()
    for tool in tools:
        real = shutil.which(tool)
        assert real is not None, tool
        file = home / tool
        file.write_text(f'#!/bin/sh\n"{real}" "$@" | tee -a "{output}"\n')
        file.chmod(0o755)
    shell.given["PATH"] = os.pathsep.join([str(home), os.environ["PATH"]])
    return output


def printed_figures(output: Path, pattern: str) -> list[float]:
    """The figures that the tools printed, in order."""
    return [float(figure) for figure in re.findall(pattern, output.read_text())]
