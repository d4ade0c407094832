"""The directory of a secured broker: what is made, what is used again, and what is refused."""

from __future__ import annotations

import itertools
import re
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.secure_start.authority import (
    AUTHORITY_DAYS,
    CERTIFICATE_DAYS,
    DAY_MS,
    hosts_of,
    issue,
    make_authority,
    read_pair,
)
from sordini.broker.process.secure_start.secure_files import (
    AUTHORITY,
    BROKER,
    CA,
    MADE,
    PASSWORD,
    SecureFiles,
    mark_user_made,
    read_or_make,
    write_client_file,
)
from sordini.storage.disk import SystemDisk

NOW_MS = 1_790_000_000_000
FILES = (AUTHORITY, CA, BROKER, PASSWORD)


def made(path: Path, *hosts: str, now_ms: int = NOW_MS) -> SecureFiles:
    return read_or_make(SystemDisk(), str(path), hosts, now_ms)


def texts(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data-secure"
    made(path)
    return path


def refusal(path: Path, *hosts: str, now_ms: int = NOW_MS) -> str:
    before = texts(path)
    with pytest.raises(ConfigError) as refused:
        made(path, *hosts, now_ms=now_ms)
    assert texts(path) == before, "what is refused is left as it is"
    return str(refused.value)


def test_all_files_and_the_directory_are_their_owners_alone(directory: Path) -> None:
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {one.name: one.stat().st_mode & 0o777 for one in directory.iterdir()} == dict.fromkeys(FILES, 0o600)


def test_the_first_start_makes_it_and_a_second_one_uses_it_as_it_is(directory: Path) -> None:
    before = texts(directory)
    again = made(directory, now_ms=NOW_MS + DAY_MS)
    assert not again.is_new
    assert again.notes == ()
    assert again.password == before[PASSWORD].decode()
    assert texts(directory) == before


def test_every_broker_gets_another_password_and_another_key(tmp_path: Path) -> None:
    one, other = made(tmp_path / "a"), made(tmp_path / "b")
    assert one.password != other.password
    assert len(one.password) >= 32
    assert not {*texts(tmp_path / "a").values()} & {*texts(tmp_path / "b").values()}


def test_the_certificate_is_for_the_hosts_of_the_listeners_and_for_this_machine(tmp_path: Path) -> None:
    made(tmp_path / "s", "Broker-1.example", "192.0.2.7", "2001:DB8::1")
    pair = read_pair((tmp_path / "s" / BROKER).read_bytes())
    assert {"broker-1.example", "192.0.2.7", "2001:db8::1", "localhost", "127.0.0.1", "::1"} <= hosts_of(
        pair.certificate
    )


def test_openssl_trusts_the_certificate_by_its_authority_under_the_strict_rules(directory: Path) -> None:
    context = ssl.create_default_context(cafile=str(directory / CA))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(str(directory / BROKER))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert one.version() == "TLSv1.3"


def test_the_authority_may_issue_and_the_broker_may_not() -> None:
    authority = make_authority("one", NOW_MS)
    broker = issue(authority, "broker", ["localhost"], NOW_MS)
    for pair, is_authority in ((authority, True), (broker, False)):
        found = pair.certificate.extensions
        assert found.get_extension_for_class(x509.BasicConstraints).value.ca is is_authority
        assert found.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is is_authority


def test_a_certificate_ends_no_later_than_its_authority() -> None:
    authority = make_authority("one", NOW_MS)
    late = issue(authority, "broker", ["localhost"], authority.expires_ms - DAY_MS)
    assert late.expires_ms == authority.expires_ms
    assert issue(authority, "broker", ["localhost"], NOW_MS).expires_ms == NOW_MS + CERTIFICATE_DAYS * DAY_MS


@pytest.mark.parametrize("count", range(len(FILES)))
def test_a_start_that_was_interrupted_after_any_file_is_finished_by_the_next(directory: Path, count: int) -> None:
    before = texts(directory)
    for name in FILES[count:]:
        (directory / name).unlink()
    (directory / f"{FILES[count]}.new").write_bytes(b"half of it")
    (directory / f"{FILES[count]}.new").chmod(0o600)
    made(directory)
    after = texts(directory)
    assert set(after) == set(FILES)
    assert {name: after[name] for name in FILES[:count]} == {name: before[name] for name in FILES[:count]}


def test_a_certificate_that_lacks_a_host_is_made_again_and_keeps_the_others(directory: Path) -> None:
    made(directory, "first.example")
    again = made(directory, "second.example")
    (note,) = again.notes
    assert note == f"{directory}/{BROKER} made again, for second.example, too"
    assert {"first.example", "second.example"} <= hosts_of(read_pair((directory / BROKER).read_bytes()).certificate)
    assert made(directory, "first.example").notes == ()


def test_an_expired_certificate_is_refused_with_its_date_and_the_remedy(directory: Path) -> None:
    late_ms = NOW_MS + CERTIFICATE_DAYS * DAY_MS
    said = refusal(directory, now_ms=late_ms)
    assert re.search(r"broker\.pem expired on 2028-\d\d-\d\dT[\d:.]+Z; remove it", said)
    (directory / BROKER).unlink()
    assert made(directory, now_ms=late_ms).notes == (), "the remedy works"


def test_an_expired_authority_is_refused_with_the_remedy(directory: Path) -> None:
    said = refusal(directory, now_ms=NOW_MS + AUTHORITY_DAYS * DAY_MS)
    assert "authority.pem expired on 2036-" in said
    assert f"move {directory} away" in said


def test_a_certificate_that_expires_within_a_month_is_said_to(directory: Path) -> None:
    near_ms = NOW_MS + (CERTIFICATE_DAYS - 29) * DAY_MS
    (note,) = made(directory, now_ms=near_ms).notes
    assert "broker.pem expires on 2028-" in note


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_others_may_read_is_refused(directory: Path, name: str) -> None:
    (directory / name).chmod(0o640)
    assert refusal(directory).endswith(f"chmod 600 {directory}/{name}")


def test_a_directory_that_others_may_write_into_is_refused(directory: Path) -> None:
    directory.chmod(0o770)
    assert refusal(directory).endswith(f"chmod 700 {directory}")


@pytest.mark.parametrize("name", [AUTHORITY, BROKER])
@pytest.mark.parametrize(
    "text", [b"", b"what is this", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_refused_with_its_name(directory: Path, name: str, text: bytes) -> None:
    (directory / name).write_bytes(text)
    assert refusal(directory) == f"--secure: {directory}/{name}: it has no private key and certificate in PEM format"


def test_a_key_with_the_certificate_of_another_is_refused(directory: Path) -> None:
    other = make_authority("other", NOW_MS)
    key = (directory / BROKER).read_bytes().partition(b"-----BEGIN CERT")[0]
    (directory / BROKER).write_bytes(key + other.certificate_pem)
    assert "its certificate is not that of its key" in refusal(directory)


def test_a_certificate_of_another_authority_is_refused(directory: Path, tmp_path: Path) -> None:
    made(tmp_path / "other")
    (directory / BROKER).write_bytes((tmp_path / "other" / BROKER).read_bytes())
    assert "broker.pem is not of the authority" in refusal(directory)


def test_a_lost_authority_is_not_replaced_silently(directory: Path) -> None:
    (directory / AUTHORITY).unlink()
    assert "authority.pem is not there, and what it issued is" in refusal(directory)


def test_a_lost_password_is_made_again_only_where_no_user_has_it(directory: Path) -> None:
    first = made(directory).password
    (directory / PASSWORD).unlink()
    second = made(directory).password
    assert first != second
    mark_user_made(SystemDisk(), str(directory), "some-cluster")
    assert made(directory).made_in == "some-cluster"
    (directory / PASSWORD).unlink()
    assert "the user was made already" in refusal(directory)


@pytest.mark.parametrize("text", [b'with "quotes', b"two words", b"back\\slash", "müde".encode(), b" \n"])
def test_a_password_that_no_client_file_can_have_is_refused(directory: Path, text: bytes) -> None:
    (directory / PASSWORD).write_bytes(text)
    said = refusal(directory)
    assert "has no password that client files can have" in said
    assert all(word not in said for word in ("two words", "quotes'", "müde"))


def test_a_client_file_is_written_where_it_has_changed_only(directory: Path) -> None:
    files = made(directory)
    write_client_file(SystemDisk(), files, "client.properties", "a=1\n")
    first = (directory / "client.properties").stat()
    write_client_file(SystemDisk(), files, "client.properties", "a=1\n")
    assert (directory / "client.properties").stat().st_ino == first.st_ino
    write_client_file(SystemDisk(), files, "client.properties", "a=2\n")
    assert (directory / "client.properties").read_text() == "a=2\n"
    assert (directory / "client.properties").stat().st_mode & 0o777 == 0o600


def test_nothing_of_it_is_shown_by_a_traceback(directory: Path) -> None:
    files = made(directory)
    shown = repr(files) + repr(read_pair((directory / AUTHORITY).read_bytes()))
    assert files.password not in shown
    assert "PRIVATE" not in shown


def test_names_in_files_are_distinct() -> None:
    assert all(one != other for one, other in itertools.combinations((*FILES, MADE), 2))
