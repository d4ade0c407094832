"""Quotas: how they are altered and described, and what a client above its quota of mutations is answered.

Every situation takes back what it has set: the broker is shared.
"""

import itertools
from typing import Any

from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

EXACT, IS_DEFAULT, ANY = range(3)
PRODUCE, CONSUME, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
BURST = 11
"""Mutations that a rate of one a second lets through at once: one for each of controller.quota.window.num."""
Parts = dict[str, str | None]


def _entity(parts: Parts) -> list[dict[str, Any]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in parts.items()]


def _entry(parts: Parts, **values: float | None) -> dict[str, Any]:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    return {"entity": _entity(parts), "ops": ops}


def _alter(broker: Broker, *entries: dict[str, Any], version: int = 1, validate_only: bool = False) -> Any:
    """Sorted: Apache Kafka's order is that of a hash table."""
    answer = broker.ask("AlterClientQuotas", version, entries=list(entries), validate_only=validate_only)
    if isinstance(answer, str):
        return answer
    for row in answer["entries"]:
        row["entity"].sort(key=lambda part: part["entity_type"])
    return sorted(answer["entries"], key=lambda row: str(row["entity"]))


def _component(kind: str, match_type: int, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


def _describe(broker: Broker, *components: dict[str, Any], strict: bool = False, version: int = 1) -> Any:
    """Sorted, too."""
    answer = broker.ask("DescribeClientQuotas", version, components=list(components), strict=strict)
    if isinstance(answer, str) or answer["entries"] is None:
        return answer
    for entry in answer["entries"]:
        entry["entity"].sort(key=lambda part: part["entity_type"])
        entry["values"].sort(key=lambda value: value["key"])
    answer["entries"].sort(key=str)
    return answer


def _all(broker: Broker) -> Any:
    return _describe(broker)["entries"]


SOME: list[tuple[Parts, dict[str, float]]] = [
    ({"user": "alice"}, {PRODUCE: 1_000_000.0, CONSUME: 2_000_000.0}),
    ({"user": "alice", "client-id": "app"}, {TIME: 12.5}),
    ({"user": "alice", "client-id": None}, {MUTATIONS: 1.5}),
    ({"user": None}, {PRODUCE: 5_000_000.0}),
    ({"user": None, "client-id": None}, {CONSUME: 7_000_000.0}),
    ({"client-id": "a b/c?%"}, {PRODUCE: 3_000_000.0}),
    ({"client-id": None}, {TIME: 200.0}),
    ({"ip": "192.0.2.1"}, {CONNECTIONS: 100.0}),
    ({"ip": None}, {CONNECTIONS: 1_000.0}),
]


def _set_some(broker: Broker) -> Any:
    return _alter(broker, *(_entry(parts, **values) for parts, values in SOME))


def _remove_some(broker: Broker) -> Any:
    removed = _alter(broker, *(_entry(parts, **dict.fromkeys(values)) for parts, values in SOME))
    until(lambda: _all(broker), lambda found: not found)
    return removed


def _seen(broker: Broker, count: int) -> Any:
    """A change is applied soon after its answer."""
    return until(lambda: _all(broker), lambda found: len(found) == count)


@situation("quotas of users, client ids, both and addresses are set, described and removed")
def every_entity(broker: Broker) -> Any:
    seen = {"set": _set_some(broker), "then": _seen(broker, len(SOME))}
    return seen | {"removed": _remove_some(broker), "in the end": _all(broker)}


@situation("quotas are described by a name, by the default and by any name, strictly or not")
def filters(broker: Broker) -> Any:
    _set_some(broker)
    _seen(broker, len(SOME))
    wanted = {
        "alice": [_component("user", EXACT, "alice")],
        "nobody": [_component("user", EXACT, "bob")],
        "the default user": [_component("user", IS_DEFAULT)],
        "any user": [_component("user", ANY)],
        "any client": [_component("client-id", ANY)],
        "the default client": [_component("client-id", IS_DEFAULT)],
        "alice with any client": [_component("user", EXACT, "alice"), _component("client-id", ANY)],
        "any user with any client": [_component("user", ANY), _component("client-id", ANY)],
        "alice with app": [_component("user", EXACT, "alice"), _component("client-id", EXACT, "app")],
        "any address": [_component("ip", ANY)],
        "one address": [_component("ip", EXACT, "192.0.2.1")],
        "the default address": [_component("ip", IS_DEFAULT)],
        "all": [],
    }
    seen = {
        f"{what}, {'strictly' if strict else 'loosely'}": _describe(broker, *components, strict=strict)
        for what, components in wanted.items()
        for strict in (False, True)
    }
    seen["version 0"] = _describe(broker, _component("user", ANY), version=0)
    _remove_some(broker)
    return seen


@situation("filters that cannot be are refused")
def wrong_filters(broker: Broker) -> Any:
    return {
        "no type": _describe(broker, _component("", ANY)),
        "another type": _describe(broker, _component("group", ANY)),
        "twice": _describe(broker, _component("user", ANY), _component("user", EXACT, "alice")),
        "a client twice": _describe(broker, _component("client-id", ANY), _component("client-id", IS_DEFAULT)),
        "address and user": _describe(broker, _component("ip", ANY), _component("user", ANY)),
    }


@situation("changes that cannot be are refused, one by one")
def wrong_changes(broker: Broker) -> Any:
    entries = {
        "no entity": _entry({}, **{PRODUCE: 1.0}),
        "another type": _entry({"group": "g"}, **{PRODUCE: 1.0}),
        "an empty user": _entry({"user": ""}, **{PRODUCE: 1.0}),
        "an empty client id": _entry({"client-id": ""}, **{PRODUCE: 1.0}),
        "address and user": _entry({"ip": "192.0.2.1", "user": "alice"}, **{CONNECTIONS: 1.0}),
        "an unknown key": _entry({"user": "alice"}, colour=1.0),
        "a user's connections": _entry({"user": "alice"}, **{CONNECTIONS: 1.0}),
        "an address' bytes": _entry({"ip": "192.0.2.1"}, **{PRODUCE: 1.0}),
        "half a byte": _entry({"user": "alice"}, **{PRODUCE: 1.5}),
        "half a connection": _entry({"ip": "192.0.2.1"}, **{CONNECTIONS: 1.5}),
    }
    seen = {what: [row["error_code"] for row in _alter(broker, entry)] for what, entry in entries.items()}
    seen["one of two"] = [
        row["error_code"] for row in _alter(broker, entries["an unknown key"], _entry({"user": "u"}, **{PRODUCE: 9.0}))
    ]
    _seen(broker, 1)
    _alter(broker, _entry({"user": "u"}, **{PRODUCE: None}))
    return seen | {"in the end": _seen(broker, 0)}


@situation("a change that is only validated changes nothing")
def validated(broker: Broker) -> Any:
    return {
        "right": _alter(broker, _entry({"user": "alice"}, **{PRODUCE: 1.0}), validate_only=True),
        "wrong": [
            row["error_code"] for row in _alter(broker, _entry({"user": "alice"}, colour=1.0), validate_only=True)
        ],
        "then": _all(broker),
    }


@situation("a quota is changed and others of the same entity stay, and removing none is no error")
def changed(broker: Broker) -> Any:
    user: Parts = {"user": "alice"}
    _alter(broker, _entry(user, **{PRODUCE: 1.0, CONSUME: 2.0}))
    seen: dict[str, Any] = {"first": _seen(broker, 1)}
    _alter(broker, _entry(user, **{PRODUCE: 3.0, TIME: 0.25}))
    seen["then"] = until(lambda: _all(broker), lambda found: len(found) == 1 and len(found[0]["values"]) == 3)
    seen["removed"] = _alter(broker, _entry(user, **{PRODUCE: None, CONSUME: None, TIME: None, MUTATIONS: None}))
    seen["in the end"] = _seen(broker, 0)
    seen["again"] = _alter(broker, _entry(user, **{PRODUCE: None}), version=0)
    return seen


def _topics(names: list[str], partitions: int) -> list[dict[str, Any]]:
    return [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]


def _make_the_quota_count(broker: Broker) -> None:
    """Wait until another client is refused: a broker applies a quota after it is described.

    It makes topics until one is refused. Those that are only validated take nothing from a quota.
    """
    numbers = itertools.count()

    def is_refused() -> bool:
        conversation = broker.connect()
        conversation.client_id = "overdraws"
        name = broker.name(f"overdrawn-{next(numbers)}")
        row = {"name": name, "num_partitions": BURST + 1, "replication_factor": 1}
        answer = conversation.ask("CreateTopics", 6, topics=[row], validate_only=False, timeout_ms=30_000)
        conversation.close()
        return bool(answer["topics"][0]["error_code"])

    assert until(is_refused, bool), "no quota is applied"


@situation("mutations above a client's quota are refused in new versions and made in old ones")
def mutations(broker: Broker) -> Any:
    all_clients: Parts = {"client-id": None}
    names = [broker.name(f"quota-{number}") for number in range(2)]
    _alter(broker, _entry(all_clients, **{MUTATIONS: 1.0}))
    _seen(broker, 1)
    _make_the_quota_count(broker)
    seen: dict[str, Any] = {}

    def ask(what: str, api: str, version: int, rows: str, **fields: Any) -> None:
        """On a connection of its own: the one that was answered is muted."""
        conversation = broker.connect()
        answer = conversation.ask(api, version, timeout_ms=30_000, **fields)
        seen[what] = [[row["error_code"] for row in answer[rows]], answer["throttle_time_ms"] > 0]
        conversation.close()

    def create(what: str, version: int, name: str, partitions: int, *, validate_only: bool = False) -> None:
        row = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        ask(what, "CreateTopics", version, "topics", topics=[row], validate_only=validate_only)

    create("validated", 6, names[0], 40, validate_only=True)
    create("overdrawn once", 6, names[0], 40)
    create("refused", 6, names[1], 1)
    create("validated all the same", 6, names[1], 1, validate_only=True)
    create("made for an old client", 5, names[1], 1)
    grown = [{"name": names[0], "count": 41, "assignments": None}]
    ask("growth is refused", "CreatePartitions", 3, "results", topics=grown, validate_only=False)
    ask("growth for an old client", "CreatePartitions", 2, "results", topics=grown, validate_only=False)
    ask("deletion is refused", "DeleteTopics", 5, "responses", topic_names=[names[1]])
    ask("deletion for an old client", "DeleteTopics", 4, "responses", topic_names=[names[1]])
    _alter(broker, _entry(all_clients, **{MUTATIONS: None}))
    _seen(broker, 0)
    # A broker applies this change, too, after it is described.
    numbers = itertools.count()

    def create_more() -> Any:
        create("without a quota", 6, broker.name(f"unlimited-{next(numbers)}"), 5)
        return seen["without a quota"]

    until(create_more, lambda found: found == [[0], False])
    return seen
