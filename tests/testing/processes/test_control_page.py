"""The examples of docs/control.md, and the compose file, as they are written there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.outside import has_go
from tests.outside.needs import client_jars, need, need_java, need_program
from tests.outside.ports import free_port
from tests.outside.processes import DevProcess
from tests.outside.versions import APACHE_KAFKA, FRANZ_GO, GO, go_module
from tests.process.image import environment
from tests.support.group_consumer import joined, poll_until

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "control.md"
COMPOSE = ROOT / "examples" / "control" / "compose.yml"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def ask(control: str, method: str, path: str) -> Any:
    connection = HTTPConnection(control, timeout=60)
    try:
        connection.request(method, path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_the_commands_of_curl_do_what_the_page_says(dev: DevProcess) -> None:
    need_program("curl", "curl")
    script = next(one for one in blocks("sh") if one.count("curl -s") > 5)
    script = script.replace("localhost:9080", dev.control).replace("curl -s", "curl -sS --fail-with-body")
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = [json.loads(line) for line in done.stdout.splitlines()]
    topic, fault, same, undone, requests, led, killed, started, clock, brokers = found
    assert topic == {"name": "orders"}
    assert (fault["id"], fault["text"]) == (1, "Produce of topic orders fails with NOT_ENOUGH_REPLICAS")
    assert (same["in_force"], undone["in_force"]) == (True, False)
    assert requests == {"requests": [], "more": False}
    assert led["in_sync"] == [1, 2, 3]
    assert (killed["running"], started["running"]) == (False, True)
    assert clock["now_ms"] > 0
    assert [broker["running"] for broker in brokers] == [True] * 3


def test_the_commands_about_groups_do_what_the_page_says(dev: DevProcess) -> None:
    need_program("curl", "curl")
    script = next(one for one in blocks("sh") if "/groups/shop/fence" in one)
    script = script.replace("localhost:9080", dev.control).replace("curl -s", "curl -sS --fail-with-body")
    servers = ask(dev.control, "GET", "/")["bootstrap_servers"]
    orders = ask(dev.control, "POST", "/topics")["name"]
    with joined(servers, "shop", orders, **{"group.instance.id": "till-1"}) as member:
        poll_until([member], lambda: member.partitions == [0])
        done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    group, fenced, held, clock, undone = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["instance_id"] for row in group["members"]] == ["till-1"]
    assert [fault["member_id"] for fault in fenced["faults"]] == [group["members"][0]["id"]]
    assert [fault["before"] for fault in held["faults"]] == [True, True]
    assert clock["now_ms"] > 0
    assert [fault["in_force"] for fault in undone] == [False] * 3


def test_the_program_in_java_runs_as_it_is_written(dev: DevProcess, tmp_path: Path) -> None:
    jars = client_jars(APACHE_KAFKA)
    (tmp_path / "OrdersTest.java").write_text(blocks("java")[0].replace("localhost:9080", dev.control))
    class_path = os.pathsep.join(map(str, jars))
    command = [need_java(), "-XX:TieredStopAtLevel=1", "-cp", class_path, "OrdersTest.java"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the order was sent again\n")
    assert ask(dev.control, "GET", "/faults") == []


def test_the_test_in_go_passes_as_it_is_written(dev: DevProcess, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None or not has_go():
        pytest.skip(f"there is no Go {GO} or newer")
    (tmp_path / "orders_test.go").write_text(blocks("go")[0].replace("localhost:9080", dev.control))
    (tmp_path / "go.mod").write_text(go_module())
    offline = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GONOSUMDB": "*", "GONOSUMCHECK": "1"}
    offline |= {"GOSUMDB": "off", "GOTOOLCHAIN": "local"}
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    module = Path(cache) / "github.com" / "twmb" / f"franz-go@{FRANZ_GO}"
    need(module.is_dir(), f"franz-go {FRANZ_GO}", "`python3 scripts/outside.py franz-go` fetches it")
    command = [go, "test", "-count=1", "-v", "-timeout=60s", "."]
    done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestAnOrderIsSentAgain" in done.stdout


def test_the_command_of_the_compose_file_serves_clients_at_the_published_ports(tmp_path: Path) -> None:
    service = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["kafka"]
    published = [mapping.split(":") for mapping in service["ports"]]
    assert published == [["127.0.0.1", port, port] for port in ("9092", "9093", "9094", "9080")]
    first, control = free_port(), free_port()
    options = [
        word.replace("/var/lib/sordini", str(tmp_path)).replace(":9080", f":{control}") for word in service["command"]
    ]
    assert options.pop(0) == "dev"
    given = {**environment(), **service["environment"]}
    with InContainer(tmp_path / "run", given, *options, f"--port={first}") as dev:
        assert dev.bootstrap == ",".join(f"localhost:{first + number}" for number in range(3))
        overview = ask(f"127.0.0.1:{control}", "GET", "/")
        assert overview["bootstrap_servers"] == dev.bootstrap
        program = str(Path(dev.command()[0]))
        check = [program, *service["healthcheck"]["test"][2:], "-b", f"localhost:{first}"]
        assert subprocess.run(check, capture_output=True, timeout=60, check=False).returncode == 0


class InContainer(DevProcess):
    """`sordini dev` with the environment of the image."""

    def __init__(self, directory: Path, given: dict[str, str], *options: str) -> None:
        super().__init__(directory, *options)
        self._given = given

    def command(self) -> list[str]:
        program, *_ = super().command()
        return [program, "dev", *self._options]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._given}
