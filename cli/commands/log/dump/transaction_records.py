"""Decodes the records of __transaction_state, for `log dump --transaction-log-decoder`."""

from __future__ import annotations

from sordini.broker.transactions.records import TransactionKey, UnknownTransactionKey, read_key, read_value
from sordini.cli.commands.log.dump.items import Item
from sordini.protocol.records.versioned import Damaged


def decoded(item: Item) -> Item:
    """A record as a transaction, `removed` for a tombstone; other items do not change.

    A record that cannot be decoded keeps its bytes, and gets a field `undecoded` with the reason.
    """
    if item.kind != "record" or item.fields["key"] is None:
        return item
    match read_key(item.fields["key"]):
        case TransactionKey(transactional_id):
            return _transaction(item, transactional_id)
        case UnknownTransactionKey(version):
            reason = f"a key of version {version}, which this release does not know"
        case Damaged(why):
            reason = f"the key: {why}"
    return _undecoded(item, reason)


def _transaction(item: Item, transactional_id: str) -> Item:
    value = item.fields["value"]
    at = {name: item.fields[name] for name in ("offset", "timestamp")} | {"transactional_id": transactional_id}
    if value is None:
        return Item("transaction", at | {"removed": True})
    found = read_value(value)
    if isinstance(found, Damaged):
        return _undecoded(item, f"the value of {transactional_id}: {found.reason}")
    decoded_fields = {
        "removed": False,
        "state": found.state_name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "partitions": [str(partition) for partition in found.partitions],
        "update_timestamp": found.last_update_ms,
        "start_timestamp": found.start_ms if found.start_ms >= 0 else None,
        "previous_producer_id": found.previous_producer_id if found.previous_producer_id >= 0 else None,
        "next_producer_id": found.next_producer_id if found.next_producer_id >= 0 else None,
        "transaction_version": found.client_version,
    }
    return Item("transaction", at | decoded_fields)


def _undecoded(item: Item, reason: str) -> Item:
    return Item(item.kind, item.fields | {"undecoded": reason})
