"""Where Sordini answers otherwise than Apache Kafka on purpose: what, and why.

This is the whole list; docs/compatibility.md is written from it. An entry for one situation whose difference
no longer occurs is a failure too, so that the list cannot outlive its reasons.
"""

from fnmatch import fnmatchcase

from tests.compat.situations.difference import ABSENT, ANYTHING, Difference, several
from tests.compat.situations.transaction_differences import TRANSACTION_DIFFERENCES


def allowed_in(sentence: str) -> list[Difference]:
    return [one for one in DIFFERENCES if fnmatchcase(sentence, one.sentence)]


OWN_TOPIC_KEY = "A topic has a key more, sordini.schema.validate: brokers that check schema ids."
DEAD_LETTERS = "errors.deadletterqueue.group.enable"
NEWER_TOPIC_KEY = "A topic has a key of Apache Kafka 4.4, for dead letters of share groups (KIP-1191)."

DIFFERENCES: list[Difference] = [
    Difference("DescribeConfigs of a topic *", "results/0/configs/sordini.schema.validate/*", ANYTHING, OWN_TOPIC_KEY),
    Difference("DescribeConfigs of a topic *", f"results/0/configs/{DEAD_LETTERS}/*", ANYTHING, NEWER_TOPIC_KEY),
    Difference("DescribeConfigs of no keys", "listed", 38, f"{OWN_TOPIC_KEY} {NEWER_TOPIC_KEY}"),
    Difference(
        "CreateTopics v5 lists the new topic's configuration", "sordini.schema.validate/*", ANYTHING, OWN_TOPIC_KEY
    ),
    Difference("CreateTopics v5 lists the new topic's configuration", f"{DEAD_LETTERS}/*", ANYTHING, NEWER_TOPIC_KEY),
    *several(
        "a broker's keys of encryption and authentication, for one broker, all brokers and a listener that is not there",
        {
            "listener.name.other.authorizer.class.name of '0'/*": 42,
            "listener.name.other.connections.max.reauth.ms of '0'/*": 42,
            "listener.name.other.sasl.server.max.receive.size of '0'/*": 42,
            "listener.name.other.security.inter.broker.protocol of '0'/*": 42,
        },
        "For a listener that does not exist Apache Kafka stores any value. Here these keys are in force, for the whole "
        "broker and from its start on, so a value that changes nothing is refused.",
    ),
    Difference(
        "DescribeConfigs of a broker lists the keys with their defaults and sources",
        "results/0/configs/ssl.keystore.password/read_only",
        True,
        "Without password.encoder.secret no password is kept in the coordination store, so none is changed over the wire.",
    ),
    *several(
        "a broker's keys of encryption and authentication, for one broker, all brokers and a listener that is not there",
        {
            "listener.name.other.create.topic.policy.class.name of '0'/*": 42,
            "listener.name.other.sasl.login.class of '0'/*": 42,
            "listener.name.other.password.encoder.secret of '0'/*": 42,
        },
        "For a listener that does not exist Apache Kafka stores any value. Here, storing a policy, a class or a "
        "password would suggest protection that is not there, so it is refused: no class is loaded, and no password "
        "is kept in the store for it.",
    ),
    Difference(
        "OffsetCommit of an unknown member and of another generation",
        "no such group/topics/0/partitions/0/error_code",
        69,
        "From version 9 on, which members of consumer groups (KIP-848) use, Apache Kafka 4.4 says GROUP_ID_NOT_FOUND.",
    ),
    Difference(
        "DescribeConfigs of groups and of client metrics",
        "a group/results/0/configs*",
        ANYTHING,
        "Streams groups are not served, so they have no settings here: a group has those of consumer groups and of "
        "share groups.",
    ),
    *several(
        "settings of groups of other kinds: share groups and streams groups",
        {
            "streams.heartbeat.interval.ms/0/error_code": 40,
            "streams.num.standby.replicas/0/error_code": 40,
        },
        "Streams groups are not served: a setting that is accepted would have no effect.",
    ),
    Difference(
        "settings of groups of other kinds: share groups and streams groups",
        "consumer.assignor.offload.enable/0/error_code",
        40,
        "An internal setting of Apache Kafka. Whether assignments are computed beside the event loop is the broker's to say.",
    ),
    Difference(
        "IncrementalAlterConfigs of a group: null, lists, unknown operations, one key twice",
        "operation 4/0/error_code",
        42,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR; the operation is an invalid request.",
    ),
    Difference(
        "DescribeGroups with the operations that are allowed",
        "*",
        3400,
        "Since Apache Kafka 4.0 a group has settings, which may be described and altered. 3.9 knows three operations.",
    ),
    Difference(
        "a cordon around directories of a broker: none, an unknown one, and all of them",
        "all/responses/0/error_code",
        42,
        "Apache Kafka's controller places no replica on a broker whose directories are all cordoned. Our brokers keep "
        "their cordons to themselves, so one directory must be left.",
    ),
    Difference(
        "Produce *",
        "*log_start_offset",
        0,
        "No client reads the log start offset beside an error. Apache Kafka fills it in or sends -1, depending on "
        "where the request failed; ours is always filled in.",
    ),
    Difference(
        "Produce *",
        "*log_append_time_ms",
        -1,
        "Apache Kafka answers a duplicate with its first sending's timestamp here, even where the time is the "
        "producer's own; ours is -1 unless the topic is one of log append time.",
    ),
    *several(
        "Produce of records whose offset deltas are not 0, 1, 2",
        {
            "*/error_code": 87,
            "a gap/base_offset": -1,
            "the same twice/base_offset": -1,
            "a good batch after them/base_offset": 0,
        },
        "Apache Kafka checks each record's offset only when the batch is compressed, and stores records whose "
        "offsets contradict their batch; Sordini refuses them in both cases.",
    ),
    *several(
        "Produce of null and of empty records",
        {
            "null v?": ABSENT,
            "null v?/error_code": 87,
            "null v?/index": 0,
            "null v?/base_offset": -1,
            "null v9/record_errors": [],
            "null v9/error_message": ANYTHING,
        },
        "Apache Kafka stumbles over a null pointer and never answers, so that the client waits for its timeout. "
        "INVALID_RECORD is what it answers to an empty set.",
    ),
    Difference(
        "Produce of an unknown codec, and of bytes that are not what their codec says",
        "codec ?/error_code",
        76,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; UNSUPPORTED_COMPRESSION_TYPE names "
        "what is wrong.",
    ),
    *several(
        "Produce of an unknown codec, and of bytes that are not what their codec says",
        {"garbage as codec ?/error_code": 2, "gzip cut short/error_code": 2},
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; the bytes are corrupt.",
    ),
    Difference(
        "Produce of gzip batches: right ones, and ones whose records lie",
        "a gap in the deltas/error_code",
        87,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR; the records' own offsets contradict the batch's count.",
    ),
    *several(
        "Produce v2 of a message set that lies",
        {"codec ? in magic 1/error_code": 76, "garbage gzip/error_code": 2},
        "Apache Kafka answers UNKNOWN_SERVER_ERROR or INVALID_RECORD, as the exception happens to be; the codec "
        "is unknown there, and the bytes are corrupt here.",
    ),
    Difference(
        "*",
        "*records/bytes_left_over",
        ANYTHING,
        "Apache Kafka announces a size before it converts to the old format, or reads up to the byte limit, and "
        "ends with bytes of no whole batch, which clients throw away. Ours need not be as many.",
    ),
    Difference(
        "a v2 batch read by Fetch v0 to v3 comes as a message set",
        "v[23] from 0/records/entries/4/*",
        ANYTHING,
        "The old format is larger than the stored one, and Apache Kafka leaves out what exceeds the size it "
        "announced before converting; we send the whole batch that the limit allowed.",
    ),
    Difference(
        "Metadata v12 by name and id at once, and by neither",
        "neither/topics/0/error_code",
        42,
        "A topic asked for by neither name nor id is the request's mistake; Apache Kafka answers "
        "UNKNOWN_SERVER_ERROR and logs a stack trace.",
    ),
    Difference(
        "CreateTopics with a manual assignment, right and wrong",
        "*/topics/0/error_code",
        39,
        "A replica on a broker that is not there, no replica at all, or a negative partition: Apache Kafka makes "
        "a topic that never gets a leader and answers REQUEST_TIMED_OUT. We make none.",
    ),
    *several(
        "CreateTopics with an assignment of one partition twice",
        {
            "topics/0/error_code": 39,
            "topics/0/configs": [],
            "topics/0/num_partitions": -1,
            "topics/0/replication_factor": -1,
        },
        "Apache Kafka takes the last of two contradicting rows without a word; we refuse.",
    ),
    Difference(
        "DeleteTopics by id, and by an unknown id",
        "neither/responses/0/error_code",
        42,
        "A topic named by neither name nor id is the request's mistake and not one of authorisation.",
    ),
    *several(
        "DescribeConfigs of a topic with synonyms and documentation",
        {"results/0/configs/local.retention.*/synonyms*": ANYTHING},
        "Those broker keys (log.local.retention.*) are not ours: there is no tiered storage.",
    ),
    Difference(
        "DescribeConfigs of some keys, known and unknown, in v0 to v4",
        "0/results/0/configs/*/is_default",
        True,
        "Version 0 has a field for whether a value is the default; Apache Kafka always answers false.",
    ),
    *several(
        "DescribeConfigs of a broker lists the keys with their defaults and sources",
        {
            "results/0/configs/advertised.listeners/read_only": True,
            "results/0/configs/listener*/read_only": True,
            "results/0/configs/num.network.threads/read_only": True,
        },
        "Listeners and the network's threads are set up when the broker starts and stay as they are.",
    ),
    *several(
        "DescribeConfigs of a broker lists the keys with their defaults and sources",
        {"results/0/configs/*": ABSENT, "results/0/configs/zookeeper.*": ANYTHING},
        "One broker runs on ZooKeeper here, the other on its own file. Keys that mean nothing to this broker (thread "
        "pools, TLS stores, replication) are not listed.",
    ),
    *several(
        "Fetch with negative limits",
        {"max_bytes -1/*": ANYTHING, "partition_max_bytes -1/*": ANYTHING},
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; a negative limit is no room, and gets "
        "what no room gets: the first batch.",
    ),
    *several(
        "Fetch with an unknown isolation level",
        {
            "error_code": 42,
            "responses/0/partitions/0/error_code": 42,
            "responses/0/partitions/0/aborted_transactions": None,
            "responses/0/partitions/0/records*": ANYTHING,
        },
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; the request is wrong.",
    ),
    *several(
        "Produce of the same partition twice in one request",
        {"0/responses/0/partition_responses/*": ANYTHING, "1/base_offset": 0},
        "Apache Kafka answers such a partition once and drops one of the two batches without a word; we refuse the "
        "whole request, and append nothing of it.",
    ),
    Difference(
        "Produce of an unknown codec, and of bytes that are not what their codec says",
        "*/log_start_offset",
        -1,
        "No client reads the log start offset beside an error.",
    ),
    *several(
        "Produce to a topic with LogAppendTime",
        {"attribute set by the client/error_code": 32, "attribute set by the client/base_offset": -1},
        "On a topic that keeps the producers' times, a batch that claims to carry the broker's contradicts "
        "itself; Apache Kafka clears the bit without a word.",
    ),
    *several(
        "Produce with half a producer identity",
        {
            "no epoch/error_code": 87,
            "no epoch/base_offset": -1,
            "no id/base_offset": 0,
            "id -2/base_offset": 1,
            "an unassigned id/base_offset": 2,
        },
        "A producer id without an epoch or a sequence is half an identity: Apache Kafka stores the batch, we refuse.",
    ),
    Difference(
        "CreatePartitions of unknown and invalid topics beside a good one",
        "empty/results/0/error_code",
        3,
        "Apache Kafka reads a path that ends in a slash from ZooKeeper and answers UNKNOWN_SERVER_ERROR; there is no "
        "such topic.",
    ),
    Difference(
        "DescribeTopicPartitions of unknown, invalid, empty and repeated names",
        "empty/topics/0/error_code",
        17,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR; no topic's name is empty.",
    ),
    Difference(
        "DescribeTopicPartitions of unknown, invalid, empty and repeated names",
        "empty/topics/0/topic_authorized_operations",
        3576,
        "The operations are said of every topic that was asked for, as they are of an invalid name.",
    ),
    Difference(
        "ElectLeaders of an unknown kind",
        "*error_code",
        42,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; the request is wrong.",
    ),
    Difference(
        "IncrementalAlterConfigs append to and subtract from what is no list",
        "append to an unknown key/responses/0/error_code",
        40,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR; an unknown key is INVALID_CONFIG, as it is when it is set.",
    ),
    Difference(
        "IncrementalAlterConfigs with null values, empty values and unknown operations",
        "operation */responses/0/error_code",
        42,
        "Apache Kafka answers UNKNOWN_SERVER_ERROR and logs a stack trace; the request is wrong.",
    ),
    Difference(
        "JoinGroup gives out more member ids than the group has room for",
        "4",
        81,
        "Ids that were given out and not used yet are kept in memory. Apache Kafka keeps any number of them; we give "
        "out no more at a time than the group may have members (`group.max.size`).",
    ),
    Difference(
        "OffsetCommit v0 keeps offsets elsewhere than v1",
        "fetched by v8/committed_offset",
        7,
        "Version 0 of OffsetCommit and OffsetFetch, unused since 2014, keeps its offsets in ZooKeeper with Apache "
        "Kafka; ours are with all others, in the offsets topic.",
    ),
    *several(
        "OffsetCommit of one partition twice in a request",
        {
            "one topic/topics/0/partitions/1/*": ANYTHING,
            "two topics/topics/1/*": ANYTHING,
        },
        "The last one counts for both; Apache Kafka answers the two with one row, we answer each.",
    ),
    Difference(
        "OffsetFetch of one group and of one partition named twice",
        "partition/topics/0/partitions/1/*",
        ANYTHING,
        "Apache Kafka answers the two with one row, we answer each.",
    ),
    Difference(
        "FindCoordinator of unknown types and of share groups",
        "type 2 v6/coordinators/0/error_code",
        42,
        "Apache Kafka 3.9 has no coordinator of share groups, and answers COORDINATOR_NOT_AVAILABLE, after which clients "
        "keep retrying. A group's id names no share partition: ours and Apache Kafka 4.4 answer INVALID_REQUEST.",
    ),
    *TRANSACTION_DIFFERENCES,
]
