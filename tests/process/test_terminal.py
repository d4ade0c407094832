"""What the wire says reaches a terminal as printable characters alone, whichever command shows it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

from sordini.protocol.records.batch import Record
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.hostile_broker import HOSTILE, HostileBroker
from tests.support.wire_client import PATIENCE_S, Client

PROGRAM = Path(__file__).with_name("all_commands.py")
FORGED = "forged\\nsordini is well"
INVALID_REQUEST = 42

COMMANDS = [
    ["topics", "list", "--internal"],
    ["topics", "describe", HOSTILE],
    ["topics", "create", HOSTILE],
    ["topics", "alter", HOSTILE, "--partitions", "5"],
    ["topics", "delete", HOSTILE, "--yes"],
    ["topics", "offsets", HOSTILE],
    ["topics", "delete-records", HOSTILE, "--all", "--yes"],
    ["groups", "list"],
    ["groups", "describe", HOSTILE],
    ["groups", "describe", HOSTILE, "--members"],
    ["groups", "history", HOSTILE],
    ["groups", "delete", HOSTILE, "--yes"],
    ["groups", "delete-offsets", HOSTILE, "--topic", HOSTILE, "--yes"],
    ["groups", "reset", HOSTILE, "--all-topics", "--to-earliest", "--csv"],
    ["groups", "reset", HOSTILE, "--topic", HOSTILE, "--to-earliest", "--execute"],
    ["clients", "list"],
    ["clients", "describe", "AAAAAAAAAAAAAAAAAAAAAg"],
    ["configs", "describe", "--topic", HOSTILE, "--all"],
    ["configs", "describe", "--broker", "0"],
    ["configs", "set", "--topic", HOSTILE, "retention.ms=1"],
    ["configs", "unset", "--topic", HOSTILE, "retention.ms"],
    ["cluster", "status", "--check"],
    ["reassign", "list"],
    ["reassign", "cancel", "--all"],
]


def written_to_a_terminal(
    command: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    """What a program writes to a terminal that is its standard output and standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        start_new_session=True,
    )
    os.close(theirs)
    guard = threading.Timer(PATIENCE_S * 3, process.kill)
    guard.start()
    found = bytearray()
    # EIO, which is the end of a terminal: the last one that had it open is gone.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            found += piece
    guard.cancel()
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0, bytes(found)
    return found.decode(errors="replace").replace("\r\n", "\n")


def unprintable(text: str) -> set[str]:
    return {letter for letter in text if not letter.isprintable()} - {"\n"}


def sections(written: str) -> list[tuple[str, str]]:
    """Each command's arguments, and what it wrote."""
    parts = re.split(r"^== (\[.*\])$", written, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


async def test_no_command_lets_a_broker_s_words_control_a_terminal() -> None:
    broker = HostileBroker()
    await broker.start()
    try:
        for code in (0, INVALID_REQUEST):
            broker.code = code
            wanted = [*COMMANDS, *([*command, "--json"] for command in COMMANDS if "--csv" not in command)]
            environment = {"SORDINI_BOOTSTRAP": f"127.0.0.1:{broker.port}"}
            written = await asyncio.to_thread(
                written_to_a_terminal, [sys.executable, str(PROGRAM), json.dumps(wanted)], environment
            )
            assert unprintable(written) == set()
            assert "Traceback" not in written
            found = sections(written)
            assert len(found) == len(wanted)
            assert [name for name, part in found if re.search(r"^sordini is well", part, re.MULTILINE)] == []
            forged = {name for name, part in found if FORGED in part}
            assert len(forged) >= (30 if code == 0 else 35), [name for name, _ in found if name not in forged]
    finally:
        await broker.close()


def test_records_are_escaped_on_a_terminal_and_are_themselves_with_raw_and_in_a_pipe(
    sordini_broker: SordiniProcess,
) -> None:
    topic, key, value = "hostile-terminal", b"k\x1b[2J\xff", f"{HOSTILE} end".encode()
    with Client("127.0.0.1", sordini_broker.port) as client:
        assert client.create(topic) == [0]
        (row,) = client.produce(topic, [a_batch([Record(0, 1_700_000_000_000, key, value)])])
        assert row.error_code == 0
    segment = str(sordini_broker.data_directory / f"{topic}-0" / "00000000000000000000.log")
    read = ["consume", topic, "--from", "beginning", "-n", "1", "--format", "key-value", "-k", "|"]
    dump = ["log", "dump", segment, "--print-data-log"]
    escaped = [
        read,
        [*read[:6], "--json"],
        dump,
        [*dump, "--format", "classic"],
        [*dump, "--format", "people"],
        [*dump, "--json"],
    ]
    raw = [[*read, "--raw"], [*dump, "--raw"]]
    environment = {"SORDINI_BOOTSTRAP": sordini_broker.bootstrap}
    written = written_to_a_terminal([sys.executable, str(PROGRAM), json.dumps([*escaped, *raw])], environment)
    found = [part for _, part in sections(written)]
    assert [part for part in found if "\n-- 0\n" not in part] == []
    assert len(found) == len(escaped) + len(raw)
    assert unprintable("".join(found[: len(escaped)])) == set()
    assert "k\\x1b[2J\\xff|a\\x1b]0;b" in found[0]
    assert [part for part in found[: len(escaped)] if "forged\\nsordini is well end" not in part] == []
    assert [part for part in found[len(escaped) :] if f"{HOSTILE} end" not in part] == []

    piped = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps([read])],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert key + b"|" + value + b"\n" in piped.stdout
