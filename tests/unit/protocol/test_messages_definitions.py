"""Every declaration against the definitions that Apache Kafka ships inside its `kafka-clients` jars.

3.9.1 is the judge of the oldest versions, which later releases no longer define, and 4.4.0 of the newest. What brokers
ask of one another is compared with 2.7.2, too: ours have to be understood by both.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sordini.broker.share_state.state_apis import STATE_APIS
from sordini.protocol import primitives
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import EMPTY, NEVER, ArrayOf, Field, Kind, Struct, flexible_from, versions_of
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sordini.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sordini.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from sordini.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from sordini.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from sordini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from sordini.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sordini.protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS, Api
from tests.outside.versions import APACHE_KAFKA, NEWEST_APACHE_KAFKA, OLDER_APACHE_KAFKA
from tests.support.message_samples import present_fields

OLDEST, OLD, NEW = OLDER_APACHE_KAFKA, APACHE_KAFKA, NEWEST_APACHE_KAFKA
ROOT = Path(__file__).parents[3]
WORDS_AND_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
OF_SHARE_GROUPS = [
    (AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
    (DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
    (DeleteShareGroupStateRequest, DeleteShareGroupStateResponse),
    (DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
    (InitializeShareGroupStateRequest, InitializeShareGroupStateResponse),
    (ReadShareGroupStateRequest, ReadShareGroupStateResponse),
    (ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse),
    (ShareAcknowledgeRequest, ShareAcknowledgeResponse),
    (ShareFetchRequest, ShareFetchResponse),
    (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
    (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    (WriteShareGroupStateRequest, WriteShareGroupStateResponse),
]
"""Not served yet: share groups are built from their machines up."""
apis = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
releases = pytest.mark.parametrize("release", [OLD, NEW])
# An answer whose parts are named as the request's are: ours say which is which.
ALTERED = {'"[]TopicData"': '"[]AlteredTopicData"', '"[]PartitionData"': '"[]AlteredPartitionData"'}
# KIP-704 gave key 56 another name, and both renamed the version of the partition's state node.
ONCE = {
    '"AlterIsr': '"AlterPartition',
    '"CurrentIsrVersion"': '"PartitionEpoch"',
    '"Name"': '"TopicName"',
}
# KIP-1142 gave key 74 another name, and what it lists too.
RENAMED = {
    '"ListClientMetricsResources': '"ListConfigResources',
    '"ClientMetricsResource': '"ConfigResource',
    '"[]ClientMetricsResource': '"[]ConfigResource',
}


def jar_of(release: str) -> Path:
    jar = ROOT / f".cache/kafka/{release}/lib/kafka-clients-{release}.jar"
    if not jar.exists():
        pytest.skip(f"{jar.relative_to(ROOT)} is not there: `make test` installs it")
    return jar


@cache
def definitions(release: str) -> dict[str, dict[str, Any]]:
    with zipfile.ZipFile(jar_of(release)) as jar:
        names = [name for name in jar.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        texts = (WORDS_AND_COMMENTS.sub(r"\1", renamed(jar.read(name).decode())) for name in names)
        return {found["name"]: found for found in map(json.loads, texts)}


def renamed(text: str) -> str:
    """A definition under the names of today."""
    if '"AlterIsr' in text:
        for former, latter in ONCE.items():
            text = text.replace(former, latter)
    if '"name": "LeaderAndIsrRequest"' in text:
        text = text.replace('"ZkVersion"', '"PartitionEpoch"')
    if '"name": "AlterPartitionResponse"' in text:
        for former, latter in ALTERED.items():
            text = text.replace(former, latter)
    if '"name": "TxnOffsetCommitRequest"' in text:  # KIP-1319 gave the field the name that OffsetCommit has.
        text = text.replace('"GenerationId"', '"GenerationIdOrMemberEpoch"')
    if '"ListClientMetricsResources' in text:
        text = text.replace('"name": "Name"', '"name": "ResourceName"')
        for former, latter in RENAMED.items():
            text = text.replace(former, latter)
    return text


def bounds(text: str | None) -> range:
    """Versions as the definitions spell them: `3+`, `0-12`, `4`, `none`."""
    if text in {None, "none"}:
        return range(0)
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return range(int(first[:-1]), 1 << 15)
    return range(int(first), int(last or first) + 1)


def snake(name: str) -> str:
    """Compared without underscores: where a digit's word begins is a matter of taste."""
    return name.replace("_", "").lower()


def defined(fields: list[dict[str, Any]], structs: dict[str, Any], version: int) -> list[Any]:
    """What the definition says of one version, in the form `declared` gives to what we say."""
    found = []
    for field in fields:
        if version in bounds(field["versions"]):
            nullable = version in bounds(field.get("nullableVersions"))
            is_tagged = version in bounds(field.get("taggedVersions"))
            shape = defined_shape(field["type"], field.get("fields"), structs, version)
            default = defined_default(field)
            found.append((snake(field["name"]), shape, nullable, field["tag"] if is_tagged else None, default))
    return found


def defined_shape(text: str, fields: list[dict[str, Any]] | None, structs: dict[str, Any], version: int) -> Any:
    if text.startswith("[]"):
        return ["array", defined_shape(text[2:], fields, structs, version)]
    if text[0].isupper():
        return [text, defined(fields or structs[text], structs, version)]
    return text


def defined_default(field: dict[str, Any]) -> Any:
    text, default = field["type"], field.get("default")
    if default == "null" or text == "records":
        return None
    if text.startswith("[]"):
        return []
    if text[0].isupper():
        return None  # Tagged ones are None when not sent; others are written with the defaults of their fields.
    if text == "string":
        return default or ""
    if text == "bytes":
        return b""
    if text == "bool":
        return default in {"true", True}
    return bytes(16) if text == "uuid" else int(str(default or 0), 0)


OWN_NAMES = {
    **dict.fromkeys(("AlteredEntry", "AlterResult", "DescribedEntry"), "EntryData"),
    **dict.fromkeys(("AlteredEntity", "DescribedEntity"), "EntityData"),
    "DescribedValue": "ValueData",
    "FilterComponent": "ComponentData",
    "QuotaOp": "OpData",
    "SharePartitionLeader": "LeaderIdAndEpoch",
}
"""The definitions have these names in several messages, for different structs."""


def declared(cls: type, version: int) -> list[Any]:
    return [
        (
            snake(field.name),
            declared_shape(field.kind, version),
            field.is_nullable_in(version),
            field.spec.tag,
            declared_default(field),
        )
        for field in present_fields(cls, version)
    ]


def declared_shape(kind: Kind, version: int) -> Any:
    if isinstance(kind, ArrayOf):
        return ["array", declared_shape(kind.element, version)]
    if isinstance(kind, Struct):
        name = kind.cls.__name__
        return [OWN_NAMES.get(name, name), declared(kind.cls, version)]
    if isinstance(kind, primitives.Fixed):
        names = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "d": "float64", "?": "bool", "16s": "uuid"}
        return names[kind.letter]
    return {primitives.Text: "string", primitives.Blob: "bytes", primitives.RecordBytes: "records"}[type(kind)]


BETWEEN_BROKERS_OF_4 = {api.key for api in STATE_APIS}
OF_4 = BETWEEN_BROKERS_OF_4 | {
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
}
"""Apache Kafka 3.9 has at most the first draft of these, which nothing may send."""
NEWER_THAN_OLDEST = {ApiKey.ALLOCATE_PRODUCER_IDS, *BETWEEN_BROKERS_OF_4}
OF_ZOOKEEPER_ONLY = INTER_BROKER_APIS - BETWEEN_BROKERS_OF_4


def declared_default(field: Field) -> Any:
    default = field.spec.default
    if isinstance(field.kind, Struct):
        assert default is None or default == field.kind.cls()
        return None
    return [] if default is EMPTY else default


@releases
@apis
def test_every_field_is_declared_as_the_definition_has_it(api: Api, release: str) -> None:
    check_fields(api, NEW if api.key in OF_4 else release)


@pytest.mark.parametrize(
    "api",
    [APIS[key] for key in sorted(INTER_BROKER_APIS - NEWER_THAN_OLDEST)],
    ids=lambda api: api.key.name,
)
def test_what_brokers_ask_of_one_another_is_declared_as_the_oldest_has_it(api: Api) -> None:
    check_fields(api, OLDEST)


@pytest.mark.parametrize("pair", OF_SHARE_GROUPS, ids=lambda pair: pair[0].__name__)
def test_messages_of_share_groups_are_declared_as_the_newest_has_them(pair: tuple[type, type]) -> None:
    request, response = pair
    definition = definitions(NEW)[request.__name__]
    served = bounds(definition["validVersions"])
    check_fields(Api(ApiKey(definition["apiKey"]), request, response, served[0], served[-1], 0), NEW)
    assert versions_of(request) == versions_of(response) == served


def check_fields(api: Api, release: str) -> None:
    for cls in (api.request, api.response):
        definition = definitions(release)[cls.__name__]
        assert definition["apiKey"] == api.key
        if definition["validVersions"] == "none":
            assert api.key in INTER_BROKER_APIS, "what only brokers of a ZooKeeper cluster send is gone from 4.0 on"
            continue
        structs = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}
        flexible = definition["flexibleVersions"]
        if flexible != "none" or release != OLDEST:
            assert flexible_from(cls) == (NEVER if flexible == "none" else bounds(flexible).start)
        for version in versions_in(definition, api):
            assert declared(cls, version) == defined(definition["fields"], structs, version), version


def versions_in(definition: dict[str, Any], api: Api) -> range:
    """The versions that a release has and, of what brokers ask of one another, that 3.9 has."""
    versions = bounds(definition["validVersions"])
    return range(versions.start, min(versions.stop, api.max_version + 1)) if api.key in INTER_BROKER_APIS else versions


@apis
def test_versions_run_from_the_oldest_of_3_9_to_the_newest_of_4_4(api: Api) -> None:
    first = NEW if api.key in OF_4 else OLD
    oldest = bounds(definitions(first)[api.request.__name__]["validVersions"])
    is_gone = api.key in OF_ZOOKEEPER_ONLY and api.key is not ApiKey.WRITE_TXN_MARKERS
    last = OLD if is_gone else NEW
    newest = bounds(definitions(last)[api.request.__name__]["validVersions"])
    assert (api.min_version, api.max_version) == (oldest[0], newest[-1])


def test_every_error_of_the_newest_release_has_its_code() -> None:
    """The texts of its enumeration's class file name the codes in their order, from -1 on, and little else."""
    with zipfile.ZipFile(jar_of(NEW)) as jar:
        constants = jar.read("org/apache/kafka/common/protocol/Errors.class")
    texts = [
        match[1].decode()
        for match in re.finditer(rb"\x01\x00[\x04-\x40]([A-Z][A-Z_0-9]{3,63})(?=[\x00-\x12])", constants)
    ]
    assert [name for name in texts if name in ErrorCode.__members__] == list(ErrorCode.__members__)
    assert set(texts) - set(ErrorCode.__members__) <= {"CLASS_TO_ERROR", "CODE_TO_ERROR"}


@releases
def test_every_request_of_a_release_has_its_key(release: str) -> None:
    ours = {key.name.replace("_", ""): key.value for key in ApiKey}
    for name, definition in definitions(release).items():
        if definition["type"] == "request":
            key = name.removesuffix("Request").upper()
            assert ours[key] == definition["apiKey"]
