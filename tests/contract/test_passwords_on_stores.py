"""Passwords of brokers encrypted again with a new secret, the same on the embedded store and on a real ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.password_encoder import PasswordEncoder
from sordini.broker.configuration.password_renewal import encrypt_passwords_again
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import change_config, read_config
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import ConnectionLoss, Session
from tests.support.fake_ports import ListLog

OWN = BrokerId(1)
ENTITY = paths.broker_entity(OWN)
PREFIX = "listener.name.in.ssl."
STORE, KEY, TRUST = (f"{PREFIX}{end}" for end in ("keystore.password", "key.password", "truststore.password"))
LISTENERS = {"listeners": "PLAINTEXT://:1,IN://:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SSL"}


def a_dynamic(**secrets: str) -> DynamicConfig:
    keys = {f"password.encoder.{name}": text for name, text in secrets.items()}
    return DynamicConfig(build_config(LISTENERS | {"password.encoder.iterations": "1024"} | keys)[0])


def an_encoder(**secrets: str) -> PasswordEncoder:
    return a_dynamic(**secrets).encoder


FORMER, NEW, ANOTHER = an_encoder(secret="former"), an_encoder(secret="new"), an_encoder(secret="another")
BOTH = an_encoder(secret="new", **{"old.secret": "former"})


async def settings(session: Session, entity_path: str = ENTITY) -> dict[str, str]:
    found = await read_config(session, entity_path)
    assert isinstance(found, dict)
    return found


async def put(session: Session, entries: dict[str, str], entity_path: str = ENTITY) -> None:
    await change_config(session, entity_path, lambda _: entries)


@pytest.fixture
async def prepared(session: Session) -> Session:
    await ensure_base_paths(session)
    return session


async def changes(session: Session) -> int:
    return len(await session.children(paths.CONFIG_CHANGES))


async def test_what_the_former_secret_encrypts_is_written_again_and_nothing_else_is_changed(prepared: Session) -> None:
    log = ListLog()
    kept = {KEY: NEW.encode("of-key"), TRUST: ANOTHER.encode("lost"), "message.max.bytes": "5000", "theirs": "x"}
    await put(prepared, {STORE: FORMER.encode("of-store"), **kept})
    others = {STORE: FORMER.encode("of-another-broker")}
    for entity_path in (paths.broker_entity(BrokerId(2)), paths.broker_entity(None)):
        await put(prepared, others, entity_path)
    before = await changes(prepared)
    await encrypt_passwords_again(prepared, OWN, BOTH, log)
    found = await settings(prepared)
    assert NEW.decode(found.pop(STORE)) == "of-store"
    assert found == kept
    for entity_path in (paths.broker_entity(BrokerId(2)), paths.broker_entity(None)):
        assert await settings(prepared, entity_path) == others
    assert log.lines == [("info", "passwords encrypted again", {"entity": "brokers/1", "keys": STORE})]
    assert await changes(prepared) == before + 1, "brokers are notified, as of any change"
    await encrypt_passwords_again(prepared, OWN, BOTH, log)
    assert await changes(prepared) == before + 1, "there is nothing left to write"
    assert len(log.lines) == 1


async def test_a_password_that_neither_secret_decrypts_is_ignored_by_name_and_the_others_have_effect(
    prepared: Session,
) -> None:
    await put(prepared, {STORE: FORMER.encode("of-store"), KEY: ANOTHER.encode("hush-hush"), TRUST: "damaged"})
    for secrets in ({"secret": "new", "old.secret": "former"}, {"secret": "new"}):
        dynamic = a_dynamic(**secrets)
        ignored = dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, await settings(prepared))
        assert [entry.key for entry in ignored] == [KEY, TRUST]
        assert "hush" not in str(ignored)
        password = dynamic.config.listener("IN").keys.ssl_keystore_password
        assert password is not None
        assert password.text == "of-store"
        await encrypt_passwords_again(prepared, OWN, dynamic.encoder, ListLog())


@pytest.mark.parametrize("encoder", [an_encoder(), NEW, an_encoder(**{"old.secret": "former"})])
async def test_without_both_secrets_nothing_is_written(prepared: Session, encoder: PasswordEncoder) -> None:
    entries = {STORE: FORMER.encode("of-store")}
    await put(prepared, entries)
    await encrypt_passwords_again(prepared, OWN, encoder, ListLog())
    assert await settings(prepared) == entries


async def test_without_settings_and_with_unreadable_ones_nothing_is_written(prepared: Session) -> None:
    log = ListLog()
    await encrypt_passwords_again(prepared, OWN, BOTH, log)
    assert await settings(prepared) == {}
    await prepared.create(paths.config(ENTITY), b"{", make_parents=True)
    await encrypt_passwords_again(prepared, OWN, BOTH, log)
    assert (await prepared.get(paths.config(ENTITY)))[0] == b"{"
    assert log.lines == []


class Raced:
    """A session whose first write comes after one of another session."""

    def __init__(self, session: Session, entries: dict[str, str]) -> None:
        self._session = session
        self._entries: dict[str, str] | None = entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def multi(self, operations: Any) -> Any:
        if self._entries is not None:
            entries, self._entries = self._entries, None
            await put(self._session, entries)
        return await self._session.multi(operations)


async def test_a_password_that_is_set_meanwhile_is_kept(prepared: Session) -> None:
    former = {STORE: FORMER.encode("of-store"), KEY: FORMER.encode("of-key")}
    await put(prepared, former)
    meanwhile = {**former, STORE: NEW.encode("set-meanwhile"), "message.max.bytes": "5000"}
    raced: Any = Raced(prepared, meanwhile)
    await encrypt_passwords_again(raced, OWN, BOTH, ListLog())
    found = await settings(prepared)
    assert NEW.decode(found[STORE]) == "set-meanwhile"
    assert NEW.decode(found[KEY]) == "of-key"
    assert found["message.max.bytes"] == "5000"


class Lost:
    """A session that has lost its store."""

    async def get(self, path: str) -> Any:
        raise ConnectionLoss(path)


async def test_a_store_that_is_lost_is_a_line_and_no_end_of_the_start() -> None:
    log, lost = ListLog(), Lost()
    session: Any = lost
    await encrypt_passwords_again(session, OWN, BOTH, log)
    assert [event for event, _ in log.at("warning")] == ["passwords not encrypted again"]
