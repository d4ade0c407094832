"""Every command that connects takes --command-config, and works with it against a broker that secured itself.

So does the JAR-less Spark source, which takes the same settings as `kafka.` options.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sordini.cli.__main__ import main
from sordini.pipeline.source.client import Client, ClientSettings, Unauthorized
from tests.outside.processes import SecureProcess
from tests.reference.commands import commands_below

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
LINES: dict[str, str] = {
    "ping": "ping --serving",
    "topics list": "topics list",
    "topics describe": "topics describe orders",
    "topics offsets": "topics offsets orders",
    "topics create": "topics create orders --if-not-exists",
    "topics pack": "topics pack orders --output {pack} --force",
    "topics alter": "topics alter orders --partitions 3 --validate-only",
    "topics delete": "topics delete none --if-exists --yes",
    "topics delete-records": "topics delete-records orders:0 --all --yes",
    "produce": "produce orders --file {empty}",
    "consume": "consume orders --from beginning --exit-at-end",
    "tail": "tail orders",
    "groups list": "groups list",
    "groups describe": "groups describe readers",
    "groups history": "groups history readers",
    "groups lag": "groups lag readers",
    "groups reset": "groups reset readers --topic orders --to-latest",
    "groups delete-offsets": "groups delete-offsets readers --topic orders:1 --yes",
    "groups delete": "groups delete none --yes",
    "share list": "share list",
    "share describe": "share describe workers",
    "share offsets": "share offsets workers",
    "share in-flight": "share in-flight workers",
    "share reset": "share reset workers --topic orders --to-latest",
    "share delete-offsets": "share delete-offsets none --topic orders --yes",
    "share delete": "share delete none --yes",
    "share redrive": "share redrive orders",
    "clients list": "clients list",
    "clients describe": "clients describe AAAAAAAAAAAAAAAAAAAAAg",
    "transactions list": "transactions list",
    "transactions describe": "transactions describe none",
    "transactions producers": "transactions producers orders",
    "transactions find-hanging": "transactions find-hanging",
    "transactions abort": "transactions abort orders:0 --start-offset 0 --yes",
    "configs describe": "configs describe --topic orders",
    "configs set": "configs set --topic orders retention.ms=60000",
    "configs unset": "configs unset --topic orders retention.ms",
    "acls list": "acls list",
    "acls add": "acls add --topic orders --operation Read --allow User:alice",
    "acls remove": "acls remove --topic none --yes",
    "users list": "users list",
    "users set": "users set alice --password-file {password}",
    "users remove": "users remove none --mechanism SCRAM-SHA-256 --yes",
    "quotas list": "quotas list",
    "quotas set": "quotas set --user alice --produce 1000000",
    "quotas remove": "quotas remove --user alice",
    "cluster status": "cluster status",
    "reassign generate": "reassign generate orders",
    "reassign execute": "reassign execute {plan}",
    "reassign verify": "reassign verify {plan}",
    "reassign cancel": "reassign cancel {plan}",
    "reassign list": "reassign list",
}
"""What each command is called with: as far as it can, to read only or to change nothing."""
ELSEWHERE = ("doctor", "console", "registry")
"""They have tests of their own against secured brokers, as their users have."""
REFUSED = {
    "groups delete": "none",
    "groups delete-offsets": "",
    "share delete-offsets": "does not exist",
    "share delete": "none",
    "clients list": "no broker of this cluster takes metrics of clients",
    "clients describe": "no broker of this cluster takes metrics of clients",
    "transactions describe": "none",
    "transactions abort": "",
    "users remove": "none",
}
"""Commands that find nothing to do here and say so: the broker's answer, not that of a connection without rights."""
WRONGLY = ("ping", "topics list", "produce", "consume", "groups describe", "acls list", "users set", "cluster status")
"""Commands that are called with a wrong password: one of each way to connect."""
NO_CONNECTION = ("connect", "authenticat", "certificate", "TLS", "log in", "timed out", "authoriz")


def connecting_commands() -> dict[str, click.Command]:
    """Every command with --bootstrap, by its words; those of `pipeline` connect as their job says."""
    found = {}
    for context in commands_below(click.Context(main, info_name="sordini")):
        words = context.command_path.removeprefix("sordini ")
        is_here = not words.startswith("pipeline ") and words not in ELSEWHERE
        if is_here and {"--bootstrap", "--command-config"} & options_of(context.command):
            found[words] = context.command
    return found


def options_of(command: click.Command) -> set[str]:
    return {word for one in command.params for word in one.opts}


class Scene:
    """A broker that secured itself, with a topic and a group, and files for commands."""

    def __init__(self, broker: SecureProcess) -> None:
        self.broker = broker
        folder = broker.directory
        self.files = {name: folder / name for name in ("empty", "password", "plan", "pack")}
        self.files["empty"].write_text("")
        self.files["password"].write_text("let me in\n")
        move = {"topic": "orders", "partition": 0, "replicas": [1001]}
        self.files["plan"].write_text(json.dumps({"version": 1, "partitions": [move]}))
        self.wrong = folder / "wrong.properties"
        self.wrong.write_text(broker.client_properties.read_text().replace(broker.password, "guessed-heron"))

    def run(self, line: str, properties: Path | None = None) -> subprocess.CompletedProcess[str]:
        words = [word.format(**self.files) for word in line.split()]
        given = ["--bootstrap", self.broker.bootstrap]
        if properties is not None:
            given += ["--command-config", str(properties)]
        return subprocess.run(
            [PROGRAM, *words, *given], capture_output=True, text=True, timeout=60, check=False, input="one\n"
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    # Many logins fail here: with the default each answer would wait twice as long as the one before.
    settings["connection.failed.authentication.delay.ms"] = 0
    with SecureProcess(tmp_path_factory.mktemp("commands"), settings) as broker:
        made = Scene(broker)
        for line in (
            "topics create orders --partitions 2",
            "produce orders",
            "consume orders --group readers --from beginning --exit-at-end",
            "share reset workers --topic orders --to-earliest --execute",
        ):
            done = made.run(line, broker.client_properties)
            assert done.returncode == 0, (line, done.stderr)
        yield made


def test_every_command_that_connects_takes_the_option_and_is_tried_here() -> None:
    found = connecting_commands()
    assert all({"--bootstrap", "--command-config"} <= options_of(command) for command in found.values())
    assert set(found) == set(LINES)


@pytest.mark.parametrize("command", LINES)
def test_a_command_works_against_a_secured_broker(scene: Scene, command: str) -> None:
    done = scene.run(LINES[command], scene.broker.client_properties)
    if command in REFUSED:
        assert done.returncode in (0, 1), done.stderr
        assert not any(word in done.stderr for word in NO_CONNECTION), done.stderr
        assert REFUSED[command] in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", WRONGLY)
def test_with_a_wrong_password_a_command_ends_with_one_clear_error(scene: Scene, command: str) -> None:
    done = scene.run(LINES[command], scene.wrong)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("sordini: ")
    assert "admin" in lines[0] or "uthentication" in lines[0], lines
    assert "guessed-heron" not in done.stdout + done.stderr


def spark_options(scene: Scene) -> dict[str, str]:
    """What the first start has made for Spark."""
    found: dict[str, str] = json.loads((scene.broker.secure_directory / "spark.json").read_text())
    return found


def test_the_spark_source_reads_with_the_options_that_a_secured_broker_makes(scene: Scene) -> None:
    options = spark_options(scene)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert scene.broker.password in options["kafka.sasl.jaas.config"]
    with Client(ClientSettings.from_options(options)) as client:
        assert "orders" in client.topics()


def test_a_wrong_password_is_one_clear_error_of_the_spark_source(scene: Scene) -> None:
    options = spark_options(scene)
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(
        scene.broker.password, "guessed-heron"
    )
    with Client(ClientSettings.from_options(options)) as client, pytest.raises(Unauthorized) as refused:
        client.topics()
    assert "refuses 'admin' (SCRAM-SHA-256)" in str(refused.value)
    assert "guessed-heron" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_pipeline_command_takes_the_options_from_its_job(scene: Scene) -> None:
    for password, words in ((scene.broker.password, ""), ("guessed-heron", "refuses 'admin' (SCRAM-SHA-256)")):
        options = {
            name: value.replace(scene.broker.password, password)
            for name, value in spark_options(scene).items()
            if name != "kafka.bootstrap.servers"
        }
        job = {
            "name": "orders",
            "source": {"topics": ["orders"], "bootstrap": scene.broker.bootstrap, "options": options},
            "decode": {"mode": "json", "schema": {"fields": {"page": "string!"}}},
            "sink": {"location": str(scene.broker.directory / "tables")},
        }
        file = scene.broker.directory / "job.yaml"
        file.write_text(json.dumps(job))
        done = subprocess.run(
            [PROGRAM, "pipeline", "status", str(file)], capture_output=True, text=True, timeout=120, check=False
        )
        assert words in done.stderr
        assert (done.returncode == 0) == (not words), done.stderr
        assert password not in done.stdout + done.stderr
