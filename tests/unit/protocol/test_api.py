"""What is served."""

from __future__ import annotations

from sordini.protocol.api_keys import FIRST_OWN_KEY, ApiKey
from sordini.protocol.declare import NEVER
from sordini.protocol.served_apis import ALL_APIS, APIS, OWN_APIS

SERVED = {
    "PRODUCE": (0, 13, 9),
    "FETCH": (0, 18, 12),
    "LIST_OFFSETS": (0, 11, 6),
    "METADATA": (0, 13, 9),
    "OFFSET_COMMIT": (0, 10, 8),
    "OFFSET_FETCH": (0, 10, 6),
    "FIND_COORDINATOR": (0, 6, 3),
    "JOIN_GROUP": (0, 9, 6),
    "HEARTBEAT": (0, 4, 4),
    "LEAVE_GROUP": (0, 5, 4),
    "SYNC_GROUP": (0, 5, 4),
    "DESCRIBE_GROUPS": (0, 6, 5),
    "LIST_GROUPS": (0, 5, 3),
    "CONSUMER_GROUP_DESCRIBE": (0, 1, 0),
    "CONSUMER_GROUP_HEARTBEAT": (0, 1, 0),
    "SASL_HANDSHAKE": (0, 1, NEVER),
    "SASL_AUTHENTICATE": (0, 2, 2),
    "API_VERSIONS": (0, 5, 3),
    "ALTER_CLIENT_QUOTAS": (0, 1, 1),
    "DESCRIBE_CLIENT_QUOTAS": (0, 1, 1),
    "ALTER_USER_SCRAM_CREDENTIALS": (0, 0, 0),
    "CREATE_ACLS": (0, 3, 2),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, 0, 0),
    "DELETE_ACLS": (0, 3, 2),
    "DESCRIBE_ACLS": (0, 3, 2),
    "CREATE_TOPICS": (0, 7, 5),
    "DELETE_TOPICS": (0, 6, 4),
    "INIT_PRODUCER_ID": (0, 6, 2),
    "OFFSET_FOR_LEADER_EPOCH": (0, 4, 4),
    "ADD_PARTITIONS_TO_TXN": (0, 5, 3),
    "ADD_OFFSETS_TO_TXN": (0, 4, 3),
    "END_TXN": (0, 5, 3),
    "TXN_OFFSET_COMMIT": (0, 6, 3),
    "DESCRIBE_TRANSACTIONS": (0, 0, 0),
    "LIST_TRANSACTIONS": (0, 2, 0),
    "DESCRIBE_CONFIGS": (0, 4, 4),
    "ALTER_CONFIGS": (0, 2, 2),
    "INCREMENTAL_ALTER_CONFIGS": (0, 1, 1),
    "LIST_CONFIG_RESOURCES": (0, 1, 0),
    "GET_TELEMETRY_SUBSCRIPTIONS": (0, 0, 0),
    "PUSH_TELEMETRY": (0, 0, 0),
    "DELETE_GROUPS": (0, 3, 2),
    "OFFSET_DELETE": (0, 0, NEVER),
    "DESCRIBE_CLUSTER": (0, 2, 0),
    "DELETE_RECORDS": (0, 2, 2),
    "DESCRIBE_LOG_DIRS": (0, 5, 2),
    "CREATE_PARTITIONS": (0, 3, 2),
    "ELECT_LEADERS": (0, 2, 2),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 1, 0),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0, 0),
    "DESCRIBE_PRODUCERS": (0, 0, 0),
    "DESCRIBE_TOPIC_PARTITIONS": (0, 0, 0),
    "ALTER_REPLICA_LOG_DIRS": (0, 2, 2),
    "LEADER_AND_ISR": (0, 7, 4),
    "STOP_REPLICA": (0, 4, 2),
    "UPDATE_METADATA": (0, 8, 6),
    "CONTROLLED_SHUTDOWN": (0, 3, 3),
    "WRITE_TXN_MARKERS": (0, 2, 1),
    "ALTER_PARTITION": (0, 3, 0),
    "ALLOCATE_PRODUCER_IDS": (0, 0, 0),
    "INITIALIZE_SHARE_GROUP_STATE": (0, 0, 0),
    "READ_SHARE_GROUP_STATE": (0, 0, 0),
    "WRITE_SHARE_GROUP_STATE": (0, 1, 0),
    "DELETE_SHARE_GROUP_STATE": (0, 0, 0),
    "READ_SHARE_GROUP_STATE_SUMMARY": (0, 1, 0),
    "SHARE_GROUP_HEARTBEAT": (1, 1, 0),
    "SHARE_GROUP_DESCRIBE": (1, 1, 0),
    "SHARE_FETCH": (1, 2, 0),
    "SHARE_ACKNOWLEDGE": (1, 2, 0),
    "DESCRIBE_SHARE_GROUP_OFFSETS": (0, 1, 0),
    "ALTER_SHARE_GROUP_OFFSETS": (0, 0, 0),
    "DELETE_SHARE_GROUP_OFFSETS": (0, 0, 0),
}
"""First and last version, and the first flexible one."""


def test_what_is_served_is_what_the_clients_of_today_and_yesterday_send() -> None:
    served = {api.key.name: (api.min_version, api.max_version, api.flexible_from) for api in APIS.values()}
    assert served == SERVED


def test_an_api_is_found_by_the_number_on_the_wire() -> None:
    assert APIS[1].key is ApiKey.FETCH
    assert all(number == api.key for number, api in APIS.items())


def test_keys_are_dense() -> None:
    assert [key.value for key in ApiKey if key < FIRST_OWN_KEY] == list(range(95))


def test_our_own_keys_are_far_from_kafkas_and_share_their_lower_byte_with_no_key() -> None:
    assert OWN_APIS
    assert all(FIRST_OWN_KEY <= key <= FIRST_OWN_KEY + 55 for key in OWN_APIS)
    assert not OWN_APIS.keys() & APIS.keys()
    assert len({key & 0xFF for key in ALL_APIS}) == len(ALL_APIS)
