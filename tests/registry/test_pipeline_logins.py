"""The pipeline at a registry with TLS and logins: what that refuses is one sentence, and no batch is committed for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job_schema import StateOf
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.schemas.fields import schema_of
from sordini.pipeline.schemas.kept_schemas import KeptSchemas, RegistryUnavailable
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.schemas.values.row_reader import REASON, columns
from sordini.pipeline.tables import open_table
from sordini.testing import Kafka, Sasl, make_kafka
from tests.registry.http.registry_process import RegistryProcess
from tests.support.certificates import Authority
from tests.support.frames import LocalFrame, plain_rows

PASSWORDS = {"admin": "admin-secret", "loader": "loader-secret", "stranger": "stranger-secret"}
ORDER = schema_of("order", {"id": "long!"})
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with make_kafka(config=config, sasl=Sasl(PASSWORDS, ["SCRAM-SHA-256"]), topics=["orders"]) as kafka:
        admin = AdminClient(kafka.client_settings("admin"))
        may_read = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            "User:loader",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for result in admin.create_acls([may_read]).values():
            result.result(10)
        yield kafka


class Registries:
    """One with a certificate that is valid, and one of the same schemas whose certificate has expired."""

    def __init__(self, good: RegistryProcess, expired: RegistryProcess, ca: str) -> None:
        self.good = good
        self.expired = expired
        self.ca = ca

    def settings(self, **changes: Any) -> RegistrySettings:
        made = RegistrySettings(
            self.good.url, "loader", PASSWORDS["loader"], ca=self.ca, read_subjects=("orders-value",), wait_seconds=0
        )
        return replace(made, **changes)


@pytest.fixture(scope="module")
def registries(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    folder = tmp_path_factory.mktemp("registries")
    authority = Authority()
    ca = str(authority.pem_file(folder / "ca.pem"))
    login = folder / "registry.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="admin" password="{PASSWORDS["admin"]}";\n'
    )

    def options(name: str, days: float) -> list[str]:
        issued, key, chain = authority.issue("127.0.0.1", days=days), folder / f"{name}.key", folder / f"{name}.pem"
        key.write_text(issued.key_pem())
        chain.write_text(issued.chain_pem)
        tls = ["--tls-certificate", str(chain), "--tls-key", str(key), "--tls-ca", ca]
        return ["--command-config", str(login), "--sasl-login", "SCRAM-SHA-256", *tls]

    bootstrap = kafka.bootstrap_servers
    with (
        RegistryProcess(folder / "good", bootstrap, *options("good", 300)) as good,
        RegistryProcess(folder / "expired", bootstrap, *options("expired", -1), "--read-only") as expired,
    ):
        yield Registries(good, expired, ca)


@pytest.fixture(scope="module")
def value(registries: Registries) -> bytes:
    """A record's, which the admin has written."""
    configuration = {
        "url": registries.good.url,
        "basic.auth.user.info": f"admin:{PASSWORDS['admin']}",
        "ssl.ca.location": registries.ca,
    }
    with SchemaRegistryClient(configuration) as client:
        client.register_schema("orders-value", Registered(AVRO, "AVRO"))
        made = AvroSerializer(client, AVRO)({"id": 7}, SerializationContext("orders", MessageField.VALUE))
    assert made is not None
    return made


class Orders:
    """A table of orders, whose batches are decoded in their tasks, as those of a job are."""

    def __init__(self, folder: Path) -> None:
        self.location = str(folder / "orders")
        self._state = str(folder / "state")

    def write(self, settings: RegistrySettings, value: bytes, batch_id: int = 0) -> int:
        read = RegisteredSchemas((), settings, StateOf(self._state)).reader(ORDER)

        class Decoding(LocalFrame):
            """Rows are made by the tasks: an error of the registry is one of the batch."""

            def mapInArrow(self, function: Any, schema: str) -> LocalFrame:  # noqa: N802
                rows = columns(pa.array([value], pa.binary()), ORDER, read)
                assert rows.field(REASON).null_count == 1, rows.field(REASON)
                decoded = pa.RecordBatch.from_pydict({"id": rows.field("id")})
                return LocalFrame([decoded]).mapInArrow(function, schema)

        frame: Any = Decoding([pa.RecordBatch.from_pylist([], schema=pa.schema({"id": pa.int64()}))])
        return open_table("delta", self.location, app_id="orders").append(frame, batch_id).rows

    def kept(self, settings: RegistrySettings) -> list[str]:
        return StateFolder(self._state).names(f"registry/{settings.cache_name}")


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"password": "guess"}, r"refused: .*\(401\): decode\.registry has its login; no record was decoded"),
        ({"user": "", "password": ""}, r"refused: .*\(401\): decode\.registry has its login; no record was decoded"),
        (
            {"user": "stranger", "password": PASSWORDS["stranger"]},
            r"refused: stranger is not allowed READ of subject orders-value \(403\): decode\.registry has its login; ",
        ),
        ({"url": "expired"}, r"is not reached: .*certificate has expired.*; no record was decoded without its schema"),
        ({"ca": ""}, r"is not reached: .*certificate.*; no record was decoded without its schema"),
    ],
    ids=["a wrong password", "no login", "a missing permission", "an expired certificate", "an unknown authority"],
)
def test_what_a_registry_refuses_is_one_sentence_and_the_batch_is_written_when_it_does_not(
    registries: Registries, value: bytes, orders: Orders, changes: dict[str, str], reported: str
) -> None:
    wrong = registries.settings(**({"url": registries.expired.url} if "url" in changes else changes))
    with pytest.raises(RegistryUnavailable, match=reported) as refused:
        orders.write(wrong, value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"the registry {wrong.url} ")
    assert not {word for word in (*PASSWORDS.values(), "guess") if word in str(refused.value)}
    assert open_table("delta", orders.location, app_id="orders").last() is None
    assert orders.kept(wrong) == [], "what was refused is not kept as an answer"
    assert orders.write(registries.settings(), value) == 1
    assert plain_rows("delta", orders.location).to_pylist() == [{"id": 7}]


def test_an_id_that_no_registry_has_is_a_dead_letter_for_a_login_that_may_read(
    registries: Registries, value: bytes, tmp_path: Path
) -> None:
    unknown = b"\0\0\1\0\0" + value[5:]
    read = RegisteredSchemas((), registries.settings(), StateOf(str(tmp_path))).reader(ORDER)
    [row] = columns(pa.array([unknown], pa.binary()), ORDER, read).to_pylist()
    assert row[REASON] == "was written with schema 65536, which the registry does not have"


def test_what_was_decoded_before_is_decoded_while_the_login_is_refused(
    registries: Registries, value: bytes, orders: Orders
) -> None:
    assert orders.write(registries.settings(), value) == 1
    assert orders.write(registries.settings(password="guess"), value, 1) == 1


def test_the_columns_of_a_subject_are_refused_to_a_login_that_may_not_read_it(
    registries: Registries, value: bytes, tmp_path: Path
) -> None:
    assert value
    stranger = registries.settings(user="stranger", password=PASSWORDS["stranger"])
    with pytest.raises(PipelineError, match="stranger is not allowed READ of subject orders-value"):
        KeptSchemas(stranger, StateFolder(str(tmp_path))).versions("orders-value")
