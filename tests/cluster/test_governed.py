"""A controller of Apache Kafka over ours: each thing it does ends in the nodes as it does among its own (A4)."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sordini.protocol.errors import ErrorCode
from tests.cluster.cluster import SECONDS_MAX, STOPPED, Cluster, Partition, config_of
from tests.cluster.history import History, Sent
from tests.cluster.kept_records import assert_kept, folders, written
from tests.outside.failing import failing
from tests.support.wire_client import Client


def test_a_topic_is_made_on_ours_and_deleted(governed: Cluster) -> None:
    partitions = governed.create("made", [[4, 1, 2], [2, 4, 1]])
    states = [governed.tree.state(*one) for one in partitions]
    assert [(state.leader, state.leader_epoch) for state in states if state] == [(4, 0), (2, 0)]
    governed.wait(lambda: folders(governed, 4, "made") == {"made-0", "made-1"}, "ours has a folder for each")
    written(governed, partitions)
    governed.ask_controller(lambda admin: admin.delete_topics(["made"]))
    tree = governed.tree
    nodes = ("/brokers/topics/made", "/config/topics/made", "/admin/delete_topics/made")
    governed.wait(lambda: not any(tree.exists(node) for node in nodes), "every node of the topic is gone")
    governed.wait(lambda: not folders(governed, 4, "made"), "ours has removed the topic's folders")


def test_a_topics_settings_reach_our_leader_while_it_runs(governed: Cluster) -> None:
    (partition,) = governed.create("altered", [[4, 1, 2]])
    kept = written(governed, [partition])
    entry = ConfigEntry("max.message.bytes", "200", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, "altered", incremental_configs=[entry])
    for future in governed.admin.incremental_alter_configs([wanted]).values():
        future.result(SECONDS_MAX)
    assert config_of(governed.tree, "altered") == {"max.message.bytes": "200"}
    tried = History()
    governed.wait(lambda: refuses(governed, partition, tried), "records of 400 bytes are refused")
    assert_kept(governed, [partition], kept, tried)


def refuses(cluster: Cluster, partition: Partition, tried: History) -> bool:
    """Whether a record of 400 bytes is too large by now."""
    value = uuid4().hex.encode().ljust(400)
    tried.sent.append(Sent(partition, value, len(tried.sent)))
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 10_000})
    producer.produce(partition[0], value, partition=partition[1], on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    return bool(errors) and errors[0] is not None and errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_partitions_are_added_on_ours(governed: Cluster) -> None:
    first = governed.create("grown", [[1, 4, 2]])
    governed.add_partitions("grown", [[4, 2, 3], [3, 1, 4]])
    partitions = [("grown", number) for number in range(3)]
    governed.wait_for_full_isr(partitions)
    assert [governed.leader(one) for one in partitions] == [1, 4, 3]
    wanted = {"grown-0", "grown-1", "grown-2"}
    governed.wait(lambda: folders(governed, 4, "grown") == wanted, "ours has a folder for each")
    history = written(governed, partitions)
    assert first == partitions[:1]
    assert_kept(governed, partitions, history)


def test_a_partition_is_reassigned_onto_ours_and_off_it_again(governed: Cluster) -> None:
    (partition,) = governed.create("moved", [[1, 2]])
    early = written(governed, [partition])
    governed.tree.reassign([("moved", 0, [4, 1])])
    governed.wait(lambda: not governed.tree.exists("/admin/reassign_partitions"), "the reassignment is done")
    assert governed.tree.assignment("moved") == {0: [4, 1]}
    assert governed.isr(partition) == {4, 1}
    governed.wait(lambda: not folders(governed, 2, "moved"), "2 has removed the partition")
    governed.tree.elect_preferred([partition])
    governed.wait_for_leader(partition, 4)
    between = written(governed, [partition])
    governed.tree.reassign([("moved", 0, [2, 3])])
    governed.wait(lambda: not governed.tree.exists("/admin/reassign_partitions"), "the reassignment is done")
    assert governed.tree.assignment("moved") == {0: [2, 3]}
    assert governed.isr(partition) == {2, 3}
    assert governed.leader(partition) in {2, 3}
    governed.wait(lambda: not folders(governed, 4, "moved"), "ours has removed the partition")
    late = written(governed, [partition])
    assert_kept(governed, [partition], early, between, late)


def test_the_preferred_leader_is_elected_to_ours_and_the_set_stays_whole(governed: Cluster) -> None:
    (partition,) = governed.create("preferred", [[4, 1, 2]])
    governed.brokers[4].restart()
    governed.wait_for_full_isr([partition])
    before = governed.tree.state(*partition)
    assert before is not None
    assert before.leader != 4
    governed.tree.elect_preferred([partition])
    governed.wait_for_leader(partition, 4)
    after = governed.tree.state(*partition)
    assert after is not None
    assert after.leader_epoch == before.leader_epoch + 1
    assert set(after.isr) == set(before.isr)
    assert_kept(governed, [partition], written(governed, [partition]))


def test_a_killed_broker_of_ours_loses_its_leaderships_and_comes_back_with_a_new_epoch(governed: Cluster) -> None:
    led, followed = partitions = governed.create("dies", [[4, 1, 2], [1, 4, 2]])
    early = written(governed, partitions)
    before = [governed.tree.state(*one) for one in partitions]
    epoch = governed.tree.broker_epoch(4)
    governed.kill(4)
    governed.wait_for_leader(led, 1)
    governed.wait_for_isr(followed, {1, 2})
    after = [governed.tree.state(*one) for one in partitions]
    assert [a.leader_epoch - b.leader_epoch for a, b in zip(after, before, strict=True) if a and b] == [1, 1]
    between = written(governed, partitions)
    governed.restart(4)
    assert governed.tree.broker_epoch(4) > epoch
    governed.wait_for_full_isr(partitions)
    grown = [governed.tree.state(*one) for one in partitions]
    assert [a.leader_epoch for a in grown if a] == [b.leader_epoch for b in after if b], "growing is no election"
    assert_kept(governed, partitions, early, between)


def test_a_controlled_shutdown_of_ours_moves_everything_away_before_it_leaves(governed: Cluster) -> None:
    led, followed = governed.create("leaves", [[4, 1, 2], [1, 4, 2]])
    (alone,) = governed.create("stays", [[4]])
    partitions = [led, followed, alone]
    history = written(governed, partitions)
    before = [governed.tree.state(*one) for one in partitions]
    governed.brokers[4].terminate()
    governed.wait_for_leader(led, 1)
    assert governed.brokers[4].wait_for_exit(SECONDS_MAX) in STOPPED
    for partition in (led, followed):
        assert governed.isr(partition) == {1, 2}
    assert "shut down without" not in governed.brokers[4].output()
    after = [governed.tree.state(*one) for one in partitions]
    assert [a.leader_epoch - b.leader_epoch for a, b in zip(after, before, strict=True) if a and b][:2] == [1, 1]
    governed.restart(4)
    governed.wait_for_full_isr(partitions)
    governed.wait_for_leader(alone, 4)
    assert_kept(governed, partitions, history)


def test_a_failed_log_directory_of_ours_costs_only_what_is_in_it(governed: Cluster) -> None:
    partitions = governed.create("failing", [[4, 1, 2], [4, 2, 1]])
    early = written(governed, partitions)
    found = {
        number: path for number in range(2) for path in governed.brokers[4].directory.glob(f"data*/failing-{number}")
    }
    assert found[0].parent != found[1].parent, "they are in different log directories"
    with failing(governed.brokers[4], "write,pwrite64", found[0] / f"{0:020d}.log"):
        late = written(governed, partitions, records=50)
        governed.wait_for_leader(partitions[0], 1)
    governed.wait_for_isr(partitions[0], {1, 2})
    assert governed.leader(partitions[1]) == 4
    governed.wait(lambda: not governed.tree.children("/log_dir_event_notification"), "the notification is taken")
    governed.brokers[4].restart()
    governed.wait_for_full_isr(partitions)
    assert_kept(governed, partitions, early, late)


def test_ours_refuses_what_only_the_controller_grants_and_names_the_controller(governed: Cluster) -> None:
    assert governed.admin.list_topics(timeout=SECONDS_MAX).controller_id == 1
    with Client("127.0.0.1", governed.brokers[4].port) as client:
        assert client.create("nowhere") == [ErrorCode.NOT_CONTROLLER]
    assert not governed.tree.exists("/brokers/topics/nowhere")
