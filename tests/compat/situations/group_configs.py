"""Settings of groups (resource type GROUP): described, changed, refused and listed."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT, OFFLOAD = "consumer.assignment.interval.ms", "consumer.assignor.offload.enable"
SERVED = (ASSIGNMENT, HEARTBEAT, SESSION)
SHARED, STREAMS = "share.session.timeout.ms", "streams.heartbeat.interval.ms"

Change = tuple[str, int, str | None]


def _describe(broker: Broker, group: str, keys: Sequence[str] | None = SERVED, version: int = 4, **fields: Any) -> Any:
    """The result of one group, its settings by their names."""
    resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": keys}
    answer = broker.ask("DescribeConfigs", version, resources=[resource], **fields)
    if isinstance(answer, str):
        return answer
    result = answer["results"][0]
    result["configs"] = {row["name"]: row for row in result["configs"]}
    for row in result["configs"].values():
        row.pop("documentation", None)
    return result


def _own(broker: Broker, group: str) -> dict[str, str]:
    """The settings that were set for the group."""
    rows = _describe(broker, group)["configs"].values()
    return {row["name"]: row["value"] for row in rows if row["config_source"] != 5}


def _resource(group: str, *changes: Change, kind: int = GROUP) -> Values:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resource_type": kind, "resource_name": group, "configs": rows}


def _change(broker: Broker, group: str, *changes: Change, validate: bool = False, version: int = 1) -> Any:
    """The answer to IncrementalAlterConfigs of one group."""
    resources = [_resource(group, *changes)]
    answer = broker.ask("IncrementalAlterConfigs", version, resources=resources, validate_only=validate)
    return answer if isinstance(answer, str) else answer["responses"]


def _replace(broker: Broker, group: str, values: Mapping[str, str | None], *, version: int = 2) -> Any:
    """The answer to AlterConfigs of one group."""
    rows = [{"name": key, "value": value} for key, value in values.items()]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": rows}
    answer = broker.ask("AlterConfigs", version, resources=[resource], validate_only=False)
    return answer if isinstance(answer, str) else answer["responses"]


def _changed(broker: Broker, group: str, changes: Sequence[Change], then: Mapping[str, str]) -> Any:
    """A change and its effect: without ZooKeeper a broker applies it a little after the answer."""
    answer = _change(broker, group, *changes)
    return [answer, until(lambda: _own(broker, group), lambda own: own == then)]


@situation("DescribeConfigs of a group without settings of its own, in v1 to v4", judge=KRAFT)
def describe_defaults(broker: Broker) -> Any:
    group = broker.name("group-configs-none")
    return {
        version: _describe(broker, group, version=version, include_synonyms=True, include_documentation=True)
        for version in range(1, 5)
    }


@situation("DescribeConfigs of some keys of a group, known, unknown and of a broker", judge=KRAFT)
def describe_some(broker: Broker) -> Any:
    group = broker.name("group-configs-some")
    keys = [SESSION, "no.such.key", "group.consumer.session.timeout.ms", "retention.ms"]
    return {"named": _describe(broker, group, keys), "of no group": _describe(broker, "", keys)}


@situation("IncrementalAlterConfigs v0 and v1 of a group: set, set again and delete", judge=KRAFT)
def set_and_delete(broker: Broker) -> Any:
    seen: dict[str, Any] = {}
    for version in range(2):
        group = broker.name(f"group-configs-set-v{version}")
        seen[f"set v{version}"] = _change(broker, group, (SESSION, SET, "50000"), version=version)
        until(lambda group=group: _own(broker, group), bool)  # type: ignore[misc]
        seen[f"then v{version}"] = _describe(broker, group, include_synonyms=True)
    group = broker.name("group-configs-set-v1")
    seen["another"] = _changed(
        broker,
        group,
        [(HEARTBEAT, SET, "6000"), (ASSIGNMENT, SET, "0")],
        {SESSION: "50000", HEARTBEAT: "6000", ASSIGNMENT: "0"},
    )
    seen["again"] = _changed(
        broker, group, [(SESSION, SET, " 46000 "), (HEARTBEAT, DELETE, None)], {SESSION: "46000", ASSIGNMENT: "0"}
    )
    seen["deleted"] = _changed(broker, group, [(SESSION, DELETE, None), (ASSIGNMENT, DELETE, "")], {})
    seen["deleted again"] = _change(broker, group, (SESSION, DELETE, None))
    return seen


@situation("AlterConfigs v0 to v2 of a group replaces its settings, and to nothing resets them", judge=KRAFT)
def replace(broker: Broker) -> Any:
    group = broker.name("group-configs-replaced")
    seen: dict[str, Any] = {}
    for version in range(3):
        values = {SESSION: str(50000 + version)} if version else {HEARTBEAT: "7000"}
        answer = _replace(broker, group, values, version=version)
        seen[f"v{version}"] = [answer, until(lambda: _own(broker, group), lambda own, values=values: own == values)]  # type: ignore[misc]
    answer = _replace(broker, group, {})
    seen["nothing"] = [answer, until(lambda: _own(broker, group), lambda own: not own)]
    seen["null"] = _replace(broker, group, {SESSION: None})
    return seen


@situation("IncrementalAlterConfigs of a group with values beyond the broker's bounds, and of other types", judge=KRAFT)
def wrong_values(broker: Broker) -> Any:
    group = broker.name("group-configs-wrong")
    values = {
        SESSION: (
            "44999",
            "45000",
            "60000",
            "60001",
            "0",
            "-1",
            "2147483648",
            "many",
            "",
            "45000.0",
            "+45000",
            "4_5000",
        ),
        HEARTBEAT: ("4999", "5000", "15000", "15001", "0", "true", "5e3"),
        ASSIGNMENT: ("-1", "0", "15000", "15001", "x"),
    }
    return {
        (key, value): _change(broker, group, (key, SET, value), validate=True)
        for key, tried in values.items()
        for value in tried
    }


@situation("IncrementalAlterConfigs of a group with unknown keys, and keys of other resources", judge=KRAFT)
def unknown_keys(broker: Broker) -> Any:
    group = broker.name("group-configs-unknown")
    keys = ("no.such.key", "", "retention.ms", "group.consumer.session.timeout.ms", "session.timeout.ms", "interval.ms")
    seen = {key: _change(broker, group, (key, SET, "50000"), validate=True) for key in keys}
    seen["deleted"] = _change(broker, group, ("no.such.key", DELETE, None), validate=True)
    seen["beside a known one"] = _change(broker, group, (SESSION, SET, "50000"), ("no.such.key", SET, "1"))
    return seen | {"in the end": _own(broker, group)}


@situation("IncrementalAlterConfigs of a group: null, lists, unknown operations, one key twice", judge=KRAFT)
def wrong_edits(broker: Broker) -> Any:
    group = broker.name("group-configs-edits")
    return {
        "null": _change(broker, group, (SESSION, SET, None)),
        "append": _change(broker, group, (SESSION, APPEND, "50000")),
        "subtract": _change(broker, group, (SESSION, SUBTRACT, "50000")),
        "operation 4": _change(broker, group, (SESSION, 4, "50000")),
        "twice": _change(broker, group, (SESSION, SET, "50000"), (SESSION, SET, "51000")),
        "nothing": _change(broker, group),
        "in the end": _own(broker, group),
    }


@situation("IncrementalAlterConfigs of a group that only validates changes nothing", judge=KRAFT)
def validated(broker: Broker) -> Any:
    group = broker.name("group-configs-validated")
    right = _change(broker, group, (SESSION, SET, "50000"), validate=True)
    wrong = _change(broker, group, (SESSION, SET, "1"), validate=True)
    return {"right": right, "wrong": wrong, "in the end": _own(broker, group)}


@situation("settings of groups with strange names, and without one", judge=KRAFT)
def strange_names(broker: Broker) -> Any:
    names = ("", "with a space", "with/slash", "..", ".", "<default>", "ümlaut", "x" * 250, "a%2Fb", "a\nb")
    seen: dict[str, Any] = {}
    for name in names:
        answer = _change(broker, name, (SESSION, SET, "50000"))
        is_set = isinstance(answer, list) and answer[0]["error_code"] == 0
        own = until(lambda name=name: _own(broker, name), bool) if is_set else "refused"  # type: ignore[misc]
        seen[name] = [answer, own, _change(broker, name, (SESSION, DELETE, None))]
    return seen


@situation("settings of groups of other kinds: share groups and streams groups", judge=KRAFT)
def other_kinds(broker: Broker) -> Any:
    group = broker.name("group-configs-kinds")
    values = {
        SHARED: "50000",
        STREAMS: "6000",
        "share.auto.offset.reset": "earliest",
        OFFLOAD: "false",
        "streams.num.standby.replicas": "1",
        "share.delivery.count.limit": "1",
    }
    return {key: _change(broker, group, (key, SET, value), validate=True) for key, value in values.items()}


@situation("ListConfigResources v0 and v1 of groups that have settings, until they have none", judge=KRAFT)
def listed_groups(broker: Broker) -> Any:
    group = broker.name("group-configs-listed")

    def names(version: int = 1, kinds: Sequence[int] = (GROUP,)) -> Any:
        answer = broker.ask("ListConfigResources", version, resource_types=kinds)
        if isinstance(answer, dict):
            rows = answer["config_resources"]
            answer["config_resources"] = [row for row in rows if row["resource_name"] == group]
        return answer

    seen: dict[str, Any] = {"before": names()}
    _change(broker, group, (SESSION, SET, "50000"))
    seen["with one"] = until(names, lambda answer: answer["config_resources"])
    seen |= {
        "v0": names(0),
        "all kinds": names(1, ()),
        "of topics": names(1, (TOPIC,)),
        "kind 7": names(1, (7,)),
        "twice": names(1, (GROUP, GROUP)),
        "groups and kind 7": names(1, (GROUP, 7)),
    }
    _change(broker, group, (SESSION, DELETE, None))
    seen["without"] = until(names, lambda answer: not answer["config_resources"])
    return seen


@situation("several groups in one request, each answered for itself, and one named twice", judge=KRAFT)
def several_groups(broker: Broker) -> Any:
    right, wrong = broker.name("group-configs-right"), broker.name("group-configs-bad")
    resources = [_resource(right, (SESSION, SET, "50000")), _resource(wrong, (SESSION, SET, "1"))]
    answer = broker.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    twice = [_resource(wrong, (SESSION, SET, "50000")), _resource(wrong, (HEARTBEAT, SET, "6000"))]
    again = broker.ask("IncrementalAlterConfigs", 1, resources=twice, validate_only=False)
    for listed_rows in (answer, again):
        listed_rows["responses"].sort(key=lambda row: row["resource_name"])
    own = until(lambda: _own(broker, right), bool)
    return {"each": answer, "twice": again, "own": own, "of the wrong one": _own(broker, wrong)}


def _broker_change(broker: Broker, entity: str, *changes: Change, validate: bool = False) -> Any:
    resources = [_resource(entity, *changes, kind=BROKER)]
    answer = broker.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=validate)
    return answer if isinstance(answer, str) else answer["responses"]


INTERVAL = "group.consumer.assignment.interval.ms"
OF_BROKERS = (
    INTERVAL,
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
)


@situation("DescribeConfigs of a broker lists the keys of consumer groups", judge=KRAFT)
def of_the_broker(broker: Broker) -> Any:
    resource = {"resource_type": BROKER, "resource_name": "0", "configuration_keys": list(OF_BROKERS)}
    answer = broker.ask("DescribeConfigs", 4, resources=[resource], include_synonyms=True)
    return {row["name"]: row for row in answer["results"][0]["configs"]}


@situation("IncrementalAlterConfigs of a broker's keys of consumer groups", judge=KRAFT)
def alter_broker(broker: Broker) -> Any:
    seen: dict[str, Any] = {}
    for key in OF_BROKERS:
        value = {"group.consumer.assignors": "range", "group.consumer.migration.policy": "disabled"}.get(key, "50000")
        seen[key] = [_broker_change(broker, entity, (key, SET, value), validate=True) for entity in ("", "0")]
    for value in ("-1", "0", "15000", "15001", "x"):
        seen[f"interval {value}"] = [
            _broker_change(broker, entity, (INTERVAL, SET, value), validate=True) for entity in ("", "0")
        ]
    return seen


@situation("a group inherits the assignment interval that its brokers have while they run", judge=KRAFT)
def inherited(broker: Broker) -> Any:
    group = broker.name("group-configs-inherits")

    def interval() -> Any:
        return _describe(broker, group, [ASSIGNMENT], include_synonyms=True)["configs"][ASSIGNMENT]

    seen = {"before": interval()}
    for name, entity, value in (("all", "", "2000"), ("one", "0", "3000")):
        seen[f"answer for {name}"] = _broker_change(broker, entity, (INTERVAL, SET, value))
        seen[f"then {name}"] = until(interval, lambda row, value=value: row["value"] == value)  # type: ignore[misc]
    _change(broker, group, (ASSIGNMENT, SET, "500"))
    seen["own"] = until(interval, lambda row: row["value"] == "500")
    _change(broker, group, (ASSIGNMENT, DELETE, None))
    for entity in ("0", ""):
        _broker_change(broker, entity, (INTERVAL, DELETE, None))
    seen["after"] = until(interval, lambda row: row["value"] == "1000")
    return seen
