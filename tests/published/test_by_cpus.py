"""Tests numbers given as multiples of the number of CPUs, for clients and in published experiments."""

from __future__ import annotations

import os

import pytest

from dyno import published
from dyno.contracts.model import UsageError
from dyno.contracts.settings import by_cpus
from dyno.published import parse
from dyno.runner.plan import CLIENTS


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("cpus", 4),
        ("2cpus", 8),
        ("1.5cpus", 6),
        ("cpus/2", 2),
        ("3cpus/4", 3),
        ("cpus/100", 1),
        ("1000cpus", 50),
        ("7", 7),
    ],
)
def test_number_may_be_a_multiple_of_cpus(text: str, number: int, four: None) -> None:
    assert by_cpus(1, 50)(text) == number


@pytest.mark.parametrize("text", ["cpu", "cpus/0", "-1cpus", "cpus*2", "0", "51", "1.5", "cpus/"])
def test_invalid_cpu_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 1 to 50"):
        by_cpus(1, 50)(text)
    with pytest.raises(UsageError, match="clients=cpu"):
        CLIENTS.read("cpu", "parameter")


def test_published_experiment_scales_with_the_machines_cpus(four: None) -> None:
    found = published.experiment("cloudmercato-cpu")
    assert found.plan["clients"] == [1, 2, 3, 4, 6, 8]
    linear, flat = (finding.claims[0] for finding in found.findings if finding.claims)
    assert (linear.of_params, linear.than_params) == ({"clients": 4}, {"clients": 1})
    assert linear.low < 4 < linear.high
    assert (flat.of_params, flat.than_params) == ({"clients": 8}, {"clients": 4})
    assert found.citation == "Cloud Mercato, Why you should use sysbench", "its year is not known"


def test_published_plan_with_invalid_clients_is_refused() -> None:
    plan = {"suite": "cpu", "engine": ["x"], "clients": ["many"]}
    with pytest.raises(ValueError, match="expected a whole number"):
        parse("made-up", {"title": "t", "author": "a", "machine": "m", "notes": [], "plan": plan})
