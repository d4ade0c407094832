"""A broker in the background: how it is started, found, signalled, and stopped."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.served_apis import APIS
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Ended = subprocess.CompletedProcess[str]

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
READY = re.compile(r"sordini is ready: broker \d+ of cluster [\w-]{22} listens on \S+ \(\d+\.\d\d s\)\n")


def run(*arguments: str, cwd: Path, **options: object) -> Ended:
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=30, check=False, cwd=cwd, **options
    )  # type: ignore[call-overload, no-any-return]


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for by its parent does not."""
    try:
        return not re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return False


def standard_file(pid: int, number: int) -> Path:
    return Path(f"/proc/{pid}/fd/{number}").readlink()


class Daemon:
    """What `sordini serve --daemon` has started in a directory, with paths relative to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.overrides = ["--override", f"listeners=PLAINTEXT://127.0.0.1:{self.port}", "--override", "log.dirs=data"]

    def start(self, *options: str) -> Ended:
        return run("serve", "--daemon", *self.overrides, *options, cwd=self.directory)

    def stop(self, *options: str) -> Ended:
        return run("stop", *options, cwd=self.directory)

    @property
    def pid(self) -> int:
        return int((self.directory / "data" / "sordini.pid").read_text())


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    if (tmp_path / "data" / "sordini.pid").exists():
        made.stop("--override", "log.dirs=data", "--timeout", "5", "--force")


def test_a_daemon_has_left_its_starter_and_serves_when_the_starter_returns(daemon: Daemon) -> None:
    started = daemon.start("--pid-file", "own.pid", "--log-file", "own.log")
    assert (started.returncode, started.stderr) == (0, "")
    assert READY.fullmatch(started.stdout), started.stdout
    with Client("127.0.0.1", daemon.port) as client:
        assert client.create("orders") == [0]
    pid = daemon.pid
    assert (daemon.directory / "own.pid").read_text() == f"{pid}\n"
    log = daemon.directory / "own.log"
    assert "ready" in log.read_text()
    # Not a session's leader, without a terminal, and nothing of its starter's is held.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    session, terminal = int(fields[3]), int(fields[4])
    assert session not in (pid, os.getsid(0))
    assert terminal == 0
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert [standard_file(pid, number) for number in (0, 1, 2)] == [Path("/dev/null"), log, log]
    stopped = daemon.stop("--pid-file", "own.pid")
    assert re.fullmatch(rf"sordini: broker process {pid} has stopped \(\d+\.\d\d s\)\n", stopped.stdout)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert not is_alive(pid)
    assert sorted(path.name for path in daemon.directory.iterdir()) == ["data", "own.log"]
    assert (daemon.directory / "data" / ".kafka_cleanshutdown").exists()
    assert not (daemon.directory / "data" / "sordini.pid").exists()
    assert log.read_text().splitlines()[-1].split()[-1] == "stopped"


@pytest.mark.slow
def test_a_daemons_cordon_is_around_a_directory_beside_its_starter(daemon: Daemon) -> None:
    started = daemon.start("--override", "log.dirs=data,spare", "--override", "cordoned.log.dirs=spare")
    assert (started.returncode, started.stderr) == (0, "")
    with Client("127.0.0.1", daemon.port) as client:
        assert client.create("orders", "bills") == [0, 0]
    held = {name: sorted(path.name for path in (daemon.directory / name).glob("*-0")) for name in ("data", "spare")}
    assert held == {"data": ["bills-0", "orders-0"], "spare": []}


def test_a_daemon_holds_nothing_that_its_starter_had_open(daemon: Daemon) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as held:
        started = subprocess.run(
            # Under two numbers: below that of the daemon's own pipe, and above it.
            ["sh", "-c", f'exec "$@" 3>/proc/self/fd/{writing}', "sh", PROGRAM, "serve", "--daemon", *daemon.overrides],
            cwd=daemon.directory,
            pass_fds=[writing],
            capture_output=True,
            check=False,
        )
        assert started.returncode == 0
        os.close(writing)
        assert select.select([held], [], [], 0)[0], "or the pipe's reader would wait as long as the daemon runs"
        assert held.read() == b""


def test_a_daemon_that_cannot_start_says_why_and_leaves_nothing_running(daemon: Daemon) -> None:
    with socket.create_server(("127.0.0.1", daemon.port)):
        started = daemon.start("--pid-file", "own.pid")
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr == (
        f"sordini: listeners: PLAINTEXT://127.0.0.1:{daemon.port}: cannot listen on 127.0.0.1 port {daemon.port}: "
        "Address already in use\n"
    )
    assert not (daemon.directory / "own.pid").exists()
    assert not (daemon.directory / "data" / "sordini.pid").exists()
    assert "cannot listen" in (daemon.directory / "data" / "sordini.log").read_text()


def test_a_wrong_configuration_or_log_file_is_reported_by_the_starting_command(daemon: Daemon) -> None:
    wrong = daemon.start("--override", "num.partitions=many")
    assert (wrong.returncode, "num.partitions" in wrong.stderr) == (2, True)
    assert list(daemon.directory.iterdir()) == []
    wrong = daemon.start("--log-file", "missing/own.log")
    assert wrong.returncode == 1
    assert wrong.stderr == f"sordini: {daemon.directory}/missing/own.log: No such file or directory\n"


@pytest.mark.slow
def test_a_second_broker_is_refused_by_either_pid_file_and_the_first_serves_on(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start("--pid-file", "own.pid")
    pid = daemon.pid
    for options in (["--override", "log.dirs=other", "--pid-file", "own.pid"], ["--override", "log.dirs=data"]):
        second = run("serve", *options, cwd=tmp_path)
        assert (second.returncode, second.stdout) == (1, "")
        assert f"is in use by another broker, process {pid}" in second.stderr
        assert "own.pid" in second.stderr or "log.dirs: data is in use" in second.stderr
    assert daemon.pid == pid
    with Client("127.0.0.1", daemon.port) as client:
        assert client.create("orders") == [0]


def test_a_daemon_shows_the_warnings_of_its_configuration_on_the_terminal(daemon: Daemon) -> None:
    started = daemon.start("--override", "log.retention.huors=1")
    assert (started.returncode, bool(READY.fullmatch(started.stdout))) == (0, True)
    (line,) = started.stderr.splitlines()
    assert re.search(r"\[warning *\] unknown configuration key +key=log\.retention\.huors", line)
    assert "unknown configuration key" in (daemon.directory / "data" / "sordini.log").read_text()


@pytest.mark.slow
def test_a_daemon_for_which_warnings_are_too_much_shows_none(daemon: Daemon) -> None:
    started = daemon.start("--override", "log.retention.huors=1", "--log-level", "error")
    assert (started.returncode, started.stderr) == (0, "")


@pytest.mark.slow
def test_a_file_that_is_no_pid_file_is_left_alone(daemon: Daemon) -> None:
    (daemon.directory / "notes.txt").write_text("dear diary")
    refused = daemon.start("--pid-file", "notes.txt")
    assert refused.returncode == 1
    assert "notes.txt is not a pid file" in refused.stderr
    assert (daemon.directory / "notes.txt").read_text() == "dear diary"


@pytest.mark.slow
def test_a_pid_file_that_was_asked_for_and_cannot_be_written_refuses_the_start(daemon: Daemon) -> None:
    refused = daemon.start("--pid-file", "missing/own.pid")
    assert refused.returncode == 1
    assert refused.stderr == f"sordini: {daemon.directory}/missing/own.pid: No such file or directory\n"


@pytest.mark.slow
def test_without_a_pid_file_in_its_log_directory_a_broker_serves_and_says_so(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path)
    (broker.data_directory / "sordini.pid").mkdir(parents=True)
    with broker, Client("127.0.0.1", broker.port) as client:
        assert client.create("orders") == [0]
        broker.wait_until(lambda: "no pid file in the log directory" in broker.output(), PATIENCE_S, "say so")
    assert broker.stop() == 0


def test_what_a_killed_broker_left_over_is_replaced(daemon: Daemon) -> None:
    daemon.start("--pid-file", "own.pid")
    first = daemon.pid
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_alive(first), "the broker is gone")
    assert daemon.stop("--pid-file", "own.pid").returncode == 3
    left = daemon.stop("--override", "log.dirs=data")
    assert (left.returncode, left.stdout) == (3, "")
    assert left.stderr == "sordini: no broker is running: data/sordini.pid was left by one that has ended\n"
    assert daemon.start("--pid-file", "own.pid").returncode == 0
    assert daemon.pid != first


def test_a_process_that_has_got_a_brokers_old_number_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as innocent:
        (tmp_path / "old.pid").write_text(f"{innocent.pid}\n")
        stopped = run("stop", "--pid-file", "old.pid", "--force", "--timeout", "0", cwd=tmp_path)
        assert stopped.returncode == 3
        assert "was left by" in stopped.stderr
        assert innocent.poll() is None
        innocent.kill()


@pytest.mark.slow
def test_stop_says_when_there_is_nothing_to_stop_or_the_question_is_wrong(tmp_path: Path) -> None:
    nothing = run("stop", cwd=tmp_path)
    assert (nothing.returncode, nothing.stderr) == (
        3,
        "sordini: no broker is running: there is no pid file data/sordini.pid\n",
    )
    assert run("stop", "--override", "num.partitions=many", cwd=tmp_path).returncode == 2
    # What refuses a start may have come into the file since: the broker is stopped all the same.
    assert run("stop", "--override", "ssl.client.auth=required", cwd=tmp_path).returncode == 3
    assert run("stop", "--pid-file", "a", "--override", "log.dirs=b", cwd=tmp_path).returncode == 2


def test_a_broker_that_does_not_stop_is_killed_only_by_force(daemon: Daemon) -> None:
    daemon.start()
    pid = daemon.pid
    os.kill(pid, signal.SIGSTOP)
    patient = daemon.stop("--override", "log.dirs=data", "--timeout", "0.1")
    assert (patient.returncode, patient.stderr) == (1, f"sordini: broker process {pid} is still running after 0.1 s\n")
    assert is_alive(pid)
    forced = daemon.stop("--override", "log.dirs=data", "--timeout", "0.1", "--force")
    assert forced.returncode == 0
    assert f"broker process {pid} was killed" in forced.stdout
    assert not is_alive(pid)


def test_sighup_reopens_the_log_file_and_does_nothing_else(daemon: Daemon) -> None:
    daemon.start("--log-file", "own.log", "--log-format", "json")
    pid, log = daemon.pid, daemon.directory / "own.log"
    log.rename(daemon.directory / "own.log.1")
    os.kill(pid, signal.SIGHUP)
    eventually(lambda: log.exists() and "reopened" in log.read_text(), "the log file is created again")
    assert "reopened" not in (daemon.directory / "own.log.1").read_text()
    assert [standard_file(pid, number) for number in (1, 2)] == [log, log]
    with Client("127.0.0.1", daemon.port) as client:
        assert client.create("orders") == [0]
    assert daemon.stop("--override", "log.dirs=data").returncode == 0
    assert '"event": "broker stopped"' in log.read_text().splitlines()[-1]


@pytest.mark.slow
def test_sighup_without_a_log_file_changes_nothing(start_sordini: Start) -> None:
    broker = start_sordini()
    os.kill(broker.pid, signal.SIGHUP)
    with Client("127.0.0.1", broker.port) as client:
        assert client.create("orders") == [0]
    assert broker.stop() == 0


def peer_that_does_not_read(broker: SordiniProcess, stack: ExitStack) -> None:
    """Fetch more than the socket buffers hold, and read none of it."""
    client = stack.enter_context(Client("127.0.0.1", broker.port))
    client.create("orders")
    for _ in range(15):
        assert client.produce("orders", [a_batch(value=bytes(300_000))])[0].error_code == 0
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    request = FetchRequest(max_bytes=50_000_000, topics=[FetchTopic(topic="orders", partitions=[partition])])
    frame = request_header(APIS[ApiKey.FETCH], 12, 1) + codecs.encode(request, 12)
    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    client.receive(4)  # The answer is under way.


def test_a_second_signal_forces_the_end_and_says_what_was_not_finished(start_sordini: Start) -> None:
    broker = start_sordini()
    with ExitStack() as stack:
        peer_that_does_not_read(broker, stack)
        os.kill(broker.pid, signal.SIGTERM)
        broker.wait_until(lambda: "broker stopping" in broker.output(), PATIENCE_S, "begin to stop")

        def is_over() -> bool:  # The second signal is one that is not with the first.
            with suppress(ProcessLookupError):
                os.kill(broker.pid, signal.SIGINT)
            return not broker.is_running

        eventually(is_over, "its end was forced")
        assert broker.wait_for_exit(PATIENCE_S) == 3
    assert broker.output().splitlines()[-1] == (
        "sordini: stop forced after a second signal, not finished: answering open requests; the next start recovers it"
    )
    broker.start()
    with Client("127.0.0.1", broker.port) as client:
        assert client.fetch("orders", offset=44)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["TERM", "INT"]
)
def test_the_two_signals_of_gnu_timeout_are_one(tmp_path: Path, number: signal.Signals) -> None:
    """It signals its child, and then the process group that both are in."""
    broker = SordiniProcess(tmp_path)
    command = ["timeout", "60", *broker.command()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as timeout:
        assert timeout.stdout is not None
        assert timeout.stdout.readline().startswith("sordini is ready")
        os.kill(timeout.pid, number)  # It passes a signal on as it sends its own at the end of the time.
        _, errors = timeout.communicate(timeout=PATIENCE_S)
    assert "forced" not in errors
    assert timeout.returncode == 0
    assert (broker.data_directory / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_a_broker_that_is_stopping_is_not_healthy(start_sordini: Start) -> None:
    port = free_port()
    broker = start_sordini({"sordini.metrics.port": port})
    with ExitStack() as stack:
        peer_that_does_not_read(broker, stack)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S) as answer:
            assert (answer.status, answer.read()) == (200, b"ok\n")
        broker.terminate()
        broker.wait_until(lambda: "broker stopping" in broker.output(), PATIENCE_S, "begin to stop")
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S)
        with refusal.value as answer:
            assert (answer.code, answer.read()) == (503, b"answering open requests\n")
    assert broker.wait_for_exit(PATIENCE_S) == 0


def test_a_peer_that_does_not_read_keeps_no_stop_from_being_clean(start_sordini: Start) -> None:
    broker = start_sordini({"sordini.shutdown.deadline.ms": 1000})
    with ExitStack() as stack:
        peer_that_does_not_read(broker, stack)
        os.kill(broker.pid, signal.SIGTERM)
        assert broker.wait_for_exit(PATIENCE_S) == 0
    assert "connections closed with unanswered requests" in broker.output()
    assert (broker.data_directory / ".kafka_cleanshutdown").exists()


HELD = """
import asyncio, signal, sys, threading
from sordini.system.clock import SystemClock
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals

async def main():
    def before_forced_exit(reason):
        print(f"forced after {reason}", flush=True)
    reactions = SignalActions(lambda: print("stop"), lambda: print("reopen"), before_forced_exit)
    SignalThread(asyncio.get_running_loop(), reactions, SystemClock(), int(sys.argv[1])).start()
    print("held", flush=True)
    threading.Event().wait()

block_signals()
asyncio.run(main())
"""


@contextmanager
def held_process(deadline_ms: int = 300) -> Iterator[subprocess.Popen[str]]:
    """A process whose loop is blocked for ever, and whose stop is forced at the deadline."""
    program = [sys.executable, "-c", HELD, str(deadline_ms)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        ([signal.SIGTERM], "forced after 300 ms (sordini.shutdown.deadline.ms)\n"),
        ([signal.SIGTERM, signal.SIGHUP], "forced after 300 ms (sordini.shutdown.deadline.ms)\n"),
        # A second one that comes with the first repeats it.
        ([signal.SIGHUP, signal.SIGINT, signal.SIGTERM], "forced after 300 ms (sordini.shutdown.deadline.ms)\n"),
    ],
)
def test_the_end_is_forced_also_while_something_holds_the_loop(signals: list[int], words: str) -> None:
    with held_process() as process:
        assert process.stdout is not None
        for number in signals:
            process.send_signal(number)
            # Two of different kinds that wait at once come in the order of their numbers, so each is taken first.
            eventually(lambda: not pending_signals(process.pid), "the signal was taken")
        assert process.wait(PATIENCE_S) == 3
        assert process.stdout.read() == words


def test_a_second_signal_that_is_not_with_the_first_forces_the_end_also_then() -> None:
    with held_process(deadline_ms=60_000) as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)

        def is_over() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        eventually(is_over, "the end was forced")
        assert process.returncode == 3
        assert process.stdout.read() == "forced after a second signal\n"


def test_reopening_the_log_again_and_again_does_not_put_the_end_off() -> None:
    with held_process() as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)

        def is_over() -> bool:
            process.send_signal(signal.SIGHUP)
            return process.poll() is not None

        eventually(is_over, "the end was forced")
        assert process.returncode == 3


def pending_signals(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"^ShdPnd:\s+([0-9a-f]+)$", status.read_text(), re.MULTILINE) if status.exists() else None
    return int(found[1], 16) if found else 0


def test_a_broker_that_may_open_few_files_says_so_and_what_to_do(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path)
    command = broker.command()
    broker.command = lambda: ["sh", "-c", 'ulimit -n 600 && exec "$@"', "sh", *command]  # type: ignore[method-assign]
    with broker:
        (warning,) = [line for line in broker.output().splitlines() if "[warning" in line]
        assert "open file limit too low" in warning
        assert "limit=600" in warning
        assert "needed=5224" in warning
        assert "LimitNOFILE" in warning
    broker.overrides |= {"sordini.open.segments.max": 64, "max.connections": 100}
    command = SordiniProcess.command(broker)
    with broker:
        assert "few files" not in broker.output()


class Manager:
    """A service manager's side of sd_notify."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(PATIENCE_S)

    def wait_for(self, fact: str) -> str:
        """The message with this line in it; others may come before."""
        while True:
            message = self.socket.recv(4096).decode()
            if fact in message.split("\n"):
                return message


@pytest.mark.parametrize("kind", ["path", pytest.param("abstract", marks=pytest.mark.slow)])
def test_the_service_manager_is_notified_that_the_broker_is_ready_alive_and_stopping(tmp_path: Path, kind: str) -> None:
    name = str(tmp_path / "notify") if kind == "path" else f"@sordini-test-{os.getpid()}"
    manager = Manager(name.replace("@", "\0"))
    broker = SordiniProcess(tmp_path / "broker")
    environment = {**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}
    broker.environment = lambda: environment  # type: ignore[method-assign]
    broker.launch()
    with manager.socket:
        ready = manager.wait_for("READY=1")
        assert re.search(rf"^STATUS=broker \d+ of cluster \S+ listens on {broker.bootstrap}$", ready, re.MULTILINE)
        assert "sordini is ready" in broker.output()
        for _ in range(3):
            manager.wait_for("WATCHDOG=1")
        broker.terminate()
        manager.wait_for("STOPPING=1")
        assert broker.wait_for_exit(PATIENCE_S) == 0


@pytest.mark.slow
def test_a_watchdog_of_another_process_and_a_missing_notify_socket_are_ignored(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path / "broker")
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "missing"), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    broker.environment = lambda: environment  # type: ignore[method-assign]
    with broker, Client("127.0.0.1", broker.port) as client:
        assert client.create("orders") == [0]
    assert broker.stop() == 0
