"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator."""

from typing import Any

from tests.compat.situations.members import Group
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _commit(broker: Broker, group: Group, topic: str) -> None:
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    broker.ask("OffsetCommit", 9, group_id=group.id, topics=[{"name": topic, "partitions": [row]}])


@situation("DescribeGroups v0 to v5 of a Stable group")
def every_version(broker: Broker) -> Any:
    with Group(broker, "describe-versions") as group:
        group.settle(group.member(b"a"), group.member(b"b", instance="two"))
        return {version: group.describe(version) for version in range(6)}


@situation("DescribeGroups of an unknown group, of an empty id, and of nothing")
def unknown(broker: Broker) -> Any:
    with Group(broker, "describe-unknown") as group:
        return {
            version: [broker.ask("DescribeGroups", version, groups=ids) for ids in ([group.id], [""], [])]
            for version in range(6)
        }


@situation("DescribeGroups of several groups, one of them twice")
def several(broker: Broker) -> Any:
    with Group(broker, "describe-first") as first, Group(broker, "describe-second") as second:
        first.settle(first.member())
        second.settle(second.member())
        nowhere = broker.name("describe-nowhere")
        answer = broker.ask("DescribeGroups", 5, groups=[second.id, nowhere, first.id, first.id])
        return [(group["group_id"], group["group_state"], group["error_code"]) for group in answer["groups"]]


@situation("DescribeGroups in every state of a group")
def every_state(broker: Broker) -> Any:
    topic = broker.create("describe-states")
    with Group(broker, "describe-states") as group:
        seen = {"nothing yet": group.describe()}
        _commit(broker, group, topic)
        seen["only offsets"] = group.describe()
        member = group.member()
        member.enter()
        seen["joined"] = group.describe()
        member.sync({member: b"0"})
        seen["synced"] = group.describe()
        group.member(b"b").ask_for_id().send_join()
        group.wait_for_state("PreparingRebalance")
        rebalancing = group.describe()
        seen["rebalancing"] = {**rebalancing, "members": len(rebalancing["members"])}
        return seen


@situation("DescribeGroups with the operations that are allowed")
def operations(broker: Broker) -> Any:
    with Group(broker, "describe-operations") as group:
        group.settle(group.member())
        ids = [group.id, broker.name("describe-operations-nowhere")]
        return {
            version: [
                row["authorized_operations"]
                for row in broker.ask("DescribeGroups", version, groups=ids, include_authorized_operations=True)[
                    "groups"
                ]
            ]
            for version in (3, 4, 5)
        }


def _listed(broker: Broker, groups: list[Group], version: int, **fields: Any) -> Any:
    """The rows of a situation's own groups."""
    answer = broker.ask("ListGroups", version, **fields)
    if isinstance(answer, str):
        return answer
    own = {group.id for group in groups}
    answer["groups"] = sorted(
        (row for row in answer["groups"] if row["group_id"] in own), key=lambda row: str(row["group_id"])
    )
    return answer


@situation("ListGroups v0 to v5 lists groups with members and groups with offsets only")
def list_versions(broker: Broker) -> Any:
    topic = broker.create("list-groups")
    with Group(broker, "list-with") as stable, Group(broker, "list-offsets-only") as simple:
        stable.settle(stable.member())
        _commit(broker, simple, topic)
        nothing = Group(broker, "list-never-used")
        return {version: _listed(broker, [stable, simple, nothing], version) for version in range(6)}


@situation("ListGroups v4 with a filter of states")
def list_states(broker: Broker) -> Any:
    topic = broker.create("list-states")
    with Group(broker, "list-stable") as stable, Group(broker, "list-empty") as empty:
        stable.settle(stable.member())
        _commit(broker, empty, topic)
        filters = [[], ["Stable"], ["Empty"], ["Stable", "Empty"], ["stable"], ["Dead"], ["Nonsense"], [""]]
        return {
            f"v{version} {states}": _listed(broker, [stable, empty], version, states_filter=states)
            for version in (4, 5)
            for states in filters
        }


@situation("ListGroups v5 with a filter of types")
def list_types(broker: Broker) -> Any:
    with Group(broker, "list-types") as group:
        group.settle(group.member())
        filters = [[], ["classic"], ["Classic"], ["consumer"], ["classic", "consumer"], ["nonsense"], ["share"]]
        seen = {str(types): _listed(broker, [group], 5, types_filter=types) for types in filters}
        both = _listed(broker, [group], 5, types_filter=["classic"], states_filter=["Empty"])
        return seen | {"and a state": both}


@situation("ListGroups during a rebalance and while an assignment is awaited")
def list_rebalancing(broker: Broker) -> Any:
    with Group(broker, "list-rebalancing") as group:
        first = group.member()
        first.enter()
        seen = [_listed(broker, [group], 5)]
        first.sync({first: b"0"})
        group.member(b"b").ask_for_id().send_join()
        group.wait_for_state("PreparingRebalance")
        return [*seen, _listed(broker, [group], 5), _listed(broker, [group], 4, states_filter=["preparingrebalance"])]


def _delete(broker: Broker, *ids: str, version: int = 2) -> Any:
    answer = broker.ask("DeleteGroups", version, groups_names=list(ids))
    if isinstance(answer, dict):
        answer["results"].sort(key=lambda row: row["group_id"])
    return answer


@situation("DeleteGroups v0 to v2 of a group with offsets only")
def delete_versions(broker: Broker) -> Any:
    topic = broker.create("delete-groups")
    seen = {}
    for version in range(3):
        with Group(broker, f"delete-group-v{version}") as group:
            _commit(broker, group, topic)
            deleted = _delete(broker, group.id, version=version)
            seen[version] = [deleted, group.describe(), group.committed(topic), _listed(broker, [group], 5)]
    return seen


@situation("DeleteGroups of a group with members, then without them, then again")
def delete_used(broker: Broker) -> Any:
    with Group(broker, "delete-used") as group:
        member = group.member()
        group.settle(member)
        seen = {"Stable": _delete(broker, group.id), "its member": member.heartbeat()}
        member.leave()
        seen |= {"Empty": _delete(broker, group.id), "state": group.state(), "again": _delete(broker, group.id)}
        return seen | {"its member then": member.heartbeat(), "its leaving": member.leave()}


@situation("DeleteGroups of unknown groups, of an empty id, of one twice, and of none")
def delete_wrong(broker: Broker) -> Any:
    topic = broker.create("delete-wrong")
    with Group(broker, "delete-wrong") as group:
        _delete(broker, "")  # A commit without a group id may have made it.
        seen = {"unknown": _delete(broker, group.id), "empty id": _delete(broker, ""), "none": _delete(broker)}
        _commit(broker, group, topic)
        return seen | {"twice": _delete(broker, group.id, broker.name("delete-nowhere"), group.id)}


@situation("a deleted group may be used again")
def deleted_and_used(broker: Broker) -> Any:
    topic = broker.create("delete-reused")
    with Group(broker, "delete-reused") as group:
        member = group.member()
        group.settle(member)
        member.commit(topic, 3)
        member.leave()
        _delete(broker, group.id)
        again = group.member()
        return {"joined": again.enter(), "offset": group.committed(topic)}


@situation("FindCoordinator v0 to v3 of a group")
def coordinator_single(broker: Broker) -> Any:
    with Group(broker, "find-single") as group:
        return {version: broker.ask("FindCoordinator", version, key=group.id) for version in range(4)}


@situation("FindCoordinator v4 to v6 of several groups, one of them twice")
def coordinator_several(broker: Broker) -> Any:
    with Group(broker, "find-several") as group:
        keys = [group.id, broker.name("find-other"), group.id]
        return {version: broker.ask("FindCoordinator", version, coordinator_keys=keys) for version in (4, 5, 6)}


@situation("FindCoordinator of an empty key, of no keys, and of a single key in v4")
def coordinator_empty(broker: Broker) -> Any:
    with Group(broker, "find-empty"):
        seen = {f"empty key v{version}": broker.ask("FindCoordinator", version, key="") for version in range(4)}
        seen |= {
            f"no keys v{version}": broker.ask("FindCoordinator", version, coordinator_keys=[]) for version in (4, 6)
        }
        return seen | {"empty key v4": broker.ask("FindCoordinator", 4, coordinator_keys=[""])}


@situation("FindCoordinator of unknown types and of share groups")
def coordinator_types(broker: Broker) -> Any:
    with Group(broker, "find-types") as group:
        return {
            f"type {kind} v{version}": broker.ask(
                "FindCoordinator",
                version,
                key_type=kind,
                **({"coordinator_keys": [group.id]} if version >= 4 else {"key": group.id}),
            )
            for kind in (2, 3, -1)
            for version in (1, 3, 4, 6)
        }
