"""`isolation="process"`: the same interface with the brokers in a process of their own, which ends with the test's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from sordini.broker.configuration.settings import ConfigError
from sordini.testing import Kafka, KitError, SiteFailed, make_kafka
from sordini.testing.control.remote_site import REPORT_S, START_S, RemoteSite
from tests.support.group_consumer import GroupConsumer, joined, poll_until
from tests.testing.clients import producer


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    with make_kafka(3, isolation="process", topics={"there": 2}) as made:
        yield made


def is_there(process_id: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(process_id: int) -> None:
    end = time.monotonic() + 20
    while is_there(process_id):
        assert time.monotonic() < end, f"process {process_id} still runs"
        time.sleep(0.01)


def test_a_rule_counts_and_shows_what_it_has_done(cluster: Kafka) -> None:
    orders = cluster.topic()
    with cluster.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS") as rule:
        one = producer(cluster)
        one.produce(orders, b"one")
        assert one.flush(20) == 0
        assert rule.used == 2
    assert rule.used == 2
    sent = [request for request in cluster.requests("Produce") if request.sequences[0][0] == orders]
    assert [request.sequences for request in sent] == [[(orders, 0, 0)]] * 3
    assert [request.fault is None for request in sent] == [False, False, True]
    assert cluster.requests("Produce", when=lambda one: one.body.acks != -1) == []
    assert f"Produce of topic {orders} fails with NOT_ENOUGH_REPLICAS, used 2 of 2 times" in cluster.report()
    cluster.assert_produced(orders, ["one"])


def test_a_held_request_is_let_go_by_its_rule(cluster: Kafka) -> None:
    orders = cluster.topic()
    one = producer(cluster)
    with cluster.on("Produce", topic=orders, times=1).hold(before=True) as rule:
        one.produce(orders, b"one")
        cluster.wait_for(lambda: rule.used == 1)
        cluster.assert_produced(orders, [])
        rule.release()
        assert one.flush(20) == 0
    with cluster.on("Produce", topic=orders, after=1, times=1).close_connection(after=True) as rule:
        for text in (b"two", b"three"):
            one.produce(orders, text)
            assert one.flush(20) == 0
    assert rule.used == 1, "what it did is known although nothing was asked while it was in force"
    cluster.assert_produced(orders, ["one", "two", "three"])


@pytest.mark.parametrize("choice", ["delay", "drop_answer", "drop_request", "close_connection", "corrupt"])
def test_every_fault_crosses_with_what_it_was_given(cluster: Kafka, choice: str) -> None:
    selected: dict[str, Any] = {"topic": "a", "partition": 3, "group": "g", "member_id": "m", "client_id": "c"}
    rule = cluster.on("OffsetCommit", **selected, broker=2, times=4, after=5)
    if choice == "delay":
        rule.delay(250)
    else:
        getattr(rule, choice)()
    (found,) = cluster._cluster.ask("GET", "/faults")  # type: ignore[attr-defined]
    assert found["text"] == rule.text()
    expected = {**selected, "broker": 2, "times": 4, "after": 5}
    assert {name: found[name] for name in expected} == expected
    assert (found["do"], found["used"]) == (choice, 0)


def test_brokers_are_killed_paused_cut_off_and_their_disks_fill(cluster: Kafka) -> None:
    orders = cluster.topic(replicas=3)
    cluster.produce(orders, ["one"])
    leader = cluster.leader(orders)
    cluster.brokers[leader - 1].kill()
    assert not cluster.brokers[leader - 1].is_running
    assert cluster.leader(orders) != leader
    cluster.brokers[leader - 1].restart()
    moved = cluster.move_leader(orders)
    follower = next(broker for broker in cluster.brokers if broker.id not in (moved, cluster.controller()))
    cluster.wait_for(lambda: follower.id in cluster.in_sync(orders))
    follower.partition_from(moved)
    cluster.produce(orders, "two", acks=1)
    before = cluster.clock.now_ms()
    cluster.clock.advance(60)
    assert cluster.clock.now_ms() - before >= 60_000
    cluster.wait_for(lambda: follower.id not in cluster.in_sync(orders))
    cluster.undo_faults()
    cluster.wait_for(lambda: follower.id in cluster.in_sync(orders))
    cluster.brokers[moved - 1].pause(detected=True)
    cluster.wait_for(lambda: cluster.leader(orders) != moved)
    cluster.brokers[moved - 1].resume()
    follower.disk_full()
    follower.slow_disk(5)
    follower.heal_disk()
    cluster.assert_produced(orders, ["one", "two"])
    assert any("killed" in line for line in cluster.report().splitlines())
    assert cluster.log_lines(5)


def test_a_member_is_fenced_and_its_heartbeats_are_held_in_the_other_process(cluster: Kafka) -> None:
    orders = cluster.topic(partitions=2)
    group = cluster.group("fenced")
    with joined(cluster.bootstrap_servers, "fenced", orders) as member:
        poll_until([member], lambda: member.partitions == [0, 1])
        (found,) = cluster.members("fenced")
        assert (found.id, found.protocol, len(found.assigned)) == (member.member_id, "consumer", 2)
        with group.fence(found) as fault:
            poll_until([member], lambda: member.losses == 1 and member.partitions == [0, 1])
        assert fault.used == 1
        with group.hold_heartbeats() as fault:
            poll_until([member], lambda: fault.used == 1)
            fault.release()
        said = f"of group fenced, member id {member.member_id} fails with FENCED_MEMBER_EPOCH, used 1 of 1 times"
        assert said in cluster.report()
    with cluster.group("refused").refuse_assignor("range"):
        member = GroupConsumer(cluster.bootstrap_servers, "refused", orders, **{"group.remote.assignor": "range"})
        poll_until([member], lambda: member.errors != [])
        member.close()


def test_members_are_expelled_producers_fenced_and_topics_expired(cluster: Kafka) -> None:
    orders = cluster.topic()
    till = producer(cluster, **{"transactional.id": "till"})
    till.init_transactions(20)
    till.begin_transaction()
    till.produce(orders, b"one")
    till.flush(20)
    cluster.fence("till")
    with pytest.raises(KafkaException) as refused:
        till.commit_transaction(20)
    assert refused.value.args[0].fatal()
    cluster.produce(orders, ["two"])
    settings = {"group.id": "shop", "auto.offset.reset": "earliest", "log_level": 0}
    reader = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    reader.subscribe([orders])
    cluster.wait_for(lambda: reader.poll(0.05) is not None)
    assert len(cluster.members("shop")) == 1
    cluster.expel("shop")
    reader.close()
    cluster.expire(orders)
    assert cluster.records(orders) == []


def test_a_function_cannot_cross_and_the_error_says_so(cluster: Kafka) -> None:
    with pytest.raises(
        ValueError, match=r"when=\.\.\.: a function cannot be sent to the brokers' process; use isolation="
    ):
        cluster.on("Produce", when=lambda body: body.acks == 1).fail("NOT_ENOUGH_REPLICAS")
    assert cluster._cluster.script.rules == []


def test_wrong_settings_are_refused_by_their_name() -> None:
    with pytest.raises(ValueError, match="isolation='container': allowed is one of 'thread', 'process'"):
        make_kafka(isolation="container")
    for name, said in (
        ("min.insync.replicas", "min.insync.replicas='none'"),
        ("no.key", "config='no.key' is not a key"),
    ):
        with pytest.raises(ConfigError, match=said):
            make_kafka(isolation="process", config={name: "none"}).start()


def test_a_closed_cluster_has_no_process_and_says_so() -> None:
    kafka = make_kafka(isolation="process").start()
    cluster = kafka._cluster
    assert isinstance(cluster, RemoteSite)
    process_id = cluster.process_id
    assert process_id is not None
    assert is_there(process_id)
    bootstrap = kafka.bootstrap_servers
    kafka.close()
    assert not is_there(process_id)
    assert kafka.bootstrap_servers == bootstrap
    with pytest.raises(KitError, match="no broker runs"):
        kafka.topic()
    kafka.close()


def test_a_process_that_was_killed_is_named_by_what_does_not_work() -> None:
    with make_kafka(isolation="process") as kafka:
        cluster = kafka._cluster
        assert isinstance(cluster, RemoteSite)
        assert cluster.process_id is not None
        os.kill(cluster.process_id, signal.SIGKILL)
        with pytest.raises(SiteFailed, match="the brokers' process does not respond: "):
            kafka.topic()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGSTOP, f"the brokers' process has said nothing for {START_S:g} s"),
        (signal.SIGKILL, "the brokers' process ended with status -9"),
    ],
)
def test_a_start_that_fails_says_why_in_time_and_leaves_nothing(number: int, said: str) -> None:
    site = RemoteSite(1, {}, 0)
    signalled: list[int] = []

    def interfere() -> None:
        while site.process_id is None:
            time.sleep(0.001)
        signalled.append(site.process_id)
        os.kill(site.process_id, number)

    thread = threading.Thread(target=interfere)
    thread.start()
    before = time.monotonic()
    with pytest.raises(SiteFailed, match=said):
        site.start()
    assert time.monotonic() - before < START_S + 2
    thread.join()
    assert not is_there(signalled[0])


def test_brokers_that_do_not_start_in_time_say_what_they_did() -> None:
    site = RemoteSite(9, {}, 0)
    site.start_s = REPORT_S  # So nothing of it is left for the brokers.
    with (
        closing(site),
        pytest.raises(SiteFailed, match=r"not all brokers serve after [\d.e-]+ s: |has said nothing for 0"),
    ):
        site.start()


FORKING = """
import os, sys, time
from sordini.testing import make_kafka

kafka = make_kafka(isolation="process").start()
forked = os.fork()
if not forked:
    time.sleep(600)
print(kafka._cluster.process_id, forked, flush=True)
time.sleep(600)
"""


def test_the_brokers_end_although_a_forked_process_keeps_the_pipe() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as test:
        assert test.stdout is not None
        brokers, forked = map(int, test.stdout.readline().split())
        try:
            assert is_there(brokers)
            test.kill()
            test.wait(20)
            wait_until_gone(brokers)
            assert is_there(forked)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_an_error_that_is_final_reaches_the_client(cluster: Kafka) -> None:
    orders = cluster.topic()
    errors: list[KafkaError | None] = []
    one = producer(cluster)
    with cluster.on("PRODUCE", topic=orders).fail("TOPIC_AUTHORIZATION_FAILED"):
        one.produce(orders, b"one", on_delivery=lambda error, _: errors.append(error))
        one.flush(20)
    assert [error.code() for error in errors if error] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
