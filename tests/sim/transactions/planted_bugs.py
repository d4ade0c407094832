"""Bugs of transactions that the cluster's simulation must find (see `tests/sim/cluster/planted_bugs.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sordini.broker.coordinators.newest_connection import NewestConnections
from sordini.broker.groups import shard_offsets
from sordini.broker.groups.shard_offsets import ShardOffsets
from sordini.broker.transactions import local_markers, marker_sender, txn_markers_handler
from sordini.broker.transactions.machine import completion, init_producer_id, machine, timeouts
from sordini.broker.transactions.machine.events import ProducerIdentity, TransactionWrite
from sordini.broker.transactions.machine.state import TransactionState
from sordini.broker.transactions.machine.transition import markers_of
from sordini.broker.transactions.transaction_end import MarkerVerdict, TransactionEnd
from sordini.broker.transactions.verification import TransactionGate
from sordini.protocol.errors import ErrorCode
from sordini.storage import follower_append, producer_replay, truncation
from sordini.storage.last_stable_offset import UnstableTransactions
from sordini.storage.producer_state import ProducerState
from tests.sim.cluster.plan import ClusterScenario, cluster_scenario
from tests.sim.cluster.planted_bugs import Bug


def _send_markers_at_once(right: Any) -> Any:
    def end(*arguments: Any) -> Any:
        after, actions = right(*arguments)
        return after, [
            *actions,
            *(markers_of(after.pending) for action in actions if isinstance(action, TransactionWrite)),
        ]

    return end


def _give_up_moved_partitions(right: Any) -> Any:
    return lambda code: MarkerVerdict.DONE if code == ErrorCode.NOT_LEADER_OR_FOLLOWER else right(code)


def _resume_nothing(_right: Any) -> Any:
    return lambda _transaction: []


def _abort_what_was_to_be_committed(right: Any) -> Any:
    def restored(transactional_id: str, value: Any) -> Any:
        transaction = right(transactional_id, value)
        if transaction.state is TransactionState.PREPARE_COMMIT:
            return replace(transaction, state=TransactionState.PREPARE_ABORT)
        return transaction

    return restored


def _complete_with_the_first_marker(right: Any) -> Any:
    def done(self: TransactionEnd, partitions: Iterable[Any]) -> None:
        right(self, set(self.remaining) if list(partitions) else ())

    return done


def _keep_the_epoch(right: Any) -> Any:
    """Of a transaction that the coordinator aborts."""

    def aborted(transaction: Any, now_ms: int, *reply: Any) -> Any:
        after, actions = right(transaction, now_ms, *reply)
        epoch = transaction.producer_epoch
        written = [
            action._replace(value=action.value._replace(producer_epoch=epoch))
            if isinstance(action, TransactionWrite)
            else action
            for action in actions
        ]
        return replace(after, pending=replace(after.pending, producer_epoch=epoch)), written

    return aborted


def _give_the_epoch_of_the_predecessor(right: Any) -> Any:
    def next_producer(transaction: Any, event: Any) -> Any:
        producer, last_epoch = right(transaction, event)
        if transaction.is_known and producer.producer_id == transaction.producer_id:
            return ProducerIdentity(producer.producer_id, max(transaction.producer_epoch, 0)), last_epoch
        return producer, last_epoch

    return next_producer


def _apply_at_the_append(_right: Any) -> Any:
    def commit(self: Any, producer: Any, group_id: str, offsets: Any, on_done: Any) -> bool:
        def apply() -> None:
            self._memory.commit_offsets(self._table(group_id), offsets)

        written: bool = self._journal.append(shard_offsets._lines(group_id, offsets), apply, on_done, producer)
        return written

    return commit


def _note_producers_only(_right: Any) -> Any:
    def note(log: Any, segment: Any, buffer: Any, batches: Any, base: int) -> None:
        producer_replay.apply_appended(log.producers, buffer, batches, base)
        segment.transactions.is_checked = True

    return SimpleNamespace(**{**vars(_right), "note_producers": note})


def _nothing_open(_right: Any) -> Any:
    return lambda _self, _high_watermark: None


def _any_connection(_right: Any) -> Any:
    return lambda _self, _key, _connection, **_more: True


def _admit_everything(_right: Any) -> Any:
    return lambda *_arguments: True


def _verify_nothing(_right: Any) -> Any:
    return lambda *_arguments: None


def _no_producers(_right: Any) -> Any:
    return lambda _log: ProducerState()


def _take_for_committed(_right: Any) -> Any:
    return lambda _appends, **_more: None


def has_transactions(plan: ClusterScenario) -> bool:
    """Whether a seed can find any of these."""
    return plan.has_transactions


def _bug(name: str, target: Any, attribute: str, change: Any, seeds_max: int = 30, more: Any = ()) -> Bug:
    return Bug(name, target, attribute, change, seeds_max, has_transactions, more, cluster_scenario)


TRANSACTION_BUGS: tuple[Bug, ...] = (
    _bug("markers are sent before the prepared state is committed", completion, "end", _send_markers_at_once, 60),
    _bug(
        "a marker is not sent again to a partition whose leader has changed",
        marker_sender,
        "verdict_of",
        _give_up_moved_partitions,
        60,
    ),
    _bug(
        "the last stable offset ignores open transactions",
        UnstableTransactions,
        "first_unstable_offset",
        _nothing_open,
    ),
    _bug(
        "followers write no index of aborted transactions",
        follower_append,
        "appending",
        _note_producers_only,
        60,
    ),
    _bug(
        "appends of transactions are not verified",
        TransactionGate,
        "begin",
        _verify_nothing,
        60,
        more=(
            (TransactionGate, "check", _verify_nothing),
            (TransactionGate, "admits_at_once", _admit_everything),
        ),
    ),
    _bug("a new coordinator does not resume prepared transactions", machine, "resume", _resume_nothing),
    _bug(
        "a successor is given the epoch of its predecessor",
        init_producer_id,
        "_next_producer",
        _give_the_epoch_of_the_predecessor,
    ),
    _bug(
        "a transaction that times out does not end its producer's epoch",
        timeouts,
        "aborted_and_fenced",
        _keep_the_epoch,
        60,
    ),
    _bug(
        "offsets of a transaction are applied when they are appended",
        ShardOffsets,
        "commit_in_transaction",
        _apply_at_the_append,
    ),
    _bug("a prepared commit is an abort after it is loaded", machine, "restored", _abort_what_was_to_be_committed, 60),
    _bug(
        "a transaction is completed with its first marker",
        TransactionEnd,
        "done",
        _complete_with_the_first_marker,
        60,
    ),
    _bug(
        "markers are taken for committed when they are appended",
        local_markers,
        "finish_appends",
        _take_for_committed,
        60,
        more=((txn_markers_handler, "finish_appends", _take_for_committed),),
    ),
    _bug("a truncation forgets the producers", truncation, "_producers_at_end", _no_producers, 60),
    _bug(
        "requests on an older connection than the producer's newest are served",
        NewestConnections,
        "admit",
        _any_connection,
        60,
        more=((NewestConnections, "is_older", lambda _: lambda _self, _key, _connection: False),),
    ),
)
