"""A broker's configuration that is changed while it runs, and the order in which values count.

Every situation takes back what it has set: the broker is shared.
"""

from typing import Any

from tests.compat.situations.alter_configs import BROKER, BROKER_LOGGER, DELETE, SET, TOPIC, _alter, _change, _resource
from tests.compat.situations.alter_configs import _values as values
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

KEY = "message.max.bytes"
DEFAULTS = {KEY: "1048588", "log.segment.bytes": "1073741824"}


def _rows(broker: Broker, kind: int, name: str, *keys: str) -> Any:
    """DescribeConfigs with synonyms; a change reaches the broker soon after its answer."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    answer = broker.ask("DescribeConfigs", 4, resources=[resource], include_synonyms=True)
    if isinstance(answer, str):
        return answer
    result = answer["results"][0]
    return {row.pop("name"): row for row in result["configs"]} or result["error_code"]


def _once(broker: Broker, kind: int, name: str, key: str, value: str) -> Any:
    """The key's row, when it has that value."""
    return until(
        lambda: _rows(broker, kind, name, key),
        lambda rows: rows[key]["value"] == value and rows[key]["synonyms"][0]["value"] == value,
    )


def _restore(broker: Broker) -> None:
    """Take back what was set; the shared broker must not stay changed."""
    for name in ("0", ""):
        for key in DEFAULTS:
            _change(broker, name, (key, DELETE, None), kind=BROKER)
    for key, value in DEFAULTS.items():
        _once(broker, BROKER, "0", key, value)


@situation("a key of one broker is set and deleted while it runs")
def one_broker(broker: Broker) -> Any:
    seen = {
        "before": _rows(broker, BROKER, "0", KEY),
        "set": _change(broker, "0", (KEY, SET, "1500000"), kind=BROKER),
        "then": _once(broker, BROKER, "0", KEY, "1500000"),
        "deleted": _change(broker, "0", (KEY, DELETE, None), kind=BROKER),
    }
    seen["in the end"] = _once(broker, BROKER, "0", KEY, DEFAULTS[KEY])
    _restore(broker)
    return seen


@situation("a key of all brokers is set and deleted while they run")
def all_brokers(broker: Broker) -> Any:
    seen = {
        "before": _rows(broker, BROKER, ""),
        "set": _change(broker, "", (KEY, SET, "1600000"), kind=BROKER),
        "the broker": _once(broker, BROKER, "0", KEY, "1600000"),
        "the default": _rows(broker, BROKER, ""),
        "deleted": _change(broker, "", (KEY, DELETE, None), kind=BROKER),
    }
    _restore(broker)
    return seen | {"in the end": _rows(broker, BROKER, "")}


@situation("a topic's value counts before the broker's, and that before all brokers'")
def precedence(broker: Broker) -> Any:
    topic = broker.create("dynamic-order")
    _change(broker, "", (KEY, SET, "1600000"), kind=BROKER)
    seen = {"all brokers": _once(broker, TOPIC, topic, "max.message.bytes", "1600000")}
    _change(broker, "0", (KEY, SET, "1500000"), kind=BROKER)
    seen["one broker"] = _once(broker, TOPIC, topic, "max.message.bytes", "1500000")
    _change(broker, topic, ("max.message.bytes", SET, "1400000"))
    seen["topic"] = _once(broker, TOPIC, topic, "max.message.bytes", "1400000")
    seen["the broker"] = _rows(broker, BROKER, "0", KEY)
    _restore(broker)
    return seen | {"in the end": _once(broker, TOPIC, topic, "max.message.bytes", "1400000")}


@situation("AlterConfigs of a broker replaces what was set while it ran")
def replace(broker: Broker) -> Any:
    _change(broker, "0", (KEY, SET, "1500000"), kind=BROKER)
    _once(broker, BROKER, "0", KEY, "1500000")
    seen = {"replaced": _alter(broker, _resource("0", values(log_segment_bytes="2000000"), BROKER))}
    seen["new key"] = _once(broker, BROKER, "0", "log.segment.bytes", "2000000")
    seen["old key"] = _once(broker, BROKER, "0", KEY, DEFAULTS[KEY])
    seen["emptied"] = _alter(broker, _resource("0", [], BROKER))
    _restore(broker)
    return seen


@situation("keys of a broker that cannot be changed while it runs")
def read_only(broker: Broker) -> Any:
    keys = {"broker.id": "1", "log.dirs": "/x", "num.partitions": "4", "auto.create.topics.enable": "false"}
    return {
        f"{key} of {name!r}": [
            _change(broker, name, (key, SET, value), kind=BROKER, validate=validate) for validate in (False, True)
        ]
        for key, value in keys.items()
        for name in ("0", "")
    } | {"AlterConfigs": _alter(broker, _resource("0", values(broker_id="1"), BROKER))}


@situation("a broker's keys with wrong values, unknown keys and null")
def wrong(broker: Broker) -> Any:
    seen = {
        "not a number": _change(broker, "0", (KEY, SET, "much"), kind=BROKER),
        "negative": _change(broker, "0", (KEY, SET, "-5"), kind=BROKER),
        "null": _change(broker, "0", (KEY, SET, None), kind=BROKER),
        "validated": _change(broker, "0", (KEY, SET, "1500000"), kind=BROKER, validate=True),
        "wrong, validated": _change(broker, "", (KEY, SET, "much"), kind=BROKER, validate=True),
        "delete of what is not set": _change(broker, "0", (KEY, DELETE, None), kind=BROKER),
        "wrong of all brokers": _change(broker, "", (KEY, SET, "much"), kind=BROKER),
        "one good, one bad": _change(broker, "0", (KEY, SET, "1500000"), ("broker.id", SET, "1"), kind=BROKER),
    }
    seen["in the end"] = _rows(broker, BROKER, "0", KEY)
    _restore(broker)
    return seen


@situation("IncrementalAlterConfigs of another broker, and of names that are none")
def other_brokers(broker: Broker) -> Any:
    return {
        name: _change(broker, name, (KEY, SET, "1500000"), kind=BROKER) for name in ("77", "-1", "zero", "0.0", "00x")
    }


@situation("IncrementalAlterConfigs of loggers that are not there")
def loggers(broker: Broker) -> Any:
    return {
        "another broker": _change(broker, "77", ("a.logger", SET, "INFO"), kind=BROKER_LOGGER),
        "no broker": _change(broker, "", ("a.logger", SET, "INFO"), kind=BROKER_LOGGER),
    }


@situation("DescribeConfigs of a topic lists a value of its own with its synonyms, in v1 to v4")
def topic_synonyms(broker: Broker) -> Any:
    topic = broker.create("dynamic-synonyms")
    _change(broker, topic, ("retention.ms", SET, "5000"), ("cleanup.policy", SET, "compact"))
    keys = ["retention.ms", "cleanup.policy", "segment.bytes"]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}
    seen = {}
    for version in range(1, 5):
        answer = broker.ask("DescribeConfigs", version, resources=[resource], include_synonyms=version != 2)
        answer["results"][0]["configs"].sort(key=lambda row: row["name"])
        seen[version] = answer
    return seen


SECURITY_KEYS = {
    "sasl.kerberos.min.time.before.relogin": "61000",
    "sasl.kerberos.ticket.renew.jitter": "0.06",
    "sasl.kerberos.kinit.cmd": "/bin/kinit",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.login.refresh.buffer.seconds": "301",
    "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "ssl.protocol": "TLSv1.2",
    "ssl.client.auth": "none",
    "ssl.keystore.type": "JKS",
    "ssl.keystore.location": "/k.jks",
    "ssl.truststore.password": "hush",
    "sasl.jaas.config": "hush",
    "sasl.login.class": "x.Y",
    "sasl.server.max.receive.size": "5",
    "connections.max.reauth.ms": "0",
    "password.encoder.secret": "hush",
    "security.inter.broker.protocol": "PLAINTEXT",
    "authorizer.class.name": "",
    "create.topic.policy.class.name": "x.Y",
    "quota.window.num": "5",
    "max.connection.creation.rate": "2147483647",
    "zookeeper.set.acl": "false",
}


@situation(
    "a broker's keys of encryption and authentication, for one broker, all brokers and a listener that is not there"
)
def security_keys(broker: Broker) -> Any:
    seen = {}
    for key, value in SECURITY_KEYS.items():
        for name, full in (
            ("0", key),
            ("", key),
            ("0", f"listener.name.other.{key}"),
            ("", f"listener.name.other.{key}"),
        ):
            seen[f"{full} of {name!r}"] = _change(broker, name, (full, SET, value), kind=BROKER)
            _change(broker, name, (full, DELETE, None), kind=BROKER)
    return seen


@situation("a broker's keys of encryption and authentication with values of the wrong type")
def wrong_security_keys(broker: Broker) -> Any:
    keys = [
        key for key in SECURITY_KEYS if key.endswith((".ms", ".seconds", ".jitter", ".size", ".rate", ".acl", ".auth"))
    ]
    return {key: _change(broker, "0", (key, SET, "x"), kind=BROKER) for key in keys}


def _until_described(broker: Broker, key: str, *, is_there: bool) -> Any:
    """The row of a key that no broker has by itself, or that there is none."""
    return until(lambda: _rows(broker, BROKER, "0", key), lambda rows: isinstance(rows, dict) is is_there)


@situation(
    "the limits of a listener's connections, of one that is there and of another one, for one broker and for all"
)
def listener_limits(broker: Broker) -> Any:
    seen = {}
    for key in ("max.connections", "max.connection.creation.rate"):
        for listener in ("plaintext", "other"):
            full = f"listener.name.{listener}.{key}"
            for name in ("0", ""):
                for value in ("5000", "-1", "x", ""):
                    seen[f"{full}={value} of {name!r}"] = _change(broker, name, (full, SET, value), kind=BROKER)
                described = _until_described(broker, full, is_there=True)
                seen[f"{full} of {name!r}"] = described
                _change(broker, name, (full, DELETE, None), kind=BROKER)
                _until_described(broker, full, is_there=False)
        for full in (f"listener.name.plaintext.{key}", key):
            seen[f"{full}=0"] = _change(broker, "0", (full, SET, "0"), kind=BROKER)
    return seen


@situation("what was set of a broker's keys of encryption and authentication is described")
def described_security_keys(broker: Broker) -> Any:
    keys = {
        **{key: SECURITY_KEYS[key] for key in list(SECURITY_KEYS)[:8]},
        "max.connection.creation.rate": "2147483647",
        "listener.name.other.ssl.keystore.location": "/k.jks",
        "listener.name.other.ssl.keystore.type": "PKCS12",
        "listener.name.other.ssl.client.auth": "none",
        "listener.name.other.ssl.protocol": "TLSv1.2",
    }
    seen = {"set": _change(broker, "0", *((key, SET, value) for key, value in keys.items()), kind=BROKER)}
    for key, value in keys.items():
        seen[key] = _once(broker, BROKER, "0", key, value)
    _change(broker, "0", *((key, DELETE, None) for key in keys), kind=BROKER)
    return seen
