"""A disk that tells what was written to it: the one file of a file system of its own (FUSE), which a loop device is
put on. Nothing is judged here.

Started as `python -m dyno.crash.disk IMAGE MOUNTPOINT EVENTS`: IMAGE is the disk's bytes, which change; to EVENTS
goes each write with its bytes, and each flush, as the events of a record. It ends when it is unmounted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

from dyno.crash.record import Event, Flush, Write, framed
from dyno.host.process import die_with_parent

NAME = "disk"


def main(image: str, mountpoint: str, events: str) -> None:
    import mfusepy

    class Disk(mfusepy.Operations):  # type: ignore[misc, unused-ignore]
        """Its one file. Names and signatures are libfuse's."""

        use_ns = True

        def __init__(self) -> None:
            self._image = os.open(image, os.O_RDWR)
            self._events = Path(events).open("wb")  # noqa: SIM115
            self._file = stat.S_IFREG | 0o600, os.fstat(self._image).st_size

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
            if path == f"/{NAME}":
                return {"st_mode": self._file[0], "st_nlink": 1, "st_size": self._file[1]}
            raise mfusepy.FuseOSError(errno.ENOENT)

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", NAME]

        def open(self, path: str, flags: int) -> int:
            return 0

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(self._image, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            begun = time.monotonic_ns()
            os.pwrite(self._image, data, offset)
            self._tell(Write(begun, time.monotonic_ns(), 0, 1, offset, bytes(data), "block"))
            return len(data)

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            begun = time.monotonic_ns()
            self._tell(Flush(begun, time.monotonic_ns(), 0, "flush", 1))
            return 0

        def _tell(self, event: Event) -> None:
            self._events.write(framed(event))

        def destroy(self, path: str) -> None:
            self._events.close()

    # One call after the other, as a disk without a queue: their moments are an order.
    mfusepy.FUSE(Disk(), mountpoint, foreground=True, nothreads=True)


if __name__ == "__main__":
    die_with_parent(os.getppid())
    main(*sys.argv[1:])
