"""The configuration in force: four layers, the first that has a key wins, and nothing wrong in one disturbs it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.dynamic import CORDON, LAYERS, ConfigSource, DynamicConfig
from sordini.broker.configuration.keys.ignored_keys import IGNORED_DYNAMIC, IGNORED_STATIC, WITHOUT_EFFECT
from sordini.broker.configuration.settings import Change, ConfigError
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS

OF_BROKER, OF_ALL = LAYERS
BOUND = "message.max.bytes"


def a_config(**static: str) -> DynamicConfig:
    entries = {key.replace("_", "."): text for key, text in static.items()}
    return DynamicConfig(build_config(entries)[0], frozenset(entries))


@given(st.booleans(), st.booleans(), st.booleans())
def test_the_first_layer_that_has_a_key_gives_its_value(of_broker: bool, of_all: bool, static: bool) -> None:
    dynamic = a_config(**({"message_max_bytes": "300"} if static else {}))
    if of_all:
        dynamic.set_layer(OF_ALL, {BOUND: "200"})
    if of_broker:
        dynamic.set_layer(OF_BROKER, {BOUND: "100"})
    expected = [
        *([("100", OF_BROKER)] if of_broker else []),
        *([("200", OF_ALL)] if of_all else []),
        *([("300", ConfigSource.STATIC_BROKER)] if static else []),
        ("1048588", ConfigSource.DEFAULT),
    ]
    assert [(row.value, row.source) for row in dynamic.synonyms([BOUND])] == expected
    assert str(dynamic.config.message_max_bytes) == expected[0][0]


def test_what_is_taken_out_of_a_layer_gives_way_to_the_next() -> None:
    dynamic = a_config(message_max_bytes="300")
    dynamic.set_layer(OF_BROKER, {BOUND: "100"})
    dynamic.set_layer(OF_BROKER, {})
    assert dynamic.config.message_max_bytes == 300


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("message.max.bytes", "lots"),
        ("log.dirs", "/elsewhere"),
        ("num.network.threads", "9"),
        ("no.such.key", "secret"),
        ("max.connections.per.ip.overrides", "unreadable"),
    ],
)
def test_an_unusable_entry_is_ignored_reported_without_its_value_and_affects_no_other(key: str, text: str) -> None:
    dynamic = a_config()
    (reported,) = dynamic.set_layer(OF_ALL, {key: text, "min.insync.replicas": "2"})
    assert reported.key == key
    assert text not in reported.reason
    assert dynamic.config == build_config({"min.insync.replicas": "2"})[0]
    assert dynamic.entries(OF_ALL)[key] == text
    assert [row for row in dynamic.synonyms([key if key in SETTINGS else BOUND]) if row.source is OF_ALL] == []


def test_a_key_known_to_have_no_effect_is_passed_over_in_silence() -> None:
    dynamic = a_config()
    assert dynamic.set_layer(OF_BROKER, dict.fromkeys(WITHOUT_EFFECT, "1")) == []
    assert dynamic.config == Config()


def test_listeners_are_notified_of_changes_and_only_of_changes() -> None:
    dynamic = a_config()
    received: list[int] = []
    dynamic.on_change(lambda config: received.append(config.message_max_bytes))
    dynamic.set_layer(OF_ALL, {BOUND: "100"})
    dynamic.set_layer(OF_ALL, {BOUND: "100", "no.such.key": "1"})
    dynamic.set_layer(OF_BROKER, {BOUND: "100"})
    dynamic.set_layer(OF_BROKER, {BOUND: "50"})
    assert received == [100, 50]


def test_a_coarser_synonyms_default_is_listed_only_beside_a_value_that_was_set() -> None:
    family = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    dynamic = a_config()
    assert dynamic.synonyms(family) == []
    dynamic.set_layer(OF_BROKER, {"log.retention.ms": "5"})
    assert [(row.name, row.value) for row in dynamic.synonyms(family)] == [
        ("log.retention.ms", "5"),
        ("log.retention.hours", "168"),
    ]


def test_every_dynamic_key_that_topics_do_not_inherit_has_a_listener() -> None:
    inherited = {key.key for topic in TOPIC_SETTINGS.values() for key in topic.inherits}
    alone = {key for key, (_, declared) in SETTINGS.items() if declared.change is Change.ANYWHERE} - inherited
    # The record job queue reads its own at each job, the cleaner listens to its own, the network to those of
    # connections, throttles and fetchers to those of replication, the log manager to the cordon, the gate of transactions
    # reads its own at each append, the settings of groups and their coordinator read those of groups, and the settings of
    # partitions take the others.
    assert alone == {
        "cordoned.log.dirs",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
        "follower.replication.throttled.rate",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignor.offload.enable",
        "group.share.assignment.interval.ms",
        "group.share.assignor.offload.enable",
        "leader.replication.throttled.rate",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "sordini.expanded.bytes.max",
        "sordini.record.workers.queue.bytes.max",
        "sordini.record.workers",
        "sordini.validate.compressed",
        "transaction.partition.verification.enable",
    }


def test_a_key_is_honoured_or_accepted_without_effect_and_never_both() -> None:
    assert not WITHOUT_EFFECT & SETTINGS.keys()
    assert not IGNORED_DYNAMIC & IGNORED_STATIC
    assert build_config(dict.fromkeys(WITHOUT_EFFECT, "anything")) == (Config(), [])


TWO_DIRECTORIES = {"log_dirs": "/one,/two"}


@pytest.mark.parametrize("text", ["/three", "*", "/one,/two", "/one,/three", "/one/../two,/one"])
def test_a_cordon_around_every_directory_or_around_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs=.*/one, /two"):
        build_config({"log.dirs": "/one,/two", CORDON: text})
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs=.*/one, /two"):
        a_config(**TWO_DIRECTORIES).check(OF_BROKER, {CORDON: text})


def test_a_cordon_names_directories_of_one_broker_however_they_are_spelt() -> None:
    dynamic = a_config(**TWO_DIRECTORIES)
    dynamic.check(OF_BROKER, {CORDON: " /one/ ,/one/"})
    dynamic.check(OF_BROKER, {CORDON: ""})
    with pytest.raises(ConfigError, match="one broker"):
        dynamic.check(OF_ALL, {CORDON: "/one"})
    (reported,) = dynamic.set_layer(OF_ALL, {CORDON: "/one"})
    assert (reported.key, dynamic.config.cordoned_directories) == (CORDON, frozenset())
    assert dynamic.set_layer(OF_BROKER, {CORDON: "/one/,/nowhere"}) == []  # As another tool wrote it to the store.
    assert dynamic.config.cordoned_directories == {"/one"}


def test_a_wrong_cordon_in_the_store_hinders_no_other_change() -> None:
    dynamic = a_config(**TWO_DIRECTORIES)
    dynamic.set_layer(OF_BROKER, {CORDON: "/nowhere"})
    dynamic.check(OF_BROKER, {CORDON: "/nowhere", BOUND: "100"})
