"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

import errno

import pytest

from sordini.broker.administration.log_dirs_handler import LogDirsHandler
from sordini.broker.configuration.dynamic import CORDON, ConfigSource
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from sordini.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from sordini.testing.simulation.forgetful_disk import DISK_BYTES, ForgetfulDisk
from tests.support.builders import a_batch
from tests.support.partitions import checked
from tests.support.unit_broker import UnitBroker, a_broker

DIRS = ApiKey.DESCRIBE_LOG_DIRS
TWO = {"log.dirs": "/one,/two"}
BATCH = a_batch()


def described(
    broker: UnitBroker, wanted: dict[str, list[int]] | None = None, version: int = 5
) -> list[DescribeLogDirsResult]:
    rows = None
    if wanted is not None:
        rows = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in wanted.items()]
    answer = broker.ask(DIRS, version, DescribeLogDirsRequest(topics=rows))
    assert answer.error_code == 0
    return answer.results


def held(results: list[DescribeLogDirsResult]) -> dict[str, dict[tuple[str, int], int]]:
    """Sizes by directory and partition."""
    found = {}
    for result in results:
        rows = [(topic.name, row) for topic in result.topics for row in topic.partitions]
        assert all((row.offset_lag, row.is_future_key) == (0, False) for _, row in rows)
        found[result.log_dir] = {(name, row.partition_index): row.partition_size for name, row in rows}
    return found


async def a_filled_broker(broker: UnitBroker) -> None:
    await broker.lead("orders", 3)
    await broker.lead("bills")
    broker.parts.replicas.partition("orders", 1).append(checked(BATCH), 0, all_replicas=False)


@pytest.mark.parametrize("version", range(6))
async def test_every_directory_is_listed_with_its_replicas_their_sizes_and_its_free_space(version: int) -> None:
    async with a_broker(TWO) as broker:
        await a_filled_broker(broker)
        results = described(broker, version=version)
        assert held(results) == {
            "/one": {("orders", 0): 0, ("orders", 2): 0},
            "/two": {("orders", 1): len(BATCH), ("bills", 0): 0},
        }
        used = sum(len(data) for data in broker.disk.tree().values())
        room = (DISK_BYTES, DISK_BYTES - used) if version >= 4 else (-1, -1)
        assert [(result.total_bytes, result.usable_bytes) for result in results] == [room, room]


async def test_a_request_for_some_partitions_lists_only_those_and_for_none_only_the_directories() -> None:
    async with a_broker(TWO) as broker:
        await a_filled_broker(broker)
        some = {"orders": [1, 9], "nothing": [0], "bills": []}
        assert held(described(broker, some)) == {"/one": {}, "/two": {("orders", 1): len(BATCH)}}
        assert held(described(broker, {})) == {"/one": {}, "/two": {}}


async def test_an_offline_directory_is_listed_with_its_error_and_nothing_else() -> None:
    async with a_broker(TWO) as broker:
        await a_filled_broker(broker)
        log = broker.parts.replicas.partition("orders", 0).log
        log.log_dir.take_offline(OSError(errno.EIO, "no such disk"))
        first, second = described(broker)
        assert (first.log_dir, first.error_code, first.topics) == ("/one", ErrorCode.KAFKA_STORAGE_ERROR, [])
        assert (first.total_bytes, first.usable_bytes) == (-1, -1)
        assert (second.error_code, len(second.topics)) == (0, 2)


class SilentDisk(ForgetfulDisk):
    """A disk whose volumes do not say how large they are."""

    def space(self, path: str) -> tuple[int, int]:
        raise OSError(errno.ENOSYS, "not supported", path)


async def test_a_volume_that_does_not_say_how_large_it_is_takes_nothing_from_the_answer() -> None:
    async with a_broker(disk=SilentDisk()) as broker:
        await a_filled_broker(broker)
        (result,) = described(broker)
        assert (result.error_code, result.total_bytes, result.usable_bytes) == (0, -1, -1)
        assert len(held([result])["/logs"]) == 4


async def test_a_cordoned_directory_takes_no_new_partitions_and_is_flagged_from_version_5_on() -> None:
    async with a_broker({**TWO, "cordoned.log.dirs": "/two"}) as broker:
        await a_filled_broker(broker)
        results = described(broker)
        assert [(result.log_dir, result.is_cordoned) for result in results] == [("/one", False), ("/two", True)]
        assert held(results)["/two"] == {}
        assert [result.is_cordoned for result in described(broker, version=4)] == [False, False]


async def test_a_cordon_comes_and_goes_while_the_broker_runs() -> None:
    async with a_broker(TWO) as broker:
        broker.dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {CORDON: "/one"})
        await broker.lead("first", 2)
        broker.dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {})
        await broker.lead("second")
        assert held(described(broker)) == {"/one": {("second", 0): 0}, "/two": {("first", 0): 0, ("first", 1): 0}}


async def test_a_cordoned_directory_takes_a_partition_when_no_other_is_online() -> None:
    async with a_broker({**TWO, "cordoned.log.dirs": "/two"}) as broker:
        await broker.lead("orders")
        broker.parts.replicas.partition("orders", 0).log.log_dir.take_offline(OSError(errno.EIO, "no such disk"))
        await broker.lead("bills")
        first, second = described(broker)
        assert (first.error_code, first.is_cordoned) == (ErrorCode.KAFKA_STORAGE_ERROR, False)
        assert [topic.name for topic in second.topics] == ["bills"]


async def test_a_deleted_partition_is_not_listed() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        (log,) = broker.logs.logs()
        broker.parts.replicas.stop_replica(log.topic_partition, delete=True)
        assert held(described(broker)) == {"/logs": {}}


def test_a_refused_request_has_the_error_of_the_whole() -> None:
    answer = LogDirsHandler.describe_error_response(DescribeLogDirsRequest(), ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (answer.error_code, answer.results) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def to_directories(wanted: dict[str, dict[str, list[int]]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=rows) for name, rows in topics.items()],
            )
            for path, topics in wanted.items()
        ]
    )


def moved(answer: AlterReplicaLogDirsResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_name, row.partition_index): row.error_code for topic in answer.results for row in topic.partitions
    }


@pytest.mark.parametrize("version", range(3))
async def test_replicas_are_not_moved_between_directories_and_the_log_says_why(version: int) -> None:
    async with a_broker(TWO) as broker:
        await a_filled_broker(broker)
        wanted = {"/two": {"orders": [0, 1], "nothing": [0]}, "/three": {"orders": [2]}}
        assert moved(broker.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, to_directories(wanted))) == {
            ("orders", 0): ErrorCode.UNSUPPORTED_VERSION,
            ("orders", 1): ErrorCode.NONE,  # It is there.
            ("nothing", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
            ("orders", 2): ErrorCode.LOG_DIR_NOT_FOUND,
        }
        (fields,) = [fields for _, event, fields in broker.log.lines if event == "replicas not moved"]
        assert (fields["partitions"], fields["first"]) == (1, "orders-0")
        assert held(described(broker))["/one"] == {("orders", 0): 0, ("orders", 2): 0}


async def test_nothing_can_be_wanted_in_a_directory_that_is_offline() -> None:
    async with a_broker(TWO) as broker:
        await a_filled_broker(broker)
        broker.parts.replicas.partition("orders", 0).log.log_dir.take_offline(OSError(errno.EIO, "no such disk"))
        answer = broker.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, to_directories({"/one": {"orders": [1]}}))
        assert moved(answer) == {("orders", 1): ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_refused_move_has_the_error_in_every_partition() -> None:
    answer = LogDirsHandler.alter_error_response(to_directories({"/one": {"orders": [0, 1]}}), ErrorCode.NOT_CONTROLLER)
    assert moved(answer) == {("orders", 0): ErrorCode.NOT_CONTROLLER, ("orders", 1): ErrorCode.NOT_CONTROLLER}
