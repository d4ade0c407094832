"""Apache Kafka without ZooKeeper: the judge of the requests that a broker with ZooKeeper does not serve.

DescribeTopicPartitions and ListConfigResources came when its controllers had become brokers themselves, and what is
newer than 3.9 came when there was no ZooKeeper any more. One process is both here; its log directory is formatted by hand, which spares a Java program that would do nothing else.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.outside.java import ApacheKafkaProcess
from tests.outside.ports import free_port, is_listening
from tests.outside.versions import APACHE_KAFKA

_CLUSTER_ID = "c2l0dWF0aW9ucy1rcmFmdA"
_DIRECTORY_ID = "ZGlyZWN0b3J5LWtyYWZ0MQ"


class KRaftProcess(ApacheKafkaProcess):
    """One broker that is its own controller."""

    name = "apache-kafka-kraft"

    def __init__(self, directory: Path, overrides: Mapping[str, object], version: str = APACHE_KAFKA) -> None:
        super().__init__(directory, "", overrides, version=version)
        controller = f"127.0.0.1:{free_port()}"
        del self.settings["zookeeper.connect"], self.settings["zookeeper.session.timeout.ms"]
        self.settings |= {
            "process.roles": "broker,controller",
            "node.id": self.settings["broker.id"],
            "controller.quorum.voters": f"{self.settings['broker.id']}@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def launch(self) -> None:
        self.data_directory.mkdir(parents=True, exist_ok=True)
        lines = {"version": 1, "cluster.id": _CLUSTER_ID, "node.id": 0, "directory.id": _DIRECTORY_ID}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (self.data_directory / "meta.properties").write_text(text, encoding="utf-8")
        super(ApacheKafkaProcess, self).launch()  # There is no registration in ZooKeeper to wait for.

    def is_ready(self) -> bool:
        return is_listening(self.port)
