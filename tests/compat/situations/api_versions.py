"""ApiVersions: the one request that every client begins with, in every version it may come in."""

import struct
from typing import Any

from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker, header

NEWEST_OF_3_9 = {
    0: 11,
    1: 17,
    2: 9,
    3: 12,
    8: 9,
    9: 9,
    10: 6,
    11: 9,
    12: 4,
    13: 5,
    14: 5,
    15: 5,
    16: 5,
    17: 1,
    18: 4,
    19: 7,
} | {20: 6, 21: 2, 22: 5, 23: 4, 32: 4, 33: 2, 35: 4, 37: 3, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 60: 1, 61: 0}
NEWEST_OF_3_9 |= {4: 7, 5: 4, 6: 8, 7: 3, 27: 1, 34: 2, 56: 3, 67: 0}
"""What is served by both, by API key; a broker may offer newer versions than these."""


def _summary(answer: Any) -> Any:
    if isinstance(answer, str):
        return answer
    offered = {entry["api_key"]: entry for entry in answer.pop("api_keys")}
    answer["offered"] = {
        key: [offered[key]["min_version"], min(offered[key]["max_version"], newest)] if key in offered else None
        for key, newest in NEWEST_OF_3_9.items()
    }
    return answer


@situation("ApiVersions v0 to v4 list the same oldest versions")
def every_version(broker: Broker) -> Any:
    software = {"client_software_name": "situations", "client_software_version": "1.0"}
    return {
        version: _summary(broker.ask("ApiVersions", version, **(software if version >= 3 else {})))
        for version in range(5)
    }


@situation("ApiVersions v3 with an invalid client software name")
def invalid_software_name(broker: Broker) -> Any:
    names = ["", "bad name!", "-dash", "good.name-1"]
    return {
        name: broker.ask("ApiVersions", 3, client_software_name=name, client_software_version="1")["error_code"]
        for name in names
    }


def _raw(broker: Broker, frame: bytes) -> Any:
    conversation = broker.connect()
    try:
        conversation.send_frame(frame)
        answer = conversation.receive_frame()
        if isinstance(answer, str):
            return answer
        values = broker.definitions.decode("ApiVersionsResponse", 0, answer[4:])
        values["correlation_id"] = struct.unpack_from(">i", answer)[0]
        values["asked_again"] = _summary(conversation.ask("ApiVersions", 0))["error_code"]
        keys = values.pop("api_keys")
        values["api_keys"] = [entry["api_key"] for entry in keys]
        values["oldest"] = [entry["min_version"] for entry in keys]
        return values
    finally:
        conversation.close()


@situation("ApiVersions v99 behind a flexible header is answered in v0 form with UNSUPPORTED_VERSION")
def too_new(broker: Broker) -> Any:
    body = broker.definitions.encode(
        "ApiVersionsRequest", 3, {"client_software_name": "s", "client_software_version": "1"}
    )
    return _raw(broker, header(18, 99, 7, flexible=True) + body)


@situation("ApiVersions v99 behind a flexible header without a body")
def too_new_without_body(broker: Broker) -> Any:
    return _raw(broker, header(18, 99, 7, flexible=True))


@situation("ApiVersions v99 behind a header without tagged fields")
def too_new_old_header(broker: Broker) -> Any:
    return _raw(broker, header(18, 99, 7, flexible=False))


@situation("ApiVersions v-1")
def negative_version(broker: Broker) -> Any:
    return _raw(broker, header(18, -1, 7, flexible=False))


@situation("ApiVersions v0 with a null client id")
def null_client_id(broker: Broker) -> Any:
    return _raw(broker, header(18, 0, 7, flexible=False, client_id=None))["error_code"]


@situation("ApiVersions v0 twice on one connection")
def asked_twice(broker: Broker) -> Any:
    conversation = broker.connect()
    try:
        return [conversation.ask("ApiVersions", 0)["error_code"] for _ in range(2)]
    finally:
        conversation.close()
