"""Made-up runs that search the capacities of queues M/M/1. Not a test itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from madeup import a_first_line, a_sample, an_attempt, recorded

from dyno.contracts.limits import CONFIRM
from dyno.options import RunRequest
from dyno.results import Attempt, Run
from dyno.runner import plan
from dyno.runner.probes import Searches
from dyno.stats.capacity import capacity

LIMIT_S, SHARE = 0.02, 0.1
LIMIT = f"p{100 - 100 * SHARE:g}<{LIMIT_S * 1e3:g}ms"


def simulated(seed: int, **services: float) -> Run:
    """A run that searches the capacities of queues M/M/1, by name, each with its service rate."""
    random = np.random.default_rng(seed)
    engines = [f"{name}=synthetic:wait_us={at + 1}" for at, name in enumerate(services)]
    searched = plan.make(RunRequest("selftest", engines, limit=[LIMIT], seed=seed))
    rates, attempts = list(services.values()), list[Attempt]()
    for block in Searches(searched, lambda sample: False, capacity).blocks(attempts):
        for trial in block:
            mu, rate = rates[trial.cell], trial.rate
            if rate is None:
                attempts.append(an_attempt(trial.block, a_sample("work", mu), cell=trial.cell))
                continue
            count = int(rate * (trial.seconds or 0) * 0.8)
            # A probe that confirms is long enough for 300 operations beyond the limit.
            assert trial.stage != CONFIRM or count >= 0.8 * 300 / SHARE - 1
            beyond = math.exp(-max(mu - rate, 0) * LIMIT_S)
            broken = {LIMIT: int(random.binomial(count, beyond))}
            response = recorded(round(LIMIT_S * 1e9 * math.log(SHARE) / math.log(min(beyond, 0.999))))
            sample = a_sample("work", rate, judged=count, broken=broken, response=response, due=count)
            found = an_attempt(trial.block, sample, cell=trial.cell, stage=trial.stage, rate=rate)
            attempts.append(found)
    first_line = a_first_line(searched.data(), created=f"2026-01-{seed:02}T00:00:00+00:00")
    return Run(Path(f"{seed}.json"), first_line, searched.cells, tuple(attempts), "searched")
