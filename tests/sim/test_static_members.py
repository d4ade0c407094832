"""Every anomaly of static members that is planted in a history is found, and a clean history is clean."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from tests.sim.consumption import check_consumption
from tests.sim.group_history import Commit, Tenure
from tests.sim.history import History, Restart
from tests.sim.static_members import Claim, FencedInstance, Holder, Outlived

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = frozenset({FIRST, SECOND})
AWAY = Holder("a-1", 10.0, 3, BOTH, is_certain=True, left=11.0, may_have_left=True)
ALIVE = AWAY._replace(left=None, may_have_left=False)
BACK = Claim("g", "a", "a-2", 13.0, 13.1, ErrorCode.NONE, 3, BOTH, AWAY)


def _found(claim: Claim, *tenures: Tenure, is_alone: bool = False) -> list[str]:
    history = History()
    history.groups.static.claims = [claim]
    history.groups.tenures = [Tenure("g", FIRST, "a-1", 3, 5.0), Tenure("g", SECOND, "a-1", 3, 5.0), *tenures]
    history.groups.static.lone_groups = {"g"} if is_alone else set()
    return check_consumption(history)


def test_a_static_member_that_is_back_with_all_its_partitions_is_clean():
    assert not _found(BACK, is_alone=True)


def test_a_partition_that_another_member_had_meanwhile_is_found():
    (found,) = _found(BACK, Tenure("g", SECOND, "b", 4, 12.0))
    assert found.startswith("K5 t-1 of a-1 was given to b at 12.000")


def test_a_partition_that_another_member_has_after_the_session_is_no_finding():
    late = BACK._replace(began=21.0, ended=21.1, epoch=5)
    assert not _found(late, Tenure("g", SECOND, "b", 4, 20.5))


def test_a_partition_of_another_group_or_of_neither_process_is_no_finding():
    assert not _found(BACK, Tenure("h", SECOND, "b", 4, 12.0), Tenure("g", TopicPartition("t", 2), "b", 4, 12.0))


def test_a_member_that_is_back_in_its_epoch_with_less_is_found():
    (found,) = _found(BACK._replace(partitions=frozenset({FIRST})))
    assert found.startswith("K5 the claim of a by a-2 at 13.100 came back to epoch 3 without t-1")


def test_a_member_that_is_back_in_a_later_epoch_may_have_less_among_others():
    assert not _found(BACK._replace(epoch=4, partitions=frozenset({FIRST})))


def test_a_rebalance_of_a_group_of_one_is_found_unless_it_has_got_more():
    (found,) = _found(BACK._replace(epoch=4), is_alone=True)
    assert found.startswith("K5 the claim of a by a-2 at 13.100 came back to epoch 4, and had left in 3")
    assert not _found(BACK._replace(epoch=4, partitions=BOTH | {TopicPartition("t", 2)}), is_alone=True)


def test_nothing_is_expected_of_what_the_coordinator_may_not_know():
    unsure = BACK._replace(former=AWAY._replace(is_certain=False), partitions=frozenset())
    assert not _found(unsure, Tenure("g", SECOND, "b", 4, 12.0))


def test_a_commit_of_the_process_before_is_found_when_it_comes_after_its_successor():
    history = History()
    history.groups.static.claims = [BACK]
    history.groups.commits = [Commit("g", FIRST, "a-1@7", 13.5, 13.6, "ok", "a-1", 3)]
    (found,) = check_consumption(history)
    assert found.startswith("K5 a-1@7 of a-1 was taken at 13.600")
    history.groups.commits = [
        Commit("g", FIRST, "a-1@7", 12.5, 12.6, "ok", "a-1", 3),
        Commit("g", FIRST, "a-1@8", 13.5, 13.6, "no", "a-1", 3),
    ]
    assert not check_consumption(history)


def test_an_instance_id_that_is_taken_from_a_member_that_is_alive_is_found():
    (found,) = _found(BACK._replace(former=ALIVE))
    assert found.startswith("K6 the claim of a by a-2 at 13.100 was granted, and a-1 was alive at 10.000")
    assert not _found(BACK._replace(former=ALIVE, began=20.0, ended=20.1))
    assert not _found(BACK._replace(former=ALIVE, code=ErrorCode.UNRELEASED_INSTANCE_ID))


def test_an_instance_id_that_is_withheld_after_it_was_released_is_found():
    (found,) = _found(BACK._replace(code=ErrorCode.UNRELEASED_INSTANCE_ID))
    assert found.startswith("K6 the claim of a by a-2 at 13.100 was refused, and a-1 had left at 11.000")


def test_a_member_that_is_fenced_without_a_successor_is_found():
    history = History()
    history.groups.static.fenced = [FencedInstance("g", "a-1", 12.0, ALIVE)]
    (found,) = check_consumption(history)
    assert found.startswith("K6 a-1 was fenced at 12.000")
    history.groups.static.fenced = [
        FencedInstance("g", "a-1", 12.0, ALIVE._replace(member_id="a-1-twin")),
        FencedInstance("g", "a-1", 12.0, ALIVE._replace(may_have_left=True)),
    ]
    assert not check_consumption(history)


def test_a_process_that_is_served_beside_its_successor_is_found():
    history = History()
    history.groups.static.outlived = [Outlived("g", "a-1", 14.0, Holder("a-2", 13.0))]
    (found,) = check_consumption(history)
    assert found == "K6 a-1 had an answer at 14.000, and a-2 has its instance id"


def test_a_power_loss_may_take_what_was_written_of_static_members():
    history = History()
    history.groups.static.claims = [BACK._replace(former=ALIVE)]
    history.groups.static.outlived = [Outlived("g", "a-1", 14.0, Holder("a-2", 11.5))]
    history.restarts = [Restart("power", 11.0, {}, {}, {}, 12.0)]
    assert not check_consumption(history)
    history.groups.is_durable = True
    assert len(check_consumption(history)) == 2
