"""A cluster in which something happens: topics, records, groups of both protocols, transactions; and hostile records."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS = {"orders": 6, "payments": 3, "page-views": 12, "customers": 2, "audit.log": 1, "hostile": 1}
HOSTILE_GROUP = "<script>alert('group')</script>"
TRANSACTION_TIMEOUT_MS = 4 * 60 * 60 * 1000
"""Longer than the tests; brokers allow it by transaction.max.timeout.ms."""
HOSTILE_CLIENT = "<img src=x onerror=alert(1)>"

SCRIPT = b"<script>document.title='owned'</script>"
HOSTILE: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (SCRIPT, SCRIPT, [("<b>header</b>", SCRIPT)]),
    (b'"><img src=x onerror="document.title=\'owned\'">', b"'><svg onload=document.title='owned'>", []),
    (b"javascript:alert(1)", b'</td></tr></table><form action="http://evil.example/">', []),
    (b"{{ 7 * 7 }}", b"{% for x in y %}{{ config }}{% endfor %}", []),
    (b"terminal", b"\x1b[2J\x1b]0;owned\x07\x1b[31mred", [("esc\x1b[0m", b"\x1b[?1049h")]),
    (b"bell and nul", b"\x00\x07\x08\x7f" * 4, []),
    (b"bidi", "\u202eevil\u202c \u2066x\u2069 \u200bzero".encode(), []),
    (b"not utf-8", b"\xff\xfe\xfd\x80\x81", []),
    (b"surrogate", b"\xed\xa0\x80\xed\xb0\x80", []),
    (b"cut character", b"a" * 2047 + "ä".encode() + b"end", []),
    (b"", b"", [("", b"")]),
    (None, None, []),
    (b"deep", b"[" * 5_000 + b"]" * 5_000, []),
    (b"digits", b"[" + b"9" * 10_000 + b"]", []),
    (b"not a number", b'{"a": NaN, "b": Infinity, "c": 1e999}', []),
    (b"duplicate", b'{"a": 1, "a": 2, "__proto__": {"x": 1}}', []),
    (b"lines", b"one\r\ntwo\rthree\n\nevent: part\ndata: {}\n\n", []),
    (b"entity", b"&lt;script&gt;&amp;amp;&#x3c;", []),
    (b"many headers", b"1000 of them", [(f"h{number}", b"x") for number in range(1_000)]),
    (b"k" * 100_000, b"one word " * 20_000, []),
    (b"large", b"\x00\x01<script>" * 1_000_000, []),
]
"""Twenty and one; the last value has ten megabytes."""


def create(bootstrap: str, topics: dict[str, int], replication: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics(
        [NewTopic(name, partitions, replication, config=config) for name, partitions in topics.items()]
    )
    for future in made.values():
        future.result(30)


def produce_hostile(bootstrap: str, topic: str = "hostile") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 20_000_000, "compression.type": "none"})
    for key, value, headers in HOSTILE:
        producer.produce(topic, value=value, key=key, headers=headers or None, partition=0)
        assert producer.flush(30) == 0, "each is a batch of its own"


def produce_orders(bootstrap: str, count: int = 600) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(count):
        customer = f"customer-{number % 37}"
        value = {
            "order": 10_000 + number,
            "customer": {"id": customer},
            "items": [{"sku": f"A{number % 9}", "count": 1}],
        }
        producer.produce(
            "orders", json.dumps(value).encode(), customer.encode(), headers=[("trace", f"{number:016x}".encode())]
        )
        producer.produce("page-views", f"/products/{number % 50}".encode(), customer.encode())
        if number % 10 == 0:
            producer.produce("customers", json.dumps({"id": customer, "city": "Zürich"}).encode(), customer.encode())
    assert producer.flush(30) == 0


def produce_transactions(bootstrap: str) -> Producer:
    """One that is committed, one that is aborted, and one that stays open while the producer is kept."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "payments-1",
            "linger.ms": 5,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    producer.init_transactions(30)
    for what in ("committed", "aborted", "open"):
        producer.begin_transaction()
        for number in range(3):
            producer.produce("payments", f"{what} {number}".encode(), what.encode(), partition=0)
        producer.flush(30)
        if what == "committed":
            producer.commit_transaction(30)
        elif what == "aborted":
            producer.abort_transaction(30)
    return producer


class Member:
    """A consumer that polls on a thread of its own, so slowly that its group has a lag."""

    def __init__(self, bootstrap: str, group: str, client: str, topics: list[str], **options: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": client,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        self.consumer.subscribe(topics)
        self._stop = threading.Event()
        self.has_partitions = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self.consumer.consume(20, 0.2):
                if message.error() is None:
                    self.consumer.commit(message, asynchronous=True)
            if self.consumer.assignment():
                self.has_partitions.set()
        self.consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Offsets of a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, partition, offset) for partition, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


@contextmanager
def scene(bootstrap: str) -> Iterator[None]:
    """All of it, until the end of the block."""
    create(bootstrap, {name: count for name, count in TOPICS.items() if name not in ("customers", "hostile")})
    create(bootstrap, {"customers": TOPICS["customers"]}, **{"cleanup.policy": "compact", "min.insync.replicas": "2"})
    create(bootstrap, {"hostile": 1}, **{"max.message.bytes": "20000000"})
    produce_orders(bootstrap)
    produce_hostile(bootstrap)
    with ExitStack() as stack:
        producer = produce_transactions(bootstrap)
        # The transaction stays open as long as the brokers run.
        stack.callback(producer.purge)
        commit(bootstrap, "reports", "orders", dict.fromkeys(range(6), 10))
        members = [
            Member(bootstrap, "billing", "billing-1", ["orders"]),
            Member(bootstrap, "shipping", "shipping-1", ["orders", "payments"], group_protocol="consumer"),
            Member(bootstrap, HOSTILE_GROUP, HOSTILE_CLIENT, ["page-views"]),
        ]
        for member in members:
            stack.callback(member.close)
        for member in members:
            assert member.has_partitions.wait(30)
        late = Member(bootstrap, "billing", "billing-2", ["orders"])
        stack.callback(late.close)
        assert late.has_partitions.wait(30)
        yield
