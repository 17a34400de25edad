"""The command line: parses and delegates. The modules here import a command's own dependencies when it runs."""

from __future__ import annotations

import gc
import os
import signal

# Importing `typing` takes a while, during which SIGINT would still print a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

INTERRUPTED = 130
"""Exit status after SIGINT, SIGTERM or SIGHUP."""


def quit_at_once(*_: object) -> NoReturn:
    """Handles SIGINT while commands are imported and at exit, where an exception would print a traceback and there is
    nothing to clean up."""
    os.write(2, b"dyno: interrupted\n")
    os._exit(INTERRUPTED)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command in the arguments, or in `sys.argv`, and exits with its status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, quit_at_once)
    # Imported modules are no garbage: collections during the import only cost time. `execute` enables them again.
    gc.disable()
    from dyno.cli.commands import execute

    execute(arguments)
