"""The table of keys of protection against those that Apache Kafka's own jars declare: none is missing, types agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.keys.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.keys.protection_keys import SERVED, TABLE
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.protection.protection_defaults import DEFAULTS
from sordini.broker.configuration.settings import Change, ValueKind, settings_of
from tests.outside.needs import ROOT, kafka_clients_jar, kafka_jars, need_java
from tests.outside.versions import APACHE_KAFKA, NEWEST_APACHE_KAFKA, OLDER_APACHE_KAFKA

PROGRAM = Path(__file__).parents[1] / "outside" / "config_keys.py"
LOG4J = PROGRAM.with_name("log4j.properties")

WITHOUT_KERBEROS = {"sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"}
"""Their default is a mechanism that is not served: here they have none, and a listener of SASL needs them."""

PACE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Changed at run time, and no key of KafkaConfig's."""

ABOUT_PROTECTION = re.compile(
    r"(^|\.)(ssl|sasl|security|authorizer|principal|quota|quotas|password|delegation|reauth|acl|policy\.class|secret)(\.|$)"
    r"|^max\.connection|^connections\.|throttled|\.acl$|authentication|control\.plane|per\.second$|^super\.|^allow\."
)
NOT_ABOUT_IT = re.compile(r"remote\.|log\.cleaner\.|listener\.security\.protocol\.map$")
"""Tiered storage, which is not served as a whole; a pace of compaction; and what is judged with the listeners."""


class Declared:
    """What one release's broker declares."""

    def __init__(self, version: str) -> None:
        jars = sorted(map(str, kafka_jars(version).glob("*.jar")))
        need_java()
        command = [sys.executable, str(PROGRAM), str(LOG4J), *jars]
        answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        self.keys: dict[str, tuple[str, str | None]] = answer["keys"]
        self.dynamic = set(answer["dynamic"])
        self.per_listener = set(answer["per_listener"])
        self.authorizer = set(answer["authorizer"])


@pytest.fixture(scope="module")
def newest() -> Declared:
    return Declared(APACHE_KAFKA)


@pytest.fixture(scope="module")
def oldest() -> Declared:
    return Declared(OLDER_APACHE_KAFKA)


def constants(jar: Path, *classes: str) -> set[str]:
    """The names of keys among a class's constants: a tag 1, a length, and the text."""
    found: set[str] = set()
    with zipfile.ZipFile(jar) as archive:
        for name in classes:
            data = archive.read(f"org/apache/kafka/common/config/{name}.class")
            for match in re.finditer(rb"\x01\x00(.)((?:ssl|sasl|security)\.[a-z.]+)", data, re.DOTALL):
                text = match[2][: match[1][0]]
                if len(text) == match[1][0]:
                    found.add(text.decode())
    return found


def client_jars() -> list[Path]:
    """The newer client that every machine has, and others that are there."""
    others = (ROOT / ".cache" / "kafka").glob("4.*/lib/kafka-clients-4.*.jar")
    return sorted({kafka_clients_jar(NEWEST_APACHE_KAFKA), *others})


def test_no_key_of_protection_that_a_broker_declares_is_missing(newest: Declared, oldest: Declared) -> None:
    for declared in (newest, oldest):
        about = {key for key in declared.keys if ABOUT_PROTECTION.search(key)} | declared.authorizer
        about = {key for key in about if NOT_ABOUT_IT.search(key) is None}
        assert len(about) > 80
        assert sorted(about - TABLE.keys() - set(SERVED)) == []


def test_no_key_of_tls_and_sasl_that_a_client_or_broker_of_4_declares_is_missing() -> None:
    for jar in client_jars():
        named = constants(jar, "SslConfigs", "SaslConfigs", "SecurityConfig")
        assert len(named) > 60, jar
        assert sorted(named - TABLE.keys() - set(SERVED)) == [], jar


def test_no_row_is_made_up(newest: Declared, oldest: Declared) -> None:
    named = newest.keys.keys() | oldest.keys.keys() | newest.authorizer | oldest.authorizer
    for jar in client_jars():
        named |= constants(jar, "SslConfigs", "SaslConfigs", "SecurityConfig")
    images = {key for key in TABLE if key.endswith((".credentials", ".filename"))}
    later = {key for key in TABLE if key.startswith("sasl.oauthbearer.allow.unverified.")}  # Of 4.4's client.
    # The one is a key of clients that is no constant of these classes, the other none of KafkaConfig.
    assert TABLE.keys() - named - images - later == {"security.protocol", PACE}


def test_types_and_defaults_are_apache_kafkas(newest: Declared, oldest: Declared) -> None:
    for key, row in TABLE.items():
        kind, default = newest.keys.get(key) or oldest.keys.get(key) or (None, None)
        if kind is not None:
            assert row.rule.kind is ValueKind[kind], key
            assert DEFAULTS.get(key) == default, key


def test_what_changes_while_a_broker_runs_is_apache_kafkas(newest: Declared) -> None:
    of_security = settings_of(SecuritySettings)
    changes = {key: row.change for key, row in TABLE.items()}
    changes |= {key: of_security[key][1].change for key in SERVED if key in of_security}
    ours = {key for key, change in changes.items() if change is not Change.NOWHERE} - {PACE}
    assert ours == newest.dynamic & changes.keys()
    assert {key for key, change in changes.items() if change is Change.LISTENER} == newest.per_listener


def test_types_and_defaults_of_served_keys_are_apache_kafkas(newest: Declared) -> None:
    compared = [key for key in settings_of(SecuritySettings) if not key.startswith("sordini.")]
    assert len(compared) >= 18
    for key in compared:
        declared, (kind, default) = SETTINGS[key][1], newest.keys[key]
        assert declared.rule.kind is ValueKind[kind], key
        if key in WITHOUT_KERBEROS:
            assert (declared.default_text or "", default) == ("", "GSSAPI"), key
        else:
            assert declared.default_text == default, key


def test_a_key_of_apache_kafkas_that_is_nowhere_here_is_about_something_else(newest: Declared) -> None:
    unknown = newest.keys.keys() - TABLE.keys() - SETTINGS.keys() - WITHOUT_EFFECT
    assert [key for key in sorted(unknown) if ABOUT_PROTECTION.search(key) and not NOT_ABOUT_IT.search(key)] == []
