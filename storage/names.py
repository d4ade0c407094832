"""How files and directories of a log directory are named (ours are Apache Kafka's, to the byte).

A segment is named by its own first offset in 20 digits. A partition's directory is `<topic>-<partition>`; one that
waits to be removed is `<topic>-<partition>.<32 hex digits>-delete`, the topic shortened so that 255 bytes suffice.

`directory_name` and `condemned_name` are the only ways from a topic's name to a path, and both check it: whatever asked
for the partition, its directory is one step below its log directory.
"""

from __future__ import annotations

import re

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.topic_names import partition_error
from sordini.protocol.types import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

CLEAN_MARKER = ".kafka_cleanshutdown"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

DELETE_DIRECTORY = "-delete"
NAME_BYTES_MAX = 255

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_OFFSET_NAME = re.compile(r"([0-9]{20})(\.[a-z]+)")


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000340.log` for 340 and ".log"."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset a file is named by, or None when it is not a file with this suffix."""
    match = _OFFSET_NAME.fullmatch(name)
    return int(match[1]) if match is not None and match[2] == suffix else None


def partition_of(directory: str) -> TopicPartition | None:
    """The partition that a directory name stands for, or None when it is something else."""
    match = _PARTITION.fullmatch(directory)
    if match is None or partition_error(match[1], int(match[2])) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def directory_name(partition: TopicPartition) -> str:
    """The name of a partition's directory: `orders-3`.

    Raises BrokerError INVALID_TOPIC_EXCEPTION for what no partition may be called.
    """
    reason = partition_error(*partition)
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"No directory for {str(partition)!r}: {reason}.")
    return str(partition)


def is_condemned(directory: str) -> bool:
    """Whether a directory was renamed to be removed."""
    return directory.endswith(DELETE_DIRECTORY)


def condemned_name(partition: TopicPartition, unique: int) -> str:
    """The name under which a partition's directory waits for its removal; `unique` is a random 128-bit number.

    Raises BrokerError as `directory_name`.
    """
    directory_name(partition)
    suffix = f"-{partition.partition}.{unique:032x}{DELETE_DIRECTORY}"
    return partition.topic[: NAME_BYTES_MAX - len(suffix)] + suffix
