"""What commands do where nothing is as it should be around them: files, directories, stores, bytes and Ctrl-C.

How they bear a broker that does wrong is in test_command_faults.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sordini.cli.__main__ import main
from sordini.cli.commands.broker.ping import NOT_SERVING
from sordini.storage.disk import SystemDisk
from tests.outside.ports import free_port
from tests.process.faulty import Fault, FaultyBroker
from tests.process.test_command_faults import IS_LONG, TABLE, program
from tests.support.hostile_broker import HostileBroker

JOB = """\
name: views
source: {{topics: [views], bootstrap: "{bootstrap}", options: {{kafka.request.timeout.ms: 300}}}}
decode: {{mode: json, schema: {{fields: {{page: string!}}}}}}
sink: {{location: {folder}/tables/views}}
"""


def run(*words: str, bootstrap: str = "127.0.0.1:1") -> Result:
    return CliRunner().invoke(main, words, env={"SORDINI_BOOTSTRAP": bootstrap}, prog_name="sordini")


def assert_reported(done: Result, codes: set[int], where: object) -> None:
    """It ended with one of the codes, in words."""
    context = (where, done.exit_code, done.stderr[-500:], repr(done.exception))
    assert isinstance(done.exception, SystemExit | None), context
    assert done.exit_code in codes, context
    assert "Traceback" not in done.stderr, context
    assert done.exit_code == 0 or done.stderr.strip(), context


FILES: tuple[tuple[str, int], ...] = (
    ("stop --pid-file {none}/x", 3),
    ("stop --pid-file {text}", 3),
    ("stop --override log.dirs={none}", 3),
    ("stop --override log.dirs={text}", 1),
    ("stop {none}.properties", 2),
    ("topics describe-pack {none}", 1),
    ("topics describe-pack {empty}", 1),
    ("topics describe-pack {text}", 1),
    ("topics describe-pack {torn} --records", 1),
    ("log dump {none}", 1),
    ("log dump {empty}", 1),
    ("log dump {text}", 1),
    ("log dump {torn}", 1),
    ("log stats {none}", 1),
    ("log stats {empty}", 0),
    ("log stats {text}", 1),
    ("log verify {none}", 1),
    ("log verify {text}", 1),
    ("log verify {empty}", 0),
    ("cluster move --from embedded:{none} --to embedded:{empty}", 1),
    ("cluster move --from embedded:{empty} --to embedded:{none}", 1),
    ("cluster move --from embedded:{text} --to embedded:{none}", 1),
    ("cluster move --from zookeeper:127.0.0.1:1/x --to embedded:{none} --timeout 1", 1),
    ("pipeline check {none} --no-spark", 1),
    ("pipeline check {text} --no-spark", 1),
    ("pipeline status {none}", 1),
    ("pipeline schema none", 1),
)
"""What commands are given that is not there, or is not what it should be, and how each ends."""
STARTS: tuple[tuple[str, int], ...] = (
    ("dev --directory /proc/none --port 0 --brokers 1", 1),
    ("serve --override log.dirs=/proc/none --override listeners=PLAINTEXT://127.0.0.1:0", 1),
    ("dev --directory {text}/x --port 0 --brokers 1", 1),
    ("dev --directory {none} --override log.dirs=x", 2),
    ("dev --directory {none} --host 203.0.113.1 --port 0 --brokers 1", 1),
)
"""The same for brokers, as processes of their own."""


def filled(line: str, folder: Path) -> list[str]:
    """The words of a line, with paths to what is there."""
    names = {name: folder / name for name in ("none", "empty", "text")}
    return [word.format(**names, torn=folder / "00000000000000000000.log") for word in line.split()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("what is this\n")
    (tmp_path / "00000000000000000000.log").write_bytes(bytes(range(256)) * 3)
    return tmp_path


@pytest.mark.parametrize(("line", "code"), FILES)
def test_a_missing_file_or_one_of_another_kind_is_reported_in_words(line: str, code: int, folder: Path) -> None:
    assert_reported(run(*filled(line, folder)), {code}, line)


@pytest.mark.parametrize(("line", "code"), STARTS if IS_LONG else STARTS[:2])
def test_a_broker_that_cannot_start_says_why(line: str, code: int, folder: Path) -> None:
    done = program(*filled(line, folder), bootstrap="127.0.0.1:1")
    out, errors = done.communicate(timeout=60)
    assert (done.returncode, "Traceback" in out + errors, bool(errors.strip())) == (code, False, True), errors


def test_a_directory_that_cannot_be_made_below_a_parent_that_is_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SystemDisk().make_directory("/proc/none/below")
    SystemDisk().make_directory(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("fault", [Fault.SILENCE, Fault.HANG_UP, Fault.GARBAGE])
def test_a_pipeline_command_that_asks_a_broker_in_vain_says_so(fault: Fault, tmp_path: Path) -> None:
    with FakeCluster(fault) as bootstrap:
        (tmp_path / "job.yaml").write_text(JOB.format(bootstrap=bootstrap, folder=tmp_path))
        assert_reported(run("pipeline", "status", str(tmp_path / "job.yaml")), {1}, fault)


def test_a_pipeline_command_without_a_broker_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(bootstrap=f"127.0.0.1:{free_port()}", folder=tmp_path))
    done = run("pipeline", "status", str(tmp_path / "job.yaml"))
    assert_reported(done, {1}, "none")
    assert_reported(run("pipeline", "check", str(tmp_path / "job.yaml"), "--no-spark"), {0}, "check")


class FakeCluster:
    """A port at which a connection is accepted and no request is answered as it should be."""

    def __init__(self, fault: Fault) -> None:
        self._proxy = FaultyBroker()
        self._hostile = Hostile()
        self._fault = fault

    def __enter__(self) -> str:
        self._proxy.behind = self._hostile.broker.port
        self._proxy.plan(self._fault)
        return self._proxy.bootstrap

    def __exit__(self, *_: object) -> None:
        self._proxy.close()
        self._hostile.close()


class Hostile:
    """A hostile broker on a loop and a thread of its own, so that commands run here."""

    def __init__(self) -> None:
        self.broker = HostileBroker()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.broker.start(), self._loop).result()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _closed(self) -> None:
        await self.broker.close()
        for _ in range(10):  # Connections that are being closed take some rounds of the loop.
            await asyncio.sleep(0)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    broker = Hostile()
    yield broker
    broker.close()


@pytest.mark.parametrize(("text", "rows"), [("b", 1), ("a", 0), ("a", 2)])
def test_an_answer_that_is_about_something_else_or_nothing_or_twice_ends_a_command_in_words(
    hostile: Hostile, tmp_path: Path, text: str, rows: int
) -> None:
    hostile.broker.text, hostile.broker.rows = text, rows
    (tmp_path / "lines").write_text("")
    move = {"topic": "a", "partition": 0, "replicas": [0]}
    (tmp_path / "plan").write_text(json.dumps({"version": 1, "partitions": [move]}))
    place = {"bootstrap": hostile.bootstrap}
    both = {"name": "m", "target": {"alias": "central", **place}, "sources": {"east": place}}
    (tmp_path / "mirror.json").write_text(json.dumps(both))
    names = {
        "topic": "a",
        "group": "a",
        "consumers": "a",
        "workers": "a",
        "producer": "a",
        "fresh": "a",
        "lines": tmp_path / "lines",
        "plan": tmp_path / "plan",
        "pack": tmp_path / "records.pack",
        "mirror": tmp_path / "mirror.json",
    }
    for line in TABLE:
        words = [word.format(**names) for word in line.split()]
        if words[0] in ("consume", "produce") and text == "a" and rows:
            continue  # Reading on is aiokafka's: test_terminal.
        more = [] if words[0] == "consume" else ["--timeout", "0.3"]
        codes = {0, 1, NOT_SERVING} if "--serving" in words else {0, 1}
        assert_reported(run(*words, *more, bootstrap=hostile.bootstrap), codes, (line, text, rows))


def test_a_topic_that_the_answer_does_not_name_is_one_sentence(hostile: Hostile) -> None:
    done = run("consume", "a b", "--exit-at-end", bootstrap=hostile.bootstrap)
    assert (done.exit_code, done.stderr) == (1, "sordini: the broker's answer says nothing of topic 'a b'\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["topics", "describe", "\udcff"], 2, "'\\udcff' is not UTF-8"),
        (["consume", "\udcff"], 2, "'\\udcff' is not UTF-8"),
        (["groups", "describe", "\udcff"], 2, "'\\udcff' is not UTF-8"),
        (["configs", "set", "--topic", "a", "a=\udcff"], 2, "'\\udcff' is not UTF-8"),
        (["topics", "list", "-b", "a..b:1"], 1, "'a..b' is no host name"),
        (["ping", "-b", "\udcff:1"], 1, "'\\udcff' is no host name"),
    ],
)
def test_bytes_that_are_no_text_and_names_that_are_no_hosts_are_reported(
    hostile: Hostile, words: list[str], code: int, said: str
) -> None:
    done = run(*words, bootstrap=hostile.bootstrap)
    assert_reported(done, {code}, words)
    assert said in done.stderr


INTERRUPTING = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[0]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = sys.argv[1:]
from sordini.cli.__main__ import main
try:
    main()
finally:
    if sys.argv[0] == "end":
        os.kill(os.getpid(), signal.SIGINT)
"""
"""A program that presses Ctrl-C when a module is first imported, or when the command has ended."""


@pytest.mark.parametrize(
    "stage",
    ["importlib", "click", "sordini.cli.commands.topics.topics", "asyncio", "sordini.admin.cluster_client", "end"],
)
def test_ctrl_c_at_any_stage_of_the_start_and_after_the_end_says_nothing(stage: str) -> None:
    words = [sys.executable, "-c", INTERRUPTING, stage, "topics", "list", "-b", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    said = "connection refused" if stage == "end" else ""
    assert done.returncode == 130, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == len(said.splitlines()), done.stderr


def test_ctrl_c_ends_a_development_cluster_in_order(tmp_path: Path) -> None:
    process = program("dev", "--brokers", "1", "--port", "0", "--directory", str(tmp_path / "dev"), bootstrap="-")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.strip()) == (0, "")


IGNORING = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from sordini.cli import interrupts
interrupts.exit_on_interrupt()
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def test_ctrl_c_stays_ignored_where_the_shell_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n", done.stderr
