"""The operations of a transaction, as kazoo sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kazoo.client import TransactionRequest
from kazoo.security import ACL

from sordini.replication.ports import Check, Create, Delete, Operation, Set


def add_operation(
    transaction: TransactionRequest, path: str, operation: Operation, acl_of: Callable[[str], Sequence[ACL] | None]
) -> None:
    """Add an operation on `path`, which is the operation's own with the chroot in front."""
    match operation:
        case Create(_, data, ephemeral, sequential):
            transaction.create(path, data, acl_of(operation.path), ephemeral, sequential)
            if not data:
                # kazoo would write empty data; Apache Kafka writes null, and cannot parse empty data.
                transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
        case Set(_, data, version):
            transaction.set_data(path, data, version)
        case Delete(_, version):
            transaction.delete(path, version)
        case Check(_, version):
            transaction.check(path, version)
