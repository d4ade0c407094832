"""Bugs that the simulation must find: each is a change of the product for the length of a search.

Their names state the mistake. `seeds` is the maximum number of seeds until one finds it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from sordini.broker.cluster.commands.command_receiver import CommandReceiver
from sordini.broker.cluster.peers.isr_in_store import IsrInStore
from sordini.broker.cluster.peers.pending_isr_changes import PendingIsrChanges
from sordini.protocol.types import LeaderEpoch
from sordini.replication import partition as partitions
from sordini.replication.acks import PartitionAppend
from sordini.replication.cluster_model import Malformed
from sordini.replication.fetching import partition_results, tail_rounds
from sordini.replication.fetching.fetched_partitions import FetchedPartitions
from sordini.replication.fetching.partition_results import PartitionResults
from sordini.replication.fetching.replica_fetcher import ReplicaFetcher
from sordini.replication.leader import Leader
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommits
from sordini.replication.ports import IsrGrant
from sordini.replication.replica_set import ReplicaSet
from sordini.storage import follower_append
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.log import Log
from tests.sim.cluster.plan import ClusterScenario, without_transactions


class Bug(NamedTuple):
    """A change of one attribute of the product, and how many seeds may pass before it is found."""

    name: str
    target: Any
    attribute: str
    change: Callable[[Any], Any]
    """Gets the present value, returns its replacement."""
    seeds_max: int = 30
    needs: Callable[[ClusterScenario], bool] = lambda _: True
    """Which seeds can find it at all: those that lose their power, say, or speak an old protocol."""

    more: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = ()
    """What else has to be changed, where one mistake alone is caught by a second guard."""

    scenario: Callable[[int], ClusterScenario] = without_transactions

    @property
    def seeds(self) -> list[int]:
        fitting = (seed for seed in itertools.count() if self.needs(self.scenario(seed)))
        return list(itertools.islice(fitting, self.seeds_max))


def _advance_to_the_fastest(_right: Any) -> Any:
    def advance(self: Leader) -> bool:
        highest = max(self._ends.values())
        if highest <= self.high_watermark:
            return False
        self.high_watermark = highest
        return True

    return advance


def _grant_oneself(_right: Any) -> Any:
    def propose(self: Any, _partition: Any, _topic_id: Any, proposal: Any, answered: Any) -> None:
        del self
        answered(IsrGrant(proposal.leader_epoch, proposal.isr, proposal.partition_epoch + 1))

    return propose


def _write_whatever_is_there(_right: Any) -> Any:
    async def verdict(self: Any, change: Any) -> Any:
        path, isr = paths.state(change.topic_partition), change.proposal.isr
        data, _ = await self._session.get(path)
        state = znodes.decode_state(change.topic_partition, data)
        assert not isinstance(state, Malformed)
        stat = await self._session.set(path, znodes.encode_state(state._replace(isr=isr)))
        return IsrGrant(change.proposal.leader_epoch, isr, stat.version)

    return verdict


def _shrink_at_once(right: Any) -> Any:
    def propose(self: Leader, isr: Any) -> Any:
        proposal = right(self, isr)
        for member in [member for member in self._ends if member not in isr]:
            del self._ends[member]
        return proposal

    return propose


def _believe_any_epoch(right: Any) -> Any:
    return lambda self, _current=-1: right(self)


def _cut_to_the_watermark(right: Any) -> Any:
    def follow(self: Partition, *arguments: Any, **more: Any) -> None:
        self.log.truncate_to(self.log.high_watermark, 0)
        right(self, *arguments, **more)

    return follow


def _never_part(_right: Any) -> Any:
    return lambda _position, _epochs, _end: None


def _end_every_epoch_at_the_log_end(_right: Any) -> Any:
    def end_offset(self: EpochCache, requested: int, log_end_offset: int) -> tuple[int, int]:
        del self
        return requested, log_end_offset

    return end_offset


def _join_from_anywhere(_right: Any) -> Any:
    def may_join(self: Leader, broker_id: Any) -> bool:
        replica = self.replicas.get(broker_id)
        return self.proposal is None and broker_id not in self.isr and replica is not None and replica.end_offset >= 0

    return may_join


def _obey_any_epoch(right: Any) -> Any:
    def become(self: ReplicaSet, info: Any) -> None:
        known = self.get(*info.topic_partition)
        if known is not None and info.state.leader_epoch != known.leader_epoch:
            known.leader_epoch = LeaderEpoch(-1)
        right(self, info)

    return become


def _append_from_any_leader(right: Any) -> Any:
    def take(partition: Partition, _follower: Any, *answer: Any) -> int:
        taken: int = right(partition, partition.follower, *answer) if partition.follower is not None else 0
        return taken

    return take


def _nothing(_right: Any) -> Any:
    return lambda *_arguments, **_more: None


async def _at_once(*_arguments: Any) -> None:
    """Does nothing."""


def _begin_as_known(right: Any) -> Any:
    """Positions of other replicas in the last term count in this one."""

    def lead(self: Partition, broker_id: Any, term: Any, now_ms: int) -> None:
        right(self, broker_id, term, now_ms)
        leader = self.leader
        assert leader is not None
        leader.high_watermark = self.log.high_watermark = self.log.log_end_offset

    return lead


def _flushes(plan: ClusterScenario) -> bool:
    return any(config.get("flush.messages") for config in plan.topic_configs.values())


BUGS: tuple[Bug, ...] = (
    Bug("the watermark follows the fastest replica", Leader, "_advance", _advance_to_the_fastest),
    Bug(
        "acks=all is answered upon the leader's own append",
        PartitionAppend,
        "is_committed",
        lambda _: property(lambda _: True),
    ),
    Bug(
        "consumers read to the log's end",
        Partition,
        "readable_end",
        lambda _: lambda self, **_more: self.require_leader() and self.log.log_end_offset,
    ),
    Bug(
        "an in-sync set changes without being granted",
        PendingIsrChanges,
        "propose",
        _grant_oneself,
        needs=lambda plan: not plan.versions.alters_isr_in_store,
    ),
    Bug(
        "an in-sync set is written over whatever is there",
        IsrInStore,
        "_verdict",
        _write_whatever_is_there,
        needs=lambda plan: plan.versions.alters_isr_in_store,
    ),
    Bug("a shrinking in-sync set counts before it is granted", Leader, "_propose", _shrink_at_once, seeds_max=100),
    Bug("a replica joins the in-sync set from anywhere", Leader, "may_join", _join_from_anywhere),
    Bug("a fetch of another leader epoch is served", Partition, "require_leader", _believe_any_epoch, seeds_max=100),
    Bug(
        "a new follower cuts its log at the watermark",
        Partition,
        "become_follower",
        _cut_to_the_watermark,
        seeds_max=100,
    ),
    Bug("a leader never says where logs part", partitions, "find_divergence", _never_part),
    Bug("every epoch ends at the log's end", EpochCache, "end_offset", _end_every_epoch_at_the_log_end),
    Bug("a LeaderAndIsr of an older leader epoch is obeyed", ReplicaSet, "become_leader_or_follower", _obey_any_epoch),
    Bug("commands of the past are obeyed", CommandReceiver, "_refusal", _nothing, seeds_max=300),
    Bug(
        "records of a former leader are taken",
        partition_results,
        "append_fetched_records",
        _append_from_any_leader,
        150,
        more=(
            (tail_rounds, "append_fetched_records", _append_from_any_leader),
            (ReplicaFetcher, "remove", lambda _: lambda *_arguments, **_more: False),
            (FetchedPartitions, "is_stale", lambda _: lambda *_arguments: False),
        ),
    ),
    Bug("a new leader takes its whole log for committed", Partition, "become_leader", _begin_as_known),
    Bug("who waits for the watermark waits on in the next term", PendingCommits, "fail", _nothing, seeds_max=100),
    Bug(
        "a follower notes no producers",
        follower_append,
        "appending",
        lambda right: SimpleNamespace(**{**vars(right), "note_producers": _nothing(right)}),
    ),
    Bug("a follower notes no leader epochs", follower_append, "_note_epoch", _nothing),
    Bug(
        "a follower asks for more before it has flushed", PartitionResults, "flush", lambda _: _at_once, needs=_flushes
    ),
    Bug("a new leader enters no epoch", Log, "assign_epoch", _nothing, seeds_max=100),
)


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The product with a bug in it."""
    with contextlib.ExitStack() as undo:
        for target, attribute, change in ((bug.target, bug.attribute, bug.change), *bug.more):
            right = target.__dict__[attribute]
            undo.callback(setattr, target, attribute, right)
            setattr(target, attribute, change(right))
        yield
