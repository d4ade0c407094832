"""Bugs of consumer groups (KIP-848) that the simulated broker must find by what its members consume (K1 to K3).

Each is a change of the product's machine or shell, undone afterwards, and is searched for in the first seeds without
power losses, after which K3 judges nothing. `python -m tests.sim --planted` prints in which seed each is found.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sordini.broker.groups import offset_commits, offset_fetch_handler
from sordini.broker.groups.consumer.machine import reconciliation
from sordini.broker.groups.consumer.machine.state import LEAVE_EPOCH
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.broker.groups.replay import GroupReplay
from sordini.broker.groups.shard_offsets import ShardOffsets
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from tests.sim.broker import SimBroker
from tests.sim.poster import PARTITIONS_MAX
from tests.sim.scenario import run_seed, scenario

WITHOUT_POWER_LOSS = (1, 2, 4)
"""The seeds without power losses, modulo 5."""
SEEDS_MAX = 20


class Bug(NamedTuple):
    """A change of one attribute of the product, and the law that it breaks."""

    name: str
    law: str
    target: Any
    attribute: str
    change: Callable[[Any], Any]
    """Gets the present value, returns its replacement."""


class Found(NamedTuple):
    """The first seed that finds a bug by its law, the number of the attempt, and all laws that are broken in it."""

    seed: int
    attempt: int
    laws: tuple[str, ...]


def _moved(offset: CommittedOffset, distance: int) -> CommittedOffset:
    return offset._replace(offset=offset.offset + distance)


def _store_ahead(right: Any) -> Any:
    """One record more than what was committed."""

    def commit(self: ShardOffsets, group_id: str, offsets: Any, *others: Any) -> None:
        right(self, group_id, {partition: _moved(offset, 1) for partition, offset in offsets.items()}, *others)

    return commit


def _store_the_largest_for_all(right: Any) -> Any:
    """One offset for all partitions of a request."""

    def commit(self: ShardOffsets, group_id: str, offsets: Any, *others: Any) -> None:
        largest = max(offsets.values(), key=lambda offset: offset.offset)
        right(self, group_id, dict.fromkeys(offsets, largest), *others)

    return commit


def _store_for_the_next_partition(right: Any) -> Any:
    def commit(self: ShardOffsets, group_id: str, offsets: Any, *others: Any) -> None:
        moved = {
            TopicPartition(topic, (number + 1) % PARTITIONS_MAX): offset for (topic, number), offset in offsets.items()
        }
        right(self, group_id, moved, *others)

    return commit


def _answer_only(_right: Any) -> Any:
    def commit(_self: Any, _group_id: str, _offsets: Any, on_committed: Any, on_done: Any) -> None:
        on_committed()
        on_done(ErrorCode.NONE)

    return commit


def _keep_the_first(right: Any) -> Any:
    """What is committed already stays."""

    def commit(self: ShardOffsets, group_id: str, offsets: Any, *others: Any) -> None:
        known = self.of(group_id)
        right(self, group_id, {each: known.get(each) or offset for each, offset in offsets.items()}, *others)

    return commit


def _fetch_nothing(right: Any) -> Any:
    return lambda index, _committed, code: right(index, None, code)


def _fetch_the_next(right: Any) -> Any:
    return lambda index, committed, code: right(index, committed and _moved(committed, 1), code)


def _fetch_of_another(right: Any) -> Any:
    """The offset that was committed first in the group's table, whatever the partition."""

    def fetched(self: Any, topic: Any, offsets: Any, *others: Any) -> Any:
        first = next((each for each in offsets.items()), None)
        answer = yield from right(self, topic, offsets, *others)
        for row in answer.partitions if first is not None else ():
            row.committed_offset, row.metadata = first[1].offset, first[1].metadata
        return answer

    return fetched


def _read_nothing_back(right: Any) -> Any:
    """Offsets are lost when the group is loaded."""

    def replay(self: GroupReplay, key: bytes, value: bytes) -> str | None:
        is_offset = isinstance(records.read_key(key), records.OffsetKey)
        return None if is_offset else right(self, key, value)

    return replay


def _read_back_ahead(right: Any) -> Any:
    def restore(self: ShardOffsets, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        right(self, group_id, partition, _moved(committed, 2))

    return restore


def _admit_every_commit(_right: Any) -> Any:
    return lambda *_arguments, **_more: ErrorCode.NONE


def _give_what_others_own(right: Any) -> Any:
    return lambda kept, target, _is_free: right(kept, target, lambda *_partition: True)


def _revoke_without_a_report(_right: Any) -> Any:
    return lambda _reported, _revoked: False


def _delete_offsets_with_a_member(right: Any) -> Any:
    """All offsets of the group, when one member leaves."""

    def heartbeat(self: GroupCoordinator, group_id: str, event: Any, *others: Any) -> None:
        right(self, group_id, event, *others)
        if event.member_epoch == LEAVE_EPOCH:
            state = self.runtime.loaded_shard(group_id).state
            state.delete_offsets(group_id, state.offset_partitions(group_id), lambda _code: None)

    return heartbeat


BUGS: tuple[Bug, ...] = (
    Bug("a commit is answered, and not stored", "K2", ShardOffsets, "commit", _answer_only),
    Bug("the first commit of a partition stays", "K2", ShardOffsets, "commit", _keep_the_first),
    Bug("a fetch of offsets finds none", "K2", offset_fetch_handler, "_fetched_partition", _fetch_nothing),
    Bug("offsets are not read back when a group is loaded", "K2", GroupReplay, "replay", _read_nothing_back),
    Bug("offsets are deleted with a member", "K2", GroupCoordinator, "heartbeat", _delete_offsets_with_a_member),
    Bug("commits of members of the past are stored", "K2", offset_commits, "commit_error", _admit_every_commit),
    Bug("partitions are given that others own", "K1", reconciliation, "_added", _give_what_others_own),
    Bug("partitions are free without a report", "K1", reconciliation, "_owns_any", _revoke_without_a_report),
    Bug("a commit is stored one record ahead", "K3", ShardOffsets, "commit", _store_ahead),
    Bug("one offset is stored for all of a request", "K3", ShardOffsets, "commit", _store_the_largest_for_all),
    Bug("a commit is stored for another partition", "K3", ShardOffsets, "commit", _store_for_the_next_partition),
    Bug("a fetch of offsets is one record ahead", "K3", offset_fetch_handler, "_fetched_partition", _fetch_the_next),
    Bug(
        "a fetch of offsets returns another partition's",
        "K3",
        offset_fetch_handler.OffsetFetchHandler,
        "_fetched_topic",
        _fetch_of_another,
    ),
    Bug("offsets are read back ahead when a group is loaded", "K3", ShardOffsets, "restore", _read_back_ahead),
)


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The product with a bug in it."""
    right = bug.target.__dict__[bug.attribute]
    setattr(bug.target, bug.attribute, bug.change(right))
    try:
        yield
    finally:
        setattr(bug.target, bug.attribute, right)


def laws_broken(bug: Bug, seed: int) -> tuple[str, ...]:
    """The laws that a run of the seed finds broken by the bug."""
    with planted(bug):
        findings = run_seed(scenario(seed), SimBroker).findings
    return tuple(sorted({finding.partition(" ")[0] for finding in findings}))


def search(bug: Bug) -> Found | None:
    """The first seed that finds the bug by its law; None if SEEDS_MAX do not."""
    fitting = (seed for seed in itertools.count() if seed % 5 in WITHOUT_POWER_LOSS)
    for attempt, seed in enumerate(itertools.islice(fitting, SEEDS_MAX), 1):
        laws = laws_broken(bug, seed)
        if bug.law in laws:
            return Found(seed, attempt, laws)
    return None
