"""When a group counts as settled; a paused process, its disk and its files."""

import asyncio

from sordini.broker.groups.machine.records import offset_key, offset_value
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.virtual_loop import SimLoop, run
from tests.sim.assignments import assigned, assignment, share_out, subscribed, subscription
from tests.sim.files import committed_in
from tests.sim.group_client import MemberRules
from tests.sim.groups import Groups
from tests.sim.member import Member
from tests.sim.world import World

RULES = (MemberRules("g", ("work",)), MemberRules("g", ("work",)))
COUNTS = {"work": 2}


def _groups(*shares: tuple[int, ...] | None) -> Groups:
    world = World(0, lambda _world: None)
    world.loop.finish()
    groups = Groups(world, RULES, 0)
    for number, (member, share) in enumerate(zip(groups.members, shares, strict=True)):
        assert isinstance(member, Member)
        member.member_id = f"m{number}"
        member._assignment = None if share is None else frozenset(TopicPartition("work", each) for each in share)
    return groups


def _described(*shares: tuple[int, ...], state: str = "Stable") -> DescribedGroup:
    members = [
        DescribedGroupMember(
            member_id=f"m{number}", member_assignment=assignment(TopicPartition("work", each) for each in share)
        )
        for number, share in enumerate(shares)
    ]
    return DescribedGroup(group_id="g", group_state=state, members=members)


def test_a_group_has_settled_when_every_partition_is_owned_once_and_all_agree():
    assert not list(_groups((0,), (1,))._problems(_described((0,), (1,)), COUNTS))


def test_the_reason_why_a_group_has_not_settled_is_reported():
    settled = _groups((0,), (1,))
    assert list(settled._problems(_described((0,), (1,), state="PreparingRebalance"), COUNTS))
    assert list(settled._problems(_described((0,), (0,)), COUNTS))
    assert list(settled._problems(_described((0, 1), ()), COUNTS))
    assert list(settled._problems(_described((0,), (1,)), {"work": 3}))
    assert list(settled._problems(_described((0,), (1,), ()), COUNTS))
    assert list(_groups((0,), None)._problems(_described((0,), (1,)), COUNTS))
    for member in settled.members:
        member.is_gone = True
    assert list(settled._problems(_described((0,), (1,)), COUNTS))
    assert not list(settled._problems(_described(state="Empty"), COUNTS))


def test_subscriptions_and_assignments_are_read_as_they_were_written():
    parts = frozenset([TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)])
    assert subscribed(subscription(["a", "b"])) == ["a", "b"]
    assert assigned(assignment(parts)) == parts
    shares = share_out({"x": ["a"], "y": ["a", "b"]}, {"a": 3, "b": 1})
    assert sorted(each for share in shares.values() for each in share) == [
        *(TopicPartition("a", number) for number in range(3)),
        TopicPartition("b", 0),
    ]
    assert not any(topic == "b" for topic, _ in shares["x"])


def test_what_the_files_say_is_committed_is_what_the_broker_wrote_last():
    def batch(offset: int, partition: int, note: str | None) -> bytes:
        value = None if note is None else offset_value(CommittedOffset((offset + 1) * 10, -1, note, 5))
        return build_batch([Record(offset, 5, offset_key("g", "work", partition), value)], base_offset=offset)

    first = batch(0, 0, "one") + batch(1, 0, "two")
    second = batch(2, 1, "five") + batch(3, 1, None)
    directory = "/data/a/__consumer_offsets-3"
    tree = {f"{directory}/{0:020}.log": first, f"{directory}/{2:020}.log": second}
    assert committed_in(tree) == {("g", TopicPartition("work", 0)): ("two", 20)}
    torn = {f"{directory}/{0:020}.log": first[:-1], f"{directory}/{2:020}.log": second}
    assert committed_in(torn) == {("g", TopicPartition("work", 0)): ("one", 10)}


def test_a_paused_process_does_nothing_and_afterwards_everything():
    loop = SimLoop()
    process = loop.process("p")
    done: list[str] = []

    async def work() -> None:
        loop.call_later(1.0, done.append, "timer")
        loop.call_soon(done.append, "soon")
        await asyncio.sleep(2.0)
        done.append("slept")

    async def story() -> float:
        loop.call_soon(lambda: loop.pause(process))
        task = process.spawn(work())
        await asyncio.sleep(10.0)
        assert not done, "the process was paused before it began"
        loop.resume(process, timers_first=False)
        await asyncio.sleep(0.5)
        loop.pause(process)
        await asyncio.sleep(5.0)
        assert done == ["soon"]
        loop.resume(process, timers_first=True)
        await task
        return loop.time() - began

    began = loop.time()
    assert run(loop, story()) == 15.5
    assert done == ["soon", "timer", "slept"]


def test_a_paused_process_can_be_killed():
    loop = SimLoop()
    process = loop.process("p")
    done: list[str] = []

    async def story() -> None:
        process.spawn(asyncio.sleep(1.0)).add_done_callback(lambda _: done.append("slept"))
        await asyncio.sleep(0.1)
        loop.pause(process)
        process.kill()
        await asyncio.sleep(5.0)

    run(loop, story())
    assert not done
