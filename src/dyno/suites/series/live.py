"""Archives a running control system, which consists of a soft IOC and a client that subscribes to all its variables.

Each batch has the events that arrived since the previous batch. A value is the number of its change, so that lost
events are noticed. The client library is p4p, over pvAccess.
"""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from time import process_time_ns, sleep, time_ns
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Absent, Fact, Refused, Unavailable, Wrong
from dyno.contracts.rank import rank
from dyno.contracts.suite import Report
from dyno.host import installation
from dyno.host.installation import version
from dyno.servers import loopback
from dyno.servers.process import Process
from dyno.suites.series import ioc, samples, verify
from dyno.suites.series.dataset import SECOND
from dyno.suites.series.ioc import database, names
from dyno.suites.series.port import SampleBatch, Series
from dyno.suites.series.samples import Digest, SampleRow

if TYPE_CHECKING:
    from p4p.client.thread import Context, Subscription

MODULES = ("softioc", "p4p")
CONNECT_S = 60
DRAIN_S = 30
POLL_S = 0.002
QUEUE = 64
"""Maximum number of changes of a variable that the server queues for the client."""
BEHIND_NS = SECOND
"""An archive has fallen behind if it acknowledges its last event more than this after the end."""
_FIELDS = "field(value,alarm,timeStamp)record[queueSize={}]"


def explain_missing_libraries() -> str | None:
    """Returns the missing libraries with the command that installs them; None if all are installed."""
    lacking = [name for name in MODULES if find_spec(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}: {installation.extra_command('epics')}"
    return None


@contextmanager
def _run_ioc(home: Path, variables: int, hz: int) -> Iterator[dict[str, str]]:
    """Runs the IOC on free local ports in the block. Yields the client's configuration."""
    home.mkdir(parents=True, exist_ok=True)
    _, (ca, repeater, tcp, udp) = loopback.cluster(home, 1, ports=4)
    host = loopback.HOST
    pva = {
        **{f"EPICS_PVA{kind}_BROADCAST_PORT": str(udp) for kind in ("", "S")},
        **{f"EPICS_PVA{kind}_SERVER_PORT": str(tcp) for kind in ("", "S")},
        "EPICS_PVA_ADDR_LIST": host,
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVAS_INTF_ADDR_LIST": host,
    }
    channel = {
        **{f"EPICS_CA{kind}_SERVER_PORT": str(ca) for kind in ("", "S")},
        "EPICS_CA_REPEATER_PORT": str(repeater),
        "EPICS_CA_ADDR_LIST": host,
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CAS_INTF_ADDR_LIST": host,
        "EPICS_CAS_BEACON_ADDR_LIST": host,
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
    }
    (home / "live.db").write_text(database(names(variables), hz))
    ready = home / "ready"
    command = [sys.executable, ioc.__file__, "live.db", ready.name]
    with closing(Process(command, home, ready.exists, environment={**pva, **channel})) as server:
        server.start()
        yield pva


class EventReceiver:
    """Receives events in a thread. The events of a variable remain in order."""

    def __init__(self, context: "Context", variables: Sequence[str]) -> None:
        self._rows = list[SampleRow]()
        self.seen = set[int]()
        """Numbers of the variables that have sent an event."""
        self._waiting = SimpleQueue[int]()
        """Numbers of the variables that the library has notified of events."""
        self._over = False
        self._error: Exception | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        fields = _FIELDS.format(QUEUE)
        for number, name in enumerate(variables):
            notify = partial(self._waiting.put, number)
            self._subscriptions[number] = context.monitor(name, notify, request=fields)

    def _run(self) -> None:
        try:
            # Events may arrive faster than they are received, so closing must not wait for an empty queue.
            while not self._over:
                with suppress(Empty):
                    self._receive(self._waiting.get(timeout=POLL_S))
        except Exception as error:
            self._error = error

    def _receive(self, number: int) -> None:
        if (subscription := self._subscriptions.get(number)) is None:
            # The library sent the notification before it returned the subscription.
            self._waiting.put(number)
            sleep(POLL_S)
            return
        while not self._over and (event := subscription.pop()) is not None:
            if not isinstance(event, Exception):
                stamp, alarm = event["timeStamp"], event["alarm"]
                at = stamp["secondsPastEpoch"] * SECOND + stamp["nanoseconds"]
                self.seen.add(number)
                self._rows.append((number, at, event["value"], alarm["status"], alarm["severity"]))

    def take(self) -> list[SampleRow]:
        """Returns the events received since the last call. Raises the error of the receiving thread, if any."""
        if self._error is not None:
            raise self._error
        count = len(self._rows)
        taken, self._rows[:count] = self._rows[:count], []
        return taken

    def close(self) -> None:
        self._over = True
        self._thread.join()
        for subscription in self._subscriptions.values():
            subscription.close()


class LiveRun:
    def __init__(self, home: Path, variables: int, hz: int, seconds: int, period_ms: int) -> None:
        if reason := explain_missing_libraries():
            raise Absent(reason)
        self._home = home
        self._variables = variables
        self._hz = hz
        self._seconds = seconds
        self._period_ns = period_ms * 1_000_000
        self.digest = Digest()
        self._batches = list[SampleBatch]()
        self._acknowledged = list[int]()
        """Time at which each batch was acknowledged."""
        self._before, self._after = dict[int, float](), dict[int, float]()
        """Last number of each variable before the measured time, and first number after it."""

    def run(self, port: Series, limit_ns: int) -> Report:
        from p4p.client.raw import Context

        with (
            _run_ioc(self._home, self._variables, self._hz) as addresses,
            closing(Context("pva", conf=addresses, useenv=False, nt=False)) as context,
            closing(EventReceiver(context, names(self._variables))) as received,
        ):
            # Wait for an event of every variable. Earlier events are not archived.
            deadline = time_ns() + CONNECT_S * SECOND
            while (connected := len(received.seen)) < self._variables:
                if time_ns() > deadline:
                    raise Unavailable(f"of {self._variables:,} variables {connected:,} were connected")
                sleep(0.05)
            self._before = {row[0]: row[2] for row in received.take()}
            begin, used = time_ns(), process_time_ns()
            end = begin + min(self._seconds * SECOND, limit_ns)
            late_ns = self._archive(port, received, begin, end)
            used = process_time_ns() - used
        return self._report(begin, end, late_ns, used)

    def _archive(self, port: Series, received: EventReceiver, begin: int, end: int) -> int:
        """Inserts batches until each variable has an event after `end`. Returns the last one's delay in ns."""
        while len(self._after) < self._variables:
            began = time_ns()
            if began > end + DRAIN_S * SECOND:
                offered = self._variables * self._hz
                archived = sum(len(batch.ts) for batch in self._batches) / (began - begin) * SECOND
                rates = f"{archived:,.0f} events a second of the {offered:,} offered"
                raise Refused(f"fell {DRAIN_S} s behind: it kept up with {rates}")
            rows = list[SampleRow]()
            for row in received.take():
                if row[1] < end:
                    rows.append(row)
                else:
                    self._after.setdefault(row[0], row[2])
            if rows:
                self._insert(port, rows)
            sleep(max(self._period_ns - (time_ns() - began), 0) / SECOND)
        return max(max(self._acknowledged, default=0) - end, 0)

    def _insert(self, port: Series, rows: list[SampleRow]) -> None:
        batch = samples.batch(samples.columns_of(rows))
        port.insert(batch)
        self._acknowledged.append(time_ns())
        self._batches.append(batch)
        self.digest.add(batch)

    def _report(self, begin: int, end: int, late_ns: int, used: int) -> Report:
        lags = [at - batch.ts for at, batch in zip(self._acknowledged, self._batches, strict=True)]
        lag = np.maximum(np.concatenate([np.zeros(0, "i8"), *lags]), 0)
        lost, count = self._count_lost(), len(lag)
        elapsed, offered = max(max(self._acknowledged, default=end), end) - begin, count + lost
        rate, archived = offered / ((end - begin) / SECOND), count / elapsed * SECOND
        lost_events = (
            f"{lost:,} events never came; it kept up with {archived:,.0f} events a second of {rate:,.0f} offered"
        )
        facts: dict[str, Fact] = {
            "offered_per_s": round(rate, 1),
            "lost_events": lost,
            "batches": len(self._batches),
            "behind_ns": late_ns,
            "kept_up": "no" if lost or late_ns > BEHIND_NS + self._period_ns else "yes",
        }
        values, times = np.unique(lag // 1_000 * 1_000, return_counts=True)
        return Report(
            tool=f"softioc {version('softioc')} and p4p {version('p4p')}",
            # Count lost events too: an archive that falls far behind loses more events than it archives.
            operations=offered,
            items=count,
            elapsed_ns=elapsed,
            errors=lost,
            first_error=lost_events if lost else None,
            latencies=list(zip(values.tolist(), times.tolist(), strict=True)),
            series=_seconds(begin, self._acknowledged, lags),
            cpu_ns=(used, 0),
            facts=facts,
        )

    def _count_lost(self) -> int:
        """Returns the number of lost events: gaps in each variable's numbers, from before to after the run."""
        edges = [*self._before.items(), *self._after.items()]
        pv = np.concatenate([[pv for pv, _ in edges], *(batch.pv for batch in self._batches)])
        value = np.concatenate([[value for _, value in edges], *(batch.val for batch in self._batches)])
        order = np.lexsort((value, pv))
        pv, value = pv[order], value[order]
        same = pv[1:] == pv[:-1]
        return int((value[1:] - value[:-1] - 1)[same].sum())

    def check(self, report: Report) -> int:
        """Raises Wrong unless every variable had an event."""
        count = 0
        if self._batches:
            count = len(np.unique(np.concatenate([batch.pv for batch in self._batches])))
        if count < self._variables:
            raise Wrong(f"of {self._variables:,} variables {count:,} had an event in {self._seconds} s")
        return report.items

    def verify(self, port: Series) -> int:
        """Compares all fields of all acknowledged events."""
        port.settle()
        return verify.verify_digest(verify.digest_of(port.all()), self.digest)


def _seconds(begin: int, acknowledged: Sequence[int], lags: Sequence[NDArray[np.int64]]) -> list[Mapping[str, int]]:
    by_second: dict[int, list[NDArray[np.int64]]] = {}
    for at, lag in zip(acknowledged, lags, strict=True):
        by_second.setdefault((at - begin) // SECOND, []).append(np.maximum(lag, 0))
    points = list[Mapping[str, int]]()
    for second, parts in sorted(by_second.items()):
        whole = np.sort(np.concatenate(parts))
        p50, p99 = (int(whole[rank(percentile, len(whole)) - 1]) for percentile in (50, 99))
        times = {"from_ns": second * SECOND, "interval_ns": SECOND}
        points.append({**times, "operations": len(whole), "p50_ns": p50, "p99_ns": p99})
    return points
