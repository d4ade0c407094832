"""Changes of in-sync sets through the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.cluster.peers.alter_partition import AlterPartitions
from sordini.broker.cluster.peers.controller_client import ANSWER_TIMEOUT_MS, RETRY_PAUSE_MS, ControllerClient
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlteredTopicData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.leader import IsrProposal
from sordini.replication.ports import IsrGrant, IsrRefusal, Unreachable
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, silence
from tests.support.fake_ports import ListLog
from tests.support.parts import examples
from tests.support.unit_broker import CLUSTER_ID, ME, OTHER, topic_id_of

THIRD = BrokerId(3)
NEWEST, OLD = versions_for((3, 9), 0), versions_for((2, 7), 2)
ONE, TWO = TopicPartition("t", 0), TopicPartition("u", 1)
BROKER_EPOCH = 77


def wanted(*isr: BrokerId, epoch: int = 5, version: int = 8) -> IsrProposal:
    return IsrProposal(isr, LeaderEpoch(epoch), version, tuple(-1 if member == ME else 900 + member for member in isr))


def granting(request: AlterPartitionRequest, version: int, code: int = 0) -> AlterPartitionResponse:
    """A controller that agrees to everything, or refuses all of it with one code."""
    return AlterPartitionResponse(
        topics=[
            AlteredTopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[
                    AlteredPartitionData(
                        partition_index=row.partition_index,
                        error_code=code,
                        leader_id=ME,
                        leader_epoch=row.leader_epoch,
                        isr=[one.broker_id for one in row.new_isr_with_epochs] if version > 2 else list(row.new_isr),
                        partition_epoch=row.partition_epoch + 1,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


Judge = Callable[[AlterPartitionRequest, int], Awaitable[AlterPartitionResponse]]


async def agree(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    await elapse(0.01)
    return granting(request, version)


class Bench:
    """Broker 1 sends requests; broker 2 is the controller and serves AlterPartition up to `served`."""

    def __init__(self, judge: Judge = agree, versions: Any = NEWEST, served: int = 3) -> None:
        self.judge = judge
        self.served = served
        self.verdicts: list[tuple[TopicPartition, IsrGrant | IsrRefusal]] = []
        self.log = ListLog()
        self.links = FakeLinks(asyncio.get_running_loop(), self.answer)
        self.metadata = MetadataCache(CLUSTER_ID)
        self.metadata.set_brokers(OTHER, [])
        self.epoch = BROKER_EPOCH
        self.local: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []
        link = ControllerClient(ME, self.metadata, self.links, self.serve)
        self.changes = AlterPartitions(ME, lambda: self.epoch, link, versions, self.spawn, self.log)

    def spawn(self, work: Any) -> None:
        self.tasks.append(task := asyncio.create_task(work))
        # An exception here reaches the loop and fails the test.
        task.add_done_callback(lambda done: done.cancelled() or done.result())

    async def answer(self, sent: Sent) -> Any:
        if isinstance(sent.request, ApiVersionsRequest):
            row = ApiVersion(api_key=ApiKey.ALTER_PARTITION, min_version=0, max_version=self.served)
            return ApiVersionsResponse(api_keys=[row])
        return await self.judge(sent.request, sent.version)

    async def serve(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        self.local.append(version)
        return await self.judge(request, version)

    def propose(self, name: TopicPartition, proposal: IsrProposal, topic_id: TopicId | None = None) -> None:
        self.changes.propose(
            name,
            topic_id_of(name.topic) if topic_id is None else topic_id,
            proposal,
            lambda verdict: self.verdicts.append((name, verdict)),
        )

    def asked(self) -> list[AlterPartitionRequest]:
        return self.links.requests(AlterPartitionRequest)

    def partitions(self) -> list[list[str]]:
        """Which partitions each request named, by topic id or name."""
        names = {topic_id_of(name.topic): name.topic for name in (ONE, TWO)}
        return [
            sorted(names.get(TopicId(topic.topic_id), topic.topic_name) for topic in request.topics)
            for request in self.asked()
        ]


def test_a_granted_change_is_answered_with_its_new_partition_epoch() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, THIRD), 9))]
        [request] = bench.asked()
        assert (request.broker_id, request.broker_epoch) == (ME, BROKER_EPOCH)
        assert [(topic.topic_id, topic.topic_name) for topic in request.topics] == [(topic_id_of("t"), "")]
        [row] = request.topics[0].partitions
        assert (row.partition_index, row.leader_epoch, row.partition_epoch) == (0, 5, 8)
        assert [(one.broker_id, one.broker_epoch) for one in row.new_isr_with_epochs] == [
            (ME, BROKER_EPOCH),
            (THIRD, 903),
        ]

    in_virtual_time(main)


def test_api_versions_are_requested_first_and_the_highest_common_version_is_used() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench(served=2)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        bench.propose(ONE, wanted(ME))
        await elapse(1)
        assert [(type(sent.request).__name__, sent.version) for sent in bench.links.sent] == [
            ("ApiVersionsRequest", 3),
            ("AlterPartitionRequest", 2),
            ("AlterPartitionRequest", 2),
        ]
        assert list(bench.asked()[0].topics[0].partitions[0].new_isr) == [ME, THIRD]
        assert bench.links.client_ids == [str(ME)]

    in_virtual_time(main)


def test_below_2_8_version_0_goes_out_without_a_question() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench(versions=OLD)
        bench.propose(ONE, wanted(ME, THIRD), NO_TOPIC_ID)
        await elapse(1)
        [sent] = bench.links.sent
        assert (type(sent.request), sent.version) == (AlterPartitionRequest, 0)
        assert sent.request.topics[0].topic_name == "t"
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, THIRD), 9))]

    in_virtual_time(main)


def test_a_topic_without_an_id_keeps_the_request_to_versions_that_name_topics_by_name() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.propose(ONE, wanted(ME, THIRD), NO_TOPIC_ID)
        bench.propose(TWO, wanted(ME, THIRD))
        await elapse(1)
        assert [sent.version for sent in bench.links.sent] == [3, 1]
        assert sorted(topic.topic_name for topic in bench.asked()[0].topics) == ["t", "u"]
        assert len(bench.verdicts) == 2

    in_virtual_time(main)


def test_one_request_is_under_way_and_what_comes_meanwhile_goes_together_in_the_next() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(0.005)
        others = [TopicPartition("t", number) for number in range(1, 5)]
        for name in (*others, TWO):
            bench.propose(name, wanted(ME, THIRD))
        await elapse(1)
        assert bench.partitions() == [["t"], ["t", "u"]]
        assert [name for name, _ in bench.verdicts] == [ONE, *others, TWO]

    in_virtual_time(main)


@pytest.mark.parametrize("code", [74, 95, 3, 100, 42])
def test_a_change_based_on_an_old_partition_epoch_is_stale_and_not_retried(code: int) -> None:
    async def main(loop: SimLoop) -> None:
        async def refuse(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            return granting(request, version, code)

        bench = Bench(refuse)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]
        assert len(bench.asked()) == 1

    in_virtual_time(main)


@pytest.mark.parametrize("code", [107, 55])
def test_a_member_that_may_not_join_now_is_ineligible(code: int) -> None:
    async def main(loop: SimLoop) -> None:
        async def refuse(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            return granting(request, version, code)

        bench = Bench(refuse)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrRefusal.INELIGIBLE)]
        assert len(bench.asked()) == 1

    in_virtual_time(main)


@pytest.mark.parametrize("versions", [OLD, NEWEST], ids=["2.7", "3.9"])
def test_the_set_in_force_without_a_proposed_member_is_the_verdict_and_is_logged_as_a_refusal(versions: Any) -> None:
    async def main(loop: SimLoop) -> None:
        async def present(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            answer = granting(request, version)
            answer.topics[0].partitions[0].isr = [ME]
            answer.topics[0].partitions[0].partition_epoch = 8
            return answer

        bench = Bench(present, versions)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(10)
        bench.propose(ONE, wanted(ME))
        await elapse(10)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME,), 8))] * 2
        assert len(bench.asked()) == 2
        said = [fields for event, fields in bench.log.at("info") if event == "ISR changes refused"]
        assert [(fields["why"], fields["isr"]) for fields in said] == [("ineligible", (ME, THIRD))]

    in_virtual_time(main)


def test_refusals_of_one_answer_are_one_log_line() -> None:
    async def main(loop: SimLoop) -> None:
        async def refuse(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            return granting(request, version, 107)

        bench = Bench(refuse)
        many = [TopicPartition(ONE.topic, number) for number in range(50)]
        for name in many:
            bench.propose(name, wanted(ME, THIRD))
        await elapse(10)
        assert len(bench.verdicts) == 50
        said = [fields for event, fields in bench.log.at("info") if event == "ISR changes refused"]
        assert sum(fields["partitions"] for fields in said) == 50
        assert len(said) <= 2, "the first may have gone alone"

    in_virtual_time(main)


@pytest.mark.parametrize("code", [41, 77, -1, 13, 56])
@pytest.mark.parametrize("whole", [True, False])
def test_a_change_is_retried_after_any_other_error(code: int, whole: bool) -> None:
    async def main(loop: SimLoop) -> None:
        async def later(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            if len(bench.asked()) > 3:
                return granting(request, version)
            return AlterPartitionResponse(error_code=code) if whole else granting(request, version, code)

        bench = Bench(later)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(10)
        assert len(bench.asked()) == 4
        times = [sent.at for sent in bench.links.sent if isinstance(sent.request, AlterPartitionRequest)]
        assert all(round((then - before) * 1000) >= RETRY_PAUSE_MS for before, then in pairwise(times))
        said = [event for event, _ in bench.log.at("warning")]
        assert said == (["ISR changes not granted, retrying"] if whole else [])
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, THIRD), 9))]

    in_virtual_time(main)


def test_of_several_partitions_only_those_without_an_answer_are_retried() -> None:
    async def main(loop: SimLoop) -> None:
        async def partly(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            answer = granting(request, version)
            if len(bench.asked()) == 1:
                del answer.topics[0]
            return answer

        bench = Bench(partly)
        bench.propose(ONE, wanted(ME, THIRD))
        bench.propose(TWO, wanted(ME, THIRD))
        await elapse(1)
        assert bench.partitions() == [["t", "u"], ["t"]]
        assert [name for name, _ in bench.verdicts] == [TWO, ONE]

    in_virtual_time(main)


def test_the_broker_epoch_is_the_one_of_the_moment() -> None:
    async def main(loop: SimLoop) -> None:
        async def of_this_life(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            if request.broker_epoch == BROKER_EPOCH:
                bench.epoch += 1
                return AlterPartitionResponse(error_code=77)
            return granting(request, version)

        bench = Bench(of_this_life)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert [request.broker_epoch for request in bench.asked()] == [BROKER_EPOCH, BROKER_EPOCH + 1]
        assert len(bench.verdicts) == 1

    in_virtual_time(main)


def test_a_newer_proposal_takes_the_place_of_one_under_way_whose_answer_then_means_nothing() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(0.005)
        bench.propose(ONE, wanted(ME, epoch=6))
        await elapse(1)
        assert bench.verdicts == [(ONE, IsrGrant(6, (ME,), 9))]
        assert len(bench.asked()) == 2

    in_virtual_time(main)


def test_a_withdrawn_proposal_is_not_answered_and_not_retried() -> None:
    async def main(loop: SimLoop) -> None:
        async def never(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            raise Unreachable("connection refused")

        bench = Bench(never)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert len(bench.asked()) > 1
        bench.changes.withdraw(ONE)
        await elapse(0.1)  # What is under way is not called back.
        before = len(bench.asked())
        await elapse(1)
        assert (len(bench.asked()), bench.verdicts) == (before, [])
        assert [event for event, _ in bench.log.at("warning")] == ["ISR changes not granted, retrying"]

    in_virtual_time(main)


def test_a_grant_to_another_leader_is_stale() -> None:
    async def main(loop: SimLoop) -> None:
        async def other_leads(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            answer = granting(request, version)
            answer.topics[0].partitions[0].leader_id = THIRD
            return answer

        bench = Bench(other_leads)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert bench.verdicts == [(ONE, IsrRefusal.STALE)]

    in_virtual_time(main)


def test_a_controller_that_hangs_is_left_as_soon_as_another_one_is_known() -> None:
    async def main(loop: SimLoop) -> None:
        async def hang(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            return await (silence(None) if bench.metadata.controller_id == OTHER else agree(request, version))

        bench = Bench(hang)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        bench.metadata.set_brokers(THIRD, [])
        bench.metadata.changed()
        await elapse(0.5)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, THIRD), 9))]
        assert [(sent.broker_id, type(sent.request).__name__) for sent in bench.links.sent] == [
            (OTHER, "ApiVersionsRequest"),
            (OTHER, "AlterPartitionRequest"),
            (THIRD, "ApiVersionsRequest"),
            (THIRD, "AlterPartitionRequest"),
        ]
        assert bench.links.made[0].is_closed

    in_virtual_time(main)


def test_while_no_controller_is_known_nothing_is_sent_and_nothing_is_lost() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.metadata.set_brokers(BrokerId(-1), [])
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(ANSWER_TIMEOUT_MS / 1000)
        assert (bench.links.sent, bench.verdicts) == ([], [])
        bench.metadata.set_brokers(OTHER, [])
        bench.metadata.changed()
        await elapse(1)
        assert len(bench.verdicts) == 1

    in_virtual_time(main)


def test_a_controller_in_the_same_process_gets_requests_without_the_network() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench()
        bench.metadata.set_brokers(ME, [])
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert bench.verdicts == [(ONE, IsrGrant(5, (ME, THIRD), 9))]
        assert (bench.links.sent, bench.local) == ([], [3])

    in_virtual_time(main)


def test_api_versions_are_requested_again_after_a_broken_connection() -> None:
    async def main(loop: SimLoop) -> None:
        async def once(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            if len(bench.asked()) == 1:
                bench.served = 1
                raise Unreachable("it closed the connection")
            return granting(request, version)

        bench = Bench(once)
        bench.propose(ONE, wanted(ME, THIRD))
        await elapse(1)
        assert [sent.version for sent in bench.links.sent] == [3, 3, 3, 1]
        assert len(bench.verdicts) == 1

    in_virtual_time(main)


FATES = ("granted", "stale", "again", "lost", "refused", "whole")


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(st.sampled_from(FATES), max_size=15),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=12),
)
def test_every_proposal_that_is_not_withdrawn_gets_one_answer_and_is_not_requested_after_it(
    fates: list[str], proposals: list[tuple[int, int]]
) -> None:
    async def main(loop: SimLoop) -> None:
        left = iter(fates)
        settled: set[tuple[int, int]] = set()

        async def fickle(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
            asked = {(row.partition_index, row.leader_epoch) for topic in request.topics for row in topic.partitions}
            assert not asked & settled, "requested again after its answer"
            fate = next(left, "granted")
            if fate == "refused":
                raise Unreachable("connection refused")
            await elapse(0.01)
            if fate == "lost":
                raise Unreachable("it closed the connection")
            if fate == "whole":
                return AlterPartitionResponse(error_code=41)
            if fate != "again":
                settled.update(asked)
            return granting(request, version, {"granted": 0, "stale": 74, "again": 41}[fate])

        bench = Bench(fickle)
        newest: dict[int, int] = {}
        for epoch, (partition, pause_ms) in enumerate(proposals):
            newest[partition] = epoch
            bench.propose(TopicPartition("t", partition), wanted(ME, epoch=epoch))
            await elapse(pause_ms / 1000)
        await elapse(5)
        granted = [verdict for _, verdict in bench.verdicts if isinstance(verdict, IsrGrant)]
        assert len({grant.leader_epoch for grant in granted}) == len(granted)
        verdicts = [name.partition for name, _ in bench.verdicts]
        assert set(verdicts) == set(newest)
        assert len(verdicts) <= len(proposals)
        assert not bench.changes._pending
        assert all(task.done() for task in bench.tasks)

    in_virtual_time(main)
