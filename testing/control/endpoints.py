"""Each method and path of the control, and what it does. docs/control.md has a row for each.

A function of an endpoint runs in a thread and may block; it returns what becomes the JSON of the response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from sordini.packs.pack_format import PackError
from sordini.system.named_tuple import NamedTuple
from sordini.testing.arguments import INT32_MAX
from sordini.testing.clock import ADVANCE_S_MAX
from sordini.testing.control import group_endpoints as groups
from sordini.testing.control import share_group_endpoints as shares
from sordini.testing.control.controlled import Asked, Control
from sordini.testing.control.fields import WrongRequest
from sordini.testing.control.shapes import broker_json, fault_json, request_json, rule_of
from sordini.testing.faults.names import api_of
from sordini.testing.node_handle import SLOW_MS_MAX, NodeHandle
from sordini.testing.packs.loading import KEEP, OFFSETS

REQUESTS_MAX: Final = 10_000
"""In one response."""
REQUEST_BYTES_MAX: Final = 16 << 20
"""Of the messages in one response; at least one request is in it."""
LINES_MAX: Final = 1_000
NUMBER_MAX: Final = (1 << 63) - 1
CREATED: Final = 201


def _overview(control: Control, _: Asked) -> Any:
    return {
        "bootstrap_servers": control.kafka.bootstrap_servers,
        "brokers": _brokers(control, _),
        "endpoints": [f"{one.method} {one.path}" for one in ENDPOINTS],
    }


def _brokers(control: Control, _: Asked) -> Any:
    return [broker_json(state) for state in control.cluster.states()]


def _controller(control: Control, _: Asked) -> Any:
    with control.one_at_a_time:
        return {"controller": control.kafka.controller()}


def _broker(control: Control, asked: Asked) -> Any:
    return broker_json(control.state(control.broker(asked).id))


def _on_broker(act: Callable[[NodeHandle], object]) -> Callable[[Control, Asked], Any]:
    """An endpoint without fields that does something to a broker."""

    def called(control: Control, asked: Asked) -> Any:
        broker = control.broker(asked)
        act(broker)
        return broker_json(control.state(broker.id))

    return called


def _pause(control: Control, asked: Asked) -> Any:
    broker, detected = control.broker(asked), asked.fields.flag("detected", default=False)
    asked.fields.refuse_others()
    broker.pause(detected=detected)
    return broker_json(control.state(broker.id))


def _partition(control: Control, asked: Asked) -> Any:
    broker = control.broker(asked)
    others = [one.id for one in control.kafka.brokers if one.id != broker.id]
    chosen = asked.fields.wholes("from", others, others)
    asked.fields.refuse_others()
    broker.partition_from(*chosen)
    return broker_json(control.state(broker.id))


def _disk(control: Control, asked: Asked) -> Any:
    broker = control.broker(asked)
    full = asked.fields.flag("full", default=None)
    slow_ms = asked.fields.number("slow_ms", 0, SLOW_MS_MAX, None)
    asked.fields.refuse_others()
    control.cluster.set_disk(broker.id, full=full, slow_ms=slow_ms)
    return broker_json(control.state(broker.id))


def _faults(control: Control, _: Asked) -> Any:
    return [fault_json(number, rule) for number, rule in control.faults().items()]


def _add_fault(control: Control, asked: Asked) -> Any:
    numbers = [one.id for one in control.kafka.brokers]
    ((number, rule),) = control.add_faults(lambda: [rule_of(asked.fields, control.cluster.script, numbers)])
    return fault_json(number, rule)


def _undo_faults(control: Control, _: Asked) -> Any:
    undone = dict(control.faults())
    control.cluster.script.clear()
    return [fault_json(number, rule, is_in_force=False) for number, rule in undone.items()]


def _fault(control: Control, asked: Asked) -> Any:
    return fault_json(*control.fault(asked))


def _undo_fault(control: Control, asked: Asked) -> Any:
    number, rule = control.fault(asked)
    rule.undo()
    return fault_json(number, rule, is_in_force=False)


def _release(control: Control, asked: Asked) -> Any:
    number, rule = control.fault(asked)
    rule.release()
    return fault_json(number, rule)


def _requests(control: Control, asked: Asked) -> Any:
    api = asked.fields.text("api", None)
    client_id = asked.fields.text("client_id", None)
    after = asked.fields.whole("after", 0, NUMBER_MAX, None)
    limit = asked.fields.whole("limit", 1, REQUESTS_MAX, REQUESTS_MAX)
    form = asked.fields.text("message", "body", one_of=("body", "wire", "none"))
    asked.fields.refuse_others()
    key = None if api is None else api_of(api)
    shown: list[dict[str, Any]] = []
    left_bytes, has_more = REQUEST_BYTES_MAX, False
    for one in control.cluster.requests():
        is_meant = (key is None or one.key is key) and (client_id is None or one.client_id == client_id)
        if not is_meant or (after is not None and one.number <= after):
            continue
        has_more = len(shown) == limit or (bool(shown) and len(one.data) > left_bytes)
        if has_more:
            break
        left_bytes -= 0 if form == "none" else len(one.data)
        shown.append(request_json(one, form))
    return {"requests": shown, "more": has_more}


def _forget_requests(control: Control, _: Asked) -> Any:
    control.cluster.forget_requests()
    return {}


def _topic(control: Control, asked: Asked) -> Any:
    fields = asked.fields
    name = fields.text("name", None)
    partitions = fields.whole("partitions", 1, INT32_MAX, 1)
    replicas = fields.whole("replicas", 1, len(control.kafka.brokers), None)
    config = fields.texts_by_name("config")
    asked.fields.refuse_others()
    with control.one_at_a_time:
        return {"name": control.kafka.topic(name, partitions=partitions, replicas=replicas, config=config)}


def _load(control: Control, asked: Asked) -> Any:
    fields = asked.fields
    path = fields.text("path")
    topics = fields.texts_by_name("topics")
    offsets = fields.text("offsets", KEEP, one_of=OFFSETS)
    config = fields.texts_by_name("config")
    fields.refuse_others()
    loaded: dict[str, dict[str, int]] = {}
    with control.one_at_a_time:
        try:
            counts = control.kafka.load(path, topics or None, offsets=offsets, config=config)
        except PackError as error:
            raise WrongRequest(str(error), "path", "a file that `sordini topics pack` has written") from None
        except ValueError as error:
            raise WrongRequest(
                str(error), "topics", "names of the pack's topics, and what they are called here"
            ) from None
    for (topic, partition), records in counts.items():
        loaded.setdefault(topic, {})[str(partition)] = records
    return {"records": loaded}


def _expire(control: Control, asked: Asked) -> Any:
    with control.one_at_a_time:
        control.kafka.expire(asked.parts["topic"])
        return {"end_offsets": {str(one): end for one, end in control.kafka.end_offsets(asked.parts["topic"]).items()}}


def _led(control: Control, asked: Asked) -> Any:
    topic, partition = asked.parts["topic"], _partition_of(asked)
    with control.one_at_a_time:
        return {"leader": control.kafka.leader(topic, partition), "in_sync": control.kafka.in_sync(topic, partition)}


def _move_leader(control: Control, asked: Asked) -> Any:
    partition = _partition_of(asked)
    to = asked.fields.whole("to", 1, len(control.kafka.brokers), None)
    asked.fields.refuse_others()
    with control.one_at_a_time:
        return {"leader": control.kafka.move_leader(asked.parts["topic"], partition, to)}


def _fence(control: Control, asked: Asked) -> Any:
    with control.one_at_a_time:
        control.kafka.fence(asked.parts["transactional_id"])
    return {}


def _clock(control: Control, _: Asked) -> Any:
    return {"now_ms": control.cluster.now_ms(), "elapsed_s": control.cluster.elapsed_s()}


def _advance(control: Control, asked: Asked) -> Any:
    seconds = asked.fields.number("advance_s", 0, ADVANCE_S_MAX)
    asked.fields.refuse_others()
    control.cluster.advance(seconds)
    return _clock(control, asked)


def _log(control: Control, asked: Asked) -> Any:
    lines = asked.fields.whole("lines", 1, LINES_MAX, 50)
    since_s = asked.fields.number("since_s", 0, NUMBER_MAX, 0.0)
    asked.fields.refuse_others()
    return {"lines": control.cluster.log_lines(lines, since_s)}


def _report(control: Control, _: Asked) -> Any:
    return {"report": control.kafka.report()}


def _undo(control: Control, asked: Asked) -> Any:
    control.kafka.end_test()
    control.kafka.begin_test()
    return _brokers(control, asked)


class Endpoint(NamedTuple):
    """One row of the table."""

    method: str
    path: str
    """With variable parts in braces."""
    handle: Callable[[Control, Asked], Any]
    has_fields: bool = False
    """Whether it reads fields; those that it does not read it refuses itself."""
    status: int = 200


ENDPOINTS: Final = (
    Endpoint("GET", "/", _overview),
    Endpoint("GET", "/controller", _controller),
    Endpoint("GET", "/brokers", _brokers),
    Endpoint("GET", "/brokers/{broker}", _broker),
    Endpoint("POST", "/brokers/{broker}/kill", _on_broker(NodeHandle.kill)),
    Endpoint("POST", "/brokers/{broker}/stop", _on_broker(NodeHandle.stop)),
    Endpoint("POST", "/brokers/{broker}/start", _on_broker(NodeHandle.start)),
    Endpoint("POST", "/brokers/{broker}/restart", _on_broker(NodeHandle.restart)),
    Endpoint("POST", "/brokers/{broker}/pause", _pause, has_fields=True),
    Endpoint("POST", "/brokers/{broker}/resume", _on_broker(NodeHandle.resume)),
    Endpoint("POST", "/brokers/{broker}/partition", _partition, has_fields=True),
    Endpoint("POST", "/brokers/{broker}/heal", _on_broker(NodeHandle.heal)),
    Endpoint("POST", "/brokers/{broker}/disk", _disk, has_fields=True),
    Endpoint("GET", "/faults", _faults),
    Endpoint("POST", "/faults", _add_fault, has_fields=True, status=CREATED),
    Endpoint("DELETE", "/faults", _undo_faults),
    Endpoint("GET", "/faults/{fault}", _fault),
    Endpoint("DELETE", "/faults/{fault}", _undo_fault),
    Endpoint("POST", "/faults/{fault}/release", _release),
    Endpoint("GET", "/requests", _requests, has_fields=True),
    Endpoint("DELETE", "/requests", _forget_requests),
    Endpoint("POST", "/topics", _topic, has_fields=True, status=CREATED),
    Endpoint("POST", "/load", _load, has_fields=True),
    Endpoint("POST", "/topics/{topic}/expire", _expire),
    Endpoint("GET", "/topics/{topic}/partitions/{partition}", _led),
    Endpoint("POST", "/topics/{topic}/partitions/{partition}/leader", _move_leader, has_fields=True),
    Endpoint("GET", "/groups/{group}", groups.group),
    Endpoint("POST", "/groups/{group}/expel", groups.expel, has_fields=True),
    Endpoint("POST", "/groups/{group}/fence", groups.fence, has_fields=True, status=CREATED),
    Endpoint("POST", "/groups/{group}/hold-heartbeats", groups.hold_heartbeats, has_fields=True, status=CREATED),
    Endpoint("POST", "/groups/{group}/refuse-assignor", groups.refuse_assignor, has_fields=True, status=CREATED),
    Endpoint("GET", "/share-groups/{group}", shares.share_group),
    Endpoint("GET", "/share-groups/{group}/in-flight", shares.in_flight, has_fields=True),
    Endpoint("POST", "/share-groups/{group}/expire-locks", shares.expire_locks, has_fields=True),
    Endpoint(
        "POST",
        "/share-groups/{group}/refuse-acknowledgements",
        shares.refuse_acknowledgements,
        has_fields=True,
        status=CREATED,
    ),
    Endpoint("POST", "/transactional-ids/{transactional_id}/fence", _fence),
    Endpoint("GET", "/clock", _clock),
    Endpoint("POST", "/clock", _advance, has_fields=True),
    Endpoint("GET", "/log", _log, has_fields=True),
    Endpoint("GET", "/report", _report),
    Endpoint("POST", "/undo", _undo),
)


class NoMethod(WrongRequest):
    """A path that has other methods."""


def find(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    """The endpoint of a request, and the variable parts of its path. Raises WrongRequest."""
    words, others = path.split("/"), []
    for endpoint in ENDPOINTS:
        parts = _matched(endpoint.path.split("/"), words)
        if parts is not None and endpoint.method == method:
            return endpoint, parts
        if parts is not None:
            others.append(endpoint.method)
    if others:
        raise NoMethod(f"{method} {path} is not served", "method", ", ".join(others), 405)
    allowed = ", ".join(dict.fromkeys(endpoint.path for endpoint in ENDPOINTS))
    raise WrongRequest(f"there is no path {path!r}", "path", allowed, 404)


def _matched(pattern: list[str], words: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(words):
        return None
    parts = {}
    for expected, word in zip(pattern, words, strict=True):
        if expected.startswith("{") and word:
            parts[expected.strip("{}")] = unquote(word)
        elif expected != word:
            return None
    return parts


def _partition_of(asked: Asked) -> int:
    given = asked.parts["partition"]
    if not (given.isascii() and given.isdigit() and int(given[:20]) <= INT32_MAX):
        raise WrongRequest(f"there is no partition {given!r}", "path", f"a whole number from 0 to {INT32_MAX}", 404)
    return int(given)
