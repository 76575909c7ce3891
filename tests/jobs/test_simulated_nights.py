"""The rule on a few simulated nights; tests/benchmarks/simulated_nights.py has the whole year."""

from jobs.suite import NightRule
from tests.benchmarks.simulated_nights import (
    RESULTS,
    SimulatedNights,
    SimulatedReport,
    promises_kept,
    simulate,
)


def test_simulated_nights_are_quiet_without_a_change_and_find_one() -> None:
    found = simulate(SimulatedNights(cells=10), NightRule(), seed=5, trials=40, year=60)
    assert found.false_alarms_a_year == 0
    assert found.found_first_night >= 0.8
    assert found.found_within_three >= 0.6
    assert found.drift_found_within_28 >= 0.8
    assert found.peers_false_alarms_a_year > 100


def test_the_committed_simulation_keeps_its_promises_with_the_rule_that_is_shipped() -> None:
    report = SimulatedReport.model_validate_json((RESULTS / "simulated_nights.json").read_text())
    assert report.rule == NightRule()
    assert promises_kept(report.outcomes[0])
    assert report.promises_kept
