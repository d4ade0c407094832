"""The files that the keys of ZooKeeper's protection name, and the lists of znodes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sordini.broker.configuration.keys.zookeeper_keys import read_zookeeper_settings
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.zookeeper_material import PASSWORD_BYTES_MAX, access_of
from sordini.coordination_store.zookeeper_access import OPEN, ZooKeeperAccess
from sordini.storage.disk import SystemDisk
from tests.support.certificates import PASSWORD, Authority

ENABLED = {"zookeeper.ssl.client.enable": "true"}
OTHERS_READ, ALL = ("world", 1), 31


def access(entries: dict[str, object], root: str = "") -> ZooKeeperAccess:
    settings = read_zookeeper_settings({key: str(value) for key, value in entries.items()})
    return access_of(settings, SystemDisk(), root)


def lists(given: ZooKeeperAccess, path: str) -> set[tuple[str, int]]:
    return {(entry.id.scheme, entry.perms) for entry in given.acl_of(path)}


def test_without_keys_nothing_is_protected() -> None:
    assert access({}) == OPEN
    assert lists(OPEN, "/config/users/alice") == {("world", ALL)}


@pytest.mark.parametrize("root", ["", "/kafka", "/a/b"])
def test_a_znode_is_the_logins_and_others_read_it_unless_it_is_sensitive(root: str) -> None:
    secured = ZooKeeperAccess(sets_acl=True, root=root)
    for sensitive in (
        "/config/users",
        "/config/users/alice",
        "/config/brokers/1",
        "/delegation_token/tokens/t",
        "/sordini/unknown_users",
    ):
        assert lists(secured, root + sensitive) == {("auth", ALL)}
    for read in (
        "/brokers/topics/t",
        "/controller",
        "/kafka-acl/Topic",
        "/config",
        "/consumers/g",
        "/sordini",
        "/delegation_token",
    ):
        assert lists(secured, root + read) == {("auth", ALL), OTHERS_READ}
    assert lists(secured, root + "/consumers") == {("world", ALL)}
    if root:
        assert lists(secured, root) == {("auth", ALL), OTHERS_READ}


def test_stores_in_pem_and_pkcs12_are_read(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("broker")
    for keys, trust in (
        (issued.pem_file(tmp_path / "k.pem", PASSWORD), authority.pem_file(tmp_path / "t.pem")),
        (issued.pkcs12_file(tmp_path / "k.p12"), authority.pkcs12_file(tmp_path / "t.p12")),
    ):
        found = access(
            {
                **ENABLED,
                "zookeeper.ssl.keystore.location": keys,
                "zookeeper.ssl.keystore.password": PASSWORD,
                "zookeeper.ssl.truststore.location": trust,
                "zookeeper.ssl.truststore.password": PASSWORD,
            }
        ).tls
        assert found is not None
        assert len(found.get_ca_certs()) == 1, "the system's authorities are not trusted, too"
        assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert (found.minimum_version, found.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


def test_versions_suites_and_the_check_of_hosts_are_those_of_the_keys(tmp_path: Path) -> None:
    trust = {**ENABLED, "zookeeper.ssl.truststore.location": Authority().pem_file(tmp_path / "t.pem")}
    for key in ("zookeeper.ssl.protocol", "zookeeper.ssl.enabled.protocols"):
        found = access({**trust, key: "TLSv1.3"}).tls
        assert found is not None
        assert found.minimum_version is ssl.TLSVersion.TLSv1_3
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    unchecked = {"zookeeper.ssl.endpoint.identification.algorithm": "", "zookeeper.ssl.cipher.suites": suite}
    found = access({**trust, **unchecked}).tls
    assert found is not None
    assert (found.check_hostname, found.verify_mode) == (False, ssl.CERT_REQUIRED)
    names = {one["name"] for one in found.get_ciphers() if one["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256"}


def test_a_store_that_cannot_be_used_is_named_with_zookeepers_key_and_without_its_password(tmp_path: Path) -> None:
    issued = Authority().issue("broker")
    java = tmp_path / "k.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed and more")
    encrypted = issued.pem_file(tmp_path / "k.pem", PASSWORD)
    cases: list[tuple[dict[str, object], str]] = [
        ({"keystore.location": tmp_path / "none.pem"}, "zookeeper.ssl.keystore.location=.*No such file"),
        ({"truststore.location": java}, "zookeeper.ssl.truststore.location=.*keytool -importkeystore"),
        ({"keystore.location": java}, "zookeeper.ssl.keystore.location=.*keytool -importkeystore"),
        ({"keystore.location": encrypted}, "zookeeper.ssl.keystore.password is not set"),
        (
            {"keystore.location": encrypted, "keystore.password": "hush-hush"},
            "damaged, or zookeeper.ssl.keystore.password is not its password",
        ),
        (
            {"keystore.location": issued.pkcs12_file(tmp_path / "k.p12"), "keystore.password": "hush-hush"},
            "its password is another one",
        ),
    ]
    for keys, words in cases:
        with pytest.raises(ConfigError, match=words) as refusal:
            access({**ENABLED, **{f"zookeeper.ssl.{key}": value for key, value in keys.items()}})
        assert "hush" not in str(refusal.value)


def password_file(path: Path, data: bytes, mode: int = 0o600) -> dict[str, object]:
    path.write_bytes(data)
    path.chmod(mode)
    return {"sordini.zookeeper.auth.user": "broker", "sordini.zookeeper.auth.password.file": path}


def test_a_password_is_the_one_line_of_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "password"
    for data in (b"hush-hush", b"hush-hush\n", b"hush-hush\r\n"):
        login = access(password_file(path, data)).login
        assert login == ("broker", "hush-hush")
        assert "hush" not in repr(login)
    for mode in (0o640, 0o604, 0o620):
        with pytest.raises(ConfigError, match=r"may be read or written by others .*chmod 600"):
            access(password_file(path, b"hush-hush", mode))
    for data in (b"", b"\n", b"hush\nhush", b"\xff", b"x" * (PASSWORD_BYTES_MAX + 1)):
        with pytest.raises(ConfigError, match=r"allowed is one line of UTF-8") as refusal:
            access(password_file(path, data))
        assert "hush\n" not in str(refusal.value)
    access(password_file(path, b"x" * PASSWORD_BYTES_MAX))
    with pytest.raises(ConfigError, match="No such file"):
        access(password_file(path, b"x") | {"sordini.zookeeper.auth.password.file": tmp_path / "none"})
