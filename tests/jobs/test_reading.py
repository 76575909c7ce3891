"""What a night keeps of its sweep's records."""

from jobs.reading import environment
from tests.factories import start_record


def test_a_night_whose_starts_ran_on_different_versions_names_them_in_turn() -> None:
    old = start_record().model_copy(update={"host": {"system": "Linux 6.11", "cpu": "EPYC"}})
    new = old.model_copy(update={"host": {"system": "Linux 6.12", "cpu": "EPYC"}})
    around = environment([old, old, new, new])
    assert (around["system"], around["cpu"]) == ("Linux 6.11, then Linux 6.12", "EPYC")
