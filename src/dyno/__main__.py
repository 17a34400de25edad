"""Where a command starts: `dyno`, and `python -m dyno` for where the script is not on the PATH."""

import gc
from typing import NoReturn


def main() -> NoReturn:
    # What is imported stays, and is not worth looking through for garbage every time that some of it was made.
    gc.disable()
    from dyno.cli import main as command

    # That goes on with it as its command needs it.
    command()


if __name__ == "__main__":
    main()
