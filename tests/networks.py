"""Machines of a test that share this one's processors: network namespaces on one bridge, with clocks and limits of
CPU time of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class Networks:
    """A namespace for each name, whose address is in `hosts`, and this machine's own address, `host`. The monotonic
    clock of a machine in `ahead` is so many seconds ahead; one in `cores` may use so much CPU time, from `limit` on.
    Skips the test where the kernel or the user's rights don't allow that."""

    def __init__(
        self,
        names: Sequence[str],
        ahead: Mapping[str, int] | None = None,
        cores: Mapping[str, float] | None = None,
    ) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            pytest.skip("network namespaces need root and the program ip")
        own = os.getpid()
        self._bridge, subnet = f"dy{own}", f"10.203.{own % 250}"
        self.host = f"{subnet}.1"
        self.hosts = {name: f"{subnet}.{at}" for at, name in enumerate(names, 2)}
        self._spaces = {name: f"dy{own}-{name}" for name in names}
        self._quotas: dict[Path, tuple[str, str]] = {}
        """By control group: a file and what limits the group."""
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.host}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for at, (name, space) in enumerate(self._spaces.items()):
                outer, inner = f"dy{own}o{at}", f"dy{own}i{at}"
                _ip("netns", "add", space)
                _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
                _ip("link", "set", outer, "master", self._bridge, "up")
                _ip("-n", space, "address", "add", f"{self.hosts[name]}/24", "dev", inner)
                _ip("-n", space, "link", "set", inner, "up")
                _ip("-n", space, "link", "set", "lo", "up")
            self.prefixes = {
                name: [
                    *self._limited(name, (cores or {}).get(name)),
                    *("ip", "netns", "exec", space),
                    *(["unshare", "--time", "--monotonic", str(ahead[name])] if ahead and name in ahead else []),
                ]
                for name, space in self._spaces.items()
            }
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            pytest.skip(f"this machine allows no network namespaces: {getattr(error, 'stderr', error)}")

    def _limited(self, name: str, cores: float | None) -> list[str]:
        """Returns words that start a program in a control group for so much CPU time."""
        if cores is None:
            return []
        quota = round(cores * PERIOD_US)
        first = (CGROUPS / "cpu").is_dir()
        group = (CGROUPS / "cpu" if first else CGROUPS) / self._spaces[name]
        group.mkdir()
        self._quotas[group] = ("cpu.cfs_quota_us", str(quota)) if first else ("cpu.max", f"{quota} {PERIOD_US}")
        return ["sh", "-c", f'echo $$ > "{group}/cgroup.procs"; exec "$@"', "sh"]

    def limit(self) -> None:
        """Limits the CPU time of machines. Before, they start as fast as the others."""
        for group, (file, quota) in self._quotas.items():
            (group / file).write_text(quota)

    def close(self) -> None:
        """Removes everything. Its processes must have ended."""
        for space in self._spaces.values():
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True, check=False)
        for group in self._quotas:
            with suppress(OSError):
                group.rmdir()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True, text=True)
