"""The planted faults of a client's way: how each is planted with real parts, and with which settings a client meets it.

Tests ask the doctor for the name; `python -m tests.doctor.collect` asks the clients what they print.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from sordini.doctor.faults import Fault
from sordini.testing import make_kafka
from tests.doctor import servers
from tests.doctor.many_listeners import PASSWORD, PLAIN_CLASS, ManyListeners
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.process.test_cli import run_here
from tests.support.token_issuer import claims, token


class Case(NamedTuple):
    """A fault that is planted now, as a client meets it."""

    fault: Fault
    bootstrap: str
    properties: Mapping[str, str] = {}
    """As Apache Kafka's tools take them."""
    may_write: bool = False
    act: str = "produce"
    """Of the clients that meet it: produce or consume."""


class World(NamedTuple):
    """What planted faults share."""

    directory: Path
    many: ManyListeners
    zookeeper: Callable[[], str]
    """Its address; started when it is first asked for."""

    def tls(self, **more: str) -> dict[str, str]:
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.many.ca),
        } | {key.replace("_", "."): value for key, value in more.items()}


Plant = Callable[[World], Iterator[Case]]
PLANTED: dict[str, Plant] = {}
"""By the name of the fault; a fault with several causes has names of its own behind a colon."""


def planted(fault: Fault, cause: str = "") -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        PLANTED[f"{fault.value}:{cause}" if cause else fault.value] = plant
        return plant

    return add


def plant(name: str, world: World) -> AbstractContextManager[Case]:
    """Plant the fault for the time of the context."""
    return contextmanager(PLANTED[name])(world)


def _login(user: str = "admin", password: str = PASSWORD, mechanism: str = "PLAIN") -> dict[str, str]:
    name = PLAIN_CLASS if mechanism == "PLAIN" else "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{name} required username="{user}" password="{password}";',
    }


@planted(Fault.NAME_UNRESOLVED)
def _unresolved(_: World) -> Iterator[Case]:
    yield Case(Fault.NAME_UNRESOLVED, "broker-1.invalid:9092")


@planted(Fault.CONNECTION_REFUSED)
def _refused(_: World) -> Iterator[Case]:
    yield Case(Fault.CONNECTION_REFUSED, f"127.0.0.1:{free_port()}")


@planted(Fault.CONNECTION_TIMEOUT)
def _timeout(_: World) -> Iterator[Case]:
    with servers.full_backlog() as port:
        yield Case(Fault.CONNECTION_TIMEOUT, f"127.0.0.1:{port}")


@planted(Fault.HTTP_SERVER)
def _http(_: World) -> Iterator[Case]:
    with servers.serving(servers.http) as port:
        yield Case(Fault.HTTP_SERVER, f"127.0.0.1:{port}")


@planted(Fault.OTHER_PROTOCOL)
def _ssh(_: World) -> Iterator[Case]:
    with servers.serving(servers.ssh) as port:
        yield Case(Fault.OTHER_PROTOCOL, f"127.0.0.1:{port}")


@planted(Fault.CLOSED_UNANSWERED)
def _closing(_: World) -> Iterator[Case]:
    with servers.serving(servers.closing) as port:
        yield Case(Fault.CLOSED_UNANSWERED, f"127.0.0.1:{port}")


@planted(Fault.SILENT)
def _silent(_: World) -> Iterator[Case]:
    with servers.serving(servers.silent) as port:
        yield Case(Fault.SILENT, f"127.0.0.1:{port}")


@planted(Fault.ZOOKEEPER)
def _zookeeper(world: World) -> Iterator[Case]:
    yield Case(Fault.ZOOKEEPER, world.zookeeper())


@planted(Fault.TLS_SPOKEN_PLAIN)
def _tls_in_plain(world: World) -> Iterator[Case]:
    yield Case(Fault.TLS_SPOKEN_PLAIN, world.many.at("GOOD"))


@planted(Fault.PLAIN_SPOKEN_TLS)
def _plain_by_tls(world: World) -> Iterator[Case]:
    yield Case(Fault.PLAIN_SPOKEN_TLS, world.many.at("PLAINTEXT"), world.tls())


@planted(Fault.CERTIFICATE_NAME)
def _other_name(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_NAME, world.many.at("OTHERNAME"), world.tls())


@planted(Fault.CERTIFICATE_NAME, "by-address")
def _other_address(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_NAME, world.many.at("OTHERNAME", "127.0.0.1"), world.tls())


@planted(Fault.CERTIFICATE_EXPIRED)
def _expired(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_EXPIRED, world.many.at("EXPIRED"), world.tls())


@planted(Fault.CERTIFICATE_NOT_YET_VALID)
def _early(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_NOT_YET_VALID, world.many.at("EARLY"), world.tls())


@planted(Fault.CERTIFICATE_EXPIRES_SOON)
def _soon(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_EXPIRES_SOON, world.many.at("SOON"), world.tls())


@planted(Fault.CERTIFICATE_UNTRUSTED)
def _stranger(world: World) -> Iterator[Case]:
    yield Case(Fault.CERTIFICATE_UNTRUSTED, world.many.at("STRANGER"), world.tls())


@planted(Fault.TLS_VERSION)
def _newest(world: World) -> Iterator[Case]:
    yield Case(Fault.TLS_VERSION, world.many.at("NEWEST"), world.tls(ssl_enabled_protocols="TLSv1.2"))


@planted(Fault.TLS_HANDSHAKE)
def _suites(world: World) -> Iterator[Case]:
    suites = {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
    yield Case(Fault.TLS_HANDSHAKE, world.many.at("GOOD"), world.tls() | suites)


@planted(Fault.CLIENT_CERTIFICATE_REQUIRED)
def _mutual(world: World) -> Iterator[Case]:
    yield Case(Fault.CLIENT_CERTIFICATE_REQUIRED, world.many.at("MUTUAL"), world.tls())


@planted(Fault.CLIENT_CERTIFICATE_REFUSED)
def _strange_client(world: World) -> Iterator[Case]:
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(world.many.strange_client)}
    yield Case(Fault.CLIENT_CERTIFICATE_REFUSED, world.many.at("MUTUAL"), world.tls() | keys)


@planted(Fault.SASL_REQUIRED)
def _no_login(world: World) -> Iterator[Case]:
    yield Case(Fault.SASL_REQUIRED, world.many.at("LOGIN"))


@planted(Fault.SASL_NOT_ENABLED)
def _needless_login(world: World) -> Iterator[Case]:
    yield Case(Fault.SASL_NOT_ENABLED, world.many.at("PLAINTEXT", "127.0.0.1"), _login())


@planted(Fault.SASL_MECHANISM)
def _mechanism(world: World) -> Iterator[Case]:
    yield Case(Fault.SASL_MECHANISM, world.many.at("LOGIN"), _login(mechanism="SCRAM-SHA-512"))


@planted(Fault.SASL_PASSWORD)
def _password(world: World) -> Iterator[Case]:
    yield Case(Fault.SASL_PASSWORD, world.many.at("LOGIN"), _login(password="another"))


@planted(Fault.SASL_TOKEN)
def _token(world: World) -> Iterator[Case]:
    file = world.directory / "expired.jwt"
    now_s = time.time()
    file.write_text(token(claims(now_s, iat=int(now_s) - 7200, exp=int(now_s) - 3600), "RS256"))
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    yield Case(Fault.SASL_TOKEN, world.many.at("TOKEN"), settings)


@planted(Fault.ADVERTISED_UNRESOLVED)
def _advertised_name(world: World) -> Iterator[Case]:
    yield Case(Fault.ADVERTISED_UNRESOLVED, world.many.at("UNRESOLVED", "127.0.0.1"))


@planted(Fault.ADVERTISED_UNREACHABLE)
def _advertised_port(world: World) -> Iterator[Case]:
    yield Case(Fault.ADVERTISED_UNREACHABLE, world.many.at("CLOSED", "127.0.0.1"))


@planted(Fault.ADVERTISED_OTHER_CLUSTER)
def _advertised_elsewhere(world: World) -> Iterator[Case]:
    yield Case(Fault.ADVERTISED_OTHER_CLUSTER, world.many.at("ELSEWHERE", "127.0.0.1"))


@planted(Fault.ADVERTISED_OTHER_LISTENER)
def _advertised_tls(world: World) -> Iterator[Case]:
    yield Case(Fault.ADVERTISED_OTHER_LISTENER, world.many.at("STRANGERAT", "127.0.0.1"))


@planted(Fault.ADVERTISED_OTHER_LISTENER, "with-logins")
def _advertised_login(world: World) -> Iterator[Case]:
    yield Case(Fault.ADVERTISED_OTHER_LISTENER, world.many.at("LOGINAT", "127.0.0.1"))


@planted(Fault.PARTITIONS_OFFLINE)
def _offline(_: World) -> Iterator[Case]:
    with make_kafka(brokers=2) as kafka:
        kafka.topic("orders", partitions=2, replicas=1)
        kafka.brokers[1].kill()
        yield Case(Fault.PARTITIONS_OFFLINE, kafka.brokers[0].bootstrap_server)


@planted(Fault.PARTITIONS_UNDER_REPLICATED)
def _lagging(_: World) -> Iterator[Case]:
    with make_kafka(brokers=2) as kafka:
        topic = kafka.topic("orders", partitions=2, replicas=2)
        kafka.brokers[1].kill()
        kafka.wait_for(lambda: len(kafka.in_sync(topic)) == 1)
        yield Case(Fault.PARTITIONS_UNDER_REPLICATED, kafka.brokers[0].bootstrap_server)


@planted(Fault.INTERNAL_REPLICATION)
def _internal(world: World) -> Iterator[Case]:
    settings = {
        "offsets.topic.replication.factor": 3,
        "share.coordinator.state.topic.replication.factor": 1,
        "zookeeper.connect": f"{world.zookeeper()}/{uuid4().hex}",
    }
    with SordiniProcess(world.directory / f"internal-{free_port()}", settings) as broker:
        yield Case(Fault.INTERNAL_REPLICATION, broker.bootstrap, act="consume")


@planted(Fault.INTERNAL_REPLICATION, "of-share-groups")
def _share_state(world: World) -> Iterator[Case]:
    settings = {
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 3,
        "zookeeper.connect": f"{world.zookeeper()}/{uuid4().hex}",
    }
    with SordiniProcess(world.directory / f"share-state-{free_port()}", settings) as broker:
        yield Case(Fault.INTERNAL_REPLICATION, broker.bootstrap, act="consume")


@planted(Fault.INTERNAL_MIN_ISR)
def _offsets_min_isr(_: World) -> Iterator[Case]:
    with make_kafka(brokers=1) as kafka:
        run_here(kafka.bootstrap_servers, "groups", "reset", "g", "--topic", kafka.topic(), "--to-latest", "--execute")
        run_here(kafka.bootstrap_servers, "configs", "set", "--topic", "__consumer_offsets", "min.insync.replicas=3")
        yield Case(Fault.INTERNAL_MIN_ISR, kafka.bootstrap_servers, act="consume")


@planted(Fault.INTERNAL_CLEANUP)
def _share_retention(_: World) -> Iterator[Case]:
    with make_kafka(brokers=1) as kafka:
        run_here(kafka.bootstrap_servers, "share", "reset", "g", "--topic", kafka.topic(), "--to-latest", "--execute")
        run_here(kafka.bootstrap_servers, "configs", "set", "--topic", "__share_group_state", "retention.bytes=1000000")
        yield Case(Fault.INTERNAL_CLEANUP, kafka.bootstrap_servers, act="consume")


@planted(Fault.NO_COORDINATOR)
def _coordinator(world: World) -> Iterator[Case]:
    settings = {
        "offsets.topic.replication.factor": 3,
        "share.coordinator.state.topic.replication.factor": 1,
        "zookeeper.connect": f"{world.zookeeper()}/{uuid4().hex}",
    }
    with SordiniProcess(world.directory / f"coordinator-{free_port()}", settings) as broker:
        yield Case(Fault.NO_COORDINATOR, broker.bootstrap, may_write=True, act="consume")


@planted(Fault.WRITE_FAILED, "too-few-in-sync")
def _not_enough(_: World) -> Iterator[Case]:
    with make_kafka(brokers=1) as kafka, kafka.on("Produce").fail("NOT_ENOUGH_REPLICAS"):
        yield Case(Fault.WRITE_FAILED, kafka.bootstrap_servers, may_write=True)


@planted(Fault.WRITE_FAILED)
def _replicas(world: World) -> Iterator[Case]:
    with SordiniProcess(world.directory / f"replicas-{free_port()}", {"default.replication.factor": 3}) as broker:
        yield Case(Fault.WRITE_FAILED, broker.bootstrap, may_write=True)


@planted(Fault.NOT_AUTHORIZED)
def _rights(world: World) -> Iterator[Case]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
    with SordiniProcess(world.directory / f"rights-{free_port()}", settings) as broker:
        yield Case(Fault.NOT_AUTHORIZED, broker.bootstrap, may_write=True)


@planted(Fault.CLOCK_DIFFERENCE)
def _clock(_: World) -> Iterator[Case]:
    with make_kafka(brokers=1) as kafka:
        kafka.clock.advance(600)
        yield Case(Fault.CLOCK_DIFFERENCE, kafka.bootstrap_servers, may_write=True)
