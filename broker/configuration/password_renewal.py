"""Passwords in the coordination store that the former secret encrypts are encrypted with the new one (KIP-226).

At each start while `password.encoder.old.secret` is set, of this broker's settings only, and once it is registered: a
second process with its id changes nothing. As in Apache Kafka a password that neither secret decrypts stays as it is,
and the start goes on: it is ignored with a warning, as any unusable setting (`DynamicConfig.set_layer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sordini.broker.configuration.config import is_password
from sordini.broker.configuration.keys.password_encoder_keys import PASSWORDS_MAX
from sordini.broker.configuration.password_encoder import PasswordEncoder
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store.configs import SettingsTooLarge, change_config, read_config
from sordini.replication.metadata_store.paths import broker_entity
from sordini.replication.ports import CoordinationError, Logger, Session
from sordini.system.named_tuple import NamedTuple


class Renewed(NamedTuple):
    """A password as it was in the store, and encrypted with the new secret."""

    former: str
    new: str


async def encrypt_passwords_again(session: Session, broker_id: BrokerId, encoder: PasswordEncoder, log: Logger) -> None:
    """Write this broker's passwords again where the former secret decrypts them and the new one does not.

    A store that is not reachable does not stop the start: the former secret is still there, and the next start tries
    again.
    """
    if not encoder.can_renew:
        return
    entity_path = broker_entity(broker_id)
    try:
        found = await read_config(session, entity_path)
        renewed = {} if isinstance(found, Malformed) else await _renewed(found, encoder)
        if not renewed:
            return
        await change_config(session, entity_path, lambda entries: _replaced(entries, renewed))
    except (CoordinationError, SettingsTooLarge) as error:
        log.warning("passwords not encrypted again", entity=entity_path, reason=str(error))
    else:
        log.info("passwords encrypted again", entity=entity_path, keys=", ".join(renewed))


async def _renewed(entries: Mapping[str, str], encoder: PasswordEncoder) -> dict[str, Renewed]:
    found = {}
    for key in sorted(filter(is_password, entries))[:PASSWORDS_MAX]:
        new = encoder.renew(entries[key])
        if new is not None:
            found[key] = Renewed(entries[key], new)
        await asyncio.sleep(0)  # Some milliseconds each.
    return found


def _replaced(entries: Mapping[str, str], renewed: Mapping[str, Renewed]) -> dict[str, str]:
    """The entries with their new texts, but for those that were changed meanwhile."""
    return {
        key: renewed[key].new if key in renewed and renewed[key].former == text else text
        for key, text in entries.items()
    }
