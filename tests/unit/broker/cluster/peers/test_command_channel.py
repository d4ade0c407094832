"""The controller's channel to its own broker and to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.cluster.commands.control_wire import ControlWire
from sordini.broker.cluster.peers.command_channel import ANSWER_TIMEOUT_MS, RETRY_PAUSE_MS, CommandChannel
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint, CommandAnswer, UpdateMetadata
from sordini.replication.inter_broker_versions import OLDEST
from sordini.replication.ports import Unreachable
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, refused, silence
from tests.support.fake_ports import ListLog
from tests.support.parts import examples
from tests.support.unit_broker import ME, OTHER

THIRD = BrokerId(3)


def command(number: int) -> UpdateMetadata:
    return UpdateMetadata(ME, number, -1, ())


def alive(*epochs: tuple[BrokerId, int]) -> dict[BrokerId, Broker]:
    ends = (BrokerEndpoint("CLIENTS", "public", 9092), BrokerEndpoint("BROKERS", "private", 9093))
    return {broker_id: Broker(broker_id, epoch, ends) for broker_id, epoch in epochs}


async def done(_sent: Sent) -> UpdateMetadataResponse:
    return UpdateMetadataResponse()


class Line:
    """A channel; this broker answers one command per `let_go`, others as a test sets."""

    def __init__(self, answer: Callable[[Sent], Awaitable[Any]] = done) -> None:
        self.received: list[int] = []
        self.answered: list[int] = []
        self.answers: list[CommandAnswer] = []
        self.gate = asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []
        self.log = ListLog()
        self.links = FakeLinks(asyncio.get_running_loop(), answer)
        self.address_of: Callable[[BrokerId], tuple[str, int] | None] = lambda _: None
        self.channel = CommandChannel(
            ME, self.receive, ControlWire(OLDEST, "BROKERS"), self.dial, "BROKERS", self.spawn, self.log
        )

    def dial(self, addresses: Callable[[BrokerId], tuple[str, int] | None]) -> FakeLinks:
        self.address_of = addresses
        return self.links

    def spawn(self, work):
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    async def receive(self, received: UpdateMetadata) -> CommandAnswer:
        self.received.append(received.controller_epoch)
        await self.gate.acquire()
        return CommandAnswer()

    def send(self, number: int, broker_id: BrokerId = ME) -> None:
        def answered(answer: CommandAnswer) -> None:
            self.answered.append(number)
            self.answers.append(answer)

        self.channel.send(broker_id, command(number), answered)

    def reported(self, broker_id: BrokerId = OTHER) -> list[int]:
        """The numbers of the commands that another broker was sent."""
        return [sent.request.controller_epoch for sent in self.links.sent if sent.broker_id == broker_id]

    async def turn(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    made = Line()
    yield made
    await made.close()


# Its own broker.


async def test_commands_are_carried_out_in_order_one_at_a_time(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1)))
    for number in (1, 2, 3):
        line.send(number)
    await line.turn()
    assert (line.received, line.answered) == ([1], [])
    line.gate.release()
    await line.turn()
    assert (line.received, line.answered) == ([1, 2], [1])
    assert line.links.sent == []


async def test_drained_waits_for_the_last_answer_of_this_broker_and_not_for_those_of_others(line: Line) -> None:
    line.links.answer = silence
    line.channel.set_brokers(alive((ME, 1), (OTHER, 2)))
    line.send(1)
    line.send(2)
    line.send(3, OTHER)
    drained = asyncio.create_task(line.channel.drained())
    line.gate.release()
    await line.turn()
    assert not drained.done()
    line.gate.release()
    await drained
    assert line.answered == [1, 2]


async def test_a_command_for_a_broker_that_is_not_there_is_dropped(line: Line) -> None:
    line.send(1)
    line.channel.set_brokers(alive((ME, 1)))
    line.send(2, OTHER)
    await line.channel.drained()
    await line.turn()
    assert (line.received, line.answered, line.links.sent) == ([], [], [])


async def test_a_new_registration_of_this_broker_gets_no_command_for_the_former_one(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1)))
    line.send(1)
    line.send(2)
    await line.turn()
    line.channel.set_brokers(alive((ME, 2)))
    line.send(3)
    line.gate.release()
    await line.channel.drained()
    assert (line.received, line.answered) == ([1, 3], [3])


async def test_a_broker_that_stays_keeps_its_queue(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1)))
    line.send(1)
    line.channel.set_brokers(alive((ME, 1), (OTHER, 2)))
    line.gate.release()
    await line.channel.drained()
    assert line.answered == [1]
    assert len(line.tasks) == 2


async def test_a_bug_in_carrying_out_a_command_ends_the_task_that_runs_it(line: Line) -> None:
    async def broken(_: object) -> CommandAnswer:
        raise AssertionError("broken")

    channel = CommandChannel(ME, broken, ControlWire(OLDEST, "BROKERS"), line.dial, "BROKERS", line.spawn, line.log)
    channel.set_brokers(alive((ME, 1)))
    channel.send(ME, command(1), lambda answer: None)
    await asyncio.wait(line.tasks)
    assert isinstance(line.tasks[0].exception(), AssertionError)


# Other brokers.


async def test_commands_go_out_in_the_setting_s_versions_under_the_controller_s_id_as_text(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1), (OTHER, 2)))
    line.send(1, OTHER)
    await line.turn()
    [sent] = line.links.sent
    assert (sent.broker_id, sent.version, type(sent.request)) == (OTHER, OLDEST.update_metadata, UpdateMetadataRequest)
    assert line.links.client_ids == [str(ME)]
    assert line.answers == [CommandAnswer()]


async def test_other_brokers_are_reached_on_the_listener_for_brokers_wherever_they_are_by_now(line: Line) -> None:
    line.channel.set_brokers(alive((OTHER, 2)))
    assert line.address_of(OTHER) == ("private", 9093)
    assert line.address_of(THIRD) is None
    line.channel.set_brokers({OTHER: Broker(OTHER, 2, (BrokerEndpoint("BROKERS", "moved", 1),))})
    assert line.address_of(OTHER) == ("moved", 1)
    line.channel.set_brokers({OTHER: Broker(OTHER, 2, (BrokerEndpoint("CLIENTS", "public", 1),))})
    assert line.address_of(OTHER) is None


def test_a_command_is_sent_again_after_a_pause_until_the_broker_answers() -> None:
    async def main(loop: SimLoop) -> None:
        line: Line

        async def third_time(sent: Sent) -> UpdateMetadataResponse:
            return await (done(sent) if len(line.links.sent) > 2 else refused(sent))

        line = Line(third_time)
        line.channel.set_brokers(alive((OTHER, 2)))
        line.send(1, OTHER)
        line.send(2, OTHER)
        await elapse(10)
        assert line.reported() == [1, 1, 1, 2]
        pauses_ms = [round((sent.at - line.links.sent[0].at) * 1000) for sent in line.links.sent]
        assert pauses_ms == [0, RETRY_PAUSE_MS, 2 * RETRY_PAUSE_MS, 2 * RETRY_PAUSE_MS]
        assert line.answered == [1, 2]
        assert [event for event, _ in line.log.at("warning")] == ["command not delivered"]
        await line.close()

    in_virtual_time(main)


def test_a_broker_that_hangs_is_sent_the_same_command_again_for_as_long_as_it_is_registered() -> None:
    async def main(loop: SimLoop) -> None:
        line = Line(silence_as_unreachable)
        line.channel.set_brokers(alive((OTHER, 2)))
        line.send(1, OTHER)
        line.send(2, OTHER)
        await elapse(3.5 * ANSWER_TIMEOUT_MS / 1000)
        assert line.reported() == [1, 1, 1, 1]
        line.channel.set_brokers({})
        await elapse(3.5 * ANSWER_TIMEOUT_MS / 1000)
        assert line.reported() == [1, 1, 1, 1]
        assert line.links.made[0].is_closed
        assert line.answered == []

    in_virtual_time(main)


async def silence_as_unreachable(sent: Sent) -> Any:
    await elapse(ANSWER_TIMEOUT_MS / 1000 - 0.001)
    await refused(sent)


def test_a_broker_that_is_not_reached_is_named_with_the_reason_until_it_answers_or_is_gone() -> None:
    async def main(loop: SimLoop) -> None:
        line = Line(refused)
        line.channel.set_brokers(alive((OTHER, 2), (THIRD, 3)))
        assert line.channel.unreached == {}
        line.send(1, OTHER)
        line.send(1, THIRD)
        await elapse(1)
        assert line.channel.unreached.keys() == {OTHER, THIRD}
        assert all(line.channel.unreached.values())
        line.links.answer = done
        line.channel.set_brokers(alive((OTHER, 2)))
        assert line.channel.unreached.keys() == {OTHER}
        await elapse(1)
        assert line.channel.unreached == {}
        await line.close()

    in_virtual_time(main)


def test_an_answer_with_an_error_is_an_answer() -> None:
    async def main(loop: SimLoop) -> None:
        async def stale(_sent: Sent) -> UpdateMetadataResponse:
            return UpdateMetadataResponse(error_code=11)

        line = Line(stale)
        line.channel.set_brokers(alive((OTHER, 2)))
        line.send(1, OTHER)
        await elapse(10)
        assert (line.reported(), line.answers) == ([1], [CommandAnswer(11)])
        await line.close()

    in_virtual_time(main)


def test_a_broker_that_does_not_answer_delays_no_other_broker() -> None:
    async def main(loop: SimLoop) -> None:
        async def one_hangs(sent: Sent) -> UpdateMetadataResponse:
            return await (silence(sent) if sent.broker_id == OTHER else done(sent))

        line = Line(one_hangs)
        line.channel.set_brokers(alive((ME, 1), (OTHER, 2), (THIRD, 3)))
        for number in (1, 2):
            for broker_id in (OTHER, THIRD, ME):
                line.send(number, broker_id)
        line.gate.release()
        line.gate.release()
        await elapse(0.01)
        assert (line.reported(OTHER), line.reported(THIRD), line.received) == ([1], [1, 2], [1, 2])
        await line.close()

    in_virtual_time(main)


def test_a_new_registration_of_another_broker_gets_no_command_for_the_former_one() -> None:
    async def main(loop: SimLoop) -> None:
        line = Line(silence)
        line.channel.set_brokers(alive((OTHER, 2)))
        line.send(1, OTHER)
        line.send(2, OTHER)
        await elapse(1)
        line.links.answer = done
        line.channel.set_brokers(alive((OTHER, 3)))
        line.send(3, OTHER)
        await elapse(60)
        assert line.reported() == [1, 3]
        assert line.answered == [3]
        assert [link.is_closed for link in line.links.made] == [True, False]
        await line.close()
        assert line.links.made[1].is_closed

    in_virtual_time(main)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["answered", "refused", "lost"]), max_size=12), st.integers(1, 6))
def test_whatever_fails_commands_arrive_in_order_without_a_gap_and_each_is_answered_once(
    fates: list[str], count: int
) -> None:
    async def main(loop: SimLoop) -> None:
        carried_out: list[int] = []
        left = iter(fates)

        async def fickle(sent: Sent) -> UpdateMetadataResponse:
            fate = next(left, "answered")
            await elapse(0.01)
            if fate == "refused":
                raise Unreachable("connection refused")
            carried_out.append(sent.request.controller_epoch)
            if fate == "lost":
                raise Unreachable("it closed the connection")
            return UpdateMetadataResponse()

        line = Line(fickle)
        line.channel.set_brokers(alive((OTHER, 2)))
        numbers = list(range(1, count + 1))
        for number in numbers:
            line.send(number, OTHER)
        await elapse(5)
        assert sorted(carried_out) == carried_out
        assert sorted(set(carried_out)) == numbers
        assert line.answered == numbers
        await line.close()

    in_virtual_time(main)
