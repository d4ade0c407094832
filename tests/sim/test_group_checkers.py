"""Every anomaly of groups that is planted in a history is found, and a clean history is clean."""

import pytest

from sordini.protocol.types import TopicPartition
from tests.sim.group_checkers import check_groups
from tests.sim.group_history import (
    Commit,
    Expelled,
    Forgetting,
    Joined,
    Left,
    Listed,
    Pause,
    ReportedState,
    Synced,
    Unanswered,
)
from tests.sim.history import History, Restart

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
BOTH = frozenset([TP, OTHER])


def _commit(number: int, began: float, **changes: object) -> Commit:
    commit = Commit("g", TP, f"a-{number}@{number * 10}", began, began + 0.1, "ok", "a", 1)
    return commit._replace(**changes)


def _reported(number: int | None, at: float) -> ReportedState:
    note, offset = (None, -1) if number is None else (f"a-{number}@{number * 10}", number * 10)
    return ReportedState("g", TP, note, offset, at, at + 0.1)


def _joined(member: str, generation: int, at: float, *, leads: bool = False) -> Joined:
    return Joined("g", generation, member, leads, at, at + 0.1)


def _synced(member: str, generation: int, at: float, *partitions: TopicPartition) -> Synced:
    return Synced("g", generation, member, frozenset(partitions), at, at + 0.1)


def _restart(kind: str, at: float, number: int | None) -> Restart:
    offsets = {} if number is None else {("g", TP): (f"a-{number}@{number * 10}", number * 10)}
    return Restart(kind, at, {}, {}, offsets, at + 1.0)


def _history(*restarts: Restart) -> History:
    """Two members share a topic, one commits, and both meet again in the next generation."""
    history = History(restarts=list(restarts))
    groups = history.groups
    groups.joined = [_joined("a", 1, 1.0, leads=True), _joined("b", 1, 1.0), _joined("a", 2, 8.0, leads=True)]
    groups.synced = [_synced("a", 1, 2.0, TP), _synced("b", 1, 2.0, OTHER), _synced("a", 2, 9.0, TP, OTHER)]
    groups.commits = [_commit(1, 3.0), _commit(2, 4.0), _commit(3, 10.0, generation_id=2)]
    groups.reported = [_reported(None, 2.5), _reported(1, 3.5), _reported(2, 9.5), _reported(3, 11.0)]
    return history


def _codes(history: History) -> set[str]:
    return {finding.split()[0] for finding in check_groups(history)}


def test_a_clean_history_of_groups_is_clean():
    assert check_groups(_history()) == []
    assert check_groups(_history(_restart("kill", 5.0, 2))) == []
    assert check_groups(_history(_restart("power", 5.0, 2))) == []


def test_a_commit_whose_answer_was_lost_may_count_or_not():
    for number in (2, 9):
        history = _history()
        history.groups.commits.append(_commit(9, 4.5, outcome="info"))
        history.groups.reported[2] = _reported(number, 9.5)
        assert check_groups(history) == []


def test_a_commit_that_was_seen_once_is_not_undone():
    history = _history()
    history.groups.commits.append(_commit(9, 4.5, outcome="info"))
    history.groups.reported[2:2] = [_reported(9, 6.0)]
    assert _codes(history) == {"G1"}


def test_a_power_loss_may_take_commits_that_were_not_flushed_and_nothing_else_may():
    lost = _history(_restart("power", 5.0, 1))
    lost.groups.reported[2] = _reported(1, 7.0)
    assert check_groups(lost) == []
    lost.groups.is_durable = True
    assert _codes(lost) == {"G1"}
    killed = _history(_restart("kill", 5.0, 1))
    killed.groups.reported[2] = _reported(1, 7.0)
    assert _codes(killed) == {"G1"}


def test_what_did_not_count_when_its_process_died_never_does():
    history = _history(_restart("kill", 5.0, 2))
    history.groups.commits.append(_commit(9, 4.5, outcome="info"))
    history.groups.reported[2] = _reported(9, 9.5)
    assert _codes(history) == {"G1"}


def test_deleted_offsets_are_gone_and_those_of_a_deleted_topic_go_within_a_while():
    history = _history()
    history.groups.forgettings = [Forgetting("g", None, 6.0, 6.1, "ok")]
    assert _codes(history) == {"G1"}
    history.groups.reported[2] = _reported(None, 9.5)
    assert check_groups(history) == []
    history.groups.forgettings = [Forgetting(None, frozenset([TP]), 6.0, 6.1, "info", 9.0)]
    assert check_groups(history) == []
    history.groups.reported[3] = _reported(None, 11.0)
    assert _codes(history) == {"G1"}


def test_offsets_of_a_deleted_topic_have_to_go_where_nothing_hinders_it():
    history = _history()
    history.groups.forgettings = [Forgetting(None, frozenset([TP]), 6.0, 6.1, "later", 9.0)]
    assert _codes(history) == {"G1"}
    history.groups.disk_failures = [Pause(7.0, 8.0)]
    assert check_groups(history) == []


def test_a_deleted_group_starts_again_at_generation_1():
    history = _history()
    history.groups.forgettings = [Forgetting("g", frozenset([OTHER]), 12.0, 12.1, "ok")]
    history.groups.joined.append(_joined("c", 1, 13.0, leads=True))
    history.groups.synced.append(_synced("c", 1, 14.0, TP, OTHER))
    assert check_groups(history) == []


def test_a_generation_that_was_not_written_down_may_come_again_after_a_restart():
    history = _history(_restart("kill", 12.0, 3))
    history.groups.joined += [_joined("a", 3, 11.0, leads=True), _joined("b", 3, 14.0, leads=True)]
    assert check_groups(history) == []


def _lost_commit(history: History) -> None:
    history.groups.reported[2] = _reported(1, 9.5)


def _forgotten(history: History) -> None:
    history.groups.reported[2] = _reported(None, 9.5)


def _never_committed(history: History) -> None:
    history.groups.reported[2] = _reported(7, 9.5)


def _refused_and_read(history: History) -> None:
    history.groups.commits.append(_commit(7, 5.0, outcome="no"))
    history.groups.reported[2] = _reported(7, 9.5)


def _other_offset(history: History) -> None:
    history.groups.reported[2] = history.groups.reported[2]._replace(offset=21)


def _not_on_the_disk(history: History) -> None:
    history.restarts = [_restart("stop", 5.0, None)]


def _two_leaders(history: History) -> None:
    history.groups.joined[1] = _joined("b", 1, 1.0, leads=True)


def _leader_is_not_heeded(history: History) -> None:
    history.groups.joined.append(_joined("a", 2, 12.0, leads=True)._replace(led=2))


def _shared_partition(history: History) -> None:
    history.groups.synced[1] = _synced("b", 1, 2.0, TP, OTHER)


def _other_part_when_asked_again(history: History) -> None:
    history.groups.synced.append(_synced("a", 1, 3.0, OTHER))


def _no_part(history: History) -> None:
    history.groups.synced[1] = history.groups.synced[1]._replace(partitions=None)


def _generation_comes_again(history: History) -> None:
    history.groups.joined.append(_joined("c", 1, 12.0))


def _generation_is_lost_with_the_process(history: History) -> None:
    history.restarts = [_restart("kill", 12.0, 3)]
    history.groups.joined.append(_joined("c", 1, 14.0))


def _generation_is_shared_over_a_kill(history: History) -> None:
    history.restarts = [_restart("kill", 12.0, 3)]
    history.groups.synced.append(_synced("c", 2, 14.0, TP))


def _past_generation_commits(history: History) -> None:
    history.groups.commits.append(_commit(4, 10.5))
    history.groups.reported[3] = _reported(4, 11.0)


def _gone_member_commits(history: History) -> None:
    history.groups.left = [Left("g", "a", 9.6)]


def _gone_member_is_listed(history: History) -> None:
    history.groups.left = [Left("g", "b", 7.0)]
    history.groups.listed = [Listed("g", frozenset("ab"), 8.0, 8.1)]


def _expelled(history: History) -> None:
    history.groups.expelled = [Expelled("g", "a", 10.0, 13.0, 13.2, 2.0)]


def _expelled_by_a_restart(history: History) -> None:
    history.restarts = [_restart("kill", 12.0, 3)]
    history.groups.expelled = [Expelled("g", "a", 10.0, 14.0, 14.2, 2.0)]


def _expelled_by_a_pause(history: History) -> None:
    history.groups.pauses = [Pause(12.0, 40.0)]
    history.groups.expelled = [Expelled("g", "a", 11.0, 14.0, 40.2, 2.0)]


def _not_waited_for_after_a_pause(history: History) -> None:
    history.groups.pauses = [Pause(12.0, 40.0)]
    history.groups.expelled = [Expelled("g", "a", 11.0, 40.1, 40.2, 2.0, 5.0)]


def _unanswered(history: History) -> None:
    history.groups.unanswered = [Unanswered("g", "HEARTBEAT", 10.0, 20.0)]


def _strange(history: History) -> None:
    history.groups.strange = ["m0's Heartbeat was answered with INVALID_REQUEST"]


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_lost_commit, "G1"),
        (_forgotten, "G1"),
        (_never_committed, "G1"),
        (_refused_and_read, "G1"),
        (_other_offset, "G1"),
        (_not_on_the_disk, "G1"),
        (_two_leaders, "G2"),
        (_leader_is_not_heeded, "G2"),
        (_shared_partition, "G2"),
        (_other_part_when_asked_again, "G2"),
        (_no_part, "G2"),
        (_generation_comes_again, "G2"),
        (_generation_is_lost_with_the_process, "G2"),
        (_generation_is_shared_over_a_kill, "G2"),
        (_past_generation_commits, "G3"),
        (_gone_member_commits, "G3"),
        (_gone_member_is_listed, "G3"),
        (_expelled, "G4"),
        (_expelled_by_a_restart, "G4"),
        (_expelled_by_a_pause, "G4"),
        (_not_waited_for_after_a_pause, "G4"),
        (_unanswered, "G6"),
        (_strange, "G6"),
    ],
)
def test_a_planted_anomaly_of_groups_is_found(plant, code):
    history = _history()
    plant(history)
    assert code in _codes(history)


@pytest.mark.parametrize(
    ("expelled", "restarts"),
    [
        (Expelled("g", "a", 10.0, 20.0, 20.2, 2.0), ()),
        (Expelled("g", "a", 10.0, 13.0, 13.2, 2.0), (_restart("power", 11.0, 3),)),
        (Expelled("g", "a", 10.0, 13.0, 13.2, float("inf")), (_restart("kill", 11.0, 3),)),
        (Expelled("g", "a", 10.0, 40.0, 40.2, 2.0), (_restart("kill", 11.0, 3),)),
    ],
)
def test_who_was_silent_or_never_written_down_may_be_unknown(expelled, restarts):
    history = _history(*restarts)
    history.groups.expelled = [expelled]
    assert check_groups(history) == []


def test_a_power_loss_before_the_last_contact_excuses_expulsions_of_consumer_groups_alone():
    history = _history(_restart("power", 5.0, 3))
    history.groups.expelled = [Expelled("g", "a", 10.0, 13.0, 13.2, 2.0)]
    assert "G4" in _codes(history)
    history.groups.consumer_groups = {"g"}
    assert "G4" not in _codes(history)
    history.groups.is_durable = True
    assert "G4" in _codes(history)


def test_who_did_not_try_while_the_broker_was_paused_or_came_late_may_be_unknown():
    for expelled in (
        Expelled("g", "a", 11.0, 40.1, 40.2, 2.0, 12.0),
        Expelled("g", "a", 11.0, 45.0, 45.2, 2.0, 5.0),
        Expelled("g", "a", 1.0, 40.1, 40.2, 2.0, 5.0),
    ):
        history = _history()
        history.groups.pauses = [Pause(12.0, 40.0)]
        history.groups.expelled = [expelled]
        assert check_groups(history) == []


def test_a_broker_that_does_not_run_or_dies_need_not_answer():
    history = _history()
    _unanswered(history)
    history.groups.pauses = [Pause(15.0, 16.0)]
    assert check_groups(history) == []
    history.groups.pauses, history.restarts = [], [_restart("kill", 12.0, 3)]
    assert check_groups(history) == []
