"""`make_kafka`: a cluster from what a test says of it, all of which is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from sordini.broker.process.serving_children import REGISTRY_EXTRA
from sordini.testing.arguments import (
    INT32_MAX,
    flag,
    mapping,
    one_of,
    partitions_by_topic,
    whole,
)
from sordini.testing.brokers.node import CLIENTS, SiteOptions
from sordini.testing.brokers.site import Site
from sordini.testing.kafka import Kafka
from sordini.testing.owned_keys import broker_settings
from sordini.testing.security import MUTUAL, Sasl, Security

if TYPE_CHECKING:
    from sordini.testing.registry import KitRegistry

BROKERS_MAX: Final = 9
THREAD: Final = "thread"
PROCESS: Final = "process"


def make_kafka(
    brokers: int = 1,
    *,
    topics: Mapping[str, int] | Iterable[str] = (),
    config: Mapping[str, object] | None = None,
    listeners: Mapping[str, str] | None = None,
    tls: bool | str = False,
    sasl: Sasl | Mapping[str, str] | None = None,
    seed: int = 0,
    isolation: str = THREAD,
    registry: bool = False,
) -> Kafka:
    """A cluster for a `with` block; also to be started and closed by hand.

    `topics` are names, or numbers of partitions by name; `config` are keys of server.properties. `sasl` are passwords
    by users, or `Sasl` for other mechanisms than PLAIN and SCRAM-SHA-256; `tls` is True, or "mutual" for clients with
    certificates. `listeners` are protocols by name, for clients: by default one, with what `tls` and `sasl` ask for.
    With `registry` there is a schema registry beside them, at `kafka.registry.url` (sordini[registry]).
    The brokers are on a thread of this process; with `isolation="process"` they are in a process of their own, which
    ends with this one. Raises ValueError.
    """
    whole("brokers", brokers, 1, BROKERS_MAX)
    whole("seed", seed, -INT32_MAX, INT32_MAX)
    one_of("tls", tls, (True, False, MUTUAL))
    one_of("isolation", isolation, (THREAD, PROCESS))
    flag("registry", registry)
    protocol = f"{'SASL_' if sasl else ''}{'SSL' if tls else 'PLAINTEXT'}"
    login = sasl if isinstance(sasl, Sasl) else Sasl(mapping("sasl", sasl, "passwords by user"))
    named = mapping("listeners", listeners, "protocols by listener") or {CLIENTS: protocol}
    first_topics = partitions_by_topic("topics", topics)
    settings = broker_settings(config)
    security = Security(named, login, is_mutual=tls == MUTUAL)
    entries = security.entries() | settings
    beside = _registry() if registry else None
    if isolation == THREAD:
        site = Site(brokers, entries, seed, SiteOptions(listeners=security.listeners))
        return Kafka(site, first_topics, security, beside)
    from sordini.testing.control.remote_site import RemoteSite  # Most tests do not need it.

    remote = RemoteSite(brokers, entries, seed, security.listeners)
    return Kafka(remote, first_topics, security, beside)


def _registry() -> KitRegistry:
    try:
        from sordini.testing.registry import KitRegistry  # It imports a web server, which few tests need.
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in REGISTRY_EXTRA.libraries:
            raise
        raise ValueError(f"registry=True needs {error.name}: {REGISTRY_EXTRA.install}") from None
    return KitRegistry()
