"""Where the time of an item goes: an account, whose parts add up to the elapsed time.

With several clients it is an account of client time: the time of all clients together, divided by the items. The
parts of a server are what it did while the clients waited, as long as they fit into the clients' time: if several
cores worked at once, the parts are more than the elapsed time, and the account is of core time.

What the kernel counts nowhere is in the last part: waiting for locks, networks, timers, and flushes.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from dyno.fields import Sample
from dyno.results import Run
from dyno.results.run import URL
from dyno.stats.cache import cache_by_run
from dyno.stats.summary import CellSummary, summarize

TOTAL = "total"
HARNESS = "harness"
CLIENT_USER, CLIENT_KERNEL = "client_user", "client_kernel"
SERVER_USER, SERVER_KERNEL = "server_user", "server_kernel"
CORE_WAIT, DEVICE_WAIT = "core_wait", "device_wait"
OTHER_WAIT = "other_wait"
CLIENT_CPU, SERVER_CPU = "client_cpu", "server_cpu"
"""User and kernel together. The kernel knows the sum better than how it splits, which it samples at its ticks."""
SPLIT = {CLIENT_CPU: (CLIENT_USER, CLIENT_KERNEL), SERVER_CPU: (SERVER_USER, SERVER_KERNEL)}
PARTS = (
    HARNESS,
    CLIENT_USER,
    CLIENT_KERNEL,
    SERVER_USER,
    SERVER_KERNEL,
    CORE_WAIT,
    DEVICE_WAIT,
    OTHER_WAIT,
)
"""The parts, in the order in which accounts have them."""
FOLDED_INTO = {HARNESS: CLIENT_USER}
COUNTS = (
    *("read_calls", "write_calls", "asked_bytes", "read_bytes", "written_bytes"),
    *("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"),
)
"""What is counted beside the parts, of client and server together."""
EDGES_NS, EDGES_SHARE = 1_000_000, 0.1
"""CPU time that Dyno itself may take between its clock and the counters, of each client: before the first operation
and after the last, or as a share of the elapsed time, about 10 µs around each batch. It is no sign of a second core.
"""
OPEN_LOOP = "its time includes waiting until operations are due"
TOOL = "an outside tool did the work"
OTHER_MACHINE = "what its server did is unknown: Dyno did not start it"
NOT_TIMED = "the CPU time of its items is unknown"
LOAD_FROM = "its clients ran on other machines"

ByBlock = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Account:
    """Where the time of a row's items went."""

    row: CellSummary
    total: ByBlock
    """Time of an item in ns, by block: clients × elapsed time ÷ items, or the sum of the parts if that is more."""
    parts: Mapping[str, ByBlock]
    """The parts of the total in ns, by block. A part that is unknown is missing, and then in `other_wait`."""
    counts: Mapping[str, ByBlock]
    """What is counted for an item, by block; unknown counts are missing."""
    core_time: bool = False
    """Whether several cores worked at once, so that the parts are of core time."""

    @property
    def mean_parts_ns(self) -> dict[str, float]:
        """Means of the parts over the blocks, which add up to the mean total."""
        return {part: fmean(values.values()) for part, values in self.parts.items()}

    @property
    def mean_total_ns(self) -> float:
        return fmean(self.total.values())

    @property
    def mean_counts(self) -> dict[str, float]:
        """Means of the counts over the blocks."""
        return {name: fmean(values.values()) for name, values in self.counts.items()}


def make_account(run: Run, row: CellSummary) -> Account | None:
    """Returns the account of a row of the run; None if it can't be made: see `explain_missing_account`."""
    if explain_missing_account(row):
        return None
    harnesses = _harnesses(run)
    # The null engine of a suite that stores nothing has no tier.
    places = [(row.phase, row.cell.combination, tier) for tier in (row.cell.tier, None)]
    harness = min((harnesses[place] for place in places if place in harnesses), key=sum, default=None)
    parts = dict[str, dict[int, float]]()
    counts = dict[str, dict[int, float]]()
    total = dict[int, float]()
    core_time = False
    for block, sample in zip(row.blocks, row.samples, strict=True):
        divided, overlaps = _divide(sample, harness)
        core_time = core_time or overlaps
        total[block] = sum(divided.values())
        for part, value in divided.items():
            parts.setdefault(part, {})[block] = value
        for name, value in _count(sample).items():
            counts.setdefault(name, {})[block] = value
    # A part that one sample lacks is in no sample's account.
    incomplete = [part for part, values in parts.items() if len(values) < len(total)]
    whole = fold(parts, incomplete)
    ordered = {part: whole[part] for part in PARTS if part in whole}
    complete = {name: values for name, values in counts.items() if len(values) == len(total)}
    return Account(row, total, ordered, complete, core_time)


def fold(parts: Mapping[str, ByBlock], unknown: Collection[str]) -> dict[str, ByBlock]:
    """Returns parts with those that are unknown elsewhere as a share of the part that has them then: a harness of the
    client's time, and a wait of the rest."""
    folded = {part: dict(values) for part, values in parts.items() if part not in unknown}
    for part in unknown:
        receiving = folded[FOLDED_INTO.get(part, OTHER_WAIT)]
        for block, value in parts.get(part, {}).items():
            receiving[block] += value
    return dict(folded)


def explain_missing_account(row: CellSummary) -> str:
    """Returns why the row has no account; empty if it has one."""
    if not row.valid or not row.samples:
        return row.why or "no number"
    if row.reported_by is not None:
        return TOOL
    if any(sample.response is not None for sample in row.samples):
        return OPEN_LOOP
    if any(sample.machines for sample in row.samples):
        return LOAD_FROM
    if row.cell.options.get(URL):
        return OTHER_MACHINE
    for sample in row.samples:
        for used in (sample.client, sample.server or {"user_ns": 0, "system_ns": 0}):
            if used is None or used.get("user_ns") is None or used.get("system_ns") is None:
                return NOT_TIMED
        if sample.items <= 0 or sample.elapsed_ns <= 0:
            return NOT_TIMED
    return ""


@cache_by_run
def _harnesses(run: Run) -> Mapping[Hashable, tuple[float, float]]:
    """Returns the user and kernel time of an item of the null engine that does the least, by phase, parameters and
    tier. Null engines have fewer trials than others, so these are medians."""
    least = dict[Hashable, tuple[float, float]]()
    for floor in summarize(run):
        if not floor.cell.floor or not floor.valid:
            continue
        place = floor.phase, floor.cell.combination, floor.cell.tier
        harness = _median_harness(floor.samples)
        if place not in least or sum(harness) < sum(least[place]):
            least[place] = harness
    return least


def _median_harness(samples: Sequence[Sample]) -> tuple[float, float]:
    """Returns the time of an item, at most its CPU time, as user and kernel time."""
    users = list[float]()
    systems = list[float]()
    for sample in samples:
        client = sample.client or {}
        user, system = ((client.get(name) or 0) / max(sample.items, 1) for name in ("user_ns", "system_ns"))
        # Its CPU time includes some of what Dyno does outside the clock.
        timed = sample.clients * sample.elapsed_ns / max(sample.items, 1)
        share = min(timed / (user + system), 1.0) if user + system else 0.0
        users.append(share * user)
        systems.append(share * system)
    return median(users), median(systems)


def _divide(sample: Sample, harness: tuple[float, float] | None) -> tuple[dict[str, float], bool]:
    """Returns the parts of a sample's time for an item, in ns, and whether several cores worked at once."""
    clients_ns = sample.clients * sample.elapsed_ns / sample.items
    client = sample.client or {}
    parts = dict[str, float]()
    user, system = (float(client[name] or 0) / sample.items for name in ("user_ns", "system_ns"))
    if harness is not None:
        own_user, own_system = min(harness[0], user), min(harness[1], system)
        parts[HARNESS] = own_user + own_system
        user -= own_user
        system -= own_system
    parts[CLIENT_USER] = user
    parts[CLIENT_KERNEL] = system
    waits: list[Mapping[str, float | None]] = [client]
    if sample.server is not None:
        # The server's counters include Dyno's pauses.
        timed = min(sample.elapsed_ns / (sample.wall_ns or sample.elapsed_ns), 1.0)
        served = {name: None if value is None else timed * value for name, value in sample.server.items()}
        parts[SERVER_USER] = (served["user_ns"] or 0) / sample.items
        parts[SERVER_KERNEL] = (served["system_ns"] or 0) / sample.items
        waits.append(served)
    computed = sum(parts.values())
    excess = computed - clients_ns
    if 0 < excess <= max(sample.clients * EDGES_NS / sample.items, EDGES_SHARE * clients_ns):
        parts = {part: ns * clients_ns / computed for part, ns in parts.items()}
        computed = clients_ns
    overlaps = computed > clients_ns
    left = max(clients_ns - computed, 0.0)
    for part, name in ((CORE_WAIT, "core_wait_ns"), (DEVICE_WAIT, "device_wait_ns")):
        values = [used.get(name) for used in waits]
        known = [value for value in values if value is not None]
        # A server's waits are unknown if one of its processes ended: they are in the rest then.
        if values[0] is not None:
            # Waits just before and after the clock's edges are in the counters too.
            parts[part] = min(sum(known) / sample.items, left)
            left -= parts[part]
    parts[OTHER_WAIT] = left
    return parts, overlaps


def _count(sample: Sample) -> dict[str, float]:
    counts = dict[str, float]()
    for name in COUNTS:
        values = [used.get(name) for used in (sample.client, sample.server) if used is not None]
        known = [value for value in values if value is not None]
        if values and len(known) == len(values):
            counts[name] = sum(known) / sample.items
    return counts


def has_server(accounts: Sequence[Account]) -> bool:
    """Returns whether any of the rows has a server."""
    return any(SERVER_USER in account.parts for account in accounts)
