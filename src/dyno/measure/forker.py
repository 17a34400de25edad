"""The clean process that a run's workers are forked from: what each of them would import anew, it has imported once.

Started by the process PARENT as `python -m dyno.measure.forker FD PARENT SUITE`. On the socket FD it is asked for a
worker, with the directory of its trial and three descriptors: standard input, output, and the pipe of the results. It
answers with the worker's number. It never imports an engine, and never starts a thread. Linux only.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
import traceback

import numpy.char
import numpy.ma
import numpy.random

from dyno import registry
from dyno.host.process import die_with_parent
from dyno.measure import worker

REQUEST_BYTES = 1 << 16
DESCRIPTORS = 3


def main() -> None:
    """Forks until nobody can ask any more."""
    parent = int(sys.argv[2])
    die_with_parent(parent)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    registry.prepare(sys.argv[3])
    gc.collect()
    # A collector that went through what is here would copy every page of it, in each worker.
    gc.freeze()
    while True:
        home, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, DESCRIPTORS)
        if not home:
            return
        _fork(control, home.decode(), descriptors, parent)


def _fork(control: socket.socket, home: str, descriptors: list[int], parent: int) -> None:
    """A worker, which is made the parent's own child by the end of the process between it and this one."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            between = os.getpid()
            if number := os.fork():
                os.write(writing, b"%d" % number)
                os._exit(0)
            control.close()
            for descriptor in (reading, writing):
                os.close(descriptor)
            _become_worker(home, descriptors, between, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    for descriptor in (*descriptors, writing):
        os.close(descriptor)
    # Not before it is the parent's, which could not wait for it.
    ended = os.waitpid(between, 0)[1]
    with os.fdopen(reading, "rb") as told:
        # A worker that lives holds the other end until it has closed it.
        control.send(b"0" if ended else os.read(told.fileno(), REQUEST_BYTES))


def _become_worker(home: str, descriptors: list[int], between: int, parent: int) -> None:
    """In all that an engine can see, a process that was started for this trial alone."""
    os.setsid()
    given, printed, results = descriptors
    for descriptor, standard in ((given, 0), (printed, 1), (printed, 2)):
        os.dup2(descriptor, standard)
    os.close(given)
    os.close(printed)
    os.chdir(home)
    sys.path[0] = home
    # The module `random` sees to itself.
    numpy.random.seed()
    while os.getppid() == between:
        time.sleep(0.000_1)
    worker.work(results, parent)


if __name__ == "__main__":
    main()
