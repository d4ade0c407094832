"""confluent-kafka's client of a registry with tokens of an issuer: the registry presents them to the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.outside.bearer_broker import ADMIN, Secured, alices
from tests.registry.http.registry_process import RegistryProcess, Reply, send
from tests.support.polling import eventually

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SECRET = '{"type": "record", "name": "Secret", "fields": []}'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """Of a cluster in which alice may do everything to topics that begin with `topic`; its own user is admin."""
    folder = tmp_path_factory.mktemp("bearer")
    secured = Secured(folder)
    with secured.broker:
        secured.prepare()
        own = secured.properties("registry", f"sasl.mechanism=PLAIN\nsasl.jaas.config={ADMIN}\n")
        options = ("--command-config", str(own), "--sasl-login", "PLAIN")
        with RegistryProcess(folder / "registry", secured.bootstrap, *options) as process:
            yield process


def client_with(registry: RegistryProcess, token: str) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {
            "url": registry.url,
            "max.retries": 0,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    )


def header(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_serializers_register_and_read_with_a_token(registry: RegistryProcess) -> None:
    context = SerializationContext("topic-orders", MessageField.VALUE)
    with client_with(registry, alices()) as client, client_with(registry, alices()) as other:
        data = AvroSerializer(client, ORDER)({"id": 7}, context)
        assert data is not None
        assert AvroDeserializer(other)(data, context) == {"id": 7}
    assert "principal=alice" in registry.output()


def test_what_the_principal_of_a_token_may_not_do_with_a_topic_is_forbidden(registry: RegistryProcess) -> None:
    admin = {"authorization": "Basic YWRtaW46c2VjcmV0"}
    reply = send(registry.url, "POST", "/subjects/secrets-value/versions", {"schema": SECRET}, admin)
    assert reply.status == 200, reply
    with client_with(registry, alices()) as client:
        for forbidden in (
            lambda: client.register_schema("secrets-value", Schema(ORDER, "AVRO")),
            lambda: client.get_latest_version("secrets-value"),
        ):
            with pytest.raises(SchemaRegistryError) as refused:
                forbidden()
            assert refused.value.http_status_code == 403
        client.register_schema("topic-mine-value", Schema(ORDER, "AVRO"))
        assert "secrets-value" not in client.get_subjects()
        assert "topic-mine-value" in client.get_subjects()


def test_a_token_of_another_principal_has_other_subjects(registry: RegistryProcess) -> None:
    with client_with(registry, alices()) as client:
        client.register_schema("topic-alone-value", Schema(ORDER, "AVRO"))
    with client_with(registry, alices(sub="bob")) as client:
        assert client.get_subjects() == []


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: alices(-5), id="expired"),
        pytest.param(lambda: alices(nbf=int(time.time()) + 300), id="not yet valid"),
        pytest.param(lambda: alices(iss="https://evil.example"), id="of another issuer"),
        pytest.param(lambda: alices(aud="other"), id="for another audience"),
        pytest.param(lambda: alices(algorithm="ES384"), id="of an unknown key"),
        pytest.param(lambda: alices()[:-10] + "AAAAAAAAAA", id="altered"),
    ],
)
def test_another_token_is_no_login_and_is_in_no_log(registry: RegistryProcess, make: Callable[[], str]) -> None:
    token = make()
    reply = send(registry.url, "GET", "/subjects", headers=header(token))
    assert (reply.status, reply.value["error_code"]) == (401, 401)
    assert token not in registry.output()


def test_a_token_that_expires_after_its_login_is_refused(registry: RegistryProcess) -> None:
    # A busy machine may need longer than the first lives.
    tokens, numbers = map(alices, (3, 10, 30)), count()
    token = next(one for one in tokens if send(registry.url, "GET", "/subjects", headers=header(one)).status == 200)

    def refused() -> Reply | None:
        # Of another topic each time: what is known of a topic is not asked again for some seconds.
        reply = send(registry.url, "GET", f"/subjects/topic-{next(numbers)}/versions", headers=header(token))
        return None if reply.status == 404 else reply

    reply = eventually(refused, "the token is refused", 60)
    assert (reply.status, reply.value["error_code"]) == (401, 401), reply
