"""Our controller over brokers of Apache Kafka: each thing it does is written as theirs writes it (experiment A3).

ZooKeeper's own transaction log is the witness: the same changes, each under a guard of its own. With `--broker apache`
broker 4 is an Apache Kafka as well, so that what is asked here is what it does itself. Only how far changes of
different partitions are in step is left open, and whether settings are written together with what they belong to.
"""

from __future__ import annotations

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sordini.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.cluster.cluster import SECONDS_MAX, STOPPED, Cluster, Partition, config_of
from tests.cluster.kept_records import assert_kept, folders, written
from tests.cluster.load_and_checks import Work
from tests.cluster.witness import Witness
from tests.outside.failing import failing
from tests.support.wire_client import Client

RULER = 4


def reassign(cluster: Cluster, partition: Partition, replicas: list[int] | None) -> int:
    """Ask the controller for other replicas, or for the end of a move; its code for the partition."""
    one = ReassignablePartition(partition_index=partition[1], replicas=replicas)
    wanted = ReassignableTopic(name=partition[0], partitions=[one])
    with Client("127.0.0.1", cluster.brokers[RULER].port) as client:
        request = AlterPartitionReassignmentsRequest(topics=[wanted])
        answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
    assert answer.error_code == 0, answer
    code: int = answer.responses[0].partitions[0].error_code
    return code


def wait_until_moved(cluster: Cluster, partition: Partition, replicas: list[int]) -> None:
    topic, number = partition

    def is_moved() -> bool:
        node = cluster.tree.read(f"/brokers/topics/{topic}")
        return cluster.tree.assignment(topic)[number] == replicas and not node["adding_replicas"]

    cluster.wait(is_moved, f"{partition} is on {replicas}")
    cluster.wait_for_isr(partition, replicas)


def delete(cluster: Cluster, topic: str) -> None:
    cluster.ask_controller(lambda admin: admin.delete_topics([topic], operation_timeout=0))


def wait_until_deleted(cluster: Cluster, topic: str) -> None:
    nodes = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    cluster.wait(lambda: not any(cluster.tree.exists(node) for node in nodes), f"every node of {topic} is gone")


def elect_preferred(cluster: Cluster, partition: Partition) -> int:
    """The controller's code for an election of the partition's first replica."""
    wanted = TopicPartitions(topic=partition[0], partitions=[partition[1]])
    with Client("127.0.0.1", cluster.brokers[RULER].port) as client:
        answer = client.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=[wanted]))
    assert answer.error_code == ErrorCode.NONE
    code: int = answer.replica_election_results[0].partition_result[0].error_code
    return code


def test_a_topic_is_written_as_apache_kafka_writes_it(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("made", [[1, 2, 4], [2, 3, 1]], {"retention.ms": "123456789"})
    node = "/brokers/topics/made"
    assert sorted(map(str, witness.writes("made"))) == [
        f"create {node}",
        "create /config/topics/made",
        f"guarded create {node}/partitions",
        f"guarded create {node}/partitions/0",
        f"guarded create {node}/partitions/0/state",
        f"guarded create {node}/partitions/1",
        f"guarded create {node}/partitions/1/state",
    ]
    assert witness.states("made", 0) == [(1, 0, {1, 2, 4})]
    assert witness.states("made", 1) == [(2, 0, {2, 3, 1})]
    assert config_of(ruled.tree, "made") == {"retention.ms": "123456789"}
    assert ("topic_id" in ruled.tree.read(node)) == (ruled.protocol != "2.7")
    assert_kept(ruled, partitions, written(ruled, partitions))


def test_settings_changed_through_either_kind_of_broker_reach_both(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("altered", [[1, 2, 4], [4, 2, 1]])
    witness.forget()
    for key, value in (("retention.ms", "1234567"), ("max.message.bytes", "2000")):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ResourceType.TOPIC, "altered", incremental_configs=[entry])
        for future in ruled.admin.incremental_alter_configs([wanted]).values():
            future.result(SECONDS_MAX)
    assert config_of(ruled.tree, "altered") == {"retention.ms": "1234567", "max.message.bytes": "2000"}
    assert [one.kind for one in witness.writes("altered")] == ["set", "set"]
    for broker in (1, RULER):
        ruled.wait(lambda one=broker: value_known_to(ruled, one, "altered") == "2000", f"{broker} knows the new size")
    assert_kept(ruled, partitions, written(ruled, partitions))


def value_known_to(cluster: Cluster, broker: int, topic: str) -> str | None:
    """The largest batch that one broker says it takes for a topic."""
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = cluster.admin.describe_configs([wanted], broker=broker).values()
    value: str | None = future.result(SECONDS_MAX)["max.message.bytes"].value
    return value


def test_added_partitions_are_written_as_apache_kafka_writes_them(ruled: Cluster, witness: Witness) -> None:
    ruled.create("grown", [[1, 4, 2]])
    witness.forget()
    ruled.add_partitions("grown", [[2, 3, 1], [3, 1, 4]])
    partitions = [("grown", number) for number in range(3)]
    ruled.wait_for_full_isr(partitions)
    node = "/brokers/topics/grown"
    assert sorted(map(str, witness.writes("grown"))) == [
        f"guarded create {node}/partitions/1",
        f"guarded create {node}/partitions/1/state",
        f"guarded create {node}/partitions/2",
        f"guarded create {node}/partitions/2/state",
        f"set {node}",
    ]
    assert_kept(ruled, partitions, written(ruled, partitions))


def test_a_deleted_topic_loses_its_leaders_then_its_data_then_its_nodes(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("doomed", [[1, 2, 4]])
    written(ruled, partitions)
    witness.forget()
    delete(ruled, "doomed")
    wait_until_deleted(ruled, "doomed")
    node = "/brokers/topics/doomed"
    writes = list(map(str, witness.writes("doomed")))
    assert writes[0] == "create /admin/delete_topics/doomed"
    assert set(writes[1:-6]) == {f"guarded set {node}/partitions/0/state"}
    assert writes[-6:] == [
        f"guarded delete {node}/partitions/0/state",
        f"guarded delete {node}/partitions/0",
        f"guarded delete {node}/partitions",
        f"guarded delete {node}",
        "guarded delete /config/topics/doomed",
        "guarded delete /admin/delete_topics/doomed",
    ]
    leader, _, in_sync = witness.states("doomed", 0)[-1]
    assert (leader, len(in_sync)) == (-1, 1)
    for broker in (1, 2, 4):
        ruled.wait(lambda one=broker: not folders(ruled, one, "doomed"), f"{broker} has removed the topic's folders")


def test_a_deletion_waits_for_a_broker_that_is_away_and_is_resumed(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("resumed", [[1, 3]])
    written(ruled, partitions)
    ruled.kill(3)
    ruled.wait_until_gone(3)
    delete(ruled, "resumed")
    ruled.wait(lambda: not folders(ruled, 1, "resumed"), "1 has removed the topic's folder")
    assert ruled.tree.exists("/brokers/topics/resumed")
    assert ruled.tree.exists("/admin/delete_topics/resumed")
    ruled.restart(3)
    wait_until_deleted(ruled, "resumed")
    ruled.wait(lambda: not folders(ruled, 3, "resumed"), "3 has removed the topic's folder")
    assert all(one.is_guarded for one in witness.writes("resumed") if one.kind == "delete")


def test_a_move_grows_the_replicas_and_then_drops_those_that_go(ruled: Cluster, witness: Witness) -> None:
    (partition,) = ruled.create("moved", [[1, 2]])
    early = written(ruled, [partition])
    witness.forget()
    assert reassign(ruled, partition, [3, 1]) == ErrorCode.NONE
    wait_until_moved(ruled, partition, [3, 1])
    assert witness.assignments("moved", 0) == [([3, 1, 2], [3], [2]), ([3, 1], [], [])]
    assert witness.states("moved", 0) == [
        (1, 1, {1, 2}),
        (1, 1, {1, 2, 3}),
        (1, 2, {1, 2, 3}),
        (1, 3, {1, 3}),
    ]
    ruled.wait(lambda: not folders(ruled, 2, "moved"), "2 has removed the partition")
    assert_kept(ruled, [partition], early, written(ruled, [partition]))


def test_a_partition_moves_from_apache_kafka_to_ours_and_back(ruled: Cluster, witness: Witness) -> None:
    (partition,) = ruled.create("there-and-back", [[1, 2]])
    histories = [written(ruled, [partition])]
    for replicas in ([4, 3], [2, 1]):
        assert reassign(ruled, partition, replicas) == ErrorCode.NONE
        wait_until_moved(ruled, partition, replicas)
        assert ruled.leader(partition) in replicas
        histories.append(written(ruled, [partition]))
        gone = {1, 2, 3, 4} - set(replicas)
        ruled.wait(
            lambda away=gone: not any(folders(ruled, one, "there-and-back") for one in away),
            f"{sorted(gone)} have removed the partition",
        )
    assert len(witness.assignments("there-and-back", 0)) == 4
    assert_kept(ruled, [partition], *histories)


def test_a_move_that_cannot_end_is_cancelled_and_leaves_everything_as_it_was(ruled: Cluster, witness: Witness) -> None:
    (partition,) = ruled.create("cancelled", [[1, 2]])
    history = written(ruled, [partition])
    witness.forget()
    with ruled.brokers[3].hung():
        assert reassign(ruled, partition, [1, 3]) == ErrorCode.NONE
        ruled.wait(lambda: ruled.tree.assignment("cancelled")[0] == [1, 3, 2], "the move has begun")
        assert reassign(ruled, partition, None) == ErrorCode.NONE
        wait_until_moved(ruled, partition, [1, 2])
    assert witness.assignments("cancelled", 0) == [([1, 3, 2], [3], [2]), ([1, 2], [], [])]
    assert {leader for leader, _, _ in witness.states("cancelled", 0)} == {1}
    assert reassign(ruled, partition, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(ruled, partition, [1, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if ruled.is_ours(RULER):  # An Apache Kafka 2.7.2 keeps the replica of a broker that gets both commands at once.
        ruled.wait(lambda: not folders(ruled, 3, "cancelled"), "3 has removed what it had of the partition")
    assert_kept(ruled, [partition], history)


def test_the_preferred_leader_is_elected_in_an_epoch_of_its_own(ruled: Cluster, witness: Witness) -> None:
    (partition,) = ruled.create("preferred", [[1, 2, 4]])
    ruled.brokers[1].restart()
    ruled.wait_for_full_isr([partition])
    before = ruled.tree.state(*partition)
    assert before is not None
    assert before.leader == 2
    witness.forget()
    assert elect_preferred(ruled, partition) == ErrorCode.NONE
    ruled.wait_for_leader(partition, 1)
    assert witness.states("preferred", 0) == [(1, before.leader_epoch + 1, {1, 2, 4})]
    assert elect_preferred(ruled, partition) == ErrorCode.ELECTION_NOT_NEEDED
    assert_kept(ruled, [partition], written(ruled, [partition]))


def test_a_killed_broker_loses_what_it_led_and_its_places_and_comes_back(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("dies", [[1, 2, 4], [2, 1, 4]])
    alone = ruled.create("dies-alone", [[1]])
    early = written(ruled, partitions)
    witness.forget()
    ruled.kill(1)
    ruled.wait_for_leader(partitions[0], 2)
    ruled.wait_for_isr(partitions[1], {2, 4})
    ruled.wait_for_leader(alone[0], -1)
    assert witness.states("dies", 0) == [(2, 1, {2, 4})]
    assert witness.states("dies", 1) == [(2, 1, {2, 4})]
    assert witness.states("dies-alone", 0) == [(-1, 1, {1})]
    between = written(ruled, partitions)
    ruled.restart(1)
    ruled.wait_for_full_isr(partitions)
    ruled.wait_for_leader(alone[0], 1)
    assert witness.states("dies", 0)[1:] == [(2, 1, {1, 2, 4})]
    assert witness.states("dies-alone", 0)[1:] == [(1, 2, {1})]
    assert_kept(ruled, partitions, early, between)


def test_a_broker_that_stops_in_order_is_relieved_of_all_it_shares(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("leaves", [[1, 2, 4], [2, 1, 4]])
    (alone,) = ruled.create("stays", [[1]])
    history = written(ruled, partitions)
    witness.forget()
    ruled.brokers[1].terminate()
    assert ruled.brokers[1].wait_for_exit(SECONDS_MAX) in STOPPED
    assert witness.states("leaves", 0) == [(2, 1, {2, 4})]
    assert witness.states("leaves", 1) == [(2, 1, {2, 4})]
    ruled.restart(1)
    ruled.wait_for_full_isr(partitions)
    ruled.wait_for_leader(alone, 1)
    assert_kept(ruled, partitions, history)


def test_a_failed_log_directory_of_apache_kafka_costs_only_what_is_in_it(ruled: Cluster, witness: Witness) -> None:
    partitions = ruled.create("failing", [[1, 2, 4], [1, 4, 2]])
    early = written(ruled, partitions)
    found = {n: path for n in range(2) for path in ruled.brokers[1].directory.glob(f"data*/failing-{n}")}
    assert found[0].parent != found[1].parent, "they are in different log directories"
    witness.forget()
    with failing(ruled.brokers[1], "write,pwrite64", found[0] / f"{0:020d}.log"):
        late = written(ruled, partitions, records=50)
        ruled.wait_for_leader(partitions[0], 2)
    ruled.wait_for_isr(partitions[0], {2, 4})
    assert ruled.leader(partitions[1]) == 1
    assert witness.states("failing", 0)[0] == (2, 1, {2, 4})
    ruled.wait(lambda: not ruled.tree.children("/log_dir_event_notification"), "the notification is taken")
    ruled.brokers[1].restart()
    ruled.wait_for_full_isr(partitions)
    assert_kept(ruled, partitions, early, late)


def test_the_load_continues_while_the_controller_moves_between_the_kinds(ruled: Cluster) -> None:
    with Work(ruled, "reigns", [[1, 2, 4], [4, 2, 1]]) as work:
        for wanted in (2, RULER, 1, RULER):
            epoch = ruled.tree.controller_epoch()
            ruled.move_controller(wanted)
            assert ruled.tree.controller_epoch() > epoch
            work.go_on()
            ruled.create(f"by-{wanted}-{epoch}", [[4, 1, 3]])
        ruled.wait_for_full_isr(work.partitions)


def test_apache_kafka_finishes_what_ours_began_and_ours_what_it_began(ruled: Cluster) -> None:
    partitions = ruled.create("unfinished", [[1, 3]])
    written(ruled, partitions)
    for ruler, heir in ((RULER, 2), (2, RULER)):
        topic = f"unfinished-by-{ruler}"
        ruled.move_controller(ruler)
        ruled.create(topic, [[1, 3]])
        ruled.kill(3)
        ruled.wait_until_gone(3)
        delete(ruled, topic)
        ruled.wait(lambda name=topic: not folders(ruled, 1, name), "1 has removed the topic's folder")
        ruled.move_controller(heir)
        ruled.restart(3)
        wait_until_deleted(ruled, topic)
    ruled.wait_for_full_isr(partitions)
