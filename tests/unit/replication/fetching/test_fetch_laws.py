"""After any faults between them end, the follower's log is the leader's, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import NO_TOPIC_ID, TopicPartition
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import InterBrokerVersions, versions_for
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.builders import a_batch
from tests.support.partitions import checked
from tests.support.parts import examples
from tests.support.replica_pair import LEADER, NAME, Pair, in_virtual_time

SECOND = TopicPartition("orders", 1)
PROTOCOLS = {
    "2.7-IV0": versions_for((2, 7), 0),
    "2.7": versions_for((2, 7), 2),
    "3.0": versions_for((3, 0), 1),
    "3.9": versions_for((3, 9), 0),
}

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([NAME, SECOND]), st.integers(1, 5)),
    st.tuples(st.just("trickle"), st.sampled_from([NAME, SECOND]), st.integers(4, 9)),
    st.tuples(st.just("trouble"), st.sampled_from(["before", "after", "late"]), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.0001, 0.003, 0.3, 1.5]), st.none()),
    st.tuples(st.just("elect"), st.sampled_from([NAME, SECOND]), st.none()),
    st.tuples(st.just("usurp"), st.sampled_from([NAME, SECOND]), st.integers(0, 4)),
    st.tuples(st.just("delete"), st.sampled_from([NAME, SECOND]), st.integers(1, 3)),
    st.tuples(st.just("forget sessions"), st.none(), st.none()),
    st.tuples(st.just("unfollow"), st.sampled_from([NAME, SECOND]), st.none()),
    st.tuples(st.just("away"), st.floats(0.01, 2.0), st.none()),
)


async def carry_out(pair: Pair, steps: list[tuple[str, Any, Any]], epochs: dict[TopicPartition, int]) -> None:
    troubles: list[str] = []
    pair.wire.trouble = lambda _: troubles.pop(0) if troubles else None
    for step, what, number in steps:
        match step:
            case "append":
                pair.leader.append(number, what, value=b"%d" % pair.led(what).log.log_end_offset)
            case "trickle":  # So that rounds are driven by callbacks.
                for _ in range(number):
                    pair.leader.append(1, what)
                    await elapse(0.003)
            case "trouble":
                troubles += [what] * number
            case "wait":
                await elapse(what)
            case "elect":
                elect(pair, what, epochs)
            case "usurp":
                epochs[what] += 1
                usurper = pair.usurp(what, epoch=epochs[what])
                if number:
                    usurper.append(checked(a_batch(number, value=b"lost")), 0, all_replicas=False)
                elect(pair, what, epochs)
            case "delete":
                log = pair.led(what).log
                log.advance_log_start(min(log.log_start_offset + number, log.high_watermark))
            case "forget sessions":
                pair.leader.sessions._sessions.clear()
            case "unfollow":
                pair.fetchers.remove_partition(pair.followed(what))
            case "away":
                pair.wire.leaders.clear()
                await elapse(what)
                pair.wire.leaders[LEADER] = pair.leader


def elect(pair: Pair, name: TopicPartition, epochs: dict[TopicPartition, int], *, in_sync: bool = False) -> None:
    epochs[name] += 1
    topic_id = pair.followed(name).topic_id
    pair.assign(name, epoch=epochs[name], isr=(1, 2) if in_sync else (1,), topic_id=topic_id)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.lists(STEPS, max_size=25), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_lost_late_or_over_the_logs_become_equal(
    protocol: str, steps: list[tuple[str, Any, Any]], has_latency: bool
) -> None:
    in_virtual_time(lambda loop: law(loop, PROTOCOLS[protocol], steps, latency_s=0.0004 if has_latency else 0.0))


async def law(
    loop: SimLoop, versions: InterBrokerVersions, steps: list[tuple[str, Any, Any]], *, latency_s: float
) -> None:
    small = FetchSettings(partition_bytes_max=200, response_bytes_max=300)
    pair = Pair(loop, versions=versions, settings=small)
    pair.wire.latency_s = latency_s
    topic_id = None if versions.uses_topic_ids else NO_TOPIC_ID
    epochs = {NAME: 0, SECOND: 0}
    for name in epochs:
        pair.assign(name, isr=(1,), topic_id=topic_id)
    await carry_out(pair, steps, epochs)
    pair.wire.trouble = lambda _: None
    for name in epochs:
        elect(pair, name, epochs)
        pair.leader.append(1, name)
    await pair.until(lambda: all(pair.is_equal(name) for name in epochs), 60)
    for name in epochs:
        await pair.until(lambda name=name: pair.followed(name).log.high_watermark == pair.led(name).log.log_end_offset)
        assert pair.followed(name).log.epochs.entries[-1] == pair.led(name).log.epochs.entries[-1]
    await pair.stop()
    assert len(pair.fetchers) == 0
