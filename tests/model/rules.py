"""What one replica does, decided by the product: `Leader`, `Follower` and `EpochCache` are built from a copy's tuple,
called, and read back into a tuple. What is not in a decider (the fence, the log) is a line or two here.

Time is not in the model. Whatever depends on elapsed time may come out either way: every subset of the
replicas may be slow when the leader shrinks the in-sync set, and a replica outside of the in-sync set may or may not
count as keeping up.

Steps are yielded as (what was done, the copies after it). Rules that are wrong on purpose are subclasses
(`variants.py`, `planted.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower import EpochEndRequest, Follower, follower_high_watermark
from sordini.replication.follower_truncation import EpochEnd, FetchPosition, find_divergence, start_when_out_of_range
from sordini.replication.leader import NEVER_MS, IsrProposal, Leader, Term
from sordini.storage.epoch_cache import UNDEFINED_EPOCH, EpochCache
from tests.model.explore import Did
from tests.model.state import (
    ALL_REPLICAS,
    NO_LEADER,
    NONE,
    REPLICAS,
    Answer,
    Ask,
    Command,
    Copy,
    Following,
    Leading,
    Shared,
    mask_of,
    members,
)

LAG_MS = 10
NOW_MS = 1000


class Scope(NamedTuple):
    """What is explored: the whole protocol at once has too many states, so each scope covers a part of it completely."""

    name: str
    epochs: int
    records: int
    """Maximum per log; the number of appends in total is bounded by the epochs only."""
    is_isr_at_once: bool = True
    """A change of the in-sync set is proposed, carried out or refused, and answered in one step."""
    is_exchange_at_once: bool = True
    """A request, its response and the effect of that are one step."""
    truncates_before_fetch: bool = False
    """Followers truncate by OffsetForLeaderEpoch before their first fetch, as protocols before 2.7-IV1; else by the
    diverging epoch in the answer to a fetch."""
    may_restart: bool = False
    """A replica may lose its terms and register again: killed and started, or its session expired. It is sent the
    state node as it is, in any epoch, and nothing that was sent or proposed before is delivered."""
    may_be_cut: bool = False
    """A leader may be cut off from the store for any time: it receives nothing, and no proposal is granted or refused. It
    stays leader. When it reaches the store again its session is valid, or it registers again and is sent the state
    node; in its own leader epoch that changes nothing."""


ELECTIONS = Scope("elections", epochs=3, records=2)
ASKED = Scope("epochs asked for", epochs=3, records=2, truncates_before_fetch=True)
PROPOSALS = Scope("proposals in flight", epochs=2, records=2, is_isr_at_once=False)
QUESTIONS = Scope("questions in flight", epochs=2, records=2, is_exchange_at_once=False)
ASKED_QUESTIONS = QUESTIONS._replace(name="questions for epochs in flight", truncates_before_fetch=True)
RESTARTS = Scope("restarts", epochs=2, records=2, may_restart=True)
OUTAGES = Scope("leaders cut off from the store", epochs=2, records=1, is_isr_at_once=False, may_be_cut=True)
SCOPES = (ASKED, ELECTIONS, QUESTIONS, ASKED_QUESTIONS, PROPOSALS, RESTARTS, OUTAGES)


class Rules:
    """KIP-320, as the product has it."""

    leader_type: type[Leader] = Leader
    follower_type: type[Follower] = Follower

    def __init__(self, scope: Scope = ELECTIONS) -> None:
        self.scope = scope

    # From tuples to deciders, and back.

    def leader_of(self, copy: Copy, me: int, slow: int = 0) -> Leader:
        """The decider of this copy. Replicas in `slow` (a mask) are past the maximum lag."""
        role = copy.role
        assert isinstance(role, Leading)
        leader = self.leader_type(
            BrokerId(me),
            Term(LeaderEpoch(copy.epoch), members(role.isr), REPLICAS, role.partition_epoch),
            high_watermark=Offset(0),
            log_end_offset=Offset(0),
            now_ms=NOW_MS,
            lag_ms_max=LAG_MS,
        )
        leader.high_watermark = Offset(copy.high_watermark)
        leader.epoch_start_offset = Offset(role.epoch_start)
        for broker_id, replica in leader.replicas.items():
            replica.end_offset = Offset(role.ends[broker_id])
            replica.caught_up_ms = NEVER_MS if slow >> broker_id & 1 else NOW_MS
        holding = role.isr | role.proposed | role.holders
        leader._ends = {BrokerId(member): Offset(max(role.ends[member], 0)) for member in members(holding)}
        leader._ends[BrokerId(me)] = Offset(len(copy.log))
        if role.proposed:
            isr = tuple(BrokerId(member) for member in members(role.proposed))
            epoch = LeaderEpoch(copy.epoch)
            leader.proposal = IsrProposal(isr, epoch, role.partition_epoch, (-1,) * len(isr))
        return leader

    def led_by(self, leader: Leader, copy: Copy, *, is_granted: bool = False) -> Copy:
        """The copy with the state of this leader."""
        proposed = 0 if leader.proposal is None else mask_of(leader.proposal.isr)
        isr = mask_of(leader.isr)
        ends = [NONE, NONE, NONE]
        for broker_id, replica in leader.replicas.items():
            ends[broker_id] = replica.end_offset
        # The tuple holds every end once: the decider must not hold two values for one.
        for broker_id, end in leader._ends.items():
            assert broker_id == leader.broker_id or end == max(ends[broker_id], 0), (broker_id, leader._ends, ends)
        holders = mask_of(leader._ends) & ~(isr | proposed)
        role = Leading(
            isr,
            proposed,
            is_granted,
            leader.partition_epoch,
            (ends[0], ends[1], ends[2]),
            holders,
            leader.epoch_start_offset,
        )
        return copy._replace(role=role, high_watermark=leader.high_watermark)

    def follower_of(self, copy: Copy) -> Follower:
        role = copy.role
        assert isinstance(role, Following)
        follower = self.follower_type(
            BrokerId(role.leader), LeaderEpoch(copy.epoch), truncates_before_fetch=self.scope.truncates_before_fetch
        )
        follower._needs_epoch_end = role.needs_epoch_end
        return follower

    # The controller, and its command.

    def electable(self, isr: int) -> Iterator[tuple[int, int]]:
        """Every (leader, in-sync set) after this set: any member, with any subset of the others."""
        for left in range(1, ALL_REPLICAS + 1):
            if not left & ~isr:
                for leader in members(left):
                    yield leader, left

    def accepts(self, epoch: int, copy: Copy) -> bool:
        """Whether a LeaderAndIsr of that epoch begins a term."""
        return epoch > copy.epoch

    def is_stale(self, epoch: int, epoch_min: int) -> bool:
        """Whether no replica accepts a command of that epoch, once all replicas have reached `epoch_min`."""
        return epoch <= epoch_min

    def is_over(self, epoch: int, epoch_of_leader: int) -> bool:
        """Whether the leader of an epoch never answers in it again, because it is in another epoch."""
        return epoch_of_leader > epoch

    def commanded(self, copy: Copy, me: int, epoch: int, command: Command) -> Copy:
        if command.leader != me:
            role = Following(command.leader, needs_epoch_end=self.scope.truncates_before_fetch)
            return self.cut_when_commanded(copy._replace(epoch=epoch, role=role))
        epochs = EpochCache(copy.entries)
        epochs.assign(epoch, len(copy.log))
        leader = self.leader_type(
            BrokerId(me),
            Term(LeaderEpoch(epoch), members(command.isr), REPLICAS, -1 if epoch == copy.epoch else 0),
            high_watermark=Offset(self.watermark_of_term(copy)),
            log_end_offset=Offset(len(copy.log)),
            now_ms=NOW_MS,
            lag_ms_max=LAG_MS,
        )
        return self.led_by(leader, copy._replace(epoch=epoch, entries=tuple(epochs.entries)))

    def watermark_of_term(self, copy: Copy) -> int:
        """The high watermark of a new leader before the first fetch."""
        return copy.high_watermark

    def cut_when_commanded(self, copy: Copy) -> Copy:
        """What becoming a follower does to the log: nothing."""
        return copy

    def restarted(self, copy: Copy, me: int, shared: Shared) -> Iterator[Copy]:
        """A replica after a restart, with its log and a high watermark checkpoint of any age."""
        for noted in range(copy.high_watermark + 1):
            fresh = copy._replace(epoch=NONE, high_watermark=noted, role=Following(NO_LEADER, needs_epoch_end=False))
            yield self.commanded(fresh, me, shared.epoch, Command(shared.leader, shared.isr))

    def registered_again(self, copy: Copy, me: int, shared: Shared) -> Copy:
        """A replica whose session expired while it was cut off: it keeps its role unless the state node has a newer epoch."""
        if not self.accepts(shared.epoch, copy):
            return copy
        return self.commanded(copy, me, shared.epoch, Command(shared.leader, shared.isr))

    # Steps of the leader alone.

    def leads(self, copy: Copy, me: int) -> Iterator[tuple[Did, Copy]]:
        """All that this leader may do by itself: append, and change the in-sync set."""
        role = copy.role
        assert isinstance(role, Leading)
        if len(copy.log) < self.scope.records:
            grown = copy._replace(log=(*copy.log, copy.epoch))
            leader = self.leader_of(grown, me)
            leader.appended(Offset(len(grown.log)))
            yield ("appends", me), self.led_by(leader, grown, is_granted=role.is_granted)
        for other in REPLICAS:
            leader = self.leader_of(copy, me)
            if other != me and leader.may_join(BrokerId(other)):
                leader.expand(BrokerId(other))
                yield ("proposes", me, other), self.led_by(leader, copy)
        for slow in range(1, 8):
            if not slow >> me & 1:
                leader = self.leader_of(copy, me, slow)
                leader.shrink(NOW_MS)
                after = self.led_by(leader, copy, is_granted=role.is_granted)
                if after != copy:
                    yield ("finds slow", me, slow), after
        if role.proposed:
            leader = self.leader_of(copy, me)
            assert leader.proposal is not None
            if role.is_granted:
                leader.granted(leader.proposal, leader.proposal.isr, role.partition_epoch + 1)
                assert leader.partition_epoch == role.partition_epoch + 1
                leader.partition_epoch = role.partition_epoch  # Counted from zero again, with the state node's.
                yield ("receives the grant", me, copy.epoch), self.led_by(leader, copy)
            else:
                leader.ineligible(leader.proposal)
                yield ("is refused", me), self.led_by(leader, copy)

    def grants(self, copy: Copy, me: int, shared: Shared) -> bool:
        """Whether this leader's proposal is granted if it arrives now."""
        role = copy.role
        assert isinstance(role, Leading)
        return (me, copy.epoch, role.partition_epoch) == (shared.leader, shared.epoch, shared.version)

    # A follower's request, and its effect.

    def asks(self, copy: Copy) -> Ask | None:
        role = copy.role
        assert isinstance(role, Following)
        question = self.follower_of(copy).next_request(EpochCache(copy.entries), Offset(len(copy.log)))
        if question is None:
            return None
        if isinstance(question, EpochEndRequest):
            return Ask(role.leader, question.leader_epoch, NONE, question.requested_epoch, is_fetch=False)
        epoch = (
            NONE if self.scope.truncates_before_fetch else question.last_fetched_epoch
        )  # Fetch below version 12 has no field.
        return Ask(role.leader, question.leader_epoch, question.fetch_offset, epoch, is_fetch=True)

    def is_answered(self, ask: Ask, copy: Copy) -> bool:
        """Whether a leader answers a request without an error: only in its own epoch."""
        return ask.leader_epoch == copy.epoch

    def answers(self, copy: Copy, me: int, ask: Ask, asking: int) -> Iterator[tuple[Answer, Copy]]:
        """Every response a leader may give: fetches differ in how many records fit, and in which followers are caught up."""
        epochs, end = EpochCache(copy.entries), len(copy.log)
        if not ask.is_fetch:
            ended = self.epoch_end(epochs, ask.last_fetched_epoch, end)
            yield Answer(ask.leader_epoch, NONE, (), 0, ended), copy
            return
        try:
            parted = self.parted(ask, epochs, end)
            is_outside = parted is None and ask.fetch_offset > end
        except BrokerError:  # The leader does not know so new an epoch.
            parted, is_outside = None, True
        if is_outside:
            start = start_when_out_of_range(Offset(0), Offset(end), Offset(ask.fetch_offset))
            yield Answer(ask.leader_epoch, ask.fetch_offset, (), 0, (NONE, start.offset)), copy
            return
        if parted is not None:
            yield Answer(ask.leader_epoch, ask.fetch_offset, (), 0, parted), self.when_diverged(copy, me, ask, asking)
            return
        for noted in sorted({self.noted(copy, me, ask, asking, slow=slow) for slow in (0, 1 << asking)}):
            records = copy.log[ask.fetch_offset :]
            for count in range(1, len(records) + 1) if records else (0,):
                yield Answer(ask.leader_epoch, ask.fetch_offset, records[:count], noted.high_watermark, None), noted

    def parted(self, ask: Ask, epochs: EpochCache, log_end_offset: int) -> tuple[int, int] | None:
        """The divergence of a follower's log from the leader's, if any."""
        if ask.last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        position = FetchPosition(Offset(ask.fetch_offset), LeaderEpoch(ask.leader_epoch), ask.last_fetched_epoch)
        return find_divergence(position, epochs, Offset(log_end_offset))

    def epoch_end(self, epochs: EpochCache, asked: int, log_end_offset: int) -> tuple[int, int]:
        """The answer to OffsetForLeaderEpoch."""
        return epochs.end_offset(asked, log_end_offset)

    def noted(self, copy: Copy, me: int, ask: Ask, asking: int, *, slow: int) -> Copy:
        """The leader after it recorded the fetch position of a follower."""
        role = copy.role
        assert isinstance(role, Leading)
        leader = self.leader_of(copy, me, slow)
        leader.fetched(BrokerId(asking), Offset(ask.fetch_offset), Offset(len(copy.log)), NOW_MS)
        return self.led_by(leader, copy, is_granted=role.is_granted)

    def when_diverged(self, copy: Copy, me: int, ask: Ask, asking: int) -> Copy:
        """The leader after a fetch from a diverged log: the position is not recorded."""
        return copy

    def is_of_this_term(self, answer: Answer, copy: Copy) -> bool:
        return isinstance(copy.role, Following) and answer.leader_epoch == copy.epoch

    def takes(self, copy: Copy, answer: Answer) -> Copy:
        """A follower after an answer of its term."""
        role = copy.role
        assert isinstance(role, Following)
        if answer.diverging is not None:
            epochs, end = EpochCache(copy.entries), Offset(len(copy.log))
            follower = self.follower_of(copy)
            cut = follower.truncation_offset(EpochEnd(*answer.diverging), epochs, end, Offset(copy.high_watermark))
            return self.cut(copy, cut)._replace(role=role._replace(needs_epoch_end=follower._needs_epoch_end))
        if answer.fetch_offset != len(copy.log):
            return copy  # The log end offset has changed since.
        epochs, log = EpochCache(copy.entries), copy.log
        for epoch in answer.records:
            epochs.assign(epoch, len(log))
            log = (*log, epoch)
        high_watermark = self.watermark(copy.high_watermark, answer.high_watermark, len(log))
        asked = role._replace(needs_epoch_end=False)
        return copy._replace(log=log, entries=tuple(epochs.entries), high_watermark=high_watermark, role=asked)

    def watermark(self, own: int, leaders: int, log_end_offset: int) -> int:
        return follower_high_watermark(Offset(own), Offset(leaders), Offset(log_end_offset))

    def cut(self, copy: Copy, end_offset: int) -> Copy:
        """Truncate the log, and always the epoch cache: it may hold an epoch that never had a record."""
        assert 0 <= end_offset <= len(copy.log)
        epochs = EpochCache(copy.entries)
        epochs.truncate_from_end(end_offset)
        high_watermark = min(copy.high_watermark, end_offset)
        return copy._replace(log=copy.log[:end_offset], entries=tuple(epochs.entries), high_watermark=high_watermark)
