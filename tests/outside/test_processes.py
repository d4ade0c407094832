"""How programs are started for tests: what is tried again, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outside.java import ApacheKafkaProcess
from tests.outside.processes import OutsideProcess, ProcessError

EXPIRED = (
    "org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for /brokers/ids"
)


class Script(OutsideProcess):
    """It prints a line and ends with status 1, until it has been started so many times."""

    name = "script"

    def __init__(self, directory: Path, line: str, failures: int) -> None:
        super().__init__(directory)
        self._line, self._failures = line, failures

    def command(self) -> list[str]:
        count = f"echo x >> starts; if [ $(wc -l < starts) -le {self._failures} ]; then echo '{self._line}'; exit 1; fi"
        return ["sh", "-c", f"{count}; echo ready; exec sleep 60"]

    def is_ready(self) -> bool:
        return "ready" in self.output()

    def was_too_slow(self) -> bool:
        return "Session expired" in self.output()

    @property
    def starts(self) -> int:
        return len((self.directory / "starts").read_text().split())


def test_a_program_that_the_busy_machine_ends_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with Script(tmp_path, "Session expired", failures=2) as script:
        assert script.starts == 3


def test_a_start_is_tried_three_times_and_then_fails_with_the_last_output(tmp_path: Path) -> None:
    script = Script(tmp_path, "Session expired", failures=9)
    with pytest.raises(ProcessError, match=r"(?s)ended with status 1.*Session expired"):
        script.start()
    assert script.starts == 3


def test_a_start_that_fails_for_another_reason_is_not_tried_again(tmp_path: Path) -> None:
    script = Script(tmp_path, "unknown setting", failures=9)
    with pytest.raises(ProcessError, match="unknown setting"):
        script.start()
    assert script.starts == 1


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [
        (EXPIRED, True),
        ("kafka.zookeeper.ZooKeeperClientTimeoutException: Timed out waiting for connection", True),
        ("java.net.BindException: Address already in use", False),
    ],
)
def test_apache_kafka_without_its_zookeeper_session_was_too_slow(tmp_path: Path, line: str, *, is_lost: bool) -> None:
    process = ApacheKafkaProcess(tmp_path, "127.0.0.1:1/chroot")
    process.log_path.write_text(f"ERROR Fatal error during KafkaServer startup ({line})\n")
    assert process.was_too_slow() is is_lost
