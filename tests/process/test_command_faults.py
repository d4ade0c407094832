"""Every command, whatever becomes of the cluster in its course: a reason in words and the right exit code, no traceback.

Each command runs in this process against a real broker behind a proxy. It runs once for each answer that it gets, and
at that answer the broker does wrong. The command waits in a loop that jumps over waits in vain.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from sordini.cli.__main__ import main
from sordini.cli.commands.records.record_consumer import CHECK_ROUNDS, ConsumeOptions, IdleCheck
from sordini.cli.common import options
from sordini.client.errors import Refused
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.outside.processes import SordiniProcess
from tests.process.faulty import Fault, FaultyBroker
from tests.process.hurried import hurried
from tests.reference import commands
from tests.support.wire_client import PATIENCE_S, Client

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
ANSWERS_MAX = 40
"""More than any command of the table gets."""

TOPIC, GROUP, PRODUCER = "faults", "faults-group", "faults-producer"
CONSUMERS = "faults-consumers"
"""A consumer group (KIP-848), whose member's session lasts as long as the tests."""
WORKERS = "faults-workers"
"""A share group (KIP-932) without members."""
NO_TOPIC = (
    "topic '{}': there is no such topic; `sordini topics list` shows those there are (UNKNOWN_TOPIC_OR_PARTITION)"
)
TABLE: tuple[str, ...] = (
    "topics list",
    "topics describe {topic}",
    "topics offsets {topic}",
    "topics delete-records {topic} --all --yes",
    "topics pack {topic} --output {pack} --force",
    "topics alter {topic} --partitions 2 --validate-only",
    "topics create {topic}-new --if-not-exists",
    "topics delete {topic}-none --if-exists --yes",
    "consume {topic} --from beginning --exit-at-end",
    "consume {topic} --from beginning --timeout 0.2 --json",
    "consume {topic} --from beginning --exit-at-end --group {fresh}",
    "tail {topic}",
    "tail {topic} --since 1h --json",
    "produce {topic} --file {lines}",
    "groups list",
    "groups describe {group}",
    "groups describe {consumers} --members",
    "groups describe {workers} --members",
    "groups history {group}",
    "groups lag {group} {consumers}",
    "groups lag {workers}",
    "groups lag",
    "groups reset {group} --topic {topic} --to-latest --execute",
    "groups delete-offsets {group} --topic {topic}:0 --yes",
    "groups delete {group}-none --yes",
    "share list",
    "share describe {workers} --members",
    "share offsets {workers}",
    "share in-flight {workers}",
    "share reset {fresh} --topic {topic} --to-latest --execute",
    "share delete-offsets {workers} --topic {topic} --yes",
    "share delete {group}-none --yes",
    "share redrive {topic}",
    "share redrive {topic} --execute",
    "clients list",
    "configs set --client-metrics {fresh} metrics=*",
    "transactions list",
    "transactions describe {producer}",
    "transactions producers {topic}",
    "transactions find-hanging",
    "transactions abort {topic}:0 --start-offset 0 --yes",
    "configs describe --topic {topic}",
    "configs set --topic {topic} retention.ms=60000",
    "configs unset --topic {topic} retention.ms",
    "configs describe --group {group}",
    "configs set --group {group} consumer.session.timeout.ms=60000",
    "acls list",
    "acls add --topic {topic} --group {group} --consumer --allow User:alice",
    "acls remove --topic {topic} --yes",
    "users list",
    "users set alice --password-file {lines}",
    "users remove {fresh} --mechanism SCRAM-SHA-256 --yes",
    "quotas list",
    "quotas set --user {fresh} --produce 1000000",
    "quotas remove --user {fresh}",
    "cluster status",
    "reassign generate {topic}",
    "reassign generate --all --from-broker 0",
    "reassign execute {plan}",
    "reassign verify {plan}",
    "reassign cancel {plan}",
    "reassign list",
    "ping",
    "ping --serving",
    "mirror status {mirror}",
    "mirror groups {mirror}",
)
WITHOUT_A_GROUP = ("configs describe --group {group}", "configs set --group {group} consumer.session.timeout.ms=60000")
"""Commands whose group need not exist."""
IS_LONG = os.environ.get("SORDINI_FAULTS") == "all"
"""Whether every kind of fault is tried at every answer of every command: minutes. Else each command gets one kind."""
FAULTS = (Fault.SILENCE, Fault.HANG_UP, Fault.GARBAGE, Fault.INTERRUPT)
ELSEWHERE = {
    "serve": "a broker",
    "doctor": "tests/doctor",
    "console": "tests/console",
    "registry": "tests/registry",
    "mirror run": "tests/mirror",
    "clients describe": "tests/compat/test_pushing_clients.py",
    **dict.fromkeys(
        ("dev", "stop", "cluster move", "topics describe-pack", "log dump", "log stats", "log verify", "completion"),
        "test_commands_alone",
    ),
}
THROUGH_AIOKAFKA = ("consume", "produce")


class Scene(NamedTuple):
    """A broker with one topic and one group, behind a proxy, and the files that commands are given."""

    broker: FaultyBroker
    files: Path

    def words(self, line: str, topic: str = TOPIC, group: str = GROUP) -> list[str]:
        names = {"lines": self.files / "lines", "plan": self.files / "plan.json", "topic": topic, "group": group}
        names["pack"] = self.files / "records.pack"
        names["mirror"], names["consumers"] = self.files / "mirror.json", CONSUMERS
        names["workers"] = WORKERS
        # A member whose good-bye was lost holds a group up until its session ends: each reader has a group of its own.
        return [word.format(**names, producer=PRODUCER, fresh=uuid4().hex) for word in line.split()]

    def run(self, words: list[str]) -> Result:
        with warnings.catch_warnings():
            if words[0] in THROUGH_AIOKAFKA:
                # It forgets a connection when the first request on it is cancelled. The end of a process closes it.
                warnings.simplefilter("ignore", ResourceWarning)
            environment = {"SORDINI_BOOTSTRAP": self.broker.bootstrap}
            done = CliRunner().invoke(main, words, env=environment, prog_name="sordini")
            if IS_LONG or words[0] in THROUGH_AIOKAFKA:
                gc.collect()  # What was left behind says so when it is collected.
        return done


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    files, proxy = tmp_path_factory.mktemp("faults"), FaultyBroker()
    settings = {
        "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}",
        "group.initial.rebalance.delay.ms": 0,
        "sordini.client.telemetry.enable": "true",
        "offsets.topic.num.partitions": 2,
        # `produce` would make a missing topic.
        "auto.create.topics.enable": "false",
        "broker.id": 0,
        "group.consumer.session.timeout.ms": 3_600_000,
        "group.consumer.max.session.timeout.ms": 3_600_000,
    }
    (files / "lines").write_text("one\ntwo\n")
    move = {"topic": TOPIC, "partition": 0, "replicas": [0]}
    place = {"bootstrap": proxy.bootstrap}
    both = {"name": "m", "target": {"alias": "central", **place}, "sources": {"east": place}}
    (files / "mirror.json").write_text(json.dumps(both))
    (files / "plan.json").write_text(json.dumps({"version": 1, "partitions": [move]}))
    try:
        with SordiniProcess(files / "broker", settings) as broker:
            proxy.behind = broker.port
            Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": PRODUCER}).init_transactions(30)
            join_consumers(broker)
            yield Scene(proxy, files)
    finally:
        proxy.close()


def join_consumers(broker: SordiniProcess) -> None:
    """A member joins the consumer group, and is silent."""
    join = ConsumerGroupHeartbeatRequest(
        group_id=CONSUMERS,
        member_id="member",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    with Client("127.0.0.1", broker.port) as client:
        client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=[CONSUMERS]))
        broker.wait_until(
            lambda: client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join).error_code == 0,
            PATIENCE_S,
            "let a member join",
        )


@pytest.fixture
def ready(scene: Scene) -> Iterator[Scene]:
    """The topic with records and the group with an offset are there again."""
    scene.broker.plan(Fault.NONE)
    for line in (
        "topics create {topic} --if-not-exists",
        "produce {topic} --file {lines}",
        "groups reset {group} --topic {topic} --to-earliest --execute",
        "share reset {workers} --topic {topic} --to-earliest --execute",
    ):
        assert scene.run(scene.words(line)).exit_code == 0
    yield scene
    gc.collect()


def check(done: Result, codes: set[int], caplog: pytest.LogCaptureFixture, where: object) -> None:
    """It ended as a command ends."""
    context = (where, done.exit_code, done.stderr, repr(done.exception))
    assert isinstance(done.exception, SystemExit | None), context
    assert done.exit_code in codes, context
    assert "Traceback" not in done.stderr, context
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], (context, caplog.text)
    if done.exit_code == 1:
        assert done.stderr.startswith("sordini: "), context
        assert len(done.stderr.splitlines()) == 1, context


def limited(words: list[str]) -> list[str]:
    """With a bound, where the command has one of its own for that."""
    return words if words[0] == "consume" else [*words, "--timeout", "3"]


def test_the_table_has_every_command() -> None:
    leaves = [
        context.command_path.removeprefix("sordini ")
        for context in commands.commands_below(click.Context(main, info_name="sordini"))
        if not isinstance(context.command, click.Group)
    ]
    missing = [
        name
        for name in leaves
        if not name.startswith("pipeline ")
        and name not in ELSEWHERE
        and not any(line.startswith(name) for line in TABLE)
    ]
    assert not missing


def walk(scene: Scene, line: str, fault: Fault, answers: Iterable[int], caplog: pytest.LogCaptureFixture) -> None:
    """Run a command once for each of the answers at which the fault comes."""
    with hurried(lambda: scene.broker.has_failed):
        for after in answers:
            scene.broker.plan(fault, after)
            done = scene.run(limited(scene.words(line)))
            if not scene.broker.has_failed:
                break  # It gets no more answers.
            # What comes last may be what is not waited for: the good-bye of a group's member, for example.
            codes = {130, 0} if fault is Fault.INTERRUPT else {1, 0}
            check(done, codes, caplog, (line, fault, after))
            assert done.exit_code or after, (line, fault, after)


def test_a_broker_that_does_wrong_ends_every_command_in_words(ready: Scene, caplog: pytest.LogCaptureFixture) -> None:
    for number, line in enumerate(TABLE):
        walk(ready, line, FAULTS[number % len(FAULTS)], (0, 1 + number % 3), caplog)


@pytest.mark.skipif(not IS_LONG, reason="minutes: SORDINI_FAULTS=all")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("line", TABLE)
def test_a_broker_that_does_wrong_at_any_answer_ends_a_command_in_words(
    ready: Scene, line: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    walk(ready, line, fault, range(ANSWERS_MAX), caplog)


@pytest.mark.skipif(not IS_LONG, reason="minutes: SORDINI_FAULTS=all")
@pytest.mark.parametrize("line", TABLE)
def test_a_command_ends_as_it_should_though_one_answer_is_lost(
    ready: Scene, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    words = ready.words(line)
    expected = ready.run(words).exit_code
    for after in range(1, 6):  # The first is of the connection: a broker that hangs up at once is none.
        ready.broker.plan(Fault.LOSS, after)
        check(ready.run(words), {expected, 1}, caplog, after)


CHANGES = {
    "topics create {topic}-lost --partitions 2": (
        "topics delete {topic}-lost --if-exists --yes",
        "created with 2 partitions",
    ),
    "topics delete {topic}-lost --yes": ("topics create {topic}-lost --if-not-exists", "{topic}-lost deleted"),
    "topics alter {topic}-lost --partitions 3": ("topics create {topic}-lost", "changed"),
    "groups delete {group} --yes": (
        "groups reset {group} --topic {topic} --to-latest --execute",
        "{group} deleted",
    ),
    "reassign execute {plan}": ("ping", "has been moved already, to 0"),
}
"""Commands that change something, what comes before each attempt, and what they say when they have done it."""


@pytest.mark.parametrize("line", CHANGES)
def test_a_change_whose_answer_was_lost_is_recognised_as_done(ready: Scene, line: str) -> None:
    before, said = CHANGES[line]
    ready.broker.plan(Fault.NONE)
    ready.run(ready.words("topics delete {topic}-lost --if-exists --yes"))
    ready.run(ready.words(before))
    words = ready.words(line)
    ready.broker.plan(Fault.NONE)
    assert ready.run(words).exit_code == 0
    count = ready.broker.answers
    for after in range(1, count):
        ready.broker.plan(Fault.NONE)
        ready.run(ready.words("topics delete {topic}-lost --if-exists --yes"))
        ready.run(ready.words(before))
        ready.broker.plan(Fault.LOSS, after)
        done = ready.run(words)
        assert (after, done.exit_code, done.stderr) == (after, 0, "")
        assert said.format(topic=TOPIC, group=GROUP) in done.stdout


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_missing_or_just_deleted_topic_or_group_is_reported_as_such(
    ready: Scene, caplog: pytest.LogCaptureFixture, *, is_deleted: bool
) -> None:
    gone = f"gone-{is_deleted}"
    for number, line in enumerate(TABLE if is_deleted else [line for line in TABLE if "{" in line]):
        if is_deleted and (IS_LONG or number == 0):
            for setting in (
                "topics create {topic} --if-not-exists",
                "groups reset {group} --topic {topic} --to-latest --execute",
                "groups delete {group} --yes",
                "topics delete {topic} --yes",
            ):
                assert ready.run(ready.words(setting, gone, gone)).exit_code == 0, setting
        is_missing = "{topic} " in f"{line} " or ("{group} " in f"{line} " and line not in WITHOUT_A_GROUP)
        codes = {1} if is_missing else {0, 1}
        check(ready.run(ready.words(line, gone, gone)), codes, caplog, line)


EMPTY = (
    "consume {topic} --exit-at-end",
    "consume {topic} --from beginning --exit-at-end",
    "consume {topic} --from end --exit-at-end --group {group}-of-empty",
    "consume {topic} --exit-at-end --partition 0 --read-committed",
    "consume {topic} --timeout 0.1",
    "topics offsets {topic} --at 2020-01-01",
    "topics pack {topic} --output {pack} --force",
    "topics delete-records {topic} --all --yes",
    "reassign generate {topic}",
    "groups reset {group}-of-empty --topic {topic} --to-earliest",
)


def test_an_empty_topic_is_read_to_its_end_at_once(ready: Scene, caplog: pytest.LogCaptureFixture) -> None:
    assert ready.run(ready.words("topics create empty --if-not-exists")).exit_code == 0
    for line in EMPTY:
        check(ready.run(ready.words(line, "empty")), {0}, caplog, line)


def test_a_topic_that_was_just_deleted_can_be_made_again_at_once(ready: Scene) -> None:
    for _ in range(40 if IS_LONG else 5):
        for line in ("topics create {topic}-again", "topics delete {topic}-again --yes"):
            done = ready.run(ready.words(line))
            assert (done.exit_code, done.stderr) == (0, ""), line


def test_a_topic_that_is_deleted_while_it_is_read_ends_the_reader_in_one_sentence(ready: Scene) -> None:
    waits = ["--timeout", "2"], *([[]] if IS_LONG else [])  # Without a limit it notices after CHECK_ROUNDS: 10 s.
    for more in waits:
        for line in ("topics create doomed", "produce doomed --file {lines}"):
            assert ready.run(ready.words(line)).exit_code == 0
        with program("consume", "doomed", "--from", "beginning", *more, bootstrap=ready.broker.bootstrap) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "one\n"
            assert ready.run(ready.words("topics delete doomed --yes")).exit_code == 0
            _, errors = reader.communicate(timeout=60)
        assert (reader.returncode, errors) == (1, f"sordini: {NO_TOPIC.format('doomed')}\n")


def test_a_reader_without_any_limit_asks_for_its_topic_after_so_many_waits(ready: Scene) -> None:
    request = ConsumeOptions(
        "nowhere", ("end", 0), None, (), None, exit_at_end=False, silence_s=None, read_committed=False
    )
    watch = IdleCheck(options.Client(ready.broker.bootstrap, as_json=False, timeout_s=20), request)

    async def wait(rounds: int) -> list[bool]:
        return [await watch.is_over(has_records=False) for _ in range(rounds)]

    assert not any(asyncio.run(wait(CHECK_ROUNDS - 1)))
    with pytest.raises(Refused, match="no such topic"):
        asyncio.run(wait(1))


def program(*words: str, bootstrap: str, **options: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, *words],
        env={**os.environ, "SORDINI_BOOTSTRAP": bootstrap},
        stdout=options.get("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        stdin=options.get("stdin", subprocess.DEVNULL),
        text=True,
        start_new_session=True,
    )


def interrupted(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C until a program ends; what it wrote to standard error.

    Once is not enough where Python is about to wait in a system call: it sees the signal when the call returns.
    """
    for _ in range(40):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=0.5)[1]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return f"it did not end, and was killed: {process.communicate()[1]}"


def test_ctrl_c_in_a_question_leaves_everything_as_it_is(ready: Scene) -> None:
    terminal, its_end = os.openpty()
    asked = program("topics", "delete", TOPIC, bootstrap=ready.broker.bootstrap, stdin=its_end)
    try:
        assert asked.stderr is not None
        question = asked.stderr.read(10)
        rest = interrupted(asked)
        assert (asked.returncode, "Traceback" in rest) == (130, False), question + rest
    finally:
        os.close(terminal)
        os.close(its_end)
    assert ready.run(ready.words("topics describe {topic}")).exit_code == 0


def test_ctrl_c_while_it_waits_for_records_ends_a_reader_without_a_word(ready: Scene) -> None:
    reader = program("consume", TOPIC, "--from", "beginning", bootstrap=ready.broker.bootstrap)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "one\n"
    reader.send_signal(signal.SIGINT)
    _, errors = reader.communicate(timeout=20)
    assert (reader.returncode, errors.strip()) == (130, "")


@pytest.mark.parametrize("line", ["topics describe {topic}", "consume {topic} --from beginning --exit-at-end"])
def test_output_that_cannot_be_written_is_reported_in_one_line(ready: Scene, line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = program(*ready.words(line), bootstrap=ready.broker.bootstrap, stdout=full.fileno())
        _, errors = done.communicate(timeout=20)
    assert (done.returncode, errors) == (1, "sordini: no space left on device\n")


def test_a_command_without_standard_output_says_so_or_ends_well(ready: Scene) -> None:
    bootstrap = ready.broker.bootstrap
    for words, closed, code in (
        (f"topics describe {TOPIC}", ">&-", 0),
        (f"consume {TOPIC} -e", ">&-", 1),
        (f"consume {TOPIC} -e", "2>&-", 0),
        (f"produce {TOPIC}", "<&-", 1),
    ):
        shell = f'"{PROGRAM}" {words} -b {bootstrap} {closed}'
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30, check=False)
        assert (words, done.returncode, "Traceback" in done.stderr) == (words, code, False), done.stderr
