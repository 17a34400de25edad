"""A control system that is archived as it runs: a soft IOC, a client that subscribes to all of its variables, and the
port, which is given what has come whenever it has taken what came before.

A value is the number of its change, so that a missing one is seen. The client library is p4p, over pvAccess.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import process_time_ns, sleep, time_ns
from typing import Any, NamedTuple

import numpy as np

from dyno.contracts.model import Absent, Fact, Refused, Wrong
from dyno.contracts.suite import Report
from dyno.host import installation
from dyno.host.versions import version
from dyno.servers import loopback
from dyno.servers.process import Process
from dyno.suites.series import ioc, samples, verify
from dyno.suites.series.facility import SECOND
from dyno.suites.series.ioc import database, names
from dyno.suites.series.port import SampleBatch, Series
from dyno.suites.series.samples import Digest

MODULES = ("softioc", "p4p")
CONNECT_S, DRAIN_S, POLL_S = 60, 30, 0.002
QUEUE = 64
"""Changes of a variable that wait for the client, at most."""
BEHIND_NS = SECOND
"""An archive that has a change later than that, once nothing comes any more, has fallen behind."""
_FIELDS = "field(value,alarm,timeStamp)record[queueSize={}]"
Row = tuple[int, int, float, int, int]


def missing() -> str | None:
    """What is not here, with the command that installs it."""
    lacking = [name for name in MODULES if find_spec(name) is None]
    return f"needs {', '.join(lacking)}: {installation.extra('epics')}" if lacking else None


class LiveLoad(NamedTuple):
    variables: int
    hz: int
    seconds: int
    period_ms: int


@contextmanager
def _serving(home: Path, asked: LiveLoad) -> Iterator[dict[str, str]]:
    """The IOC, at ports of this machine's own; what a client has to know."""
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
    (home / "live.db").write_text(database(names(asked.variables), asked.hz))
    ready = home / "ready"
    words = [sys.executable, ioc.__file__, "live.db", ready.name]
    with closing(Process(words, home, ready.exists, environment={**pva, **channel})) as serves:
        serves.start()
        yield pva


class EventReceiver:
    """What comes, from each variable in the order in which it comes: a thread takes it from the client library."""

    def __init__(self, context: Any, every: Sequence[str]) -> None:
        self._rows, self._seen = list[Row](), set[int]()
        self._waiting, self._wake = deque[int](), threading.Event()
        self._over = False
        self._error: Exception | None = None
        self._subscriptions: dict[int, Any] = {}
        self._thread = threading.Thread(target=self._taking, daemon=True)
        self._thread.start()
        fields = _FIELDS.format(QUEUE)
        for number, name in enumerate(every):
            self._subscriptions[number] = context.monitor(name, self._told(number), request=fields)

    def _told(self, number: int) -> Any:
        def told() -> None:
            self._waiting.append(number)
            self._wake.set()

        return told

    def _taking(self) -> None:
        try:
            while not self._over:
                self._wake.wait(POLL_S)
                self._wake.clear()
                self._take_waiting()
        except Exception as error:
            self._error = error

    def _take_waiting(self) -> None:
        # Events may come faster than they are taken: without the flag, closing would wait for ever.
        while self._waiting and not self._over:
            number = self._waiting.popleft()
            if (subscription := self._subscriptions.get(number)) is None:
                # It is told of before the library has given it.
                self._waiting.append(number)
                break
            self._take(number, subscription)

    def _take(self, number: int, subscription: Any) -> None:
        while not self._over and (event := subscription.pop()) is not None:
            if isinstance(event, Exception):
                continue
            stamp, alarm = event["timeStamp"], event["alarm"]
            at = stamp["secondsPastEpoch"] * SECOND + stamp["nanoseconds"]
            self._seen.add(number)
            self._rows.append((number, at, event["value"], alarm["status"], alarm["severity"]))

    def connected(self) -> int:
        """How many variables have told of themselves."""
        return len(self._seen)

    def take(self) -> list[Row]:
        """All that has come since it was asked last."""
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
    """One run of it."""

    def __init__(self, home: Path, asked: LiveLoad) -> None:
        if why := missing():
            raise Absent(why)
        self._home, self._asked = home, asked
        self.digest = Digest()
        self._kept = list[SampleBatch]()
        self._acknowledged = list[int]()
        self._before, self._after = dict[int, float](), dict[int, float]()
        """Of each variable the last number before the time that counts, and the first after it."""

    def run(self, port: Series, limit_ns: int) -> Report:
        from p4p.client.raw import Context

        with (
            _serving(self._home, self._asked) as addresses,
            closing(Context("pva", conf=addresses, useenv=False, nt=False)) as context,
            closing(EventReceiver(context, names(self._asked.variables))) as received,
        ):
            self._await(received)
            begin, used = time_ns(), process_time_ns()
            end = begin + min(self._asked.seconds * SECOND, limit_ns)
            late_ns = self._archive(port, received, begin, end)
            used = process_time_ns() - used
        return self._reported(begin, end, late_ns, used)

    def _await(self, received: EventReceiver) -> None:
        """Until every variable has been heard of; what came until then is not archived."""
        deadline = time_ns() + CONNECT_S * SECOND
        while received.connected() < self._asked.variables:
            if time_ns() > deadline:
                raise Refused(f"of {self._asked.variables:,} variables {received.connected():,} were connected")
            sleep(0.05)
        self._before = {row[0]: row[2] for row in received.take()}

    def _archive(self, port: Series, received: EventReceiver, begin: int, end: int) -> int:
        """Batch by batch, until each variable has had a later event; by how much the last one was in after `end`."""
        period = self._asked.period_ms * 1_000_000
        while len(self._after) < self._asked.variables:
            began = time_ns()
            if began > end + DRAIN_S * SECOND:
                raise Refused(self._fell_behind(began - begin))
            kept = list[Row]()
            for row in received.take():
                if row[1] < end:
                    kept.append(row)
                else:
                    self._after.setdefault(row[0], row[2])
            if kept:
                self._put(port, kept)
            sleep(max(period - (time_ns() - began), 0) / SECOND)
        return max(max(self._acknowledged, default=0) - end, 0)

    def _fell_behind(self, elapsed_ns: int) -> str:
        offered = self._asked.variables * self._asked.hz
        archived = sum(len(batch.ts) for batch in self._kept) / elapsed_ns * SECOND
        return f"fell {DRAIN_S} s behind: it kept up with {archived:,.0f} events a second of the {offered:,} offered"

    def _put(self, port: Series, rows: list[Row]) -> None:
        batch = samples.batch(samples.columns_of(rows))
        port.insert(batch)
        self._acknowledged.append(time_ns())
        self._kept.append(batch)
        self.digest.add(batch)

    # -- what came of it ------------------------------------------------------------------------------------

    def _reported(self, begin: int, end: int, late_ns: int, used: int) -> Report:
        lags = [at - batch.ts for at, batch in zip(self._acknowledged, self._kept, strict=True)]
        lag = np.maximum(np.concatenate([np.zeros(0, "i8"), *lags]), 0)
        lost, count = self._lost(), len(lag)
        elapsed = max(max(self._acknowledged, default=end), end) - begin
        offered = count + lost
        rate = offered / ((end - begin) / SECOND)
        facts: dict[str, Fact] = {
            "offered_per_s": round(rate, 1),
            "lost_events": lost,
            "batches": len(self._kept),
            "behind_ns": late_ns,
            "kept_up": "no" if lost or late_ns > BEHIND_NS + self._asked.period_ms * 1_000_000 else "yes",
        }
        values, times = np.unique(lag // 1_000 * 1_000, return_counts=True)
        return Report(
            tool=f"softioc {version('softioc')} and p4p {version('p4p')}",
            # The lost ones too: an archive that falls far behind loses more than it archives.
            operations=offered,
            items=count,
            elapsed_ns=elapsed,
            errors=lost,
            first_error=self._lost_events(lost, count / elapsed * SECOND, rate) if lost else None,
            latencies=list(zip(values.tolist(), times.tolist(), strict=True)),
            series=_seconds(begin, self._acknowledged, lags),
            cpu_ns=(used, 0),
            facts=facts,
        )

    @staticmethod
    def _lost_events(lost: int, kept: float, offered: float) -> str:
        return f"{lost:,} events never came; it kept up with {kept:,.0f} events a second of {offered:,.0f} offered"

    def _lost(self) -> int:
        """Numbers that are missing between the last before and the first after, of each variable."""
        edges = [*self._before.items(), *self._after.items()]
        pv = np.concatenate([[pv for pv, _ in edges], *(batch.pv for batch in self._kept)])
        value = np.concatenate([[value for _, value in edges], *(batch.val for batch in self._kept)])
        order = np.lexsort((value, pv))
        pv, value = pv[order], value[order]
        same = pv[1:] == pv[:-1]
        return int((value[1:] - value[:-1] - 1)[same].sum())

    def check(self, report: Report) -> int:
        """Raises Wrong where nothing came of a variable."""
        heard = len(np.unique(np.concatenate([batch.pv for batch in self._kept]))) if self._kept else 0
        if heard < self._asked.variables:
            raise Wrong(f"of {self._asked.variables:,} variables {heard:,} had an event in {self._asked.seconds} s")
        return report.items

    def verify(self, port: Series) -> int:
        """Every event that was acknowledged, with all its fields."""
        port.settle()
        found = Digest()
        for piece in port.all():
            verify.add_verified(found, piece)
        return verify.verify_digest(found, self.digest)


def _seconds(begin: int, acknowledged: Sequence[int], lags: Sequence[Any]) -> list[Mapping[str, int]]:
    by_second: dict[int, list[Any]] = {}
    for at, lag in zip(acknowledged, lags, strict=True):
        by_second.setdefault((at - begin) // SECOND, []).append(np.maximum(lag, 0))
    points = list[Mapping[str, int]]()
    for second, parts in sorted(by_second.items()):
        whole = np.concatenate(parts)
        p50, p99 = (int(value) for value in np.quantile(whole, (0.5, 0.99), method="inverted_cdf"))
        points.append(
            {
                "from_ns": second * SECOND,
                "interval_ns": SECOND,
                "operations": len(whole),
                "p50_ns": p50,
                "p99_ns": p99,
            }
        )
    return points
