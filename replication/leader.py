"""The state of a partition's leader: its in-sync set, how far each replica is, and the high watermark.

Pure: no clock, no network, no log. On the hot path, hence a mutable object whose methods return what follows. One
object is one term: a new leader epoch begins with a new object that knows nothing of the other replicas' log ends, so
only fetches of this epoch advance the watermark (KIP-320).

Changes of the in-sync set are proposals, which the controller (or a conditional write to the store) grants
(`controller/machine/isr_changes.py`). While one is in flight the *maximal* in-sync set holds the watermark: the larger
of the one in force and the proposed one.

Invariants, held after every call:
  - the high watermark never moves back while this leader leads;
  - high_watermark <= the end offset of every replica of the maximal in-sync set;
  - the leader itself is in the in-sync set;
  - at most one proposal is in flight, and it names the partition epoch that it was made on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.system.named_tuple import NamedTuple

UNKNOWN_OFFSET = Offset(-1)
NEVER_MS = -(1 << 62)
"""Before all times of any clock."""


class Term(NamedTuple):
    """The state of one partition in a LeaderAndIsr."""

    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    partition_epoch: int = 0


class IsrProposal(NamedTuple):
    """An in-sync set that is to replace the one of `partition_epoch`."""

    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int
    """The version of the partition's state node that this is based on."""
    broker_epochs: tuple[int, ...]
    """The broker epoch in which each of `isr` last fetched; -1 where it is unknown (KIP-903)."""


class ReplicaProgress:
    """A replica on another broker, by its fetches in this term."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end",
        "refused_epoch",
        "refused_ms",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.broker_epoch = -1
        self.caught_up_ms = caught_up_ms
        """When it last had everything that the leader had then."""
        self.fetched_ms = NEVER_MS
        self.leader_end = UNKNOWN_OFFSET
        """The leader's log end offset at its last fetch."""
        self.refused_epoch: int | None = None
        """The broker epoch in which the controller refused it for the in-sync set; None when it may be proposed."""
        self.refused_ms = NEVER_MS


class Leader:
    """One term of leading one partition."""

    __slots__ = (
        "_ends",
        "_lag_ms_max",
        "broker_id",
        "epoch_start_offset",
        "high_watermark",
        "isr",
        "leader_epoch",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        term: Term,
        *,
        high_watermark: Offset,
        log_end_offset: Offset,
        now_ms: int = 0,
        lag_ms_max: int = 30_000,
    ) -> None:
        """Begin a term. `now_ms` is on the monotonic clock; `lag_ms_max` is replica.lag.time.max.ms.

        The in-sync replicas are taken as caught up now, so that each has `lag_ms_max` for its first fetch.
        """
        self.broker_id = broker_id
        self.leader_epoch = term.leader_epoch
        self.partition_epoch = term.partition_epoch
        self.isr = tuple(term.isr)
        assert broker_id in self.isr, f"leader {broker_id} is not in its in-sync set"
        self.epoch_start_offset = log_end_offset
        self.proposal: IsrProposal | None = None
        self._lag_ms_max = lag_ms_max
        self.replicas = {
            other: ReplicaProgress(now_ms if other in self.isr else NEVER_MS)
            for other in dict.fromkeys([*self.isr, *term.replicas])
            if other != broker_id
        }
        # The replicas that hold the watermark: the maximal in-sync set, and replicas about to join it.
        self._ends: dict[BrokerId, Offset] = dict.fromkeys(self.isr, Offset(0))
        self._ends[broker_id] = log_end_offset
        self.high_watermark = Offset(min(high_watermark, log_end_offset))
        self._advance()

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        """The replicas that are in sync, or will be when the proposal in flight is granted."""
        proposal = self.proposal
        return self.isr if proposal is None or len(proposal.isr) < len(self.isr) else proposal.isr

    # The log and the followers advance.

    def appended(self, log_end_offset: Offset) -> bool:
        """The leader's own log grew, or more of it was flushed; returns whether the high watermark moved."""
        ends = self._ends
        ends[self.broker_id] = log_end_offset
        if len(ends) > 1:
            return self._advance()
        # Alone in sync its own log decides: so it is for every append on a single broker.
        if log_end_offset <= self.high_watermark:
            return False
        self.high_watermark = log_end_offset
        return True

    def fetched(
        self,
        broker_id: BrokerId,
        fetch_offset: Offset,
        log_end_offset: Offset,
        now_ms: int,
        *,
        log_start_offset: Offset = UNKNOWN_OFFSET,
        broker_epoch: int = -1,
        is_registered: bool = True,
    ) -> bool:
        """A follower in this epoch fetches from `fetch_offset`, so it has everything below.

        `log_end_offset` is the leader's; `is_registered`, whether the follower's broker is registered, as far as is
        known. Returns whether the high watermark moved. The caller has checked that the follower is an assigned replica
        and that its fetch is one of this epoch.
        """
        replica = self.replicas[broker_id]
        if replica.refused_epoch is not None and (
            broker_epoch != replica.refused_epoch or now_ms - replica.refused_ms >= self._lag_ms_max
        ):
            replica.refused_epoch = None
        if fetch_offset >= log_end_offset:
            replica.caught_up_ms = now_ms
        elif fetch_offset >= replica.leader_end > UNKNOWN_OFFSET and replica.fetched_ms > replica.caught_up_ms:
            # It has all that the leader had at its previous fetch: it keeps up, although it never has the last record.
            replica.caught_up_ms = replica.fetched_ms
        replica.end_offset = fetch_offset
        replica.start_offset = log_start_offset
        replica.broker_epoch = broker_epoch
        replica.fetched_ms = now_ms
        replica.leader_end = log_end_offset
        ends = self._ends
        if broker_id not in ends:
            if not is_registered or replica.refused_epoch is not None or not self._keeps_up(replica, now_ms):
                return False
            # Not in sync yet, but close: it holds the watermark, or it would never reach the watermark under load.
            ends[broker_id] = fetch_offset
            return False
        ends[broker_id] = fetch_offset
        return fetch_offset > self.high_watermark and self._advance()

    def _keeps_up(self, replica: ReplicaProgress, now_ms: int) -> bool:
        return now_ms - replica.caught_up_ms <= self._lag_ms_max

    def _advance(self) -> bool:
        lowest = min(self._ends.values())
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    # Changes of the in-sync set.

    def may_join(self, broker_id: BrokerId) -> bool:
        """Whether a replica that is not in sync has caught up, and no proposal is in flight.

        It has caught up when it has the high watermark *and* the start of this epoch: below that it may still have to
        truncate. One that was refused (its broker stops, or its disk failed) may join after `clear_refusals`, in
        another broker epoch, or `lag_ms_max` later.
        """
        if self.proposal is not None or broker_id in self.isr:
            return False
        replica = self.replicas.get(broker_id)
        if replica is None or replica.refused_epoch is not None:
            return False
        # The watermark alone is not enough: `make model` finds the harm (docs/evidence/mutants.md).
        return replica.end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def clear_refusals(self) -> None:
        """The cluster has changed: replicas that were refused may be eligible now."""
        for replica in self.replicas.values():
            replica.refused_epoch = None

    def expand(self, broker_id: BrokerId) -> IsrProposal:
        """Propose to add a replica that `may_join`."""
        assert self.may_join(broker_id), f"replica {broker_id} may not join {self.isr}"
        replica = self.replicas[broker_id]
        self._ends[broker_id] = replica.end_offset
        return self._propose((*self.isr, broker_id))

    def shrink(self, now_ms: int, is_registered: Callable[[BrokerId], bool] = lambda _: True) -> IsrProposal | None:
        """Propose to remove replicas that were not caught up for `lag_ms_max`; None when there are none.

        Also called when brokers have failed: a replica that holds the watermark because it is about to join the in-sync
        set, but lags or is not registered any more, no longer holds it.
        """
        # Without this the watermark waited for a replica whose broker had left: after an orderly stop under load,
        # writes hung for replica.lag.time.max.ms.
        for broker_id in self._ends.keys() - set(self.maximal_isr):
            if not is_registered(broker_id) or not self._keeps_up(self.replicas[broker_id], now_ms):
                del self._ends[broker_id]
        if self.proposal is not None:
            return None
        end = self._ends[self.broker_id]
        kept = tuple(member for member in self.isr if member == self.broker_id or not self._lags(member, end, now_ms))
        return None if len(kept) == len(self.isr) else self._propose(kept)

    def _lags(self, broker_id: BrokerId, log_end_offset: Offset, now_ms: int) -> bool:
        replica = self.replicas[broker_id]
        return replica.end_offset < log_end_offset and not self._keeps_up(replica, now_ms)

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        epochs = tuple(-1 if member == self.broker_id else self.replicas[member].broker_epoch for member in isr)
        self.proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch, epochs)
        return self.proposal

    def granted(self, proposal: IsrProposal, isr: Iterable[BrokerId], partition_epoch: int) -> bool:
        """The in-sync set is now `isr`, in this leader epoch; returns whether the high watermark moved.

        An answer to another proposal than the one in flight, or with an older partition epoch, changes nothing. A
        replica that was proposed and is not in `isr` was refused: below AlterPartition version 2 a controller may
        refuse by answering with the in-sync set in force.
        """
        if proposal is not self.proposal or partition_epoch < self.partition_epoch:
            return False
        return self._end_proposal(proposal, tuple(isr), partition_epoch)

    def ineligible(self, proposal: IsrProposal) -> bool:
        """The proposal was refused, and certainly not carried out; returns whether the high watermark moved."""
        if proposal is not self.proposal:
            return False
        return self._end_proposal(proposal, self.isr, self.partition_epoch)

    def _end_proposal(self, proposal: IsrProposal, isr: tuple[BrokerId, ...], partition_epoch: int) -> bool:
        """End the proposal: `isr` is in force, and a proposed member that is not in it was refused."""
        assert self.broker_id in isr, f"leader {self.broker_id} is not in its in-sync set {isr}"
        self.proposal = None
        self.isr, self.partition_epoch = isr, partition_epoch
        for member, broker_epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member not in isr:
                replica = self.replicas[member]
                # Noted, or it would be proposed again with each of its fetches.
                replica.refused_epoch, replica.refused_ms = broker_epoch, replica.fetched_ms
        ends = self._ends
        for broker_id in [member for member in ends if member not in isr]:
            del ends[broker_id]
        for broker_id in isr:
            if broker_id not in ends:
                ends[broker_id] = max(self.replicas[broker_id].end_offset, Offset(0))
        return self._advance()
