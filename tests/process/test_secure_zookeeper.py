"""A ZooKeeper with TLS: brokers that log in, znodes that only they change, and what others find there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.outside.java import ApacheKafkaProcess, SecureZooKeeperProcess, write_properties
from tests.outside.processes import SordiniProcess
from tests.support.certificates import PASSWORD, Authority

NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
AUTHORIZER: dict[str, object] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""So that there are znodes of access control entries, too."""
REFERENCE_CHROOT = "/reference"
SECRET = "digest-secret-5"
WAIT_S_MAX = 30


class Ensemble(NamedTuple):
    """A ZooKeeper with TLS, and files for its clients."""

    process: SecureZooKeeperProcess
    directory: Path
    password: Path
    """Of the scheme digest."""

    @property
    def tls(self) -> dict[str, object]:
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY,
            "zookeeper.ssl.truststore.location": self.directory / "ca.pem",
        }

    @property
    def digest(self) -> dict[str, object]:
        user = {"sordini.zookeeper.auth.user": "broker", "sordini.zookeeper.auth.password.file": self.password}
        return {**self.tls, **user, "zookeeper.set.acl": "true"}

    @property
    def certificate(self) -> dict[str, object]:
        """PKCS#12 and a password, as Apache Kafka reads them, too."""
        stores = {
            "zookeeper.ssl.keystore.location": self.directory / "broker.p12",
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": self.directory / "ca.p12",
            "zookeeper.ssl.truststore.password": PASSWORD,
        }
        return {**self.tls, **stores, "zookeeper.set.acl": "true"}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    directory = tmp_path_factory.mktemp("secure-zookeeper")
    authority = Authority()
    authority.pem_file(directory / "ca.pem")
    trust = authority.pkcs12_file(directory / "ca.p12")
    keys = authority.issue("zookeeper", ("localhost",)).pkcs12_file(directory / "zookeeper.p12")
    authority.issue("broker").pkcs12_file(directory / "broker.p12")
    password = directory / "digest-password"
    password.touch(0o600)
    password.write_text(f"{SECRET}\n")
    with SecureZooKeeperProcess(directory / "server", keys, trust, PASSWORD) as process:
        yield Ensemble(process, directory, password)


@pytest.fixture
def chroot() -> str:
    return f"/{uuid4().hex}"


@contextmanager
def stranger(ensemble: Ensemble, chroot: str) -> Iterator[KazooClient]:
    """A client without a login, on ZooKeeper's port without TLS."""
    client = KazooClient(hosts=f"{ensemble.process.connect}{chroot}", timeout=10)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def broker(directory: Path, ensemble: Ensemble, chroot: str, settings: dict[str, object]) -> SordiniProcess:
    connect = {"zookeeper.connect": f"{ensemble.process.secure_connect}{chroot}", "broker.id": 1}
    return SordiniProcess(directory, {**connect, **AUTHORIZER, **settings})


def sordini(*words: str, standard_input: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.prefix) / "bin" / "sordini"), *words]
    return subprocess.run(
        command, input=standard_input, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False, env=os.environ
    )


def done(*words: str, standard_input: str = "") -> str:
    made = sordini(*words, standard_input=standard_input)
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout


def make_user_and_topic(bootstrap: str) -> None:
    done("users", "set", "alice", "--bootstrap", bootstrap, "--password-file", "-", standard_input="secret-of-alice\n")
    done("topics", "create", "orders", "--bootstrap", bootstrap)


def acls(client: KazooClient, path: str = "/") -> dict[str, set[tuple[str, int]]]:
    """Scheme and permissions of each entry, of each znode below a path; of none for a list that may not be read."""
    found = {}
    for name in client.get_children(path):
        below = f"{path.rstrip('/')}/{name}"
        if below == "/zookeeper":
            continue
        try:
            found[below] = {(entry.id.scheme, entry.perms) for entry in client.get_acls(below)[0]}
            found |= acls(client, below)
        except NoAuthError:
            found[below] = set()
    return found


def assert_closed_to(client: KazooClient) -> None:
    """Check that a client reads no credential and changes nothing."""
    for path in ("/config/users/alice", "/config/users", "/config/brokers"):
        with pytest.raises(NoAuthError):
            client.get(path)
        with pytest.raises(NoAuthError):
            client.get_children(path)
    assert client.get("/cluster/id")[0]
    assert client.get_children("/brokers/topics") == ["orders"]
    for path in (
        "/config/users/alice",
        "/config/topics/orders",
        "/brokers/topics/orders",
        "/brokers/ids/1",
        "/controller",
        "/controller_epoch",
        "/kafka-acl",
        "/cluster/id",
    ):
        with pytest.raises(NoAuthError):
            client.set(path, b"{}")
    for path in ("/brokers/ids", "/config/users", "/config/changes", "/admin/delete_topics", "/kafka-acl", ""):
        with pytest.raises(NoAuthError):
            client.create(f"{path}/intruder", b"")
    for path in ("/controller", "/brokers/ids/1", "/config/users/alice"):
        with pytest.raises(NoAuthError):
            client.delete(path)


def test_a_client_without_a_login_reads_no_credential_and_changes_nothing(
    ensemble: Ensemble, chroot: str, tmp_path: Path
) -> None:
    with broker(tmp_path / "b", ensemble, chroot, ensemble.digest) as started:
        make_user_and_topic(started.bootstrap)
        with stranger(ensemble, chroot) as client:
            assert_closed_to(client)
        started.restart()
        assert "orders" in done("topics", "list", "--bootstrap", started.bootstrap)
        with stranger(ensemble, chroot) as client:
            assert_closed_to(client)
        assert SECRET not in started.output()


class Reference(ApacheKafkaProcess):
    """An Apache Kafka broker whose key store is its login to ZooKeeper."""

    def __init__(self, directory: Path, ensemble: Ensemble, chroot: str, broker_id: int) -> None:
        ours: dict[str, object] = {"broker.id": broker_id, "zookeeper.session.timeout.ms": 18_000}
        settings = {**AUTHORIZER, **ensemble.certificate, **ours}
        super().__init__(directory, f"{ensemble.process.secure_connect}{chroot}", settings)

    def wait_until_unregistered(self) -> None:
        """Nothing: its id is new in the tree, and the check would connect without TLS."""


@pytest.fixture(scope="module")
def reference(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """Broker 1 of a cluster with a user and a topic."""
    with Reference(tmp_path_factory.mktemp("reference"), ensemble, REFERENCE_CHROOT, 1) as started:
        make_user_and_topic(started.bootstrap)
        yield started


@pytest.mark.usefixtures("reference")
def test_the_lists_are_those_that_apache_kafka_makes(ensemble: Ensemble, chroot: str, tmp_path: Path) -> None:
    with broker(tmp_path / "b", ensemble, chroot, ensemble.certificate) as ours:
        make_user_and_topic(ours.bootstrap)
        with stranger(ensemble, chroot) as client:
            made = acls(client)
            assert_closed_to(client)
        with stranger(ensemble, REFERENCE_CHROOT) as client:
            expected = acls(client)
    common = made.keys() & expected.keys()
    assert {"/config/users", "/config/topics/orders", "/consumers", "/controller", "/brokers/ids/1"} <= common
    assert {path: made[path] for path in common} == {path: expected[path] for path in common}
    assert made["/config/users"] == set()
    assert made["/controller"] == {("x509", 31), ("world", 1)}
    assert made["/consumers"] == {("world", 31)}


@pytest.mark.usefixtures("reference")
def test_a_broker_of_ours_and_one_of_apache_kafka_with_one_certificate_share_a_tree(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    settings = {**ensemble.certificate, "broker.id": 2}
    with broker(tmp_path / "b", ensemble, REFERENCE_CHROOT, settings) as ours:
        assert "orders" in done("topics", "list", "--bootstrap", ours.bootstrap)
        assert "alice" in done("users", "list", "--bootstrap", ours.bootstrap)


def test_a_certificate_that_the_trust_store_does_not_know_is_named_as_the_reason(
    ensemble: Ensemble, chroot: str, tmp_path: Path
) -> None:
    other = Authority("Another Authority").pem_file(tmp_path / "other.pem")
    settings = {**ensemble.digest, "zookeeper.connection.timeout.ms": 1_500}
    mistrusts = broker(tmp_path / "other", ensemble, chroot, {**settings, "zookeeper.ssl.truststore.location": other})
    # Without a trust store, too: the system's authorities are not a test's.
    del settings["zookeeper.ssl.truststore.location"]
    system = broker(tmp_path / "system", ensemble, chroot, settings)
    for refused in (mistrusts, system):
        refused.launch()
    for refused in (mistrusts, system):
        assert refused.wait_for_exit(WAIT_S_MAX) == 1
        assert f"no ZooKeeper at {ensemble.process.secure_connect} answered within 1500 ms" in refused.output()
        assert "the TLS connection failed" in refused.output()
        assert "the certificate is not trusted: " in refused.output()


def test_the_certificate_is_for_the_host_unless_the_check_is_switched_off(
    ensemble: Ensemble, chroot: str, tmp_path: Path
) -> None:
    settings = {**ensemble.digest, "zookeeper.connect": f"127.0.0.1:{ensemble.process.secure_port}{chroot}"}
    refused = broker(tmp_path / "refused", ensemble, chroot, {**settings, "zookeeper.connection.timeout.ms": 1_500})
    refused.launch()
    unchecked = {**settings, "zookeeper.ssl.endpoint.identification.algorithm": ""}
    with broker(tmp_path / "unchecked", ensemble, chroot, unchecked):
        pass
    assert refused.wait_for_exit(WAIT_S_MAX) == 1
    assert "the certificate is not trusted: IP address mismatch" in refused.output()


def test_another_user_gets_nothing_of_the_tree_and_its_broker_says_why(
    ensemble: Ensemble, chroot: str, tmp_path: Path
) -> None:
    with broker(tmp_path / "b", ensemble, chroot, ensemble.digest):
        pass
    other = {**ensemble.digest, "sordini.zookeeper.auth.user": "intruder"}
    refused = broker(tmp_path / "other", ensemble, chroot, other)
    refused.launch()
    assert refused.wait_for_exit(WAIT_S_MAX) == 1
    assert "the coordination store refused this broker (NoAuth: the access control list of /" in refused.output()


def test_a_certificate_that_zookeeper_does_not_ask_for_is_no_login(
    ensemble: Ensemble, chroot: str, tmp_path: Path
) -> None:
    directory = ensemble.directory
    stores = directory / "zookeeper.p12", directory / "ca.p12"
    with SecureZooKeeperProcess(tmp_path / "server", *stores, PASSWORD, client_auth="none") as asks_nothing:
        there = ensemble._replace(process=asks_nothing)
        refused = broker(tmp_path / "b", there, chroot, there.certificate)
        refused.launch()
        assert refused.wait_for_exit(WAIT_S_MAX) == 1
        assert "the coordination store refused this broker (NoAuth: " in refused.output()


def test_a_tree_that_is_moved_gets_the_lists_of_its_own_root(ensemble: Ensemble, chroot: str, tmp_path: Path) -> None:
    with SordiniProcess(tmp_path / "b") as started:
        make_user_and_topic(started.bootstrap)
    keys, source = tmp_path / "zookeeper.properties", f"embedded:{started.data_directory}"
    target = f"zookeeper:{ensemble.process.secure_connect}{chroot}"
    write_properties(keys, ensemble.digest)
    done("cluster", "move", "--from", source, "--to", target, "--zookeeper-config", str(keys), "--timeout", "20")
    with stranger(ensemble, chroot) as client:
        for path in ("/config/users/alice", "/config/users"):
            with pytest.raises(NoAuthError):
                client.get(path)
        with pytest.raises(NoAuthError):
            client.set("/brokers/topics/orders", b"{}")
    keys.chmod(0o600)
    write_properties(keys, {**ensemble.digest, "sordini.zookeeper.auth.user": "intruder"})
    back = (
        "cluster",
        "move",
        "--from",
        target,
        "--to",
        f"embedded:{tmp_path / 'new'}",
        "--zookeeper-config",
        str(keys),
    )
    refused = sordini(*back)
    assert refused.returncode == 1
    assert "ZooKeeper refused it (NoAuth: the access control list of " in refused.stderr
    write_properties(keys, {**ensemble.digest, "zookeeper.ssl.crl.enable": "true"})
    refused = sordini(*back)
    assert "zookeeper.ssl.crl.enable='true' asks for revocation" in refused.stderr
