"""Stores are replaced while the broker runs, and those that cannot be used leave the former in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.listener_tls import DAY_MS, TlsListeners
from tests.support.certificates import Authority, Issued
from tests.support.fake_ports import ListLog, StillClock

AUTHORITY = Authority()
LISTENERS = {
    "listeners": "PLAINTEXT://:9092,SSL://:9093",
    "listener.name.ssl.ssl.keystore.type": "PEM",
}
LOCATION = "listener.name.ssl.ssl.keystore.location"


class Bench:
    """The TLS listeners of one configuration, on files of the test."""

    def __init__(self, directory: Path, **extra: str) -> None:
        self.file = directory / "key.pem"
        self.clock, self.log = StillClock(), ListLog()
        self.clock.ms = 0
        entries = LISTENERS | {LOCATION: str(self.file)} | {key.replace("__", "."): text for key, text in extra.items()}
        self.dynamic = DynamicConfig(build_config(entries)[0])
        self.reads = 0

    def write(self, issued: Issued) -> None:
        issued.pem_file(self.file)

    def read(self, path: str) -> bytes:
        self.reads += 1
        return Path(path).read_bytes()

    def open(self) -> TlsListeners:
        def stamp(path: str) -> object:
            return (Path(path).stat().st_mtime_ns, Path(path).stat().st_size) if Path(path).exists() else None

        self.tls = TlsListeners(self.config, self.read, stamp, self.clock, self.log)
        self.dynamic.on_check(self.tls.check)
        self.dynamic.on_layer(self.tls.refresh)
        return self.tls

    @property
    def config(self) -> Config:
        return self.dynamic.config

    @property
    def serial(self) -> int:
        serial: int = self.tls.by_name["SSL"].contexts.certificate.serial_number
        return serial


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_file_that_changes_is_read_again_and_one_that_does_not_is_left(bench: Bench) -> None:
    bench.write(AUTHORITY.issue("broker"))
    tls = bench.open()
    for _ in range(3):
        await tls.poll(bench.config)
    assert bench.reads == 1
    newer = AUTHORITY.issue("broker")
    bench.write(newer)
    former = tls.by_name["SSL"].contexts.server
    await tls.poll(bench.config)
    assert bench.serial == newer.certificate.serial_number
    assert tls.by_name["SSL"].contexts.server is not former
    assert tls.reloads == 1


async def test_a_file_that_cannot_be_used_leaves_the_former_and_is_logged_once(bench: Bench) -> None:
    first = AUTHORITY.issue("broker")
    bench.write(first)
    tls = bench.open()
    for bad in ("garbage", ""):
        bench.file.write_text(bad)
        for _ in range(3):
            await tls.poll(bench.config)
    bench.file.unlink()
    await tls.poll(bench.config)
    assert bench.serial == first.certificate.serial_number
    assert len([event for event, _ in bench.log.at("warning") if event.startswith("TLS stores not reloaded")]) == 3
    newer = AUTHORITY.issue("broker")
    bench.write(newer)
    await tls.poll(bench.config)
    assert bench.serial == newer.certificate.serial_number


def test_a_change_of_settings_to_the_same_name_reads_the_file_again(bench: Bench) -> None:
    bench.write(AUTHORITY.issue("broker"))
    bench.open()
    newer = AUTHORITY.issue("broker")
    bench.write(newer)
    entries = {LOCATION: str(bench.file)}
    bench.dynamic.check(ConfigSource.DYNAMIC_BROKER, entries)
    bench.dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, entries)
    assert bench.serial == newer.certificate.serial_number


def test_a_change_to_a_store_that_cannot_be_used_is_refused(bench: Bench, tmp_path: Path) -> None:
    first = AUTHORITY.issue("broker")
    bench.write(first)
    bench.open()
    with pytest.raises(ConfigError, match=r"listener SSL: ssl\.keystore\.location='/nowhere': No such file"):
        bench.dynamic.check(ConfigSource.DYNAMIC_BROKER, {LOCATION: "/nowhere"})
    (tmp_path / "bad.pem").write_text("garbage")
    with pytest.raises(ConfigError, match="0 private keys"):
        bench.dynamic.check(ConfigSource.DYNAMIC_BROKER, {LOCATION: str(tmp_path / "bad.pem")})
    assert bench.serial == first.certificate.serial_number


@pytest.mark.parametrize(
    ("name", "hosts", "allowing", "why"),
    [
        (
            "other",
            ("localhost",),
            "ssl.allow.dn.changes",
            "the certificate's name CN=other is not the former's, CN=broker",
        ),
        ("broker", ("elsewhere",), "ssl.allow.san.changes", "lacks host names of the former: localhost"),
    ],
)
async def test_a_certificate_for_another_name_needs_permission(
    tmp_path: Path, name: str, hosts: tuple[str, ...], allowing: str, why: str
) -> None:
    for permission, is_taken in ((None, False), (allowing, True)):
        directory = tmp_path / str(is_taken)
        directory.mkdir()
        bench = Bench(directory, **({} if permission is None else {permission.replace(".", "__"): "true"}))
        bench.write(AUTHORITY.issue("broker", ("localhost",)))
        tls = bench.open()
        newer = AUTHORITY.issue(name, hosts)
        bench.write(newer)
        if not is_taken:
            with pytest.raises(ConfigError, match=why):
                tls.check(bench.config)
        await tls.poll(bench.config)
        assert (bench.serial == newer.certificate.serial_number) is is_taken


def test_the_brokers_listener_must_trust_its_own_certificate(tmp_path: Path) -> None:
    bench = Bench(tmp_path, inter__broker__listener__name="SSL", **_trust(Authority("Other")))
    bench.write(AUTHORITY.issue("broker"))
    with pytest.raises(ConfigError, match="its own trust store does not trust its certificate"):
        bench.open()
    trusting = Bench(tmp_path, inter__broker__listener__name="SSL", ssl__client__auth="required", **_trust(AUTHORITY))
    trusting.open()
    assert _checks_host(trusting)
    lenient = Bench(
        tmp_path, inter__broker__listener__name="SSL", ssl__endpoint__identification__algorithm="", **_trust(AUTHORITY)
    )
    lenient.open()
    assert not _checks_host(lenient)


def _checks_host(bench: Bench) -> bool:
    client = bench.tls.by_name["SSL"].contexts.client
    assert client is not None
    return client.check_hostname


def _trust(authority: Authority) -> dict[str, str]:
    return {key.replace(".", "__"): text for key, text in authority.inline("listener.name.ssl.").items()}


def test_a_listener_without_a_key_refuses_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(ConfigError, match="No such file"):
        bench.open()
    with pytest.raises(ConfigError, match="a TLS listener needs a key"):
        TlsListeners(build_config({"listeners": "PLAINTEXT://:1,SSL://:2"})[0], bench.read, str, bench.clock, bench.log)


async def test_an_expiry_within_30_days_is_warned_of_once_a_day_until_it_is_replaced(bench: Bench) -> None:
    issued = AUTHORITY.issue("broker", days=20)
    bench.write(issued)
    bench.clock.ms = int(issued.certificate.not_valid_after_utc.timestamp() * 1000) - 40 * DAY_MS
    tls = bench.open()
    assert bench.log.at("warning") == []
    bench.clock.ms += 11 * DAY_MS
    for _ in range(3):
        await tls.poll(bench.config)
    assert bench.log.at("warning") == [("TLS certificate expires soon", {"listener": "SSL", "days": 29})]
    bench.clock.ms += 30 * DAY_MS
    await tls.poll(bench.config)
    assert bench.log.at("warning")[1][0] == "TLS certificate has expired"
