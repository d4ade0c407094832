"""The directory of a secured broker: made at the first start, and used by the later ones.

    authority.pem       key and certificate of the authority; keep it secret
    ca.pem              its certificate, for clients to trust
    broker.pem          key and certificate of the broker
    password            of the first user
    user.made           the id of the cluster in which that user was made
    client.properties   for Apache Kafka's tools and our commands
    kcat.config         for kcat and librdkafka's other programs
    spark.json          options of Spark's Kafka sources

Each file is written beside its place and renamed, so it is whole or not there. What is missing is made again of what it
was made of; but for authority.pem, without which the clients' trust is lost. Files of keys that others may read are
refused, as are those that have expired: a broker that makes new ones unasked would hide that.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable
from typing import Final

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.secure_start.authority import (
    DAY_MS,
    KeyAndCertificate,
    hosts_of,
    is_issued_by,
    issue,
    make_authority,
    normal_host,
    read_pair,
)
from sordini.storage.disk import Disk
from sordini.system.clock import utc_text
from sordini.system.named_tuple import NamedTuple

AUTHORITY, CA, BROKER, PASSWORD, MADE = "authority.pem", "ca.pem", "broker.pem", "password", "user.made"
PASSWORD_BYTES: Final = 24
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
WARNED_DAYS: Final = 30
"""How long before its end a certificate is said to expire."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class SecureFiles(NamedTuple):
    """What the directory has."""

    directory: str
    password: str
    made_in: str
    """The id of the cluster in which the first user was made; empty when it was made in none."""
    is_new: bool
    """Whether the authority was made now."""
    notes: tuple[str, ...]
    """What was made again, and what expires soon, for the log."""

    def __repr__(self) -> str:
        return f"SecureFiles({self.directory!r}, is_new={self.is_new})"

    def path(self, name: str) -> str:
        """Of one of the files."""
        return f"{self.directory}/{name}"


class _Directory:
    """Reads and writes private files. Raises ConfigError for what cannot be read, or may be read by others."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def make(self) -> None:
        """Create it where it is not there."""
        try:
            self._disk.make_directory(self.path)
            self._refuse_open(self.path, "700")
        except OSError as error:
            raise _unusable(self.path, error) from None

    def read(self, name: str) -> bytes | None:
        """A file's bytes; None where it is not there."""
        path = f"{self.path}/{name}"
        try:
            self._refuse_open(path, "600")
            return self._disk.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(path, error) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file as a whole, and on the disk."""
        path = f"{self.path}/{name}"
        try:
            file = self._disk.open(f"{path}.new", create=True)
            try:
                file.truncate(0)
                file.append([data])
                file.sync()
            finally:
                file.close()
            self._disk.rename(f"{path}.new", path)
            self._disk.sync_directory(self.path)
        except OSError as error:
            raise _unusable(path, error) from None

    def _refuse_open(self, path: str, mode: str) -> None:
        file = self._disk.open(path, writable=False)
        try:
            found = os.fstat(file.fileno())
        finally:
            file.close()
        if found.st_mode & _OTHERS:
            raise ConfigError(
                f"--secure: {path} may be read or written by others (mode {stat.S_IMODE(found.st_mode):o}); allowed is "
                f"only its owner: chmod {mode} {path}"
            )


def read_or_make(disk: Disk, directory: str, hosts: Iterable[str], now_ms: int) -> SecureFiles:
    """Read the directory, and make what it does not have. Raises ConfigError for what cannot be used."""
    found = _Directory(disk, directory)
    found.make()
    notes: list[str] = []
    authority, is_new = _authority(found, now_ms)
    if found.read(CA) != authority.certificate_pem:
        found.write(CA, authority.certificate_pem)
    _broker(found, authority, hosts, now_ms, notes.append)
    password = found.read(PASSWORD)
    made_in = (found.read(MADE) or b"").decode(errors="replace").strip()
    if not password:
        if made_in:
            raise ConfigError(
                f"--secure: {directory}/{PASSWORD} is not there, and the user was made already: restore it, or write "
                f"the user's password into it"
            )
        password = secrets.token_urlsafe(PASSWORD_BYTES).encode()
        found.write(PASSWORD, password)
    return SecureFiles(directory, _text(password, f"{directory}/{PASSWORD}"), made_in, is_new, tuple(notes))


def write_client_file(disk: Disk, files: SecureFiles, name: str, text: str) -> None:
    """Write a file that is made of the others, where it is another one now. Raises ConfigError."""
    found = _Directory(disk, files.directory)
    if found.read(name) != text.encode():
        found.write(name, text.encode())


def mark_user_made(disk: Disk, directory: str, cluster_id: str) -> None:
    """Remember that the first user is in this cluster: who removes that user does not get it back by a restart."""
    _Directory(disk, directory).write(MADE, cluster_id.encode())


def _authority(found: _Directory, now_ms: int) -> tuple[KeyAndCertificate, bool]:
    """The authority, and whether it was made now."""
    path = f"{found.path}/{AUTHORITY}"
    pem = found.read(AUTHORITY)
    if pem is None:
        if found.read(BROKER) is not None or found.read(CA) is not None:
            raise ConfigError(
                f"--secure: {path} is not there, and what it issued is: restore it; or move {found.path} away to begin "
                f"with a new authority, which clients then have to trust"
            )
        made = make_authority(f"Sordini of {os.uname().nodename}", now_ms)
        found.write(AUTHORITY, made.pem)
        return made, True
    authority = _read(pem, path)
    if authority.expires_ms <= now_ms:
        raise ConfigError(
            f"--secure: {path} expired on {utc_text(authority.expires_ms)}; move {found.path} away to begin with a new "
            "authority, which clients then have to trust"
        )
    return authority, False


def _broker(
    found: _Directory, authority: KeyAndCertificate, hosts: Iterable[str], now_ms: int, note: Callable[[str], None]
) -> None:
    """See that the broker has a certificate for its hosts."""
    wanted = frozenset(map(normal_host, (*LOCAL_HOSTS, os.uname().nodename, *hosts)))
    path = f"{found.path}/{BROKER}"
    pem = found.read(BROKER)
    former: frozenset[str] = frozenset()
    if pem is not None:
        pair = _read(pem, path)
        if pair.expires_ms <= now_ms:
            raise ConfigError(
                f"--secure: {path} expired on {utc_text(pair.expires_ms)}; remove it, and the next start makes one of "
                "the same authority, which clients trust"
            )
        if not is_issued_by(authority, pair.certificate):
            raise ConfigError(
                f"--secure: {path} is not of the authority in {found.path}/{AUTHORITY}; remove it, and the next start "
                "makes one of it"
            )
        if pair.expires_ms - now_ms < WARNED_DAYS * DAY_MS:
            note(f"{path} expires on {utc_text(pair.expires_ms)}; remove it, and the next start makes a new one")
        former = hosts_of(pair.certificate)
        if wanted <= former:
            return
        # Its hosts have changed: a container has another name after each start.
        note(f"{path} made again, for {', '.join(sorted(wanted - former))}, too")
    found.write(BROKER, issue(authority, os.uname().nodename, sorted(wanted | former), now_ms).pem)


def _read(pem: bytes, path: str) -> KeyAndCertificate:
    try:
        return read_pair(pem)
    except ValueError as error:
        raise ConfigError(f"--secure: {path}: {error}") from None


def _text(data: bytes, path: str) -> str:
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or any(character in text for character in "\"'\\ "):
        raise ConfigError(
            f"--secure: {path} has no password that client files can have: allowed are ASCII characters but quotes, "
            "backslashes and spaces"
        )
    return text


def _unusable(path: str, error: OSError) -> ConfigError:
    return ConfigError(f"--secure: {path}: {(error.strerror or str(error)).lower()}")
