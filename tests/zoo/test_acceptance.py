from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.zoo.acceptance import Counts, total, walk

tables = hnp.arrays(bool, st.tuples(st.integers(0, 40), st.integers(1, 6)))


def test_a_walk_skips_what_was_accepted_and_the_token_that_verifying_gives() -> None:
    matches = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1]], dtype=bool)

    # Draft at 0 accepts two and moves to 3; that one fails at once and moves to 4; one accepted.
    assert walk(matches) == Counts(3, (2, 1, 0))


@given(tables)
def test_acceptance_never_rises_with_position(matches: np.ndarray) -> None:
    counts = walk(matches)

    assert list(counts.accepted) == sorted(counts.accepted, reverse=True)
    assert all(a <= counts.drafts for a in counts.accepted)


@given(tables)
def test_every_token_of_the_text_comes_from_a_draft_or_from_the_target(matches: np.ndarray) -> None:
    counts = walk(matches)

    # Each draft yields its accepted tokens and one more; only the last may reach past the end.
    yielded = counts.drafts + sum(counts.accepted)
    assert len(matches) <= yielded <= len(matches) + matches.shape[1]


@given(st.integers(0, 30), st.integers(1, 5))
def test_a_perfect_drafter_is_always_accepted(rows: int, k: int) -> None:
    counts = walk(np.ones((rows, k), dtype=bool))

    assert counts.accepted == (counts.drafts,) * k
    assert counts.share_accepted() == (1.0 if rows else 0.0)


def test_counts_add_up() -> None:
    assert total([Counts(2, (1, 0)), Counts(3, (3, 2))]) == Counts(5, (4, 2))
    assert total([]) == Counts(0, ())
    assert Counts(4, (2, 1)).rates() == (0.5, 0.25)
