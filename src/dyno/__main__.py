"""Starts the command line: the script `dyno`, and `python -m dyno` where the script is not on the PATH."""

from dyno.cli import main

if __name__ == "__main__":
    main()
