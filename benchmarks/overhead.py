"""CPU time that Dyno and its peers add to an operation that does nothing.

    python benchmarks/overhead.py [--operations N] [--rounds N] [--go-ycsb]

Every round runs all of them, so that a drift of the machine affects all alike. The figure is the median over rounds.
Dyno's rows cover its whole path (`dyno.measure.driver`): a slice's stamps, its histogram, its series by the second,
its check, and the switch from one slice to the next. The unit is CPU time, because wall-clock time fluctuates on
shared machines. Exit status 1: the native loop takes over 25 ns more than the bare loop, or as much as a peer that
times each operation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time_ns

from peers import GO_YCSB_VERSION, PEERS, Peer, build_go_ycsb, slope

from dyno.contracts.pace import Pace
from dyno.contracts.suite import Operations
from dyno.measure.driver import measure
from dyno.measure.loop import native

MOST_NS = 25.0
SLICE = 50_000


def slices(operations: int) -> Iterator[Operations]:
    whole = Operations(lambda _: (callable,), [None] * SLICE, len)
    for _ in range(operations // SLICE):
        yield whole
    yield Operations(lambda _: (callable,), [None] * (operations % SLICE), len)


def ours(loop: str, operations: int, rounds: int) -> float | None:
    def spend(count: int) -> int:
        begin = process_time_ns()
        tally = measure(lambda number: slices(count), Pace(loop=loop), lambda: None)
        spent = process_time_ns() - begin
        if tally.operations != count or int(tally.latency.counts.sum()) != count:
            raise RuntimeError(f"{tally.operations} operations of {count} were measured")
        return spent

    return slope(operations, spend, rounds)


def candidates() -> tuple[Peer, ...]:
    built = "install a Rust toolchain and Dyno again"
    mine = (
        ("dyno", "native loop, whole path", "native", lambda: None if native() else built),
        ("dyno-py", "Python loop, whole path", "python", lambda: None),
    )
    own = [Peer(name, what, True, partial(ours, loop), missing, lambda: "") for name, what, loop, missing in mine]
    return (PEERS[0], *own, *PEERS[1:])


def run(operations: int, rounds: int) -> dict[str, list[float]]:
    """Returns CPU ns per operation of each round, by name."""
    found: dict[str, list[float]] = {}
    there = [peer for peer in candidates() if peer.missing() is None]
    for number in range(rounds):
        for peer in there:
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {rounds}: {peer.name:<10}", end="\r", file=sys.stderr, flush=True)
            each = peer.measure(operations, 1)
            if each is not None:
                found.setdefault(peer.name, []).append(each)
    return found


def table(found: dict[str, list[float]], say: Callable[[str], None] = print) -> bool:
    """Prints the table; returns whether the native loop is as cheap as promised."""
    each = {name: statistics.median(values) for name, values in found.items()}
    bare = each.get("for")
    say(f"{'':<10}{'CPU ns/op':>10}{'least':>8}{'most':>8}{'over for':>10}  {'times each':<12}what")
    for peer in candidates():
        if peer.missing():
            say(
                f"{peer.name:<10}{'-':>10}{'':>26}  {'yes' if peer.times_each else 'no':<12}missing: {peer.missing()}"
            )
        elif peer.name not in each:
            say(f"{peer.name:<10}{'unknown':>10}")
        else:
            values = found[peer.name]
            added = "unknown" if bare is None else f"{each[peer.name] - bare:+.1f}"
            figures = f"{each[peer.name]:>10.1f}{min(values):>8.1f}{max(values):>8.1f}{added:>10}"
            what = f"{peer.what} ({peer.version()})" if peer.version() else peer.what
            say(f"{peer.name:<10}{figures}  {'yes' if peer.times_each else 'no':<12}{what}")
    if "dyno" not in each:
        return True
    rivals = {peer.name: each[peer.name] for peer in PEERS if peer.times_each and peer.name in each}
    for name, rival in rivals.items():
        say(f"dyno : {name} = {each['dyno'] / rival:.2f}")
    if bare is None:
        say("for: unknown: its start-up took as long as its operations; give more --operations or --rounds")
        return False
    return each["dyno"] - bare <= MOST_NS and all(each["dyno"] < rival for rival in rivals.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="What Dyno adds to an operation, beside what its peers add.")
    parser.add_argument("--operations", type=int, default=2_000_000, metavar="N", help="default: 2000000")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--go-ycsb", action="store_true", help=f"build go-ycsb {GO_YCSB_VERSION} if it isn't built")
    options = parser.parse_args()
    if options.go_ycsb:
        build_go_ycsb()
    if table(run(options.operations, options.rounds)):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
