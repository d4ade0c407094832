"""The attacks of `make hostile` in a small form, on Sordini alone: its answers, and a neighbour that is served on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.side_by_side import aftermath
from tests.side_by_side.brokers import OURS, Side, both
from tests.side_by_side.cases import SMALL, Case
from tests.side_by_side.catalogue import CASES
from tests.side_by_side.measure import attack

SERVED_MIN = 3
"""Requests of a neighbour during an attack: one may have been on its way before, and one end after it."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """One broker for all attacks: it must outlive them."""
    with both(tmp_path_factory.mktemp("hostile"), OURS) as [side]:
        yield side


@pytest.mark.parametrize("case", [case for case in CASES if not case.on_a_small_disk], ids=lambda case: case.name)
def test_every_attack_is_answered_as_it_should_be_and_a_neighbour_is_served_on(case: Case, ours: Side) -> None:
    broker = ours.ready(fresh=False)
    pid, before = broker.pid, aftermath.partitions_of(broker)
    found = attack(broker, case, SMALL, settles=False)
    codes = {answer.partition(" x ")[0] for answer in found.outcome.split(", ")}
    assert codes
    assert codes <= case.ours
    assert not case.is_long or found.served >= SERVED_MIN
    assert aftermath.touched(ours, before if case.spoils else None) == []
    assert broker.pid == pid


def test_what_an_attack_touches_is_found(ours: Side, tmp_path: Path) -> None:
    broker = ours.ready(fresh=False)
    before = aftermath.partitions_of(broker)
    (broker.data_directory / "a\nb-0").mkdir()
    (ours.bystander / "more").touch()
    assert aftermath.touched(ours, before) == [
        r"makes the directory `a\nb-0`",
        "writes into a directory outside of `log.dirs`",
    ]
    ours.bystander.rename(tmp_path / "moved")
    broker.kill()
    assert aftermath.of(ours, None) == "renames or removes a directory outside of `log.dirs`; has ended"
