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
    return {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


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


def test_a_condition_that_fails_is_the_failure_of_the_test_whatever_the_test_makes_of_it(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        from confluent_kafka import Producer

        def test_shop(kafka):
            orders = kafka.topic()
            rule = kafka.on("Produce", when=lambda request: request.nothing).fail("INVALID_RECORD")
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
            producer.produce(orders, b"one")
            assert producer.flush(20) == 0

        def test_nothing_is_done(kafka):
            kafka.on("Produce", topic="orders")

        def test_a_right_one(kafka):
            kafka.on("Produce", topic="orders").corrupt()
        """,
    )
    assert code == 1
    assert "FAILED test_shop.py::test_shop - AttributeError: 'ProduceRequest' object has " in output
    assert "2 failed, 1 passed" in output
    assert "test_shop.py:12: the rule for Produce of topic orders does nothing" in output


def test_the_report_of_a_failure_has_the_lines_of_its_own_test_alone(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        import pytest

        @pytest.fixture(scope="session")
        def lasting(make_kafka_session):
            return make_kafka_session()

        @pytest.mark.parametrize("one", ["kafka", "lasting"])
        @pytest.mark.parametrize("name", ["first", "second"])
        def test_shop(request, one, name):
            kafka = request.getfixturevalue(one)
            kafka.topic(name)
            with kafka.on("Produce", topic=name).corrupt():
                kafka.brokers[0].slow_disk(1)
            assert name == "first", "of the second"
        """,
    )
    assert code == 1
    assert "2 failed, 2 passed" in output
    assert output.count("became leader partition=second-0") == 2
    assert output.count("Produce of topic second is damaged, used 0 times") == 2
    assert output.count("each synchronisation of its disk takes 1 ms") == 2
    assert "partition=first-0" not in output
    assert "of topic first" not in output


def test_a_scope_mismatch_names_the_fixtures_that_make_brokers_for_longer(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        """
        import pytest

        @pytest.fixture(scope="module")
        def shop(kafka):
            return kafka

        def test_shop(shop):
            pass
        """,
    )
    assert code == 1
    assert "ScopeMismatch: You tried to access the function scoped fixture kafka" in output
    assert "makes its own brokers: make_kafka_session(), make_kafka_module()" in output


OTHER_PLUGIN = """
import pytest

@pytest.fixture
def kafka():
    return "the other plugin's"
"""


@pytest.mark.parametrize(
    ("options", "is_ours", "said"),
    [
        ((), True, "sordini: fixture 'kafka' is sordini's, not that of other_plugin: choose by kafka_fixtures = "),
        (("-o", "kafka_fixtures=others"), False, "sordini: fixture 'kafka' is that of other_plugin, not sordini's"),
        (("-p", "no:sordini.testing.plugin"), False, "1 passed"),
        (("-o", "kafka_fixtures=both"), None, "kafka_fixtures=both: allowed are sordini and others"),
        (("-p", "xdist", "-n", "1"), True, "sordini: fixture 'kafka' is sordini's, not that of other_plugin"),
    ],
    ids=["default", "others", "without", "wrong", "xdist"],
)
def test_two_plugins_with_a_fixture_of_one_name_are_named_with_how_to_choose(
    tmp_path: Path, options: tuple[str, ...], is_ours: bool | None, said: str
) -> None:
    (tmp_path / "other_plugin.py").write_text(OTHER_PLUGIN)
    (tmp_path / "test_shop.py").write_text(
        f"def test_shop(kafka):\n    assert (kafka != 'the other plugin\\'s') is {is_ours}\n"
    )
    with started(tmp_path, "-p", "other_plugin", *options, "test_shop.py") as process:
        output, _ = process.communicate(timeout=120)
    assert said in output
    assert process.returncode == (0 if is_ours is not None else 4), output


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
