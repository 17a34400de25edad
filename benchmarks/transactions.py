"""Transactions of sysbench and pgbench through the whole of Dyno, against the same commands called by hand.

    python benchmarks/transactions.py [--engines postgresql,mariadb] [--clients 1,2,4] [--phases point-select,...]
        [--pairs N] [--seconds S] [--tier TIER] [--own [--client native]]

Both run in turns on one filled server that Dyno starts: a phase of the suite oltp as in a trial, and the tool's
command in its own shell, whose output this benchmark parses. Each pair gives a ratio; the figure is the median over
pairs with its range. Exit status 1: a median differs from 1 by more than 5 %.

With --own, Dyno's side is the suite sql instead: pgbench's scripts as the user's own SQL, on the same tables.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.model import Phase, Tier
from dyno.contracts.pace import Pace
from dyno.contracts.roles import define_suite
from dyno.contracts.suite import Job, Workload
from dyno.engines.mysql.engines import InnoDB
from dyno.engines.postgresql import Postgres
from dyno.measure.phase import Stopwatch, measure_phase
from dyno.suites.oltp.workload import OltpWorkload

WITHIN = 0.05
TABLES = {"tables": 2, "table_size": 100_000, "bank_scale": 5}
SYSBENCH = {"point-select": "oltp_point_select", "read-only": "oltp_read_only", "read-write": "oltp_read_write"}
PGBENCH = {"select-only": "select-only", "tpcb-like": "tpcb-like"}
# pgbench's scripts. Source: PostgreSQL documentation, "pgbench".
MADE = define_suite(
    registry.suite("sql"),
    {
        "transactions": {
            "select-only": {
                "script": {
                    "": """\\set aid random(1, 100000 * :scale)
                    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;"""
                }
            },
            "tpcb-like": {
                "script": {
                    "": """\\set aid random(1, 100000 * :scale)
                    \\set bid random(1, 1 * :scale)
                    \\set tid random(1, 10 * :scale)
                    \\set delta random(-5000, 5000)
                    BEGIN;
                    UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
                    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
                    UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
                    UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
                    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
                        VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
                    END;"""
                }
            },
        }
    },
)
PATTERNS = (r"transactions:\s+\d+\s+\(([\d.]+) per sec", r"tps = ([\d.]+)")


@contextmanager
def started(engine: str, place: Path, tier: Tier) -> Iterator[Job]:
    """A job on a running server."""
    suite, spec = registry.suite("oltp"), registry.engine(engine).reduce_to_port("transactions")
    params = {setting.name: setting.default for setting in suite.params} | TABLES
    options = spec.resolve({})
    assert spec.server is not None
    # Some servers run as a separate user, who needs access to this directory.
    place.chmod(0o755)
    server = spec.create_server(place / "server", tier, options, 1)
    assert server is not None
    with closing(server):
        server.start()
        (place / "store").mkdir()
        yield Job(spec, place / "store", tier, options, params, seed=1, clients=1, server=server)


def commands(workload: OltpWorkload, clients: int, seconds: int) -> tuple[Mapping[str, list[str]], dict[str, str]]:
    """The command that a user would type for each phase, and its environment."""
    engine = workload.engine()
    if isinstance(engine, Postgres):
        database, environment = engine.for_tools()
        where = ["--db-driver=pgsql", f"--pgsql-db={database}", "--pgsql-host=", "--pgsql-port=", "--pgsql-user="]
    else:
        assert isinstance(engine, InnoDB)
        environment, address = {}, engine.server.address
        where = ["--db-driver=mysql", f"--mysql-socket={address['unix_socket']}", f"--mysql-user={address['user']}"]
        where.append(f"--mysql-db={engine.name}")
    sizes = [f"--tables={TABLES['tables']}", f"--table-size={TABLES['table_size']}", "--rand-type=special"]
    how = [f"--threads={clients}", f"--time={seconds}", "--events=0"]
    found = {name: ["sysbench", test, *where, *sizes, *how, "run"] for name, test in SYSBENCH.items()}
    if isinstance(engine, Postgres):
        bank = ["--client", str(clients), "--jobs", str(clients), "--time", str(seconds), "--no-vacuum"]
        for name, script in PGBENCH.items():
            found[name] = ["pgbench", "--builtin", script, *bank, "--protocol", "prepared", database]
    return found, dict(environment)


def by_hand(words: list[str], environment: dict[str, str], workload: OltpWorkload) -> float:
    """Returns transactions per second."""
    shell = {**os.environ, **environment}
    output = subprocess.run(words, env=shell, capture_output=True, text=True, check=True).stdout
    if (done := re.search(r"transactions actually processed: (\d+)", output)) and "tpcb-like" in words:
        # Dyno checks each reported transaction in the bank's history.
        workload._changes += int(done[1])
    return next(float(found[1]) for each in PATTERNS if (found := re.search(each, output)))


def own_sql(job: Job, client: str) -> Any:
    """A trial of pgbench's scripts as the user's own SQL."""
    spec = registry.engine(job.spec.name).reduce_to_port("sql")
    job = replace(job, options=spec.resolve({"client": client} if client else {}))
    params = {"operations": 0, "scale": TABLES["bank_scale"]}
    return MADE.workload(replace(job, spec=spec, params=params))


def through_dyno(workload: Workload, phase: Phase, job: Job, pace: Pace) -> float:
    sample = measure_phase(workload, phase, job, pace, Stopwatch())
    if sample.void or sample.per_second is None:
        raise SystemExit(f"{job.spec.name}, {phase.name}: {sample.void}")
    return sample.per_second


def compared(job: Job, args: argparse.Namespace, clients: int) -> float:
    """Prints a line for each phase; returns the largest deviation of a median from 1."""
    suite = registry.suite("oltp")
    workload, worst = OltpWorkload(job), 0.0
    own = own_sql(job, args.client) if args.own else None
    pace = Pace(duration_ns=args.seconds * 10**9)
    for phase in suite.phases:
        if phase.name not in args.phases:
            continue
        if phase.name in PGBENCH and not isinstance(workload.engine(), Postgres):
            continue
        workload.prepare(phase)
        if own is not None:
            (phase,) = (each for each in MADE.phases if each.name == phase.name)
        words, environment = commands(workload, clients, args.seconds)
        pairs = []
        for turn in range(args.pairs):
            # Each side goes first equally often.
            hand = None
            if turn % 2:
                hand = by_hand(words[phase.name], environment, workload)
            if own is not None:
                # A store of the same name is the same schema.
                own._store = workload._store
            mine = through_dyno(own or workload, phase, job if own is None else own._job, pace)
            if own is not None:
                own.release()
            pairs.append((mine, by_hand(words[phase.name], environment, workload) if hand is None else hand))
        ratios = [mine / hand for mine, hand in pairs]
        median = statistics.median(ratios)
        worst = max(worst, abs(median - 1))
        mine, hand = (statistics.median(each) for each in zip(*pairs, strict=True))
        line = f"{job.spec.name:<12}{phase.name:<14}{clients:>3} clients {mine:>10,.0f} {hand:>10,.0f} txn/s"
        print(f"{line}   {median:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)
    workload.close()
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description="sysbench and pgbench through Dyno, against by hand.")
    parser.add_argument("--engines", default="postgresql,mariadb", help="default: postgresql,mariadb")
    parser.add_argument("--clients", default="1,2,4", help="default: 1,2,4")
    parser.add_argument("--phases", default=",".join([*SYSBENCH, *PGBENCH]), help="default: all that it knows")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--tier", default="process", type=Tier, help="default: process")
    parser.add_argument("--client", default="", help="with --own: the engine's option client, such as native")
    parser.add_argument("--own", action="store_true", help="pgbench's scripts through the suite sql")
    parser.add_argument("--seconds", type=int, default=2, metavar="S", help="default: 2")
    args = parser.parse_args()
    args.phases = args.phases.split(",")
    worst = 0.0
    print(f"{'':<41}{'Dyno':>10} {'by hand':>10}         ratio of pairs, median and range")
    for engine in args.engines.split(","):
        for clients in map(int, args.clients.split(",")):
            with tempfile.TemporaryDirectory(dir="/var/tmp") as place, started(engine, Path(place), args.tier) as job:
                worst = max(worst, compared(replace(job, clients=clients), args, clients))
    print(f"the furthest median is {worst:.1%} from 1")
    return 0 if worst <= WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
