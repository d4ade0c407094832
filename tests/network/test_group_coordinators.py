"""`sordini groups` before coordinators of every age: without consumer groups, and with kinds of groups that we do not know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from sordini.admin.failure import Failure
from sordini.admin.groups.group_description import describe_group
from sordini.admin.groups.group_requests import delete_groups, list_groups
from sordini.broker.network.sockets import SystemNetwork
from sordini.cli.common.command_cluster import command_cluster
from sordini.client.addresses import Address
from sordini.client.errors import NotServed, Refused
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import consumer_group_describe, share_group_describe
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from sordini.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from sordini.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from sordini.protocol.served_apis import APIS
from tests.support.scripted_peer import HOST, Asked, ScriptedPeer, response

WITHOUT_CONSUMER_GROUPS = {
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.CONSUMER_GROUP_DESCRIBE: -1,
    ApiKey.SHARE_GROUP_DESCRIBE: -1,
}
"""The newest versions of Apache Kafka 3.6."""
OF_GROUPS = (
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE,
)

DEAD = DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", group_state="Dead")])
NOT_CLASSIC = DescribeGroupsResponse(
    groups=[DescribedGroup(group_id="g", group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND)]
)


def described(code: int, **fields: Any) -> ConsumerGroupDescribeResponse:
    row = consumer_group_describe.DescribedGroup(group_id="g", error_code=code, **fields)
    return ConsumerGroupDescribeResponse(groups=[row])


def shared(code: int, **fields: Any) -> ShareGroupDescribeResponse:
    row = share_group_describe.DescribedGroup(group_id="g", error_code=code, **fields)
    return ShareGroupDescribeResponse(groups=[row])


class ScriptedBroker:
    """The one broker of a cluster. `answers` are its responses about groups, `newest` versions that it serves."""

    def __init__(self) -> None:
        self.newest: Mapping[ApiKey, int] = {}
        self.answers: dict[ApiKey, Any] = {
            ApiKey.DESCRIBE_GROUPS: NOT_CLASSIC,
            ApiKey.CONSUMER_GROUP_DESCRIBE: described(ErrorCode.GROUP_ID_NOT_FOUND),
            ApiKey.SHARE_GROUP_DESCRIBE: shared(ErrorCode.GROUP_ID_NOT_FOUND),
            ApiKey.LIST_GROUPS: ListGroupsResponse(),
        }
        self.peer = ScriptedPeer(SystemNetwork(), self._answer)
        self.cluster = command_cluster([Address(*self.peer.address)])

    @property
    def asked(self) -> list[ApiKey]:
        """The requests about groups."""
        return [asked.key for asked in self.peer.asked if asked.key in OF_GROUPS]

    def _answer(self, asked: Asked) -> bytes:
        host, port = HOST, self.peer.address[1]
        match asked.key:
            case ApiKey.API_VERSIONS:
                newest = {api.key: self.newest.get(api.key, api.max_version) for api in APIS.values()}
                rows = [
                    ApiVersion(api_key=key, min_version=APIS[key].min_version, max_version=version)
                    for key, version in newest.items()
                    if version >= 0
                ]
                return response(asked, ApiVersionsResponse(api_keys=rows))
            case ApiKey.METADATA:
                row = MetadataResponseBroker(node_id=1, host=host, port=port)
                return response(asked, MetadataResponse(brokers=[row], controller_id=1))
            case ApiKey.FIND_COORDINATOR:
                found = Coordinator(key="g", node_id=1, host=host, port=port)
                return response(asked, FindCoordinatorResponse(coordinators=[found]))
            case _:
                return response(asked, self.answers[asked.key])


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    made = ScriptedBroker()
    async with made.cluster:
        yield made
    made.peer.close()


async def test_a_broker_without_consumer_groups_is_asked_for_classic_ones_only(broker: ScriptedBroker) -> None:
    broker.newest = WITHOUT_CONSUMER_GROUPS
    broker.answers[ApiKey.DESCRIBE_GROUPS] = DEAD
    found = await describe_group(broker.cluster, "g")
    assert (found.state, found.kind) == ("Dead", None)
    assert broker.asked == [ApiKey.DESCRIBE_GROUPS]


async def test_a_classic_group_costs_one_request(broker: ScriptedBroker) -> None:
    row = DescribedGroup(group_id="g", group_state="Empty", protocol_type="consumer")
    broker.answers[ApiKey.DESCRIBE_GROUPS] = DescribeGroupsResponse(groups=[row])
    found = await describe_group(broker.cluster, "g")
    assert (found.state, found.kind, found.epoch) == ("Empty", "classic", None)
    assert broker.asked == [ApiKey.DESCRIBE_GROUPS]


@pytest.mark.parametrize("classic", [DEAD, NOT_CLASSIC], ids=["up to version 5", "from version 6 on"])
async def test_a_group_that_is_no_classic_one_is_described_as_a_consumer_group(
    broker: ScriptedBroker, classic: DescribeGroupsResponse
) -> None:
    broker.answers[ApiKey.DESCRIBE_GROUPS] = classic
    broker.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = described(
        ErrorCode.NONE,
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="range",
        members=[consumer_group_describe.Member(member_id="m", rack_id="", subscribed_topic_regex="")],
    )
    found = await describe_group(broker.cluster, "g")
    assert (found.kind, found.state, found.assignor, found.epoch, found.assignment_epoch) == (
        "consumer",
        "Stable",
        "range",
        7,
        6,
    )
    (member,) = found.members
    # Version 0 does not say it, and an empty text is none.
    assert (member.protocol, member.rack_id, member.subscribed_regex) == (None, None, None)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION])
async def test_a_group_of_no_kind_does_not_exist(broker: ScriptedBroker, code: ErrorCode) -> None:
    broker.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = described(code)
    broker.answers[ApiKey.SHARE_GROUP_DESCRIBE] = shared(code)
    assert (await describe_group(broker.cluster, "g")).state == "Dead"
    assert broker.asked == [
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
    ]
    assert broker.peer.asked[-1].message.types_filter == ["streams"]


async def test_a_consumer_group_that_may_not_be_described_is_refused_in_the_brokers_words(
    broker: ScriptedBroker,
) -> None:
    broker.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = described(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="some topics may not be described"
    )
    with pytest.raises(Refused, match="group 'g': some topics may not be described"):
        await describe_group(broker.cluster, "g")


async def test_a_group_that_is_neither_classic_nor_a_consumer_group_is_described_as_a_share_group(
    broker: ScriptedBroker,
) -> None:
    broker.answers[ApiKey.SHARE_GROUP_DESCRIBE] = shared(
        ErrorCode.NONE,
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="simple",
        members=[share_group_describe.Member(member_id="m", subscribed_topic_names=["t"])],
    )
    found = await describe_group(broker.cluster, "g")
    assert (found.kind, found.state, found.assignor, found.epoch) == ("share", "Stable", "simple", 3)
    assert [(member.member_id, member.subscribed_topics) for member in found.members] == [("m", ["t"])]


async def test_a_group_of_a_type_that_is_not_known_is_named_as_what_it_is_and_not_changed(
    broker: ScriptedBroker,
) -> None:
    row = ListedGroup(group_id="g", protocol_type="streams", group_state="Empty", group_type="Streams")
    broker.answers[ApiKey.LIST_GROUPS] = ListGroupsResponse(groups=[row])
    reason = "group 'g' is a streams group: this command knows classic, consumer and share groups"
    with pytest.raises(Failure, match=reason):
        await describe_group(broker.cluster, "g")
    assert await delete_groups(broker.cluster, ["g"]) == [{"group": "g", "deleted": False, "error": reason}]


LISTED = [
    ListedGroup(group_id=name, group_state="Empty", group_type=kind) for name, kind in (("b", "consumer"), ("a", ""))
]


async def test_groups_are_listed_with_their_types(broker: ScriptedBroker) -> None:
    broker.answers[ApiKey.LIST_GROUPS] = ListGroupsResponse(groups=LISTED)
    rows = await list_groups(broker.cluster, (), ())
    assert [(row["group"], row["type"], row["state"]) for row in rows] == [
        ("a", None, "Empty"),
        ("b", "consumer", "Empty"),
    ]


async def test_the_broker_filters_types_and_states(broker: ScriptedBroker) -> None:
    await list_groups(broker.cluster, ["Stable"], ["Consumer"])
    asked = broker.peer.asked[-1]
    assert (asked.version, asked.message.states_filter, asked.message.types_filter) == (5, ["Stable"], ["Consumer"])


@pytest.mark.parametrize(("types", "names"), [((), ["a", "b"]), (("Classic",), ["a", "b"]), (("consumer",), [])])
async def test_all_groups_of_a_broker_that_knows_no_types_are_classic(
    broker: ScriptedBroker, types: tuple[str, ...], names: list[str]
) -> None:
    broker.newest = WITHOUT_CONSUMER_GROUPS
    broker.answers[ApiKey.LIST_GROUPS] = ListGroupsResponse(groups=LISTED)
    rows = await list_groups(broker.cluster, (), types)
    assert [row["group"] for row in rows] == names
    assert {row["type"] for row in rows} <= {"classic"}


async def test_a_broker_that_cannot_filter_states_is_not_asked_to(broker: ScriptedBroker) -> None:
    broker.newest = {ApiKey.LIST_GROUPS: 3}
    with pytest.raises(NotServed, match="knows versions 0 to 3 of ListGroups requests, which is not enough"):
        await list_groups(broker.cluster, ["Stable"], ())
    assert broker.asked == []
