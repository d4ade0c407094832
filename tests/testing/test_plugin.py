"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ARGUMENTS = ("-p", "sordini.testing.plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")


def environment() -> dict[str, str]:
    """Of programs that import what this process does, with no plugins but the kit's."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def started(directory: Path, *files: str) -> subprocess.Popen[str]:
    """A run of pytest over files of a directory."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *ARGUMENTS, *files],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_pytest(directory: Path, *files: str) -> tuple[int, str]:
    """The status and the output of a run."""
    with started(directory, *files) as process:
        output, _ = process.communicate(timeout=120)
    return process.returncode, output


def start(directory: Path, source: str) -> subprocess.Popen[str]:
    (directory / "test_shop.py").write_text(textwrap.dedent(source))
    return started(directory, "test_shop.py")


def run(directory: Path, source: str) -> tuple[int, str]:
    (directory / "test_shop.py").write_text(textwrap.dedent(source))
    return run_pytest(directory, "test_shop.py")


def test_the_fixtures_give_each_test_a_clean_broker(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        def test_one(kafka):
            kafka.topic("orders")
            kafka.on("Produce").fail("INVALID_RECORD")
            kafka.brokers[0].disk_full()
            kafka.brokers[0].kill()

        def test_two(kafka, kafka_cluster, make_kafka):
            assert kafka.requests() == []
            kafka.produce("orders", "one")
            assert len(kafka_cluster.brokers) == 3
            other = make_kafka(config={"min.insync.replicas": 1})
            assert other.bootstrap_servers != kafka.bootstrap_servers
        """,
    )
    assert code == 0, output


def test_the_report_of_a_failed_test_has_the_faults_and_the_brokers_log(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        from confluent_kafka import Producer

        def test_shop(make_kafka):
            kafka = make_kafka(topics=["orders"])
            with kafka.on("Produce", topic="orders", times=1).fail("NOT_ENOUGH_REPLICAS"):
                producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
                producer.produce("orders", b"one")
                producer.flush(20)
            kafka.assert_produced("orders", ["two"])
        """,
    )
    assert code == 1
    assert "- 0: expected 'two'" in output
    assert "Produce of topic orders fails with NOT_ENOUGH_REPLICAS, used 1 of 1 times" in output
    assert "became leader partition=orders-0" in output


def test_a_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        def test_shop(make_kafka):
            make_kafka(config={"log.segment.bytes": "many"})
        """,
    )
    assert code == 1
    assert "log.segment.bytes='many' is not valid" in output


def test_nothing_is_imported_for_tests_that_do_not_use_it(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        import sys

        def test_shop():
            assert not [name for name in sys.modules if name.startswith("sordini.broker")]
        """,
    )
    assert code == 0, output


@pytest.mark.parametrize("end", ["assertion", "exception", "interrupt", "kill"])
def test_whatever_ends_a_run_leaves_no_process_and_no_port(tmp_path: Path, end: str) -> None:
    how = {
        "assertion": "assert False",
        "exception": "raise RuntimeError('no')",
        "interrupt": "time.sleep(60)",
        "kill": "time.sleep(60)",
    }[end]
    process = start(
        tmp_path,
        f"""
        import time

        def test_shop(kafka_cluster, capsys):
            with capsys.disabled():
                print("ready", kafka_cluster.bootstrap_servers, flush=True)
            {how}
        """,
    )
    assert process.stdout is not None
    ready = next(line for line in process.stdout if "ready " in line)
    ports = [int(address.rpartition(":")[2]) for address in ready.split("ready ")[1].strip().split(",")]
    if end in ("interrupt", "kill"):
        process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    process.stdout.read()
    process.wait(60)
    process.stdout.close()
    assert [port for port in ports if is_bound(port)] == []
    assert {path.name for path in tmp_path.iterdir()} <= {"test_shop.py", "__pycache__"}


def is_bound(port: int) -> bool:
    """Whether a socket listens on the port of this machine, by the system's own table."""
    wanted = f":{port:04X}"
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in rows)
