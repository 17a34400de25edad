"""The commit of the git repository that the current directory is in: the code that a user measures, or measures with.

Nothing else of the repository is recorded: a remote, a path, a branch or an author may name the user.
"""

import re
import subprocess
from contextlib import suppress

SECONDS = 2.0
"""Time limit of each git command."""
# The repository's settings may name a program as fsmonitor, which must not run. Without optional locks, git status
# doesn't write to the repository.
GIT = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks")


def current() -> dict[str, object] | None:
    """Returns the commit's full hash, and whether tracked files have uncommitted changes (None: unknown). Returns
    None if there is no repository or no commit, or if git is missing or too slow."""
    commit = _output("rev-parse", "--verify", "HEAD")
    if commit is None or not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        return None
    status = _output("status", "--porcelain", "--untracked-files=no")
    return {"hash": commit, "changed": None if status is None else bool(status)}


def _output(*words: str) -> str | None:
    """Returns the output of a git command, stripped; None if it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([*GIT, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        if done.returncode == 0:
            return done.stdout.decode(errors="replace").strip()
    return None
