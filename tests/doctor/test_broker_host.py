"""`sordini doctor --broker` names each planted fault of a machine and a configuration, and changes nothing."""

from __future__ import annotations

import os
import socket
import sysconfig
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.doctor.running import PROGRAM, Examined, as_root, examined, in_mounts, on_fuse, where_the_clock_call
from tests.outside.needs import need
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.certificates import Authority


class Host:
    """A directory for a broker, and the command that examines it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.data.mkdir()
        self.port = free_port()
        self.settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.data,
        }

    def examine(self, more: Mapping[str, object] = {}, prefix: tuple[str, ...] = ()) -> Examined:
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in (self.settings | dict(more)).items()))
        return examined([PROGRAM, "doctor", "--broker", str(file), "--timeout", "2"], prefix)

    def expect(self, fault: str, more: Mapping[str, object] = {}, prefix: tuple[str, ...] = ()) -> Examined:
        """Exactly this is wrong."""
        done = self.examine(more, prefix)
        assert done.wrong == [fault], done.text
        assert done.status == 1
        return done

    def expect_note(self, fault: str, more: Mapping[str, object] = {}, prefix: tuple[str, ...] = ()) -> Examined:
        done = self.examine(more, prefix)
        assert fault in done.notes, done.text
        assert (done.wrong, done.status) == ([], 0), done.text
        return done


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def result_of(done: Examined, step: str) -> str:
    """Of a step that is all right."""
    result: str = next(check["result"] for check in done.report["checks"] if check["step"] == step and check["ok"])
    return result


def files_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and its time of change."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in [directory, *directory.rglob("*")]
        if path.name not in ("server.properties", directory.name)
    }


def test_a_machine_without_a_fault_is_well_and_nothing_is_changed(host: Host) -> None:
    (host.data / "orders-0").mkdir()
    (host.data / "orders-0" / "00000000000000000000.log").write_bytes(b"")
    before = files_of(host.directory)
    done = host.examine()
    assert (done.wrong, done.status) == ([], 0), done.text
    assert files_of(host.directory) == before


def test_what_another_system_does_not_know_is_left_out(host: Host) -> None:
    done = host.examine(prefix=("env", "SORDINI_PORTABLE=1"))
    assert (done.wrong, done.status) == ([], 0), done.text
    left_out = {check["step"] for check in done.report["checks"] if check["ok"] is None}
    assert left_out == {"memory", "clock"}


def test_a_directory_that_does_not_exist_is_not_made(host: Host) -> None:
    done = host.examine({"log.dirs": host.directory / "none" / "below"})
    assert (done.wrong, done.status) == ([], 0), done.text
    assert not (host.directory / "none").exists()


def test_a_value_that_is_not_allowed_is_named(host: Host) -> None:
    done = host.expect("configuration-refused", {"num.partitions": "many"})
    assert done.finding("configuration-refused")["remedy"]["lines"] == ["num.partitions=..."]


def test_an_unknown_key_is_named_with_the_one_that_was_perhaps_meant(host: Host) -> None:
    done = host.expect_note("keys-unknown", {"log.retention.hour": 4})
    assert done.finding("keys-unknown")["remedy"]["lines"] == ["log.retention.hours=..."]


def test_a_key_without_effect_is_named(host: Host) -> None:
    done = host.expect_note("keys-ignored", {"offsets.commit.required.acks": -1})
    assert "offsets.commit.required.acks" in done.finding("keys-ignored")["paragraph"]


def test_a_low_limit_of_open_files_is_named(host: Host) -> None:
    done = host.expect("file-limit-low", prefix=("prlimit", "--nofile=256:256"))
    assert "256" in done.finding("file-limit-low")["paragraph"]


def test_a_disk_without_room_for_two_segments_is_named(host: Host) -> None:
    prefix = in_mounts(f"mount -t tmpfs -o size=8m none {host.data}")
    done = host.expect("disk-nearly-full", {"log.segment.bytes": 16 << 20}, prefix)
    assert "disk-in-memory" in done.notes


def test_a_read_only_disk_is_named(host: Host) -> None:
    host.expect("disk-read-only", prefix=in_mounts(f"mount -t tmpfs -o ro none {host.data}"))


def test_a_disk_in_memory_is_noted(host: Host) -> None:
    prefix = in_mounts(f"mount -t tmpfs -o size=80g none {host.data}")
    host.expect_note("disk-in-memory", {"log.segment.bytes": 1 << 20}, prefix)


@pytest.mark.parametrize("kind", ["fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse"])
def test_a_network_file_system_is_noted(host: Host, kind: str) -> None:
    done = host.expect_note("disk-over-network", {"log.segment.bytes": 1 << 20}, on_fuse(host.data, kind))
    assert f"({kind})" in done.finding("disk-over-network")["paragraph"]


def test_a_file_system_that_a_process_of_this_machine_serves_is_no_network_file_system(host: Host) -> None:
    done = host.examine({"log.segment.bytes": 1 << 20}, on_fuse(host.data, "fuse.encfs"))
    assert (done.wrong, "disk-over-network" in done.notes) == ([], False), done.text
    assert result_of(done, "directory").endswith(", fuse.encfs")


def test_a_directory_of_another_user_is_named(host: Host) -> None:
    host.data.chmod(0o500)
    prefix = ("env",)
    if os.geteuid() == 0:
        os.chown(host.data, 65534, 65534)
        prefix = as_root("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
    host.expect("log-directory-not-writable", prefix=prefix)


def test_a_file_in_the_place_of_a_log_directory_is_named(host: Host) -> None:
    file = host.directory / "file"
    file.write_text("")
    host.expect("log-directory-unusable", {"log.dirs": file})


def test_a_directory_of_kraft_mode_is_named(host: Host) -> None:
    (host.data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    host.expect("log-directory-unusable")


def test_the_data_of_another_broker_is_named(host: Host) -> None:
    (host.data / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    done = host.expect("broker-id-differs-from-disk", {"broker.id": 3})
    assert done.finding("broker-id-differs-from-disk")["remedy"]["lines"] == ["broker.id=7"]


def test_a_port_that_another_process_has_is_named_with_that_process(host: Host) -> None:
    with socket.create_server(("127.0.0.1", host.port)):
        done = host.expect("port-in-use")
    assert f"process {os.getpid()} " in done.finding("port-in-use")["paragraph"]


def test_a_broker_that_runs_already_is_noted_and_its_port_is_no_fault(
    host: Host, start_sordini: Callable[..., SordiniProcess]
) -> None:
    broker = start_sordini()
    more = {"listeners": f"PLAINTEXT://{broker.bootstrap}", "log.dirs": broker.data_directory}
    done = host.expect_note("log-directory-in-use", more)
    assert f"process {broker.pid}" in done.finding("log-directory-in-use")["paragraph"]


def test_an_address_of_another_machine_is_named(host: Host) -> None:
    host.expect("listener-address-not-local", {"listeners": f"PLAINTEXT://192.0.2.77:{host.port}"})


def test_a_listener_whose_name_does_not_resolve_is_named(host: Host) -> None:
    host.expect("listener-address-not-local", {"listeners": f"PLAINTEXT://broker-1.invalid:{host.port}"})


def test_a_port_that_needs_privileges_is_named(host: Host) -> None:
    prefix = ("env",)
    if os.geteuid() == 0:
        prefix = as_root("setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-all")
    start = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    need(start.exists() and int(start.read_text()) > 700, "a privileged port", "a kernel that keeps ports below 1024")
    host.expect("port-needs-privileges", {"listeners": "PLAINTEXT://127.0.0.1:700"}, prefix)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def secured(host: Host, *inline: Mapping[str, str]) -> dict[str, object]:
    more: dict[str, object] = {
        "listeners": f"SSL://127.0.0.1:{host.port}",
        "security.inter.broker.protocol": "SSL",
    }
    for settings in inline:
        more |= settings
    return more


def test_a_key_of_another_certificate_is_named(host: Host, authority: Authority) -> None:
    mixed = authority.issue("one").inline() | {
        key: value for key, value in authority.issue("two").inline().items() if key.endswith("keystore.key")
    }
    host.expect("certificate-store-unusable", secured(host, mixed, authority.inline()))


def test_a_wrong_password_of_a_store_is_named(host: Host, authority: Authority) -> None:
    file = authority.issue("one").pkcs12_file(host.directory / "keys.p12")
    keys = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(file), "ssl.keystore.password": "wrong"}
    host.expect("certificate-store-unusable", secured(host, keys, authority.inline()))


def test_a_certificate_that_has_expired_is_named(host: Host, authority: Authority) -> None:
    issued = authority.issue("one", days=-3).inline()
    host.expect("own-certificate-expired", secured(host, issued, authority.inline()))


def test_a_certificate_that_expires_soon_is_noted(host: Host, authority: Authority) -> None:
    issued = authority.issue("one", days=5).inline()
    host.expect_note("own-certificate-expires-soon", secured(host, issued, authority.inline()))


def test_a_certificate_without_the_advertised_name_is_named(host: Host, authority: Authority) -> None:
    more = secured(host, authority.issue("one").inline(), authority.inline())
    more["advertised.listeners"] = f"SSL://broker-1.example:{host.port}"
    done = host.expect("own-certificate-lacks-advertised-name", more)
    assert done.finding("own-certificate-lacks-advertised-name")["remedy"]["lines"] == [
        "subjectAltName=DNS:broker-1.example"
    ]


def test_a_zookeeper_that_does_not_answer_is_named(host: Host) -> None:
    host.expect("zookeeper-unreachable", {"zookeeper.connect": f"127.0.0.1:{free_port()}/kafka"})


@pytest.fixture
def cluster(zookeeper: str, start_sordini: Callable[..., SordiniProcess], tmp_path: Path) -> SordiniProcess:
    """A broker that has stopped, and whose cluster is in ZooKeeper."""
    broker = start_sordini({"zookeeper.connect": f"{zookeeper}/{tmp_path.name}"})
    broker.stop()
    return broker


def test_a_chroot_that_is_misspelt_is_named(host: Host, cluster: SordiniProcess, zookeeper: str) -> None:
    more = {"log.dirs": cluster.data_directory, "zookeeper.connect": f"{zookeeper}/kafak"}
    host.expect("zookeeper-chroot-missing", more)
    right = {"log.dirs": cluster.data_directory, "zookeeper.connect": cluster.overrides["zookeeper.connect"]}
    assert host.examine(right).wrong == []


def test_the_tree_of_another_cluster_is_named(host: Host, cluster: SordiniProcess) -> None:
    (host.data / "meta.properties").write_text("version=0\nbroker.id=1001\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    host.expect("zookeeper-has-another-cluster", {"zookeeper.connect": cluster.overrides["zookeeper.connect"]})


def test_files_of_the_future_are_named(host: Host) -> None:
    file = host.data / "orders-0" / "00000000000000000000.log"
    file.parent.mkdir()
    file.write_bytes(b"")
    future_s = time.time() + 7200
    os.utime(file, (future_s, future_s))
    host.expect("clock-behind-data")


def test_memory_that_is_too_little_for_requests_is_named(host: Host) -> None:
    host.expect("memory-low", {"queued.max.request.bytes": 1 << 50})


def test_an_interpreter_without_uvloop_is_noted(host: Host) -> None:
    (host.directory / "sitecustomize.py").write_text("import sys\nsys.modules['uvloop'] = None\n")
    host.expect_note("uvloop-missing", prefix=("env", f"PYTHONPATH={host.directory}"))


def built_as(host: Host, arguments: str) -> tuple[str, ...]:
    """Words before the command: the interpreter reports that it was built with these arguments, and no flags."""
    built = {key: value for key, value in sysconfig.get_config_vars().items() if "CFLAGS" not in key}
    built |= {"CONFIG_ARGS": arguments}
    (host.directory / "_sysconfigdata_planted.py").write_text(f"build_time_vars = {built!r}\n")
    return ("env", f"PYTHONPATH={host.directory}", "_PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata_planted")


def test_an_interpreter_that_was_built_without_optimisation_is_noted(host: Host) -> None:
    done = host.expect_note("interpreter-not-optimised", prefix=built_as(host, "'--disable-optimizations'"))
    assert "built without profile-guided" in done.finding("interpreter-not-optimised")["paragraph"]


def test_an_optimised_interpreter_is_well(host: Host) -> None:
    done = host.examine(prefix=built_as(host, "'--enable-optimizations'"))
    assert result_of(done, "interpreter").startswith("Python 3.")
    assert "interpreter-not-optimised" not in done.notes


def test_a_clock_that_no_time_service_keeps_is_noted(host: Host) -> None:
    host.expect_note("clock-not-synchronised", prefix=where_the_clock_call("retval=5"))


def test_a_clock_that_a_time_service_keeps_is_well(host: Host) -> None:
    done = host.examine(prefix=where_the_clock_call("retval=0"))
    assert result_of(done, "clock") == "synchronised by a time service"
    assert "clock-not-synchronised" not in done.notes


def test_a_system_that_does_not_say_whether_the_clock_is_kept_is_no_fault(host: Host) -> None:
    done = host.examine(prefix=where_the_clock_call("error=EPERM"))
    assert (done.wrong, "clock-not-synchronised" in done.notes) == ([], False), done.text
    assert {"step": "clock", "ok": None} in [{key: one[key] for key in ("step", "ok")} for one in done.report["checks"]]
