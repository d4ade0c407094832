"""Apache Kafka 4.4's own programs with share groups of our broker: consumers, the verifiable one, and the command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.processes import SordiniProcess
from tests.outside.tools import TOOLS, JavaTools
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_cli import run_here
from tests.process.test_share_commands import SETTINGS

pytestmark = pytest.mark.slow
COUNT = 200
CONSOLE = f"{TOOLS}.consumer.ConsoleShareConsumer"
COMMAND = f"{TOOLS}.consumer.group.ShareGroupCommand"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("share-clients"), SETTINGS) as made:
        yield made


@pytest.fixture
def jobs(broker: SordiniProcess, topic: str, tmp_path: Path) -> str:
    """A topic with records, and the group of its name, which begins with the first of them."""
    lines = tmp_path / "lines"
    lines.write_text("".join(f"job-{number}\n" for number in range(COUNT)))
    run_here(broker.bootstrap, "topics", "create", topic)
    run_here(broker.bootstrap, "produce", topic, "--file", str(lines))
    run_here(broker.bootstrap, "configs", "set", "--group", topic, "share.auto.offset.reset=earliest")
    return topic


@pytest.fixture(scope="module")
def tools() -> Iterator[JavaTools]:
    with JavaTools(NEWEST_APACHE_KAFKA) as made:
        yield made


def test_the_console_consumer_reads_each_record_once(broker: SordiniProcess, tools: JavaTools, jobs: str) -> None:
    words = ["--bootstrap-server", broker.bootstrap, "--topic", jobs, "--group", jobs]
    printed = tools(CONSOLE, *words, "--max-messages", str(COUNT), "--timeout-ms", "60000")
    assert sorted(printed.split()) == sorted(f"job-{number}" for number in range(COUNT))
    assert json.loads(run_here(broker.bootstrap, "share", "offsets", jobs, "--json").stdout)[0]["lag"] == 0


def test_the_console_consumer_rejects_and_releases(broker: SordiniProcess, tools: JavaTools, jobs: str) -> None:
    words = ["--bootstrap-server", broker.bootstrap, "--topic", jobs, "--group", jobs]
    tools(CONSOLE, *words, "--reject", "--max-messages", str(COUNT), "--timeout-ms", "60000")
    assert json.loads(run_here(broker.bootstrap, "share", "offsets", jobs, "--json").stdout)[0]["lag"] == 0


def test_the_verifiable_consumer_acknowledges_what_it_reads(
    broker: SordiniProcess, tools: JavaTools, jobs: str
) -> None:
    words = ["--bootstrap-server", broker.bootstrap, "--topic", jobs, "--group-id", jobs]
    printed = tools("VerifiableShareConsumer", *words, "--max-messages", str(COUNT))
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert sum(event["count"] for event in acknowledged) == COUNT
    assert all(event["success"] for event in acknowledged)


def test_the_performance_tool_reads_all(broker: SordiniProcess, tools: JavaTools, jobs: str) -> None:
    words = ["--bootstrap-server", broker.bootstrap, "--topic", jobs, "--group", jobs]
    printed = tools("ShareConsumerPerformance", *words, "--messages", str(COUNT), "--timeout", "60000")
    assert re.search(rf"\b{COUNT}\b", printed), printed


def test_the_command_lists_describes_resets_and_deletes(broker: SordiniProcess, tools: JavaTools, jobs: str) -> None:
    def command(*words: str) -> str:
        return tools(COMMAND, "--bootstrap-server", broker.bootstrap, *words)

    command("--reset-offsets", "--group", jobs, "--topic", jobs, "--to-earliest", "--execute")
    assert jobs in command("--list").split()
    assert re.search(rf"^{jobs} .* Empty +0 *$", command("--describe", "--group", jobs, "--state"), re.MULTILINE)
    offsets = command("--describe", "--group", jobs, "--offsets")
    assert re.search(rf"^{jobs} +{jobs} +0 +0 +{COUNT} *$", offsets, re.MULTILINE), offsets
    command("--reset-offsets", "--group", jobs, "--topic", jobs, "--to-latest", "--execute")
    assert json.loads(run_here(broker.bootstrap, "share", "offsets", jobs, "--json").stdout)[0]["start_offset"] == COUNT
    command("--delete-offsets", "--group", jobs, "--topic", jobs)
    command("--delete", "--group", jobs)
    assert jobs not in command("--list").split()
