"""Bugs of consumer groups and of their coordinators' moves that the cluster's simulation must find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sordini.broker.coordinators.journal import Journal
from sordini.broker.coordinators.runtime import CoordinatorRuntime
from sordini.broker.coordinators.shard import Shard
from sordini.broker.groups import offset_commits
from sordini.broker.groups.consumer.machine import reconciliation
from sordini.broker.groups.machine import records
from sordini.broker.groups.replay import GroupReplay
from sordini.protocol.errors import ErrorCode
from tests.sim.cluster.plan import ClusterScenario, with_groups
from tests.sim.cluster.planted_bugs import Bug


def _answer_at_the_append(right: Any) -> Any:
    """Before the record is committed."""

    def append(self: Journal, written: Any, apply: Any, on_done: Any, producer: Any = None) -> bool:
        answered: list[ErrorCode] = []

        def once(code: ErrorCode) -> None:
            if not answered:
                answered.append(code)
                on_done(code)

        is_written: bool = right(self, written, apply, once, producer)
        if is_written:
            once(ErrorCode.NONE)
        return is_written

    return append


def _load_nothing(_right: Any) -> Any:
    async def load(_self: Any, shard: Shard[Any]) -> None:
        shard.loaded()

    return load


def _keep_the_shard(_right: Any) -> Any:
    """Of a leadership that has ended, for the next one."""

    def resigned(self: CoordinatorRuntime[Any], partition: Any) -> None:
        shard = self._shards.get(partition.name.partition)
        if partition.name.topic == self.topic.name and shard is not None and shard.partition is partition:
            vars(self).setdefault("_former", {})[partition.name.partition] = self._shards.pop(partition.name.partition)

    return resigned


def _take_the_kept_shard(right: Any) -> Any:
    def became_leader(self: CoordinatorRuntime[Any], partition: Any) -> None:
        former = vars(self).get("_former", {}).pop(partition.name.partition, None)
        if partition.name.topic == self.topic.name and former is not None and not former.is_loading:
            former.leader_epoch = partition.leader_epoch
            self._shards[partition.name.partition] = former
        else:
            right(self, partition)

    return became_leader


def _restore_without_sessions(right: Any) -> Any:
    """Members that were read back need no heartbeats."""

    def consumer_groups(self: GroupReplay, now_ms: int, session_timeout_ms: Any) -> Iterator[Any]:
        for group in right(self, now_ms, session_timeout_ms):
            yield group._replace(session_deadlines_ms={}, rebalance_deadlines_ms={}, due_ms=None)

    return consumer_groups


def _offsets_only(right: Any) -> Any:
    """Members are not read back."""

    def replay(self: GroupReplay, key: bytes, value: bytes) -> str | None:
        return right(self, key, value) if isinstance(records.read_key(key), records.OffsetKey) else None

    return replay


def _members_only(right: Any) -> Any:
    def replay(self: GroupReplay, key: bytes, value: bytes) -> str | None:
        return None if isinstance(records.read_key(key), records.OffsetKey) else right(self, key, value)

    return replay


def _grant_what_was_pending(right: Any) -> Any:
    """Requests whose records are not committed are answered with success when the leadership ends."""

    def close(self: Journal) -> None:
        for batch in self._uncommitted:
            if batch.on_done is not None:
                batch.on_done(ErrorCode.NONE)
                batch.on_done = None
        right(self)

    return close


def _admit(_right: Any) -> Any:
    return lambda *_arguments, **_more: ErrorCode.NONE


def _give(right: Any) -> Any:
    return lambda kept, target, _is_free: right(kept, target, lambda *_partition: True)


def _both_protocols(plan: ClusterScenario) -> bool:
    return plan.versions.uses_topic_ids


def _bug(name: str, target: Any, attribute: str, change: Any, seeds_max: int = 30, more: Any = ()) -> Bug:
    return Bug(name, target, attribute, change, seeds_max, _both_protocols, more, with_groups)


GROUP_BUGS: tuple[Bug, ...] = (
    _bug("a coordinator answers before its records are committed", Journal, "append", _answer_at_the_append),
    _bug("a new coordinator loads nothing", CoordinatorRuntime, "_load", _load_nothing),
    _bug("a new coordinator loads no offsets", GroupReplay, "replay", _members_only),
    _bug("a new coordinator loads no members", GroupReplay, "replay", _offsets_only),
    _bug(
        "a coordinator keeps the members of an earlier leadership",
        CoordinatorRuntime,
        "resigned",
        _keep_the_shard,
        more=((CoordinatorRuntime, "became_leader", _take_the_kept_shard),),
    ),
    _bug(
        "sessions do not start again when a group is loaded", GroupReplay, "consumer_groups", _restore_without_sessions
    ),
    _bug("pending commits are granted when a leadership ends", Journal, "close", _grant_what_was_pending, 60),
    _bug("commits of every epoch are stored", offset_commits, "commit_error", _admit, 60),
    _bug("partitions are given that other members own", reconciliation, "_added", _give),
)
