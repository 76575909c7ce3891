from __future__ import annotations

import pytest

from pipeline.analysis.energy import NAME, with_energy
from pipeline.analysis.metrics import CellMetrics
from pipeline.records import Counts, PassRecord
from tests.factories import one_pass

COUNTS = Counts(
    requests=1,
    output_tokens=3,
    drafts=0,
    drafted=0,
    accepted=0,
    accepted_per_position=(),
    truncated=0,
)
FOUND = CellMetrics(counts=COUNTS, per_repeat={"speed/output_tok_s": (1.0, 2.0)})


def passes(*tokens: int) -> list[PassRecord]:
    """A pass for each number of tokens."""
    base = one_pass()
    (request,) = base.requests
    return [
        base.model_copy(
            update={"requests": (request.model_copy(update={"output_token_ids": tuple(range(n))}),)}
        )
        for n in tokens
    ]


def test_energy_over_tokens_is_pooled_over_the_passes() -> None:
    found = with_energy(FOUND, passes(10, 30), [20.0, 30.0])
    assert found.metrics[NAME].value == pytest.approx(50 / 40)
    assert found.metrics[NAME].n == 2
    assert found.per_repeat[NAME] == (2.0, 1.0)
    assert found.metrics[NAME].spread == pytest.approx(0.5)
    assert found.per_repeat["speed/output_tok_s"] == (1.0, 2.0)


@pytest.mark.parametrize(
    ("tokens", "energies"),
    [((10, 30), [20.0, None]), ((10, 30), [None, None]), ((10, 0), [1.0, 1.0]), ((), [])],
    ids=["one pass unknown", "no power", "a pass without tokens", "no pass"],
)
def test_where_a_part_is_not_known_there_is_no_metric(
    tokens: tuple[int, ...], energies: list[float | None]
) -> None:
    assert with_energy(FOUND, passes(*tokens), energies) == FOUND
