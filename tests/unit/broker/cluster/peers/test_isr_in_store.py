"""Changes of in-sync sets that a leader writes to the coordination store itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.cluster.peers.isr_in_store import NOTIFICATION_CHECK_MS, NOTIFICATION_WAIT_MAX_MS, IsrInStore
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import PartitionState
from sordini.replication.leader import IsrProposal
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import ConnectionLoss, IsrGrant, IsrRefusal, Session, SessionExpired
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse
from tests.support.fake_peers import in_virtual_time
from tests.support.fake_ports import ListLog
from tests.support.parts import examples
from tests.support.unit_broker import ME, OTHER, inline

THIRD = BrokerId(3)
ONE = TopicPartition("t", 0)


class Fickle:
    """A session whose calls fail as `fates` say, one fate a call: not made, made with the answer lost, or fine.

    After a fine call something else may happen in the store, before the next one.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.fates: list[str] = []
        self.calls = 0
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        made: Callable[..., Awaitable[Any]] = getattr(self.session, name)

        async def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            fate = self.fates.pop(0) if self.fates else "fine"
            if fate == "not made":
                raise ConnectionLoss(str(args[0]))
            if fate == "expired":
                raise SessionExpired
            answer = await made(*args, **options)
            if fate == "lost":
                raise ConnectionLoss(str(args[0]))
            if self.meanwhile is not None:
                happening, self.meanwhile = self.meanwhile, None
                await happening()
            return answer

        return call


class Bench:
    """Broker 1 leads t-0 in epoch 5, in sync with broker 2; the node is at version 1."""

    def __init__(self, session: Session, loop: SimLoop) -> None:
        self.session = session
        self.fickle = Fickle(session)
        self.verdicts: list[tuple[TopicPartition, IsrGrant | IsrRefusal]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.log = ListLog()
        fickle: Any = self.fickle
        self.changes = IsrInStore(ME, fickle, SimClock(loop), self.spawn, self.log)

    def spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def put(self, name: TopicPartition, state: PartitionState) -> None:
        """Write the state twice, so that its version is 1."""
        await self.session.create(paths.state(name), b"", make_parents=True)
        await self.session.set(paths.state(name), znodes.encode_state(state))

    def propose(self, *isr: BrokerId, version: int = 1, epoch: int = 5, name: TopicPartition = ONE) -> None:
        proposal = IsrProposal(isr, LeaderEpoch(epoch), version, (-1,) * len(isr))
        self.changes.propose(name, NO_TOPIC_ID, proposal, lambda verdict: self.verdicts.append((name, verdict)))

    async def state(self, name: TopicPartition = ONE) -> tuple[PartitionState, int]:
        data, stat = await self.session.get(paths.state(name))
        found = znodes.decode_state(name, data)
        assert isinstance(found, PartitionState)
        return found, stat.version

    async def notes(self) -> list[list[TopicPartition]]:
        names = sorted(await self.session.children(paths.ISR_CHANGES))
        data = [(await self.session.get(f"{paths.ISR_CHANGES}/{name}"))[0] for name in names]
        return [znodes.decode_isr_change(one) for one in data]  # type: ignore[misc]


def led(leader: BrokerId | None = ME, epoch: int = 5, isr: tuple[BrokerId, ...] = (ME, OTHER)) -> PartitionState:
    return PartitionState(leader, LeaderEpoch(epoch), isr, 4)


def on_a_store(main: Callable[[Bench, SimLoop], Awaitable[None]]) -> None:
    async def started(loop: SimLoop) -> None:
        store = await EmbeddedStore.open(":memory:", inline, SimClock(loop))
        session = await store.open_session()
        await session.create(paths.ISR_CHANGES, make_parents=True)
        bench = Bench(session, loop)
        await bench.put(ONE, led())
        await main(bench, loop)
        for task in bench.tasks:
            if not task.cancel():
                task.result()
        await store.close()

    in_virtual_time(started)


def test_a_set_is_written_under_the_version_it_was_decided_on_and_the_rest_of_the_node_stays() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.propose(ME, OTHER, THIRD)
        await elapse(1)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, OTHER, THIRD), 2))]
        assert await bench.state() == (led(isr=(ME, OTHER, THIRD)), 2)

    on_a_store(main)


@pytest.mark.parametrize(
    ("there", "what"),
    [
        (led(leader=OTHER), {}),
        (led(leader=None), {}),
        (led(epoch=6), {}),
        (led(), {"version": 0}),
        (led(), {"version": 7}),
        (led(isr=(ME, OTHER, THIRD)), {"version": 0}),
    ],
)
def test_a_state_changed_by_another_writer_is_not_overwritten(there: PartitionState, what: dict[str, int]) -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        await bench.session.set(paths.state(ONE), znodes.encode_state(there))
        await bench.session.delete(paths.state(ONE))
        await bench.put(ONE, there)
        bench.propose(ME, **what)
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]
        assert await bench.state() == (there, 1)
        assert await bench.notes() == []

    on_a_store(main)


@pytest.mark.parametrize("data", [None, b"{"])
def test_a_node_that_is_gone_or_damaged_is_stale(data: bytes | None) -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        if data is None:
            await bench.session.delete(paths.state(ONE))
        else:
            await bench.session.set(paths.state(ONE), data)
        bench.propose(ME, version=2)
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]

    on_a_store(main)


def test_a_write_whose_answer_was_lost_is_read_again_and_known_for_ones_own() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = ["fine", "lost"]
        bench.propose(ME)
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME,), 2))]
        assert await bench.state() == (led(isr=(ME,)), 2)
        assert await bench.notes() == [[ONE]]

    on_a_store(main)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_state_that_changes_between_reading_and_writing_is_not_overwritten(is_deleted: bool) -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        by_controller = led(leader=OTHER, epoch=6, isr=(OTHER,))

        async def meanwhile() -> None:
            if is_deleted:
                await bench.session.delete(paths.state(ONE))
            else:
                await bench.session.set(paths.state(ONE), znodes.encode_state(by_controller))

        bench.fickle.meanwhile = meanwhile
        bench.propose(ME)
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]
        if not is_deleted:
            assert await bench.state() == (by_controller, 2)

    on_a_store(main)


def test_a_lost_write_after_which_another_broker_leads_is_stale() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = ["fine", "lost"]
        bench.propose(ME)
        await elapse(0.5)
        await bench.session.set(paths.state(ONE), znodes.encode_state(led(leader=OTHER, epoch=6, isr=(OTHER,))))
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]

    on_a_store(main)


def test_while_the_store_is_away_nothing_is_granted_and_nothing_is_forgotten() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = ["not made"] * 10 + ["expired"] * 10
        bench.propose(ME)
        await elapse(5)
        assert bench.verdicts == []
        assert [event for event, _ in bench.log.at("warning")] == ["ISR change not written, retrying"]
        await elapse(60)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME,), 2))]

    on_a_store(main)


def test_a_withdrawn_change_is_neither_answered_nor_tried_again() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = ["not made"] * 100
        bench.propose(ME)
        await elapse(5)
        bench.changes.withdraw(ONE)
        await elapse(2)
        before = bench.fickle.calls
        await elapse(60)
        assert (bench.fickle.calls, bench.verdicts) == (before, [])

    on_a_store(main)


def test_the_controller_is_notified_once_of_changes_close_together() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        others = [TopicPartition("t", number) for number in range(1, 200)]
        for name in others:
            await bench.put(name, led())
        for name in (ONE, *others):
            bench.propose(ME, name=name)
        await elapse(NOTIFICATION_CHECK_MS / 1000 - 0.1)
        assert len(bench.verdicts) == 200
        assert await bench.notes() == []
        await elapse(10)
        assert [sorted(note) for note in await bench.notes()] == [sorted([ONE, *others])]

    on_a_store(main)


def test_a_notification_waits_while_changes_continue_but_for_a_bounded_time() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        times: list[float] = []
        known = 0
        for turn in range(200):
            bench.propose(*((ME,) if turn % 2 else (ME, OTHER)), version=turn + 1)
            await elapse(1)
            if len(await bench.notes()) > known:
                known += 1
                times.append(loop.time())
        gaps = [then - before for before, then in pairwise(times)]
        assert gaps
        assert all(gap + 1 >= NOTIFICATION_WAIT_MAX_MS / 1000 for gap in gaps)
        assert all(gap <= (NOTIFICATION_WAIT_MAX_MS + NOTIFICATION_CHECK_MS) / 1000 + 1 for gap in gaps)

    on_a_store(main)


def test_a_notification_that_could_not_be_written_is_written_later() -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = ["fine", "fine", "not made", "lost"]
        bench.propose(ME)
        await elapse(30)
        # The second was written although its answer was lost; it costs nothing to say it twice.
        assert await bench.notes() == [[ONE], [ONE]]

    on_a_store(main)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["fine", "not made", "lost"]), max_size=12), st.booleans(), st.integers(0, 2_500))
def test_what_was_granted_is_what_the_store_holds_whatever_breaks_off(
    fates: list[str], is_deposed: bool, after_ms: int
) -> None:
    async def main(bench: Bench, loop: SimLoop) -> None:
        bench.fickle.fates = list(fates)
        bench.propose(ME)
        await elapse(after_ms / 1000)
        known = dict(bench.verdicts)
        if is_deposed:
            await bench.session.set(paths.state(ONE), znodes.encode_state(led(leader=OTHER, epoch=6)))
        await elapse(60)
        [(_, verdict)] = bench.verdicts
        state, version = await bench.state()
        if is_deposed:
            assert isinstance(known.get(ONE), IsrGrant) or verdict is IsrRefusal.STALE
            assert state.leader == OTHER
        else:
            assert verdict == IsrGrant(5, (ME,), 2)
            assert (state.isr, version) == ((ME,), 2)

    on_a_store(main)
