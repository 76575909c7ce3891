"""A grid falls due at once; a search over K one start after the other, as far as it needs to go."""

from __future__ import annotations

from pipeline.analysis.findings import Evidence
from pipeline.plan import EngineGroup, Plan
from pipeline.spec import Search
from pipeline.staging import Staging
from tests.analysis.test_k_search import composed
from tests.factories import coordinates, plan

GRID = (1, 2, 3, 4, 6, 8, 12)


def a_plan(search: Search = "choose_k", datasets: tuple[str, ...] = ("echo",)) -> Plan:
    baseline = [coordinates("none", 0, dataset) for dataset in datasets]
    grid = plan(*baseline, *(coordinates("mtp", k, d) for k in GRID for d in datasets))
    return grid.model_copy(update={"search": search})


class Disk:
    """What was measured so far, of drafts that hold with chance 0.6."""

    def __init__(self) -> None:
        self.found: list[Evidence] = []

    def __call__(self) -> list[Evidence]:
        return self.found

    def measure(self, groups: tuple[EngineGroup, ...]) -> list[int]:
        for group in groups:
            for cell in group.cells:
                found = composed(group.k, 0.6, 0.1) if group.k else composed(1, 0.6, 0.1)
                record = found.record.model_copy(
                    update={"fingerprint": cell.fingerprint, "at": cell.at}
                )
                self.found.append(found.model_copy(update={"record": record}))
        return [group.k for group in groups]


def staging(disk: Disk, search: Search = "choose_k", done: frozenset[str] = frozenset()) -> Staging:
    return Staging(a_plan(search), done, disk)


def test_a_grid_is_due_at_once_and_once() -> None:
    staged = staging(Disk(), "grid")
    assert [group.k for group in staged.due()] == [0, *GRID]
    assert staged.due() == ()
    assert staged.settled() == a_plan("grid")


def test_a_search_begins_with_the_baseline_and_the_largest_k_and_ends_after_a_few() -> None:
    disk = Disk()
    staged = staging(disk)
    assert disk.measure(staged.due()) == [0, 12]
    measured = []
    while groups := staged.due():
        measured += disk.measure(groups)
    assert 1 <= len(measured) <= 2
    assert [group.k for group in staged.settled().groups] == sorted([0, 12, *measured])


def test_a_search_is_estimated_by_the_groups_that_it_may_come_to() -> None:
    whole = a_plan()
    assert [group.k for group in whole.at_most(frozenset()).groups] == [0, 6, 8, 12]
    largest = frozenset(cell.fingerprint for cell in whole.groups[-1].cells)
    assert [group.k for group in whole.at_most(largest).groups] == [0, 6, 8]
    assert a_plan("grid").at_most(largest) == a_plan("grid").without(largest)


def test_nothing_more_is_due_while_a_group_is_under_way() -> None:
    disk = Disk()
    staged = staging(disk)
    staged.due()
    assert staged.due() == ()


def test_a_group_of_which_some_cells_are_missing_decides_nothing() -> None:
    disk = Disk()
    staged = Staging(a_plan(datasets=("echo", "chat")), frozenset(), disk)
    _, largest = staged.due()
    disk.measure((largest.model_copy(update={"cells": largest.cells[:1]}),))
    assert staged.due() == ()


def test_an_interrupted_search_goes_on_where_it_was() -> None:
    disk = Disk()
    disk.measure(staging(disk).due())
    done = frozenset(one.record.fingerprint for one in disk.found)
    again = staging(disk, done=done)
    (group,) = again.due()
    assert group.k not in (0, 12)


def test_a_finished_search_has_nothing_due() -> None:
    disk = Disk()
    staged = staging(disk)
    while groups := staged.due():
        disk.measure(groups)
    done = frozenset(one.record.fingerprint for one in disk.found)
    assert staging(disk, done=done).due() == ()
