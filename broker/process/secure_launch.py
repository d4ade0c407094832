"""The start of `sordini serve --secure`: the directory read or made, and the configuration that uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from sordini.broker.process.secure_start.client_files import PROPERTIES, client_files, instructions
from sordini.broker.process.secure_start.secure_files import (
    BROKER,
    CA,
    SecureFiles,
    mark_user_made,
    read_or_make,
    write_client_file,
)
from sordini.broker.process.secure_start.secure_keys import FIRST_USER, MECHANISM, check_secure, place_of, secured
from sordini.broker.process.serving_children import ChildPlan
from sordini.broker.security.sasl.first_user import FirstUser
from sordini.replication.ports import Clock
from sordini.storage.disk import Disk
from sordini.system.named_tuple import NamedTuple

SUFFIX = "-secure"
"""Of the directory's name after that of the first log directory, where none is named. It stands beside that one, in
which every directory is a partition's, for Apache Kafka as for us."""

AUDIT_KEY, AUDIT_FILE = "sordini.audit.log.file", "audit.log"
"""A secured broker has an audit log in its first log directory, unless the key says otherwise."""


class SecureLaunch(NamedTuple):
    """A configuration with protection, and what goes with it."""

    entries: dict[str, str]
    first_user: FirstUser
    notes: tuple[str, ...]
    """For the log."""
    words: str
    """How clients connect, at the first start; empty at later ones."""
    client_file: str
    """The properties file with which commands connect."""

    def child(self, plan: ChildPlan) -> ChildPlan:
        """A console or registry of this broker, whose visitors are its users."""
        return plan._replace(command_config=self.client_file, sasl_mechanism=MECHANISM)

    def __repr__(self) -> str:
        return f"SecureLaunch({self.first_user!r})"


def secure_launch(disk: Disk, clock: Clock, entries: Mapping[str, str], directory: str | None) -> SecureLaunch:
    """Read or make the directory. Raises ConfigError: for entries that contradict --secure nothing is made."""
    check_secure(entries)
    place = place_of(entries)
    path = os.path.abspath(directory or default_directory(entries))  # noqa: PTH100 - text, as configured.
    files = read_or_make(disk, path, place.hosts, clock.now_ms())
    for name, text in client_files(place.advertised, path, files.password).items():
        write_client_file(disk, files, name, text)
    names = {name: files.path(name) for name in (BROKER, CA)}
    with_audit = {AUDIT_KEY: f"{_first_log_directory(entries)}/{AUDIT_FILE}", **entries}
    return SecureLaunch(
        secured(with_audit, place.listener, names, files.password),
        _first_user(disk, files),
        files.notes,
        instructions(place.advertised, path) if files.is_new else "",
        files.path(PROPERTIES),
    )


def default_directory(entries: Mapping[str, str]) -> str:
    """Beside the first log directory."""
    return _first_log_directory(entries) + SUFFIX


def _first_log_directory(entries: Mapping[str, str]) -> str:
    first = (entries.get("log.dirs", "").strip() or entries.get("log.dir", "").strip() or "data").partition(",")[0]
    return first.strip().rstrip("/")


def _first_user(disk: Disk, files: SecureFiles) -> FirstUser:
    return FirstUser(FIRST_USER, files.password, files.made_in, partial(mark_user_made, disk, files.directory))
