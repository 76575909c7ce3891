"""The rule on a few simulated nights; tests/benchmarks/simulated_nights.py has the whole year."""

from tests.benchmarks.simulated_nights import (
    RESULTS,
    SHIPPED,
    SimulatedNights,
    SimulatedReport,
    promises_kept,
    simulate,
)

REPORT = SimulatedReport.model_validate_json((RESULTS / "simulated_nights.json").read_text())


def test_simulated_nights_are_quiet_without_a_change_and_find_one() -> None:
    found = simulate(SimulatedNights(cells=10), SHIPPED.rule, seed=5, trials=40, year=60)
    assert found.false_alarms_a_year == 0
    assert found.found_first_night >= 0.8
    assert found.found_within_three >= 0.6
    assert found.drift_found_within_28 >= 0.8
    assert found.peers_false_alarms_a_year > 100


def test_the_committed_simulation_is_of_the_rule_that_is_shipped() -> None:
    assert REPORT.rule == SHIPPED.rule
    assert REPORT.outcomes[0].noise["starts"] == SHIPPED.starts


def test_the_committed_simulation_keeps_its_promises_at_the_noise_of_real_nights() -> None:
    assert promises_kept(REPORT.outcomes[0])
    assert REPORT.promises_kept


def test_the_committed_simulation_has_the_peers_rule_beside_it() -> None:
    ours = REPORT.outcomes[0]
    assert ours.peers_paired_false_alarms_a_year > 100 * max(1, ours.false_alarms_a_year)
    assert ours.peers_found_first_night < ours.found_first_night
