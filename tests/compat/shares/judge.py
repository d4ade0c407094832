"""A share group of Apache Kafka 4.4.0: two members by hand, and what its coordinator has stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker

GROUP_RESOURCE: Final = 32
GROUP_ID_NOT_FOUND: Final = 69
SET: Final = 0
OPEN, CLOSE = 0, -1
WITH_MODES: Final = 2
"""The version of ShareFetch that acquires by records, too (KIP-1206)."""
PATIENCE_MS: Final = 3_000
"""How long a fetch may wait that has to find records."""
BRIEFLY_MS: Final = 100

Values = dict[str, Any]
Range = tuple[int, int, int]
"""Offsets, both inclusive, and a number of deliveries."""


class ShareGroup:
    """One group that reads one topic of one partition."""

    def __init__(self, broker: Broker, name: str, settings: Mapping[str, int]) -> None:
        self.broker = broker
        self.group_id = broker.name(f"{name}-group")
        self.topic = broker.create_led(name)
        self.topic_id = broker.topic_id(self.topic)
        self._set({"share.auto.offset.reset": "earliest", **settings})
        self._await_coordinator()

    def _set(self, settings: Mapping[str, object]) -> None:
        configs = [
            {"name": key, "config_operation": SET, "value": str(value)} for key, value in sorted(settings.items())
        ]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group_id, "configs": configs}
        answer = self.broker.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer

    def _await_coordinator(self) -> None:
        def find() -> int:
            found = self.broker.ask("FindCoordinator", 4, coordinator_keys=[self.group_id])
            return int(found["coordinators"][0]["error_code"])

        def describe() -> int:
            found = self.broker.ask("ShareGroupDescribe", 1, group_ids=[self.group_id])
            return int(found["groups"][0]["error_code"])

        until(find, lambda code: code not in NOT_READY)
        assert until(describe, lambda code: code not in NOT_READY) == GROUP_ID_NOT_FOUND

    def stored(self) -> tuple[int, list[tuple[int, int, int, int]]]:
        """The start offset, and runs of records: first, last (inclusive), state, deliveries."""
        wanted = {"topic_id": self.topic_id, "partitions": [{"partition": 0, "leader_epoch": 0}]}
        answer = self.broker.ask("ReadShareGroupState", 0, group_id=self.group_id, topics=[wanted])
        row = answer["results"][0]["partitions"][0]
        assert row["error_code"] == 0, row
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        return row["start_offset"], [tuple(run[name] for name in names) for run in row["state_batches"]]


class ShareMember:
    """A member with its share session."""

    def __init__(self, group: ShareGroup) -> None:
        self._group = group
        self._member_id = str(uuid4())
        self._epoch = 0
        self._session_epoch = OPEN
        self._conversation = group.broker.connect()
        until(self._heartbeat, bool)
        self.fetch(1, 1, waits=False)

    def close(self) -> None:
        self._conversation.close()

    def _heartbeat(self) -> bool:
        """Whether the partition is assigned."""
        names = [self._group.topic] if self._epoch == 0 else None
        answer = self._group.broker.ask(
            "ShareGroupHeartbeat",
            1,
            group_id=self._group.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=names,
        )
        assert answer["error_code"] in (0, *NOT_READY), answer
        if answer["error_code"]:
            return False
        self._epoch = answer["member_epoch"]
        assignment = answer["assignment"]
        return bool(assignment and assignment["topic_partitions"])

    def fetch(
        self, records_max: int, batch_size: int, *, is_by_records: bool = False, waits: bool = True
    ) -> list[Range]:
        """The acquired records."""
        answer = self._ask(
            "ShareFetch",
            max_wait_ms=PATIENCE_MS if waits else BRIEFLY_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records_max,
            batch_size=batch_size,
            share_acquire_mode=int(is_by_records),
            topics=[{"topic_id": self._group.topic_id, "partitions": [{"partition_index": 0}]}],
        )
        names = ("first_offset", "last_offset", "delivery_count")
        return [
            tuple(row[name] for name in names)
            for topic in answer["responses"]
            for partition in topic["partitions"]
            for row in partition["acquired_records"]
        ]

    def acknowledge(self, said: Sequence[tuple[int, int, Sequence[int]]]) -> int:
        """The error code of acknowledgements: first and last offset, types."""
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
            for first, last, types in said
        ]
        rows = [{"partition_index": 0, "acknowledgement_batches": batches}]
        answer = self._ask("ShareAcknowledge", topics=[{"topic_id": self._group.topic_id, "partitions": rows}])
        code: int = answer["responses"][0]["partitions"][0]["error_code"]
        return code

    def reopen(self) -> None:
        """Close the session, which releases what is held, and open another."""
        self._session_epoch = CLOSE
        self._ask("ShareFetch", max_wait_ms=0, min_bytes=0, max_records=0, batch_size=0, topics=[])
        self._session_epoch = OPEN

    def _ask(self, api: str, **fields: Any) -> Values:
        answer: Values = self._conversation.ask(
            api,
            WITH_MODES,
            group_id=self._group.group_id,
            member_id=self._member_id,
            share_session_epoch=self._session_epoch,
            **fields,
        )
        assert answer["error_code"] == 0, answer
        self._session_epoch += 1
        return answer
