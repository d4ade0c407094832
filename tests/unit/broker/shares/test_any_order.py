"""Members, a share coordinator with its own mind, and leader epochs, in any order: what KIP-932 promises holds.

The state is the coordinator's own machine. It answers late, not at all, with an error though it has written, or writes
long after its caller has given up; leader epochs change, records are deleted, members vanish with what they hold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.share_state.machine import stored_state
from sordini.broker.share_state.machine.stored_state import SnapshotRule, StoredState
from sordini.broker.share_state.ports import OnStored, ReadState, SharePartitionKey, StateWrite
from sordini.broker.shares.machine.record_states import AckType
from sordini.broker.shares.machine.share_partition import ShareLimits
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.share_fetch import ShareFetchResponse
from sordini.protocol.types import Offset
from tests.support.parts import part_of
from tests.support.share_world import GROUP, LOCK_MS, SETTINGS, ShareWorld, acquired, code, decoded
from tests.support.unit_broker import a_broker, topic_id_of

MEMBERS: Final = ("a", "b", "c")
LAST: Final = "the last one"
STEPS: Final = 250
LIMIT: Final = 4
KEY: Final = SharePartitionKey(GROUP, topic_id_of("orders"), 0)
RULE: Final = SnapshotRule(20, 1 << 30)
PASSING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)
TYPES: Final = (AckType.ACCEPT, AckType.ACCEPT, AckType.RELEASE, AckType.REJECT)


class WilfulCoordinator:
    """`LeaderStates`: answers in steps of the test, and as it likes."""

    def __init__(self, chance: random.Random) -> None:
        self.is_wilful = True
        self._chance = chance
        self.state: StoredState | None = stored_state.applied(
            None, stored_state.initialize(None, 0, Offset(0), 0), RULE
        )
        self.waiting: tuple[list[Callable[[], None]], list[Callable[[], None]]] = [], []
        """Reads and writes, which have connections of their own."""
        self._late: list[Callable[[], None]] = []

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Callable[[ReadState], None]) -> None:
        del key

        def carry_out() -> ReadState:
            record = stored_state.read(self.state, leader_epoch, 0, RULE)
            assert self.state is not None
            whole = self.state.whole
            self._apply(record)
            return ReadState(ErrorCode.NONE, whole.state_epoch, whole.start, whole.runs)

        self.waiting[0].append(lambda: self._answer(carry_out, on_done, ReadState))

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: OnStored) -> None:
        del key

        def carry_out() -> ErrorCode:
            self._apply(stored_state.write(self.state, write, 0, RULE))
            return ErrorCode.NONE

        self.waiting[1].append(lambda: self._answer(carry_out, on_done, ErrorCode))

    def step(self) -> None:
        """Do what has waited for the longest time on one of the connections."""
        queues = [queue for queue in self.waiting if queue]
        if queues:
            self._chance.choice(queues).pop(0)()

    def _apply(self, record: Any) -> None:
        if record is not None:
            self.state = stored_state.applied(self.state, record, RULE)

    def _answer(self, carry_out: Callable[[], Any], on_done: Callable[[Any], None], failed: Callable[..., Any]) -> None:
        mood = self._chance.random() if self.is_wilful else 1.0
        for late in self._late if self._chance.random() < 0.3 else ():
            late()
        if mood < 0.1:
            on_done(failed(self._chance.choice(PASSING)))
            return
        if mood < 0.2:
            self._late = [*self._late[-2:], lambda: _silently(carry_out)]
            on_done(failed(ErrorCode.REQUEST_TIMED_OUT))
            return
        try:
            answer = carry_out()
        except BrokerError as error:
            answer = failed(error.code)
        on_done(failed(ErrorCode.REQUEST_TIMED_OUT) if mood < 0.3 else answer)


def _silently(carry_out: Callable[[], Any]) -> None:
    try:
        carry_out()
    except BrokerError:
        return


class Story:
    """What members did, and what they were answered."""

    def __init__(self, world: ShareWorld, coordinator: WilfulCoordinator, chance: random.Random) -> None:
        self.world, self.coordinator, self.chance = world, coordinator, chance
        self.held: dict[str, set[int]] = {member: set() for member in (*MEMBERS, LAST)}
        self.pending: dict[str, tuple[ApiKey, DelayedResponse, list[tuple[int, AckType]]]] = {}
        self.finished: dict[int, AckType] = {}
        """What was answered as acknowledged."""
        self.delivered: Counter[int] = Counter()
        self.epoch = 0

    @property
    def log(self) -> Any:
        return self.world.broker.parts.replicas.partition("orders", 0).log

    async def step(self) -> None:
        chance, world = self.chance, self.world
        match chance.choices(range(8), (20, 24, 34, 3, 2, 4, 1, 1))[0]:
            case 0:
                self.fetch(chance.choice(MEMBERS))
            case 1:
                self.acknowledge(chance.choice(MEMBERS))
            case 2:
                self.coordinator.step()
            case 3:
                world.produce(*[chance.randint(1, 4) for _ in range(chance.randint(1, 3))])
            case 4:
                self.vanish(chance.choice(MEMBERS))
            case 5:
                world.pass_time(chance.choice([0, 0, LOCK_MS // 3]))
            case 6:
                self.epoch += 1
                await world.broker.lead("orders", epoch=self.epoch)
            case _:
                self.log.log_start_offset = min(
                    self.log.log_start_offset + chance.randint(0, 4), self.log.log_end_offset
                )
        self.receive_all()

    def fetch(self, member: str, **fields: Any) -> None:
        if member in self.pending:
            return
        fields = {
            "max_records": self.chance.randint(1, 6),
            "batch_size": self.chance.choice([1, 500]),
            "share_acquire_mode": self.chance.randint(0, 1),
            "max_wait_ms": self.chance.choice([0, 500]),
            **fields,
        }
        said = self.said(member) if self.world.epochs.get(member) and self.chance.random() < 0.5 else []
        request = self.world._fetch_request(member, _rows(said), **fields)
        self.request(ApiKey.SHARE_FETCH, member, request, said)

    def acknowledge(self, member: str) -> None:
        if member in self.pending or not self.world.epochs.get(member):
            return
        said = self.said(member)
        if said:
            request = self.world._acknowledge_request(member, _rows(said))
            self.request(ApiKey.SHARE_ACKNOWLEDGE, member, request, said)

    def said(self, member: str) -> list[tuple[int, AckType]]:
        held = sorted(self.held[member])
        chosen = [offset for offset in held if self.chance.random() < 0.7]
        return [(offset, self.chance.choice(TYPES)) for offset in chosen]

    def request(self, key: ApiKey, member: str, request: Any, said: list[tuple[int, AckType]]) -> None:
        answer = self.world._handle(key, member, request)
        if isinstance(answer, DelayedResponse):
            self.pending[member] = key, answer, said
        else:
            self.received(member, decoded(key, answer), said)

    def receive_all(self) -> None:
        """Answers that have arrived: first those to acknowledgements."""
        for member, (key, pending, said) in sorted(self.pending.items(), key=lambda item: not item[1][2]):
            if pending.is_answered:
                del self.pending[member]
                self.received(member, self.world.answer(pending, key), said)

    def received(self, member: str, answer: Any, said: list[tuple[int, AckType]]) -> None:
        if answer.error_code:
            assert answer.error_code in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            self.world.epochs[member] = 0
            return
        if said:
            self.held[member] -= {offset for offset, _ in said}
            if code(answer) == ErrorCode.NONE:
                self.finished.update({offset: kind for offset, kind in said if kind is not AckType.RELEASE})
        if isinstance(answer, ShareFetchResponse):
            self.take(member, answer)

    def take(self, member: str, answer: ShareFetchResponse) -> None:
        for first, last, deliveries in acquired(answer):
            assert deliveries <= LIMIT, f"{first} is delivered for the {deliveries}th time"
            for offset in range(first, last + 1):
                assert offset not in self.finished, f"{offset} is delivered again, after {self.finished[offset].name}"
                self.delivered[offset] += 1
                self.held[member].add(offset)

    def vanish(self, member: str) -> None:
        """Its connection is lost, with what is being answered on it."""
        waiting = self.pending.pop(member, None)
        if waiting is not None:
            waiting[1].abandon()
        if member in self.world.peers:
            self.world.disconnect(member)
        self.held[member].clear()
        self.world.epochs[member] = 0

    def finish(self) -> None:
        """The coordinator serves again, locks end, and one more member takes all that is left."""
        self.coordinator.is_wilful = False
        for _ in range(self.log.log_end_offset + 10):
            self.world.pass_time(LOCK_MS)
            self.settle()
            self.fetch(LAST, max_records=100, max_wait_ms=0)
            self.settle()
            said = [(offset, AckType.ACCEPT) for offset in sorted(self.held[LAST])]
            if said:
                self.request(ApiKey.SHARE_ACKNOWLEDGE, LAST, self.world._acknowledge_request(LAST, _rows(said)), said)
            self.settle()
            if self.is_drained():
                break
        assert self.is_drained(), "something is never delivered"
        missing = set(range(self.log.log_start_offset, self.log.log_end_offset)) - self.delivered.keys()
        assert not missing, "never delivered"
        assert not self.pending, "a fetch that waits is never answered"

    def is_drained(self) -> bool:
        found = self.world.partitions.of_group(GROUP)
        return bool(found) and found[0]._machine is not None and found[0].machine.start == self.log.log_end_offset

    def settle(self) -> None:
        for _ in range(50):
            while any(self.coordinator.waiting):
                self.coordinator.step()
            self.world.broker.timers.fire()
            self.receive_all()
            if not any(self.coordinator.waiting) and not self.pending:
                break


def _rows(said: list[tuple[int, AckType]]) -> list[tuple[int, int, list[int]]]:
    return [(offset, offset, [kind]) for offset, kind in said]


@asynccontextmanager
async def a_story(seed: int) -> AsyncIterator[Story]:
    chance = random.Random(seed)
    coordinator = WilfulCoordinator(chance)
    async with a_broker() as broker:
        await broker.lead("orders")
        world = ShareWorld(broker, persister=coordinator)
        world.settings = SETTINGS._replace(limits=ShareLimits(LIMIT, 12, LOCK_MS))
        yield Story(world, coordinator, chance)


@pytest.mark.parametrize("seed", part_of(range(400), 40))
async def test_whatever_happens_a_record_is_delivered_and_never_again_once_it_is_acknowledged(seed: int) -> None:
    async with a_story(seed) as story:
        if seed % 2:  # Then no member is ever the last one, with whom the share partition would end.
            story.fetch(LAST, max_records=0)
        for _ in range(STEPS):
            await story.step()
        story.finish()
