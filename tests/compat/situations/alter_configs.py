"""AlterConfigs and IncrementalAlterConfigs of topics: set, reset, appended to, and refused."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def _resource(name: str, rows: Any, kind: int = TOPIC) -> Values:
    return {"resource_type": kind, "resource_name": name, "configs": rows}


def _sorted(answer: Any) -> Any:
    if isinstance(answer, dict):
        answer["responses"].sort(key=lambda row: (row["resource_type"], row["resource_name"]))
    return answer


def _alter(broker: Broker, *resources: Values, version: int = 2, validate: bool = False) -> Any:
    return _sorted(broker.ask("AlterConfigs", version, resources=list(resources), validate_only=validate))


def _values(**configs: str | None) -> list[Values]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]


def _change(broker: Broker, name: str, *changes: tuple[str, int, str | None], **fields: Any) -> Any:
    """IncrementalAlterConfigs of one resource."""
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = _resource(name, rows, fields.pop("kind", TOPIC))
    validate = fields.pop("validate", False)
    version = fields.pop("version", 1)
    return _sorted(broker.ask("IncrementalAlterConfigs", version, resources=[resource], validate_only=validate))


def _own(broker: Broker, topic: str) -> dict[str, Any]:
    """The topic's own configuration: key to value."""
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    rows = broker.ask("DescribeConfigs", 4, resources=[resource])["results"][0]["configs"]
    return {row["name"]: row["value"] for row in rows if row["config_source"] == 1}


@situation("AlterConfigs v0 to v2 of a topic replaces its whole configuration")
def alter_versions(broker: Broker) -> Any:
    seen = {}
    for version in range(3):
        topic = broker.create(f"alter-v{version}", retention_ms="1000", segment_bytes="1048576")
        answer = _alter(broker, _resource(topic, _values(retention_ms="2000")), version=version)
        seen[version] = [answer, _own(broker, topic)]
    return seen


@situation("AlterConfigs of a topic to nothing resets it")
def alter_to_nothing(broker: Broker) -> Any:
    topic = broker.create("alter-nothing", retention_ms="1000")
    return [_alter(broker, _resource(topic, [])), _own(broker, topic)]


@situation("AlterConfigs with unknown keys, wrong values and null")
def alter_wrong(broker: Broker) -> Any:
    topic = broker.create("alter-wrong", retention_ms="1000")
    wrong = {
        "unknown key": _values(no_such_key="1"),
        "not a number": _values(retention_ms="soon"),
        "below the least": _values(max_message_bytes="-1"),
        "not one of": _values(cleanup_policy="shred"),
        "null": _values(retention_ms=None),
        "empty": _values(retention_ms=""),
        "empty key": [{"name": "", "value": "1"}],
        "one good, one bad": _values(segment_bytes="1048576", retention_ms="soon"),
        "read-only and unknown": _values(log_dirs="/x"),
    }
    return {name: [_alter(broker, _resource(topic, rows)), _own(broker, topic)] for name, rows in wrong.items()}


@situation("AlterConfigs that only validates changes nothing")
def alter_validate(broker: Broker) -> Any:
    topic = broker.create("alter-validate", retention_ms="1000")
    return {
        "right": _alter(broker, _resource(topic, _values(retention_ms="7")), validate=True),
        "wrong": _alter(broker, _resource(topic, _values(retention_ms="x")), validate=True),
        "in the end": _own(broker, topic),
    }


@situation("AlterConfigs with a key twice")
def alter_twice(broker: Broker) -> Any:
    topic = broker.create("alter-twice")
    rows = _values(retention_ms="1") + _values(retention_ms="2")
    return {"answer": _alter(broker, _resource(topic, rows)), "in the end": _own(broker, topic)}


@situation("AlterConfigs of resources that are not there")
def alter_unknown(broker: Broker) -> Any:
    rows = _values(retention_ms="1")
    nowhere = broker.name("alter-nowhere")
    return {
        "unknown topic": _alter(broker, _resource(nowhere, rows)),
        "invalid topic": _alter(broker, _resource("in valid", rows)),
        "empty topic": _alter(broker, _resource("", rows)),
        "another broker": _alter(broker, _resource("77", _values(message_max_bytes="2000000"), BROKER)),
        "not a number": _alter(broker, _resource("zero", _values(message_max_bytes="2000000"), BROKER)),
        "kind 0": _alter(broker, _resource("x", rows, 0)),
        "kind 1": _alter(broker, _resource("x", rows, 1)),
        "kind 99": _alter(broker, _resource("x", rows, 99)),
        "nothing": _alter(broker),
    }


@situation("IncrementalAlterConfigs v0 and v1 set, set again and delete")
def set_and_delete(broker: Broker) -> Any:
    seen = {}
    for version in (0, 1):
        topic = broker.create(f"change-v{version}", segment_bytes="1048576")
        steps = [("retention.ms", SET, "1"), ("retention.ms", SET, "2"), ("retention.ms", DELETE, None)]
        seen[version] = [[_change(broker, topic, step, version=version), _own(broker, topic)] for step in steps]
    return seen


@situation("IncrementalAlterConfigs delete of what is not set, with a value, and of an unknown key")
def delete(broker: Broker) -> Any:
    topic = broker.create("change-delete", retention_ms="1000")
    return {
        "not set": _change(broker, topic, ("segment.bytes", DELETE, None)),
        "with a value": [_change(broker, topic, ("retention.ms", DELETE, "1000")), _own(broker, topic)],
        "unknown": _change(broker, topic, ("no.such.key", DELETE, None)),
    }


@situation("IncrementalAlterConfigs append to a list and subtract from it")
def lists(broker: Broker) -> Any:
    topic = broker.create("change-lists")
    steps = [
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", APPEND, "delete"),
        ("cleanup.policy", SET, "delete,compact"),
        ("cleanup.policy", SUBTRACT, "compact,delete"),
        ("cleanup.policy", APPEND, "shred"),
    ]
    return [[_change(broker, topic, step), _own(broker, topic)] for step in steps]


@situation("IncrementalAlterConfigs append to and subtract from what is no list")
def no_list(broker: Broker) -> Any:
    topic = broker.create("change-no-list")
    return {
        "append": _change(broker, topic, ("retention.ms", APPEND, "1")),
        "subtract": _change(broker, topic, ("retention.ms", SUBTRACT, "1")),
        "append to an unknown key": _change(broker, topic, ("no.such.key", APPEND, "1")),
        "in the end": _own(broker, topic),
    }


@situation("IncrementalAlterConfigs with null values, empty values and unknown operations")
def odd_values(broker: Broker) -> Any:
    topic = broker.create("change-odd", retention_ms="1000")
    return {
        "set null": _change(broker, topic, ("retention.ms", SET, None)),
        "append null": _change(broker, topic, ("cleanup.policy", APPEND, None)),
        "subtract null": _change(broker, topic, ("cleanup.policy", SUBTRACT, None)),
        "set empty": _change(broker, topic, ("retention.ms", SET, "")),
        "empty list": _change(broker, topic, ("cleanup.policy", SET, "")),
        "operation 4": _change(broker, topic, ("retention.ms", 4, "1")),
        "operation -1": _change(broker, topic, ("retention.ms", -1, "1")),
        "in the end": _own(broker, topic),
    }


@situation("IncrementalAlterConfigs with unknown keys and wrong values")
def wrong(broker: Broker) -> Any:
    topic = broker.create("change-wrong", retention_ms="1000")
    changes = {
        "unknown key": [("no.such.key", SET, "1")],
        "not a number": [("retention.ms", SET, "soon")],
        "too large": [("segment.bytes", SET, "99999999999")],
        "not one of": [("compression.type", SET, "rar")],
        "not true or false": [("preallocate", SET, "maybe")],
        "one good, one bad": [("segment.bytes", SET, "1048576"), ("retention.ms", SET, "soon")],
        "contradiction": [("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")],
    }
    return {name: [_change(broker, topic, *rows), _own(broker, topic)] for name, rows in changes.items()}


@situation("IncrementalAlterConfigs of one key twice, and of several at once")
def several(broker: Broker) -> Any:
    topic = broker.create("change-several")
    return {
        "set twice": _change(broker, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        "set and delete": _change(broker, topic, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        "several": _change(broker, topic, ("retention.ms", SET, "1"), ("segment.bytes", SET, "1048576")),
        "none": _change(broker, topic),
        "in the end": _own(broker, topic),
    }


@situation("IncrementalAlterConfigs that only validates changes nothing")
def validate(broker: Broker) -> Any:
    topic = broker.create("change-validate")
    return {
        "right": _change(broker, topic, ("retention.ms", SET, "7"), validate=True),
        "wrong": _change(broker, topic, ("retention.ms", SET, "x"), validate=True),
        "in the end": _own(broker, topic),
    }


@situation("IncrementalAlterConfigs of several resources, each answered for itself")
def resources(broker: Broker) -> Any:
    good, nowhere = broker.create("change-good"), broker.name("change-nowhere")
    rows = [{"name": "retention.ms", "config_operation": SET, "value": "5"}]
    listed = [_resource(good, rows), _resource(nowhere, rows), _resource("77", rows, BROKER), _resource("", rows)]
    answer = _sorted(broker.ask("IncrementalAlterConfigs", 1, resources=listed, validate_only=False))
    twice = [_resource(good, rows), _resource(good, rows)]
    return {
        "answer": answer,
        "one twice": _sorted(broker.ask("IncrementalAlterConfigs", 1, resources=twice, validate_only=False)),
        "kind 1": _change(broker, "x", ("retention.ms", SET, "1"), kind=1),
        "nothing": broker.ask("IncrementalAlterConfigs", 1, resources=[], validate_only=False),
        "in the end": _own(broker, good),
    }


@situation("a topic's changed limit counts for the next batch")
def effect(broker: Broker) -> Any:
    topic = broker.create("change-effect")
    seen = {"before": broker.produce(topic, batch(10))}
    _change(broker, topic, ("max.message.bytes", SET, "100"))
    seen["small"] = until(lambda: broker.produce(topic, batch(10)), lambda answer: answer["error_code"] != 0)
    _change(broker, topic, ("max.message.bytes", DELETE, None))
    seen["again"] = until(lambda: broker.produce(topic, batch(10)), lambda answer: answer["error_code"] == 0)
    return {name: answer["error_code"] for name, answer in seen.items()}
