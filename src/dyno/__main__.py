"""`python -m dyno`: the command line, for where the script is not on the PATH."""

from dyno.cli import main

if __name__ == "__main__":
    main()
