"""Where a command starts: `dyno`, and `python -m dyno` for where the script is not on the PATH."""

from __future__ import annotations

import gc
import os
import signal

# Not from `typing`: its import takes a while, in which a SIGINT would still be a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def quit_at_once(*_: object) -> NoReturn:
    """Handles SIGINT while the command is imported and while it exits: there is nothing to clean up, and an exception
    would be a traceback from the middle of an import."""
    os.write(2, b"dyno: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> NoReturn:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, quit_at_once)
    # What is imported stays, and is not worth looking through for garbage every time that some of it was made.
    gc.disable()
    from dyno.cli import main as command

    # That goes on with it as its command needs it.
    command()


if __name__ == "__main__":
    main()
