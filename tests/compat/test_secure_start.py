"""A broker that secured itself: clients connect as its first start says, word for word, and no other client does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from sordini.broker.process.secure_start.authority import DAY_MS, issue, read_pair
from sordini.cli.commands.broker.serve import serve
from sordini.system.clock import SystemClock
from tests.compat import round_trips
from tests.outside.needs import need_program
from tests.outside.processes import SecureProcess
from tests.outside.tools import JavaTools

PROGRAMS = Path(sys.prefix) / "bin"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureProcess]:
    with SecureProcess(tmp_path_factory.mktemp("secure"), {"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def said(broker: SecureProcess, client: str) -> str:
    """What the first start said of a client: the lines of its paragraph without its name."""
    found = re.search(rf"^{client} +(.+\n(?: +.+\n)*)", broker.output(), re.MULTILINE)
    assert found is not None, broker.output()
    return re.sub(r"\n +", "\n", found[1])


def run(script: str, broker: SecureProcess) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-ec", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
        cwd=broker.directory,
    )


def refused(broker: SecureProcess, status: int = 2) -> str:
    """What a start says that is refused."""
    broker.launch()
    assert broker.wait_for_exit(20) == status, broker.tail()
    return broker.output()


def test_our_commands_connect_as_it_says(secured: SecureProcess) -> None:
    done = run(said(secured, "sordini") + "sordini topics list", secured)
    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout


def test_kcat_connects_as_it_says(secured: SecureProcess) -> None:
    need_program("kcat", "kcat")
    done = run(said(secured, "kcat"), secured)
    assert done.returncode == 0, done.stderr
    assert f"broker 1001 at {secured.bootstrap}" in done.stdout


def test_kafka_python_connects_as_it_says(secured: SecureProcess, topic: str) -> None:
    text = said(secured, "kafka-python")
    producer = eval(text, {"KafkaProducer": KafkaProducer, "open": open})  # What a reader pastes.
    producer.send(topic, b"3 figs").get(30)
    producer.close()
    reading = text.replace("KafkaProducer(", f"KafkaConsumer({topic!r}, auto_offset_reset='earliest', ")
    consumer = eval(reading, {"KafkaConsumer": KafkaConsumer, "open": open})
    assert next(consumer).value == b"3 figs"
    consumer.close()


@pytest.mark.slow
def test_java_tools_connect_as_it_says(secured: SecureProcess, topic: str, tool: JavaTools) -> None:
    run(f"sordini topics create {topic} {connected(secured)}", secured)
    program, *words = shlex.split(said(secured, "Java tools"))
    assert program == "kafka-topics.sh"
    assert topic in tool("TopicCommand", *words).split()
    round_trips.by_java_tools(topic, tool, secured.bootstrap, str(secured.client_properties))


def connected(broker: SecureProcess) -> str:
    return f"--bootstrap {broker.bootstrap} --command-config {broker.client_properties}"


def test_another_user_is_made_and_allowed_as_it_says(secured: SecureProcess) -> None:
    line = next(one for one in secured.output().splitlines() if one.startswith("Other users"))
    words = line.partition(":  ")[2].replace("users set alice", "users set alice --password-file -")
    done = run("\n".join([said(secured, "sordini").splitlines()[0], f"echo 'let me in' | {words}"]), secured)
    assert done.returncode == 0, done.stderr


def test_a_wrong_password_or_none_is_refused(secured: SecureProcess) -> None:
    settings = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.secure_directory / "ca.pem"),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "admin",
    }
    with pytest.raises(KafkaError):
        KafkaProducer(**settings, sasl_plain_password=secured.password[:-1], bootstrap_timeout_ms=3000)
    done = run(f"sordini ping --bootstrap {secured.bootstrap} --timeout 3", secured)
    assert done.returncode == 1


def test_a_user_without_entries_may_do_nothing(secured: SecureProcess) -> None:
    for words in ("users set carol --password-file -", "topics create ledger"):
        run(f"echo carol-secret | sordini {words} {connected(secured)}", secured)
    text = secured.client_properties.read_text().replace('"admin"', '"carol"')
    (secured.directory / "carol.properties").write_text(text.replace(secured.password, "carol-secret"))
    options = f"--bootstrap {secured.bootstrap} --command-config carol.properties"
    done = run(f"echo 3 figs | sordini produce ledger {options}", secured)
    assert done.returncode == 1
    assert "topic authorization failed" in done.stderr


def test_the_password_is_in_no_output(secured: SecureProcess) -> None:
    assert secured.password not in secured.output()


def test_a_second_start_uses_what_is_there_and_says_nothing_of_it(tmp_path: Path) -> None:
    with SecureProcess(tmp_path / "again") as broker:
        before = {one.name: one.read_bytes() for one in broker.secure_directory.iterdir()}
        assert "kafka-python" in broker.output()
        broker.restart()
        assert "kafka-python" not in broker.output()
        assert {one.name: one.read_bytes() for one in broker.secure_directory.iterdir()} == before
        assert run(f"sordini topics list {connected(broker)}", broker).returncode == 0


def test_a_first_user_who_was_removed_stays_removed_and_comes_with_a_new_cluster_again(tmp_path: Path) -> None:
    with SecureProcess(tmp_path / "removed") as broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            done = run(f"sordini users remove admin --yes --mechanism {mechanism} {connected(broker)}", broker)
        broker.restart()
        assert run(f"sordini topics list --timeout 5 {connected(broker)}", broker).returncode == 1, done
        broker.stop()
        broker.data_directory.rename(tmp_path / "former")
        broker.start()
        assert run(f"sordini topics list {connected(broker)}", broker).returncode == 0


def test_a_named_directory_is_used_in_place_of_the_one_beside_the_data(tmp_path: Path) -> None:
    broker = SecureProcess(tmp_path / "named")
    broker.options = ["--secure-directory", "keys/here"]
    with broker:
        assert not broker.secure_directory.exists()
        named = broker.directory / "keys" / "here"
        assert named.stat().st_mode & 0o777 == 0o700
        options = f"--bootstrap {broker.bootstrap} --command-config {named}/client.properties"
        assert run(f"sordini topics list {options}", broker).returncode == 0


def test_a_daemon_says_it_too(tmp_path: Path) -> None:
    broker = SecureProcess(tmp_path / "daemon")
    words = shlex.join([*broker.command(), "--daemon"])
    try:
        done = run(words, broker)
        assert done.returncode == 0, done.stderr
        assert re.search(r"kafka-python(.|\n)*sordini is ready: ", done.stdout)
        assert run(f"sordini topics list {connected(broker)}", broker).returncode == 0
    finally:
        stopped = run(f"sordini stop --override log.dirs={broker.data_directory} --force --timeout 10", broker)
    assert stopped.returncode == 0, stopped.stderr


def test_an_expired_certificate_refuses_the_start_and_the_remedy_works(tmp_path: Path) -> None:
    with SecureProcess(tmp_path / "expired") as broker:
        broker.stop()
        pem = broker.secure_directory / "broker.pem"
        authority = read_pair((broker.secure_directory / "authority.pem").read_bytes())
        long_ago_ms = SystemClock().now_ms() - 800 * DAY_MS
        pem.write_bytes(issue(authority, "broker", ["127.0.0.1"], long_ago_ms).pem)
        assert re.search(r"^sordini: --secure: \S+/broker\.pem expired on [\dT:.-]+Z; remove it", refused(broker))
        pem.unlink()
        broker.start()
        assert run(f"sordini topics list {connected(broker)}", broker).returncode == 0


def test_files_that_cannot_be_used_refuse_the_start_in_one_line(tmp_path: Path) -> None:
    with SecureProcess(tmp_path / "files") as broker:
        broker.stop()
        pem = broker.secure_directory / "broker.pem"
        pem.chmod(0o644)
        assert refused(broker).endswith(f"chmod 600 {pem}\n")
        pem.unlink()
        pem.mkdir(0o700)
        assert refused(broker) == f"sordini: --secure: {pem}: is a directory\n"
        broker.options = ["--secure-directory", "/proc/none"]
        assert refused(broker) == "sordini: --secure: /proc/none: no such file or directory\n"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_listener_without_tls_beyond_this_machine_refuses_the_start_and_nothing_is_made(
    tmp_path: Path, protocol: str
) -> None:
    broker = SecureProcess(tmp_path / "open", {"listeners": f"SASL_SSL://127.0.0.1:0,{protocol}://:9092"})
    assert refused(broker).startswith(f"sordini: listeners={protocol}://:9092 is not valid with --secure")
    assert not broker.secure_directory.exists()


def test_without_it_such_a_listener_is_warned_about_in_one_line(tmp_path: Path) -> None:
    broker = SecureProcess(tmp_path / "warned")
    broker.overrides["listeners"] = f"PLAINTEXT://0.0.0.0:{broker.port}"
    broker.command = lambda: SecureProcess.command(broker)[:-1]  # type: ignore[method-assign]
    with broker:
        lines = [line for line in broker.output().splitlines() if "OPEN TO THE NETWORK" in line]
        assert len(lines) == 1
        assert "[warning" in lines[0]


def test_a_directory_without_the_flag_is_wrong_usage() -> None:
    from click.testing import CliRunner

    done = CliRunner().invoke(serve, ["--secure-directory", "x"])
    assert done.exit_code == 2
    assert "--secure-directory goes with --secure" in done.output
