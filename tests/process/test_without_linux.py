"""A broker as on macOS: its process has none of the calls that only Linux has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.certificates import Authority
from tests.support.wire_client import PATIENCE_S, Client
from tests.test_tidy import LINUX_NAMES

PROGRAM = Path(__file__).parents[1] / "support" / "without_linux.py"
LARGE = os.urandom(200_000)
"""More than one copy of a file's bytes to a socket takes."""


class BareProcess(SordiniProcess):
    """Our broker in a Python without Linux' own calls."""

    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment(),
            "REMOVED_NAMES": ",".join(LINUX_NAMES),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def command(self) -> list[str]:
        return [sys.executable, str(PROGRAM), *super().command()[1:]]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command, likewise without them."""
        return subprocess.run(
            [sys.executable, str(PROGRAM), *words],
            env=dict(self.environment()),
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )


def test_it_serves_recovers_from_a_kill_and_is_stopped_without_any_call_of_linux(tmp_path: Path) -> None:
    authority, tls_port = Authority(), free_port()
    bare = BareProcess(
        tmp_path, {"sordini.event.loop": "asyncio", "preallocate": "true", "log.flush.interval.messages": 1}
    )
    bare.overrides["listeners"] = f"PLAINTEXT://{bare.bootstrap},SSL://127.0.0.1:{tls_port}"
    bare.overrides |= authority.issue("broker").inline()
    with bare:
        with Client("127.0.0.1", bare.port) as client:
            assert client.create("orders") == [0]
            assert [row.error_code for row in client.produce("orders", [a_batch(1, value=LARGE)])] == [0]
            assert LARGE in client.fetch("orders")
        bare.kill()
        bare.start()
        with Client("127.0.0.1", bare.port) as client:
            assert LARGE in client.fetch("orders"), "what was acknowledged is there after a kill"
        assert through_librdkafka(f"127.0.0.1:{tls_port}", authority.pem_file(tmp_path / "ca.pem")) == [LARGE, b"last"]
        stopped = bare.run("stop", "--override", f"log.dirs={bare.data_directory}", "--timeout", "20")
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert "has stopped" in stopped.stdout
        assert bare.wait_for_exit(10) == 0
        again = bare.run("stop", "--override", f"log.dirs={bare.data_directory}")
        assert again.returncode == 3, "none is running"


def through_librdkafka(address: str, authority: Path) -> list[bytes | None]:
    """Produce one record more over TLS and read all of them."""
    tls = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(authority)}
    producer = Producer(tls)
    producer.produce("orders", b"last")
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**tls, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found = consumer.consume(2, PATIENCE_S)
    consumer.close()
    return [message.value() for message in found]
