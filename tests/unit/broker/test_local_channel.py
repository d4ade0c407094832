"""The controller's channel to brokers of its own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sordini.broker.local_channel import LocalChannel
from sordini.protocol.types import BrokerId
from sordini.replication.controller.cluster import Answer, Broker, UpdateMetadata
from tests.unit.broker.parts import ME, OTHER


def command(number: int) -> UpdateMetadata:
    return UpdateMetadata(ME, number, -1, ())


def alive(*epochs: tuple[BrokerId, int]) -> dict[BrokerId, Broker]:
    return {broker_id: Broker(broker_id, epoch, ()) for broker_id, epoch in epochs}


class Line:
    """A channel to broker 1, which answers one command per `let_go`."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.answered: list[int] = []
        self.gate = asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []
        self.channel = LocalChannel({ME: self.receive}, self.spawn)

    def spawn(self, work):
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    async def receive(self, received: UpdateMetadata) -> Answer:
        self.received.append(received.controller_epoch)
        await self.gate.acquire()
        return Answer()

    def send(self, number: int, broker_id: BrokerId = ME) -> None:
        self.channel.send(broker_id, command(number), lambda answer: self.answered.append(number))

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    made = Line()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_commands_are_carried_out_in_order_one_at_a_time(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1)))
    for number in (1, 2, 3):
        line.send(number)
    await line.turn()
    assert (line.received, line.answered) == ([1], [])
    line.gate.release()
    await line.turn()
    assert (line.received, line.answered) == ([1, 2], [1])


async def test_drained_waits_for_the_last_answer(line: Line) -> None:
    line.channel.set_brokers(alive((ME, 1)))
    line.send(1)
    line.send(2)
    drained = asyncio.create_task(line.channel.drained())
    line.gate.release()
    await line.turn()
    assert not drained.done()
    line.gate.release()
    await drained
    assert line.answered == [1, 2]


async def test_a_command_for_a_broker_that_is_not_there_is_dropped(line: Line) -> None:
    line.send(1)
    line.channel.set_brokers(alive((ME, 1), (OTHER, 2)))
    line.send(2, OTHER)
    await line.channel.drained()
    assert (line.received, line.answered) == ([], [])


async def test_a_new_life_of_a_broker_hears_nothing_meant_for_the_former_one(line: Line) -> None:
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
    line.channel.set_brokers(alive((ME, 1)))
    line.gate.release()
    await line.channel.drained()
    assert line.answered == [1]
    assert len(line.tasks) == 1


async def test_a_bug_in_carrying_out_a_command_ends_the_task_that_runs_it() -> None:
    async def receive(_: object) -> Answer:
        raise AssertionError("broken")

    tasks: list[asyncio.Task[None]] = []

    def spawn(work):
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    channel = LocalChannel({ME: receive}, spawn)
    channel.set_brokers(alive((ME, 1)))
    channel.send(ME, command(1), lambda answer: None)
    await asyncio.wait(tasks)
    assert isinstance(tasks[0].exception(), AssertionError)
