"""Our codecs against kafka-python's: what one writes the other reads, in every version that both know."""

from __future__ import annotations

import uuid
import warnings
from typing import Any

import pytest

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import ArrayOf, Field, Struct
from sordini.protocol.messages.api_versions import ApiVersionsResponse
from sordini.protocol.primitives import Fixed
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS
from tests.support.message_samples import MESSAGES, every_version, present_fields, sample

with warnings.catch_warnings():  # It loads its definitions through a deprecated function of importlib.
    warnings.simplefilter("ignore")
    from kafka.protocol import admin, consumer, metadata, producer, sasl


RENAMED = {
    "clusterauthorizedoperations": "authorizedoperations",
    "topicauthorizedoperations": "authorizedoperations",
    "generationidormemberepoch": "generationid",  # In TxnOffsetCommit.
}
"""Fields that they name in another way."""


def theirs(cls: type) -> Any:
    parts = (producer, consumer, metadata, admin, sasl)
    return next((found for part in parts if (found := getattr(part, cls.__name__, None))), None)


UNKNOWN = [cls for cls in MESSAGES if theirs(cls) is None]
CASES = [
    (cls, version)
    for cls, version in every_version()
    if cls not in UNKNOWN and theirs(cls).valid_versions[0] <= version <= theirs(cls).valid_versions[1]
]
cases = pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))


def converted(message: Any, their_cls: Any, version: int) -> Any:
    """Our message as an object of theirs."""
    names = {name.replace("_", ""): name for name in their_cls._struct.fields}
    values = {}
    for field in present_fields(type(message), version):
        ours = field.name.replace("_", "")
        name = names.get(ours) or names[RENAMED[ours]]
        values[name] = converted_value(field, getattr(message, field.name), their_cls._struct.fields[name], version)
    return their_cls(version=version, **values)


def converted_value(field: Field, value: Any, their_field: Any, version: int) -> Any:
    if isinstance(field.kind, Struct):
        return converted(value, their_field.data_class, version)
    if isinstance(field.kind, ArrayOf) and isinstance(field.kind.element, Struct):
        return [converted(item, their_field.data_class, version) for item in value]
    if getattr(their_field, "_type_str", None) == "bitfield":  # In some messages only.
        return {bit for bit in range(32) if value >> bit & 1}
    return uuid.UUID(bytes=value) if isinstance(field.kind, Fixed) and field.kind.size == 16 else value


def test_kafka_python_knows_every_message_that_a_client_sends() -> None:
    kip_848 = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)  # It does not speak these.
    kip_714 = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
    kip_932 = (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    )
    others = [APIS[key] for key in (*INTER_BROKER_APIS, *kip_848, *kip_714, *kip_932)]
    assert {cls.__name__ for cls in UNKNOWN} <= {cls.__name__ for api in others for cls in (api.request, api.response)}


@cases
def test_kafka_python_writes_the_bytes_we_write_and_each_reads_the_others(cls: type, version: int) -> None:
    message = sample(cls, version)
    if cls is ApiVersionsResponse:
        message.error_code = 0  # It reads one with an error as v0, whatever the version.
    same = converted(message, theirs(cls), version)
    written = codecs.encode(message, version)
    assert written == bytes(same.encode(version=version))
    assert codecs.decode(cls, version, memoryview(written)) == (message, len(written))
    assert theirs(cls).decode(written, version=version).to_dict() == same.to_dict()
