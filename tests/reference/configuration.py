"""config/server.properties and docs/configuration.md, from the declarations of the keys."""

from collections.abc import Iterator

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.group_config import GROUP_SETTINGS, GroupSetting
from sordini.broker.configuration.keys.audit_keys import AuditSettings
from sordini.broker.configuration.keys.authorization_keys import AuthorizationSettings
from sordini.broker.configuration.keys.cleaner_keys import CleanerSettings
from sordini.broker.configuration.keys.connection_keys import ConnectionSettings
from sordini.broker.configuration.keys.consumer_group_keys import ConsumerGroupSettings
from sordini.broker.configuration.keys.controller_keys import ControllerSettings
from sordini.broker.configuration.keys.group_keys import GroupSettings
from sordini.broker.configuration.keys.harmless_keys import HARMLESS
from sordini.broker.configuration.keys.ignored_keys import IGNORED
from sordini.broker.configuration.keys.log_keys import LogSettings
from sordini.broker.configuration.keys.membership_keys import MembershipSettings
from sordini.broker.configuration.keys.network_keys import NetworkSettings
from sordini.broker.configuration.keys.oauthbearer_keys import OAuthBearerSettings
from sordini.broker.configuration.keys.password_encoder_keys import PasswordEncoderSettings
from sordini.broker.configuration.keys.protection_keys import BY_LISTENER, REFUSED, SERVED, TABLE, RefusedKeys
from sordini.broker.configuration.keys.quota_keys import QuotaSettings
from sordini.broker.configuration.keys.replica_keys import ReplicaSettings
from sordini.broker.configuration.keys.sasl_keys import SaslSettings
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.configuration.keys.share_group_keys import ShareGroupSettings
from sordini.broker.configuration.keys.telemetry_keys import TelemetrySettings
from sordini.broker.configuration.keys.tracing_keys import TracingSettings
from sordini.broker.configuration.keys.transaction_keys import TransactionSettings
from sordini.broker.configuration.keys.zookeeper_keys import ZooKeeperSettings
from sordini.broker.configuration.renamed_keys import RENAMED
from sordini.broker.configuration.settings import Change, Setting, ValueRule, settings_of, value_text
from sordini.broker.configuration.topic_config import HOUR_MS, MINUTE_MS, TOPIC_SETTINGS, TopicSetting, default_of

SECTIONS: dict[type, str] = {
    MembershipSettings: "The broker and its cluster",
    Config: "Topics and replication",
    NetworkSettings: "Network",
    ConnectionSettings: "Connections",
    SecuritySettings: "Security",
    SaslSettings: "SASL",
    OAuthBearerSettings: "OAUTHBEARER",
    LogSettings: "Logs and messages",
    ReplicaSettings: "Replication",
    ControllerSettings: "The controller",
    CleanerSettings: "Compaction",
    GroupSettings: "Consumer groups",
    ConsumerGroupSettings: "Consumer groups whose coordinator assigns (KIP-848)",
    ShareGroupSettings: "Share groups (KIP-932)",
    TransactionSettings: "Transactions",
    ShareCoordinatorSettings: "Share coordinator",
    AuthorizationSettings: "Authorization",
    QuotaSettings: "Quotas",
    ZooKeeperSettings: "Protection of ZooKeeper",
    PasswordEncoderSettings: "Passwords in the coordination store",
    AuditSettings: "The audit log",
    TelemetrySettings: "Metrics that clients push",
    TracingSettings: "Traces of slow requests",
}
UNITS = {1: "", MINUTE_MS: " (minutes)", HOUR_MS: " (hours)"}

PROPERTIES_HEAD = """\
# Every key this broker honours, with its default and one line of meaning.
# Names and defaults are Apache Kafka's; keys of Sordini's own begin with sordini.
# A line is key=value; take the # away to set a key. A key without a value has no default.
"""

HEAD = """\
# Configuration

`python -m tests.reference` writes this page, and `config/server.properties`, from the keys' declarations in
`broker/configuration/`; a test compares them. Names, meanings and defaults are Apache Kafka 3.9's wherever it has the
key; keys that begin with `sordini.` are our own.

## Where a value comes from

A broker key is looked for in this order, and the first place that has it wins:

1. **this broker's dynamic entries**, in the coordination store at `/config/brokers/<id>`;
2. **the dynamic defaults of all brokers**, at `/config/brokers/<default>`;
3. **what the broker was started with**: `--override KEY=VALUE`, over `SORDINI_*` in the environment, over `KAFKA_*` in
   the environment, over the properties file;
4. **the default** below.

A topic key is looked for in the topic's own entries first (`/config/topics/<name>`, given when it is made or changed
later) and then, in the order above, in the broker key that it inherits. Where a broker key is given in several units,
the finest that is set counts: `log.retention.ms` before `.minutes` before `.hours`.

A consumer group or a share group may have settings of its own, too (`/config/groups/<name>`, escaped). A value is
within the bounds that the broker has for its own key: an assignment interval of `group.consumer.min.assignment.interval.ms` to
`group.consumer.max.assignment.interval.ms`. It is refused beyond them when it is set; when a broker starts with other
bounds, the nearest one within them is in force there, and the description shows what was set.

A value of the start may be a reference to a file or a variable, with `config.providers`
([security.md](security.md#secrets-in-other-files-config-providers)).

DescribeConfigs tells where each value stands and which others stand behind it:

    kafka-configs.sh --bootstrap-server localhost:9092 --describe --all --entity-type brokers --entity-name 1

## Changes at run time

Topic keys, group keys and broker keys marked *yes* below can be changed while the broker runs, with AlterConfigs or
IncrementalAlterConfigs, hence with Apache Kafka's own tool:

    kafka-configs.sh --bootstrap-server localhost:9092 --alter --entity-type topics --entity-name orders \\
        --add-config retention.ms=3600000
    kafka-configs.sh --bootstrap-server localhost:9092 --alter --entity-type brokers --entity-default \\
        --add-config message.max.bytes=2000000

The answer comes when the broker acts on the change: a client that asks for the settings right afterwards is told the
new ones. Logs that exist take new values at once, and what topics inherit changes in all of them. A change survives a
restart, and what was changed while a broker was down it finds at its start. Lower limits of connections close none of
those there are.

Keys marked *one broker* are changed for one broker only (`--entity-name 1`), those marked *per listener* only with the
listener's prefix, too (`listener.name.<name>.<key>`). Keys marked *no* are refused with INVALID_REQUEST. A wrong value is refused with what is allowed: INVALID_CONFIG for a
topic or a group, INVALID_REQUEST for a broker, as Apache Kafka does. A broker takes keys it does not know, which may be another
broker's; passwords are taken with `password.encoder.secret` only, classes to load never, nor what asks for protection that is not given
([Protection](#protection)). Settings of one entity may come to 512 KiB. What another broker or tool wrote into the store and cannot be used is passed over with a warning.

The log level is the setting of the broker logger `root` (`--entity-type broker-loggers`): TRACE, DEBUG, INFO, WARN,
ERROR or FATAL, until the broker ends. Client metrics have no settings here.

## Environment

Containers are configured by names like `KAFKA_LOG_RETENTION_HOURS=1` or `SORDINI_LOG_RETENTION_HOURS=1`, both for
`log.retention.hours`: upper case, with `_` for `.`, `__` for `_` and `___` for `-`. Where both are set, `SORDINI_`
wins. Our own keys may be told with the prefix once or twice: `SORDINI_CREATE_PARTITIONS_MAX` and
`SORDINI_SORDINI_CREATE_PARTITIONS_MAX` are both `sordini.create.partitions.max`.

Only names of known keys count. Another `KAFKA_` name is warned of, since it may be misspelt, unless it is known to
belong to a container or a JVM: `KAFKA_HOME`, `KAFKA_OPTS`, `KAFKA_HEAP_OPTS`, `KAFKA_LOG4J_*`, `KAFKA_JMX_*`, what
Kubernetes sets for a service named kafka, and their like. `KAFKA_SECURITY_PROTOCOL` and `KAFKA_SASL_MECHANISM` are
names that client applications read and say nothing about a broker. Names of another convention, `KAFKA_CFG_*`, are not
read; one that asks for protection refuses the start.

## Broker keys

Types: a *list* is separated by commas. A key without a default is unset, and the broker goes on to what its meaning
says.
"""

TOPIC_HEAD = """\
## Topic keys

Every one can be given when a topic is made and changed afterwards. The default is what holds when neither the topic
nor the broker says anything.

| key | type | default | allowed | inherits | meaning |
| --- | --- | --- | --- | --- | --- |
"""

GROUP_HEAD = """\
## Group keys

Of consumer groups (KIP-848), `consumer.*`, and of share groups (KIP-932), `share.*` and `errors.deadletterqueue.*`,
which need not exist when they are given settings. A session timeout is longer than the heartbeat interval. A new value
is in force from the next request on. Streams groups are not served, and their keys (`streams.*`) are refused.

    sordini configs set --group billing consumer.session.timeout.ms=60000
    kafka-configs.sh --bootstrap-server localhost:9092 --alter --entity-type groups --entity-name billing \\
        --add-config consumer.session.timeout.ms=60000

| key | type | default | allowed | inherits | meaning |
| --- | --- | --- | --- | --- | --- |
"""

PROTECTION_HEAD = """\
## Protection

The broker fails closed. What is served is in the tables above, what it does in [security.md](security.md); a key that
asks for protection which is not given refuses the start with status 2, in the file, in `--override` and in the
environment alike, with a listener's name in front (`listener.name.<name>.<key>`,
`listener.name.<name>.<mechanism>.<key>`) as without. An empty value of such a key asks for nothing. A listener of
SASL_PLAINTEXT or SASL_SSL without mechanisms is refused, too, and so is an unknown key of these families (`ssl.*`, `sasl.*`, `security.*`,
`authorizer.*`, `quota.*`, `super.*`, `*.policy.class.name` and their like), which may be misspelt. On a PLAINTEXT
listener every client that reaches it may do everything: bind it to a network that you trust.

The keys of the table *Security* whose values may differ between listeners have the prefix of one:
`listener.name.internal.ssl.client.auth=required` is for the listener INTERNAL and precedes `ssl.client.auth`. So have
`max.connections` and `max.connection.creation.rate`, which limit a listener's own connections beside those of all
listeners together. The listener between brokers, when there are others, has only its own limits: its key with the
prefix, or else that without. Names of
listeners are not case-sensitive there. A key of a listener that does not exist has no effect and a warning, as with
Apache Kafka; a wrong value refuses the start in any case.

AlterConfigs refuses the same values with INVALID_REQUEST, and passwords without `password.encoder.secret` with
INVALID_CONFIG. What another broker or tool wrote into the store cannot stop a broker; a warning in its log names the
key. Delegation tokens have no APIs here: clients learn it from ApiVersions.

Served, in the tables above: {served}.

Refused, whatever the value but the one named:

| key | allowed | asks for |
| --- | --- | --- |
"""

HARMLESS_HEAD = """
Harmless: these keys ask for no protection by themselves, whatever their value. Apache Kafka changes those marked * of
one broker while it runs, those marked + only with a listener's name in front; this broker takes and shows them,
without effect. Passwords and classes among them are not taken.

| keys | why |
| --- | --- |
"""

MARKS = {Change.NOWHERE: "", Change.LISTENER: "+", Change.BROKER: "*", Change.ANYWHERE: "*"}

ACCEPTED_HEAD = """\
## Keys that are taken and do nothing

A usual `server.properties` of Apache Kafka's holds keys for things that are done in another way here, or not yet. These
are taken without a warning, told in one line at the start, and may be changed at run time where Apache Kafka lets
them (marked *). Any other key that is not listed on this page is unknown: the broker starts, and warns of it.

| keys | why |
| --- | --- |
"""


RENAMED_HEAD = """
## Keys with a new name

The former name works wherever a key can be given, with a warning in the log; given by both names, a key refuses the
start. In the coordination store the present name counts then, and AlterConfigs writes it.

| former name | name |
| --- | --- |
"""


def sections() -> Iterator[tuple[str, list[Setting]]]:
    """Each section's title and keys, in the order in which they are declared."""
    declaring = [cls for cls in Config.__mro__ if "__annotations__" in vars(cls)]
    assert set(declaring) == set(SECTIONS), "give every class of keys a title in SECTIONS"
    declared = dict(settings_of(Config).values())
    for cls, title in SECTIONS.items():
        yield title, [declared[field] for field in vars(cls)["__annotations__"] if field in declared]


def properties() -> str:
    """config/server.properties."""
    parts = [PROPERTIES_HEAD]
    for title, settings in sections():
        parts.append(f"\n## {title}\n")
        parts += [
            f"\n# {one.meaning} Allowed: {one.rule.allowed}.\n#{one.key}={one.default_text or ''}\n" for one in settings
        ]
    return "".join(parts)


def page() -> str:
    """docs/configuration.md."""
    parts = [HEAD]
    for title, settings in sections():
        parts.append(f"\n### {title}\n\n| key | type | default | allowed | at run time | meaning |\n")
        parts.append("| --- | --- | --- | --- | --- | --- |\n")
        parts += [_row(_broker_cells(one)) for one in settings]
    parts += ["\n", TOPIC_HEAD, *(_row(_topic_cells(TOPIC_SETTINGS[key])) for key in sorted(TOPIC_SETTINGS))]
    parts += ["\n", GROUP_HEAD, *(_row(_group_cells(one)) for _, one in sorted(GROUP_SETTINGS.items()))]
    parts += ["\n", *_protection(), "\n", ACCEPTED_HEAD]
    for group in IGNORED:
        keys = sorted([(key, "*") for key in group.dynamic] + [(key, "") for key in group.static])
        parts.append(_row([", ".join(f"`{key}`{mark}" for key, mark in keys), group.why]))
    parts += [RENAMED_HEAD, *(_row([f"`{former}`", f"`{present}`"]) for former, present in RENAMED.items())]
    return "".join(parts)


def _protection() -> Iterator[str]:
    """The section about keys that ask for protection, and about those that only seem to."""
    yield PROTECTION_HEAD.format(served=", ".join(f"`{key}`" for key in SERVED))
    of_listeners = RefusedKeys(
        BY_LISTENER.request, {f"listener.name.<name>.{key}": row for key, row in BY_LISTENER.keys.items()}
    )
    for refused in (*REFUSED, of_listeners):
        for key, rule in refused.keys.items():
            yield _row([f"`{key}`", rule.allowed, refused.request])
    yield HARMLESS_HEAD
    for harmless in HARMLESS:
        keys = (f"`{key}`{MARKS[TABLE[key].change]}" for key in harmless.keys)
        yield _row([", ".join(keys), harmless.why])


def _broker_cells(one: Setting) -> list[str]:
    cells = [f"`{one.key}`", _type(one.rule), _value(one.default_text), one.rule.allowed, one.change.value]
    return [*cells, one.meaning]


def _topic_cells(one: TopicSetting) -> list[str]:
    inherited = ", ".join(f"`{broker.key}`{UNITS[broker.factor]}" for broker in one.inherits)
    default = _value(value_text(default_of(one.key)))
    return [f"`{one.key}`", _type(one.rule), default, one.rule.allowed, inherited, one.meaning]


def _group_cells(one: GroupSetting) -> list[str]:
    bounded = one.bounded
    if bounded is None:
        return [f"`{one.key}`", _type(one.rule), _value(value_text(one.default)), one.rule.allowed, "", one.meaning]
    bounds = f"`{bounded.least_key}` to `{bounded.most_key}`"
    return [f"`{one.key}`", _type(one.rule), "", bounds, f"`{bounded.key}`", one.meaning]


def _type(rule: ValueRule) -> str:
    return rule.kind.name.lower()


def _value(text: str | None) -> str:
    return "" if text is None else "empty" if not text else f"`{text}`"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
