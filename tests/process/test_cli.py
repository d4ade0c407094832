"""The commands as people run them: the installed program against a broker, with pipes around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import COMMANDS, main
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
Run = Callable[..., subprocess.CompletedProcess[str]]


IN_A_PROCESS = ("produce", "consume", "--help")
"""Commands around which there are pipes; the others run as well in this process, at a third of the cost."""


def run_here(bootstrap: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = CliRunner().invoke(main, [*arguments], env={"SORDINI_BOOTSTRAP": bootstrap}, prog_name="sordini")
    assert done.exit_code == code, (arguments, done.stdout, done.stderr, done.exception)
    return subprocess.CompletedProcess([*arguments], done.exit_code, done.stdout, done.stderr)


def run_at(
    bootstrap: str, *arguments: str, standard_input: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PROGRAM, *arguments],
        input=standard_input,
        env={**os.environ, "SORDINI_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def run(sordini_broker: SordiniProcess) -> Run:
    """Run a command against the session's broker; its exit code must be 0, or `code`."""

    def run_there(*arguments: str, **wanted: Any) -> subprocess.CompletedProcess[str]:
        way = run_at if arguments[0] in IN_A_PROCESS else run_here
        return way(sordini_broker.bootstrap, *arguments, **wanted)

    return run_there


def rows(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """The cells of a table below its head."""
    return [line.split() for line in done.stdout.splitlines()[1:]]


def test_the_help_names_every_command_and_needs_no_broker() -> None:
    done = run_at("127.0.0.1:1", "--help")
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout
    assert "Exit codes" in run_at("127.0.0.1:1", "groups", "reset", "--help").stdout


def test_an_unreachable_broker_is_reported_with_what_to_do() -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run_at(address, "topics", "list", code=1)
    assert done.stdout == ""
    expected = f"sordini: cannot reach {address}: connection refused — is a broker running there? (sordini serve)\n"
    assert done.stderr == expected


def test_of_several_addresses_one_that_answers_is_enough(sordini_broker: SordiniProcess) -> None:
    run_at(f"127.0.0.1:{free_port()},{sordini_broker.bootstrap}", "topics", "list")


def test_a_topic_is_made_seen_changed_and_removed(run: Run, topic: str) -> None:
    assert run("topics", "create", topic, "-p", "2", "-c", "retention.ms=60000").stdout == (
        f"{topic} created with 2 partitions\n"
    )
    assert [topic, "2", "1"] in rows(run("topics", "list"))
    refused = run("topics", "create", topic, code=1)
    assert "TOPIC_ALREADY_EXISTS" in refused.stderr
    assert run("topics", "create", topic, "--if-not-exists").stdout == f"{topic} exists already\n"
    (shown,) = json.loads(run("topics", "describe", topic, "--json").stdout)
    assert (shown["topic"], shown["configs"]) == (topic, {"retention.ms": "60000"})
    assert [row["partition"] for row in shown["partitions"]] == [0, 1]
    assert "Settings  retention.ms=60000" in run("topics", "describe", topic).stdout
    assert run("topics", "delete", topic, "--yes").stdout == f"{topic} deleted\n"
    assert "there is no such topic" in run("topics", "describe", topic, code=1).stderr
    run("topics", "delete", topic, "--yes", code=1)
    assert run("topics", "delete", topic, "--if-exists", "--yes").stdout == f"{topic} does not exist\n"


def test_what_is_sent_is_read_again_with_its_key_headers_and_nulls(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "2")
    lines = "a:1\tk1:one\n\tk2:NULL\n\tk1:thr\u00e9e"
    sent = run("produce", topic, "-k", ":", "--headers", "--null-value", "NULL", "--json", standard_input=lines)
    assert {"topic": topic, "records": 3, "failed": 0}.items() <= json.loads(sent.stdout).items()
    read = run("consume", topic, "--from", "beginning", "--exit-at-end", "--json")
    records = [json.loads(line) for line in read.stdout.splitlines()]
    assert sorted((row["key"], str(row["value"]), len(row["headers"])) for row in records) == [
        ("k1", "one", 1),
        ("k1", "thr\u00e9e", 0),
        ("k2", "None", 0),
    ]
    copy = f"{topic}-copy"
    run("topics", "create", copy, "-p", "2")
    produced = run("produce", copy, "--input", "json", "-z", "lz4", standard_input=read.stdout)
    assert produced.stdout.startswith(f"{copy}: 3 records (")
    again = run("consume", copy, "--from", "beginning", "--exit-at-end", "--json")
    assert sorted(again.stdout.replace(copy, topic).splitlines()) == sorted(read.stdout.splitlines())


def test_reading_starts_and_stops_at_the_offsets_given(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic)
    (tmp_path / "lines").write_text("".join(f"{number}\r\n" for number in range(10)))
    run("produce", topic, "--file", str(tmp_path / "lines"), "--acks", "1", "-z", "gzip")
    for arguments, expected in [
        (["--from", "7", "-e"], ["7", "8", "9"]),
        (["--from", "-2", "-e"], ["8", "9"]),
        (["--from", "beginning", "-n", "2"], ["0", "1"]),
        (["--from", "1h", "-n", "1", "--read-committed"], ["0"]),
        (["--from", "end", "--timeout", "0.1"], []),
    ]:
        assert run("consume", topic, *arguments).stdout.splitlines() == expected
    (row,) = json.loads(run("topics", "offsets", topic, "--at", "2020-01-01", "--json").stdout)
    assert (row["earliest_offset"], row["latest_offset"], row["offset"]) == (0, 10, 0)


def test_input_may_be_a_file_that_the_shell_opens(
    run: Run, sordini_broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    run("topics", "create", topic)
    (tmp_path / "lines").write_text("one\ntwo")
    with (tmp_path / "lines").open() as lines:
        command = [PROGRAM, "produce", topic, "-b", sordini_broker.bootstrap]
        subprocess.run(command, stdin=lines, capture_output=True, timeout=30, check=True)
    assert run("consume", topic, "--from", "beginning", "-e").stdout.splitlines() == ["one", "two"]


def test_rejected_records_are_reported_and_counted(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    assert "no partition 5" in run("produce", topic, "-p", "5", standard_input="x\n", code=1).stderr
    assert "line 2: no ':' ends the key" in run("produce", topic, "-k", ":", standard_input="a:b\nc\n", code=1).stderr
    assert "no such file" in run("produce", topic, "--file", f"{topic}.txt", code=1).stderr
    run("topics", "alter", topic, "-c", "max.message.bytes=100")
    refused = run("produce", topic, standard_input="x" * 500, code=1)
    assert "1 record was not delivered" in refused.stderr
    assert "MESSAGE_TOO_LARGE" in refused.stderr


def test_records_are_deleted_up_to_an_offset(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    run("produce", topic, standard_input="a\nb\nc\n")
    assert rows(run("topics", "delete-records", f"{topic}:0", "--before", "2", "--yes")) == [[topic, "0", "2"]]
    assert "OFFSET_OUT_OF_RANGE" in run("topics", "delete-records", topic, "--before", "9", "--yes", code=1).stderr
    assert rows(run("topics", "offsets", topic)) == [[topic, "0", "2", "3"]]


def test_settings_are_set_checked_and_taken_back(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    run("configs", "set", "--topic", topic, "retention.ms=5000", "--validate-only")
    assert "at their defaults" in run("configs", "describe", "--topic", topic).stdout
    run("configs", "set", "--topic", topic, "retention.ms=5000", "cleanup.policy+=compact")
    assert rows(run("configs", "describe", "--topic", topic)) == [
        ["cleanup.policy", "delete,compact", "topic"],
        ["retention.ms", "5000", "topic"],
    ]
    (shown,) = json.loads(run("configs", "describe", "--topic", topic, "--all", "--json").stdout)
    assert {row["source"] for row in shown["configs"]} >= {"topic", "default"}
    run("configs", "unset", "--topic", topic, "retention.ms", "cleanup.policy")
    assert "at their defaults" in run("configs", "describe", "--topic", topic).stdout
    assert "INVALID_CONFIG" in run("configs", "set", "--topic", topic, "retention.ms=soon", code=1).stderr
    assert "no broker 77" in run("configs", "describe", "--broker", "77", code=1).stderr


def test_settings_of_a_group_are_set_described_and_taken_back(run: Run, topic: str) -> None:
    group, key = f"group-{topic}", "consumer.session.timeout.ms"
    assert f"All settings of group '{group}' are at their defaults." in run("configs", "describe", "-g", group).stdout
    assert run("configs", "set", "--group", group, f"{key}=50000").stdout == f"group '{group}' changed\n"
    assert rows(run("configs", "describe", "--group", group)) == [[key, "50000", "group"]]
    (shown,) = json.loads(run("configs", "describe", "--group", group, "--all", "--json").stdout)
    assert (shown["type"], shown["name"]) == ("group", group)
    sources = {row["key"]: row["source"] for row in shown["configs"]}
    assert {name for name, source in sources.items() if source != "default"} == {key}
    assert (sources[key], "share.auto.offset.reset" in sources) == ("group", True)
    refused = run("configs", "set", "--group", group, f"{key}=1", code=1).stderr
    assert "allowed is from group.consumer.min.session.timeout.ms=45000 to" in refused
    run("configs", "unset", "--group", group, key)
    assert "at their defaults" in run("configs", "describe", "--group", group).stdout


def test_a_group_is_read_reset_and_deleted(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic, "-p", "2")
    group = f"group-{topic}"
    run("produce", topic, "-p", "0", standard_input="".join(f"{number}\n" for number in range(10)))
    read = run("consume", topic, "--group", group, "--from", "beginning", "-n", "4")
    assert read.stdout.splitlines() == ["0", "1", "2", "3"]
    assert [row[:2] for row in rows(run("groups", "list")) if row[0] == group] == [[group, "Empty"]]
    (shown,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert [(row["committed_offset"], row["end_offset"], row["lag"]) for row in shown["offsets"]] == [
        (4, 10, 6),
        (0, 0, 0),
    ]
    plan = run("groups", "reset", group, "--topic", f"{topic}:0", "--shift-by", "-100")
    assert rows(plan) == [[topic, "0", "4", "0", "10"]]
    assert f"{topic}-0 begins at 0, not at -96" in plan.stderr
    assert "nothing was changed" in plan.stderr
    (unchanged,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert unchanged == shown
    done = json.loads(run("groups", "reset", group, "--all-topics", "--to-offset", "7", "--execute", "--json").stdout)
    assert [(row["new_offset"], row["clamped"]) for row in done["offsets"]] == [(7, False), (0, True)]
    assert run("consume", topic, "--group", group, "-n", "3").stdout.splitlines() == ["7", "8", "9"]
    saved = tmp_path / "offsets.csv"
    saved.write_text(run("groups", "reset", group, "--all-topics", "--to-earliest", "--csv").stdout)
    run("groups", "reset", group, "--from-file", str(saved), "--execute")
    (shown,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert [row["committed_offset"] for row in shown["offsets"]] == [0, 0]
    run("groups", "delete-offsets", group, "--topic", f"{topic}:1", "--yes")
    (shown,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert [row["partition"] for row in shown["offsets"]] == [0]
    run("groups", "delete", group, "--yes")
    assert "does not exist" in run("groups", "describe", group, code=1).stderr


def test_a_group_with_members_cannot_be_reset_and_ctrl_c_ends_a_member_in_order(
    run: Run, sordini_broker: SordiniProcess, topic: str
) -> None:
    run("topics", "create", topic)
    run("produce", topic, standard_input="first\n")
    group = f"group-{topic}"
    member = subprocess.Popen(
        [PROGRAM, "consume", topic, "--group", group, "--from", "beginning", "-b", sordini_broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert member.stdout is not None
    assert member.stdout.readline() == "first\n", "it is a member now"
    refused = run("groups", "reset", group, "--topic", topic, "--to-latest", "--execute", code=1)
    assert "Stop its consumers first" in refused.stderr
    (shown,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert [member["partitions"] for member in shown["members"]] == [[{"topic": topic, "partition": 0}]]
    assert "NON_EMPTY_GROUP" in run("groups", "delete", group, "--yes", code=1).stderr
    member.send_signal(signal.SIGINT)
    _, errors = member.communicate(timeout=20)
    assert (member.returncode, errors.strip()) == (130, "")
    (shown,) = json.loads(run("groups", "describe", group, "--json").stdout)
    assert (shown["state"], [row["committed_offset"] for row in shown["offsets"]]) == ("Empty", [1])


def test_a_reader_that_stops_reading_ends_the_command_in_silence(
    run: Run, sordini_broker: SordiniProcess, topic: str
) -> None:
    run("topics", "create", topic)
    # More than a pipe holds: what has been written whole before the reader ends is not known to have been in vain.
    run("produce", topic, standard_input=("x" * 900 + "\n") * 5000)
    command = f'timeout 60 "{PROGRAM}" consume {topic} --from beginning'
    shell = f'{command} -b {sordini_broker.bootstrap} | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=90, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["x" * 900, "0"]


@pytest.mark.parametrize("command", ["consume {topic} --from beginning", "tail {topic} -f"])
def test_a_command_that_waits_for_records_ends_in_silence_when_its_reader_has_ended(
    run: Run, sordini_broker: SordiniProcess, topic: str, command: str
) -> None:
    run("topics", "create", topic)
    run("produce", topic, standard_input="one\n")
    arguments = [PROGRAM, *command.format(topic=topic).split(), "-b", sordini_broker.bootstrap]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"one" in process.stdout.readline()
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, b"")


def test_the_broker_s_own_files_are_dumped(
    run: Run, sordini_broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    run("topics", "create", topic)
    run("produce", topic, standard_input="one\ntwo\n")
    segment = sordini_broker.data_directory / f"{topic}-0" / f"{0:020d}.log"
    files = [str(segment), str(segment.with_suffix(".index")), str(sordini_broker.data_directory / "meta.properties")]
    shown = run("log", "dump", *files, "--print-data-log").stdout
    assert "payload: one\n" in shown
    assert "cluster.id=" in shown
    assert "value one" in run("log", "dump", *files, "--format", "people", "-d").stdout
    kinds = [json.loads(line)["kind"] for line in run("log", "dump", files[0], "-d", "--json").stdout.splitlines()]
    assert kinds[0] == "batch"
    assert kinds.count("record") == 2
    torn = tmp_path / segment.name
    torn.write_bytes(segment.read_bytes()[:-1])
    assert "is damaged" in run("log", "dump", str(torn), code=1).stderr


def test_a_running_broker_s_directory_is_verified_and_counted_and_not_repaired(
    run: Run, sordini_broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    run("topics", "create", topic)
    run("produce", topic, standard_input="one\ntwo\n")
    data = str(sordini_broker.data_directory)
    printed = run("log", "verify", data).stdout
    assert f"OK       {data}/{topic}-0  1 segment" in printed
    assert "a broker is running on it" in printed
    assert "2 records" in run("log", "stats", f"{data}/{topic}-0").stdout
    assert (
        "a broker is running on" in run("log", "verify", data, "--repair", "--to", str(tmp_path / "c"), code=1).stderr
    )
    assert not (tmp_path / "c").exists()


def test_the_offsets_topic_is_dumped_as_what_it_means(run: Run, sordini_broker: SordiniProcess, topic: str) -> None:
    run("topics", "create", topic)
    group = f"group-{topic}"
    run("produce", topic, standard_input="one\n")
    run("groups", "reset", group, "--topic", topic, "--to-latest", "--execute")
    segments = sorted(str(path) for path in sordini_broker.data_directory.glob("__consumer_offsets-*/*.log"))
    shown = run("log", "dump", *segments, "--format", "people", "--offsets-decoder").stdout
    assert f"group {group}  {topic}-0  committed 1" in shown


def test_the_status_of_a_cluster_of_one_names_it_and_finds_nothing_wrong(run: Run) -> None:
    run("topics", "create", "healthy", "--partitions", "2")
    status = json.loads(run("cluster", "status", "--json", "--check").stdout)
    (broker,) = status["brokers"]
    assert (broker["state"], broker["rack"], broker["lag"]) == ("up", None, 0)
    assert (status["controller"], status["offline_partitions"], status["under_replicated_partitions"]) == (
        broker["broker"],
        0,
        0,
    )
    assert broker["leads"] == broker["replicas"] == broker["in_sync"] == len(status["partitions"])
    (line,) = rows(run("cluster", "status"))[1:2]
    assert line[0] == str(broker["broker"])
    assert line[3] == "up"
