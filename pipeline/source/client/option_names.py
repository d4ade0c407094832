"""Options of Apache Kafka's consumer that this client takes without effect, or refuses with a reason."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

IGNORED: Final = frozenset(
    {
        "allow.auto.create.topics",  # Reading never creates a topic here.
        "auto.include.jmx.reporter",
        "check.crcs",  # Always.
        "client.dns.lookup",  # All addresses of a host name are tried.
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",  # The records to read exist already: waiting for more bytes only takes time.
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",  # Batches are passed on whole.
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",  # The system's own tuning is better than a fixed size.
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
    }
)
"""Tuning of what this client does in another way, or not at all."""

_ITS_OWN = "the source sets this itself"
_ONLY_JAVA = "Java classes cannot be used here"
_NO_JAVA_TOKENS = f"{_ONLY_JAVA}; sasl.oauthbearer.token.callback names a function in Python that makes tokens"
REFUSED: Final = {
    "auto.offset.reset": f"{_ITS_OWN}, by startingOffsets and failOnDataLoss",
    "enable.auto.commit": f"{_ITS_OWN}; see commit_group",
    "isolation.level": "this is an option of reading, not of connecting",
    "transactional.id": "this is an option of writing; transactions are read with kafka.isolation.level=read_committed",
    "key.deserializer": f"{_ITS_OWN}: keys are binary",
    "value.deserializer": f"{_ITS_OWN}: values are binary",
    "interceptor.classes": _ONLY_JAVA,
    "sasl.client.callback.handler.class": _ONLY_JAVA,
    "sasl.login.callback.handler.class": _NO_JAVA_TOKENS,
    "sasl.login.class": _NO_JAVA_TOKENS,
    "sasl.kerberos.service.name": "Kerberos is not supported; PLAIN, SCRAM and OAUTHBEARER are",
    "security.providers": _ONLY_JAVA,
    "ssl.engine.factory.class": _ONLY_JAVA,
}


def suggestion(name: str, known: Iterable[str]) -> str:
    """A suggestion, as the end of a sentence; empty if no known name is similar."""
    near = difflib.get_close_matches(name, {*known, *IGNORED}, n=1, cutoff=0.8)
    return f" (did you mean kafka.{near[0]}?)" if near else ""
