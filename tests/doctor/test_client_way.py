"""`sordini doctor HOST:PORT` names each planted fault, with real sockets, certificates and brokers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge import ENTRIES
from tests.doctor.planted import PLANTED, World, plant
from tests.doctor.running import PROGRAM, command_line, examined, in_mounts
from tests.support.parts import every


@pytest.mark.parametrize("name", every(4, list(PLANTED)))
def test_a_planted_fault_is_named(name: str, world: World, tmp_path: Path) -> None:
    with plant(name, world) as case:
        more = ("--write",) if case.may_write else ()
        words = command_line(tmp_path, case.bootstrap, case.properties, "--timeout", "2", *more)
        done = examined(words)
    is_note = ENTRIES[case.fault].is_note
    assert done.wrong == ([] if is_note else [case.fault.value]), done.text
    assert (case.fault.value in done.notes) == is_note, done.text
    assert done.status == (0 if is_note else 1)


@pytest.mark.parametrize(("listener", "protocol"), [("GOOD", "SSL"), ("SECURED", "SASL_SSL")])
def test_a_listener_with_tls_is_asked_whether_it_has_logins(
    listener: str, protocol: str, world: World, tmp_path: Path
) -> None:
    done = examined(command_line(tmp_path, world.many.at(listener)))
    assert done.wrong == [Fault.TLS_SPOKEN_PLAIN.value], done.text
    lines = done.finding(Fault.TLS_SPOKEN_PLAIN.value)["remedy"]["lines"]
    assert lines[0] == f"security.protocol={protocol}"


def test_the_first_of_several_bootstrap_addresses_that_answers_is_used_and_the_others_are_named(
    world: World, tmp_path: Path
) -> None:
    refused = f"127.0.0.1:{world.many.closed}"
    done = examined(command_line(tmp_path, f"{refused},{world.many.at('PLAINTEXT', '127.0.0.1')}"))
    assert done.wrong == [Fault.CONNECTION_REFUSED.value], done.text
    assert done.finding(Fault.CONNECTION_REFUSED.value)["at"] == [refused]
    assert {"step": "controller", "ok": True, "result": "broker 1001"} in done.report["checks"]


def test_a_name_with_an_address_that_refuses_is_a_note(world: World, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.2 two-addresses\n127.0.0.1 two-addresses localhost\n")
    prefix = in_mounts(f"mount --bind {hosts} /etc/hosts")
    done = examined(command_line(tmp_path, world.many.at("PLAINTEXT", "two-addresses")), prefix)
    assert (done.wrong, done.notes) == ([], [Fault.SOME_ADDRESSES_FAIL.value]), done.text
    assert "127.0.0.2: connection refused" in done.finding(Fault.SOME_ADDRESSES_FAIL.value)["paragraph"]


def test_without_write_nothing_is_created(world: World, tmp_path: Path) -> None:
    plaintext = world.many.at("PLAINTEXT", "127.0.0.1")

    def topics() -> str:
        words = [PROGRAM, "topics", "list", "--internal", "--bootstrap", plaintext]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout

    before = topics()
    assert examined(command_line(tmp_path, plaintext)).status == 0
    assert topics() == before
    assert examined(command_line(tmp_path, plaintext, {}, "--write")).status == 0
    assert "sordini-doctor" not in topics()
