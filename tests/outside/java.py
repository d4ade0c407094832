"""Apache ZooKeeper and Apache Kafka from their jars; the tools that share a JVM are in tools.py."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kazoo.client import KazooClient

from tests.outside.needs import kafka_jars, need_java
from tests.outside.ports import free_port, is_listening
from tests.outside.processes import BrokerProcess, OutsideProcess
from tests.outside.versions import APACHE_KAFKA, NEWEST_APACHE_KAFKA

_LOG4J = Path(__file__).with_name("log4j.properties")
# A short life: the quick compiler and the small collector start sooner and leave the cores to others.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
SHORT_LIVED = (QUICK_COMPILER, "-XX:+UseSerialGC", "-Xshare:auto")
_LOST_SESSION = re.compile(
    r"ZooKeeperClient(Expired|Timeout)Exception|KeeperErrorCode = (Session ?[Ee]xpired|ConnectionLoss)"
    # Its own registration, under the session that has ended.
    r"|KeeperErrorCode = NodeExists"
)
STORAGE_TOOL = "kafka.tools.StorageTool"
KRAFT_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
BROKER_CLASS, ZOOKEEPER_CLASS = "kafka.Kafka", "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def java_command(main_class: str, arguments: Sequence[str], version: str, flags: Sequence[str]) -> list[str]:
    """The command line of one Java program out of the jars of an Apache Kafka release; of two flags the later counts.

    A program with a short life uses the archive of loaded classes that `class_archives.py` has made for it.
    """
    class_path = f"{kafka_jars(version)}/*"
    archive = class_archive(main_class, version)
    if set(SHORT_LIVED) <= set(flags) and archive.exists():
        flags = [f"-XX:SharedArchiveFile={archive}", *flags]
    return [need_java(), f"-Dlog4j.configuration=file:{_LOG4J}", *flags, "-cp", class_path, main_class, *arguments]


def class_archive(main_class: str, version: str) -> Path:
    """Where the archive of loaded classes for a program is: ZooKeeper's, or the broker's for all others."""
    program = "zookeeper" if main_class == ZOOKEEPER_CLASS else "broker"
    return kafka_jars(version).parent / f"{program}.jsa"


class ZooKeeperProcess(OutsideProcess):
    """One ZooKeeper server; its ticks are short, so that sessions may expire after one second."""

    name = "zookeeper"

    def __init__(self, directory: Path, host: str = "127.0.0.1", overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory)
        self.host = host
        self.port = free_port()
        self.connect = f"{host}:{self.port}"
        self.more_flags: Sequence[str] = ()
        self._overrides = overrides or {}

    def command(self) -> list[str]:
        config = self.directory / "zookeeper.properties"
        settings = {
            "dataDir": self.directory / "data",
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "tickTime": 500,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **self._overrides,
        }
        write_properties(config, settings)
        flags = [*SHORT_LIVED, "-Xmx256m", "-Dzookeeper.forceSync=no"]
        return java_command(ZOOKEEPER_CLASS, [str(config)], APACHE_KAFKA, [*flags, *self.more_flags])

    def is_ready(self) -> bool:
        return self.ask("ruok") == "imok"

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words; empty while it does not listen."""
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(4_096), b"")).decode()
        except OSError:
            return ""


class SecureZooKeeperProcess(ZooKeeperProcess):
    """One ZooKeeper server that speaks TLS on a second port; certificates of clients are a login (`x509`)."""

    name = "secure-zookeeper"

    def __init__(self, directory: Path, keys: Path, trust: Path, password: str, client_auth: str = "want") -> None:
        """`keys` and `trust` are PKCS#12 files."""
        self.secure_port = free_port()
        self.secure_connect = f"localhost:{self.secure_port}"
        stores = {
            f"ssl.{which}.{part}": value
            for which, path in (("keyStore", keys), ("trustStore", trust))
            for part, value in (("location", path), ("password", password), ("type", "PKCS12"))
        }
        settings: dict[str, object] = {
            "secureClientPort": self.secure_port,
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.clientAuth": client_auth,
            **stores,
        }
        super().__init__(directory, overrides=settings)


class ApacheKafkaProcess(BrokerProcess):
    """An Apache Kafka broker in ZooKeeper mode. Brokers of one cluster share `zookeeper` with its chroot."""

    name = "apache-kafka"

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        overrides: Mapping[str, object] | None = None,
        *,
        version: str = APACHE_KAFKA,
        flags: Sequence[str] = ("-Xms256m", "-Xmx1g", *SHORT_LIVED),  # Each reconfigured cleaner takes 128 MiB of it.
    ) -> None:
        super().__init__(directory)
        self._version = version
        self._flags = flags
        self.settings: dict[str, object] = {
            "broker.id": 0,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": self.data_directory,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": 2_000,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **(overrides or {}),
        }

    def command(self) -> list[str]:
        config = self.directory / "server.properties"
        write_properties(config, self.settings)
        return java_command(BROKER_CLASS, [str(config)], self._version, self._flags)

    def launch(self) -> None:
        self.wait_until_unregistered()
        super().launch()

    def wait_until_unregistered(self) -> None:
        """A killed broker is registered until its session expires; until then a second of its id would be refused."""
        client = KazooClient(hosts=str(self.settings["zookeeper.connect"]).partition("/")[0])
        client.start(timeout=20)
        try:
            chroot = str(self.settings["zookeeper.connect"]).partition("/")[2]
            path = "/".join(["", *filter(None, [chroot]), "brokers", "ids", str(self.settings["broker.id"])])
            deadline = time.monotonic() + 20
            while client.exists(path) is not None and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            client.stop()
            client.close()

    def is_ready(self) -> bool:
        return "started (kafka.server.KafkaServer)" in self.output()

    def was_too_slow(self) -> bool:
        """On a busy machine its session with ZooKeeper ends while it starts, and then it ends itself."""
        return not self.is_running and _LOST_SESSION.search(self.output()) is not None


class KRaftProcess(BrokerProcess):
    """The newest Apache Kafka: one combined controller and broker in KRaft mode. Its ready data directory is kept."""

    name = "apache-kafka-kraft"
    start_seconds_max = 180.0
    """With forty programs on two cores a start took longer than a minute."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory)
        controller = f"127.0.0.1:{free_port()}"
        self.settings: dict[str, object] = {
            "node.id": 1,
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": self.data_directory,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **(overrides or {}),
        }

    def command(self) -> list[str]:
        config = self.directory / "server.properties"
        write_properties(config, self.settings)
        if not (self.data_directory / "meta.properties").exists():
            self._format(config)
        return java_command(BROKER_CLASS, [str(config)], NEWEST_APACHE_KAFKA, ["-Xms256m", "-Xmx1g", *SHORT_LIVED])

    def _format(self, config: Path) -> None:
        """Write what `kafka-storage format` writes: the identity of the cluster and the node, and its first records."""
        made = java_tool(
            STORAGE_TOOL,
            "format",
            "--cluster-id",
            KRAFT_CLUSTER_ID,
            "--config",
            str(config),
            version=NEWEST_APACHE_KAFKA,
        )
        assert made.returncode == 0, made.stdout + made.stderr

    def is_ready(self) -> bool:
        return is_listening(self.port)


def java_tool(
    main_class: str,
    *arguments: str,
    version: str = APACHE_KAFKA,
    standard_input: str = "",
    seconds: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run one of Apache Kafka's tools to its end in a JVM of its own; its exit status is the caller's to judge."""
    command = java_command(main_class, arguments, version, [*SHORT_LIVED, "-Xmx256m"])
    return subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=seconds, check=False)


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
