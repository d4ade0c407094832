"""Records of `_schemas` as a Confluent Schema Registry writes them: what our registry and our brokers read of them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from sordini.testing import KitError, make_kafka
from tests.registry.beside_karapace import answer
from tests.registry.journal.rest_process import RestProcess

# Of version 7.x: with ids, with references, a soft deletion, a permanent one, settings, and a NOOP.
RECORDS = [
    ('{"keytype":"NOOP","magic":0}', None),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        '{"subject":"orders-value","version":1,"id":1,"md5":"Wm4wPyTRsiWBCcdNDTFoCQ==","schema":"\\"string\\"","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        '{"subject":"orders-value","version":2,"id":2,"schema":"\\"long\\"","deleted":true}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"shop","version":1,"magic":1}',
        '{"subject":"shop","version":1,"id":3,"schemaType":"JSON","schema":"{\\"type\\":\\"object\\"}","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"gone","version":1,"magic":1}',
        '{"subject":"gone","version":1,"id":4,"schema":"\\"int\\"","deleted":true}',
    ),
    ('{"keytype":"SCHEMA","subject":"gone","version":1,"magic":1}', None),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
    ('{"keytype":"CONFIG","subject":"shop","magic":0}', '{"compatibilityLevel":"NONE","overrideConfig":null}'),
    ('{"keytype":"MODE","subject":"shop","magic":0}', '{"mode":"READONLY"}'),
]


def test_a_topic_of_a_confluent_registry_is_taken_over(tmp_path: Path) -> None:
    with make_kafka() as kafka:
        kafka.topic("_schemas", config={"cleanup.policy": "compact"})
        for key, value in RECORDS:
            kafka.produce("_schemas", [value], key=key)
        with RestProcess(tmp_path, kafka.bootstrap_servers, "_schemas") as registry:

            def found(path: str) -> Any:
                return answer(registry.port, "GET", path)

            assert found("/subjects") == ["orders-value", "shop"]
            assert found("/subjects/orders-value/versions") == [1]
            assert found("/subjects?deleted=true") == ["orders-value", "shop"]
            assert found("/schemas/ids/1")["schema"] == '"string"'
            assert found("/schemas/ids/3")["schema"] == '{"type":"object"}'
            assert found("/schemas/ids/3")["schemaType"] == "JSON"
            assert found("/config") == {"compatibilityLevel": "FULL"}
            assert found("/mode/shop") == {"mode": "READONLY"}
            new = answer(registry.port, "POST", "/subjects/new/versions", {"schema": '"bytes"'})
            assert new["id"] == 5, "id 4 was given, though nothing has it any more"


@pytest.mark.parametrize(("schema_id", "is_appended"), [(1, True), (2, True), (3, False), (4, False)])
def test_a_broker_checks_by_the_topic_of_a_confluent_registry(schema_id: int, is_appended: bool) -> None:
    with make_kafka() as kafka:
        kafka.topic("_schemas", config={"cleanup.policy": "compact"})
        for key, value in RECORDS:
            kafka.produce("_schemas", [value], key=key)
        kafka.topic("orders", config={"sordini.schema.validate": "id"})
        value = struct.pack(">bi", 0, schema_id)
        if is_appended:
            kafka.produce("orders", [value])
        else:
            with pytest.raises(KitError, match="INVALID_RECORD"):
                kafka.produce("orders", [value])
