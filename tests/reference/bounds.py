"""The table of bounds in docs/security.md: values from the code, and the test that hits each.

A row names a key of server.properties, or the constant that is the bound; its value is read, never written here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from sordini.broker.configuration.config import SETTINGS

HEAD: Final = "| what | bound | default | beyond it | shown by |\n| --- | --- | --- | --- | --- |\n"
NO_LIMIT: Final = frozenset({-1, 2**31 - 1, 2**63 - 1})
"""Values that Apache Kafka's keys have where there is no limit."""
UNITS: Final = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))

PROTOCOL: Final = "tests/unit/protocol"
RECORDS: Final = f"{PROTOCOL}/records"
UNIT: Final = "tests/unit/broker"
DECODING: Final = "tests/process/test_decoding_children.py"
NETWORK: Final = "tests/network"
TELEMETRY: Final = f"{UNIT}/metrics/telemetry"
TRACING: Final = f"{UNIT}/metrics/tracing"
BEARER: Final = f"{UNIT}/security/sasl/oauthbearer"


class Bound(NamedTuple):
    """One row. `name` is a key, or `module:constant` below `sordini` (a field of a NamedTuple as `module:Class.field`)."""

    what: str
    name: str
    beyond: str
    tests: tuple[str, ...]
    unit: str = ""

    @property
    def is_key(self) -> bool:
        return ":" not in self.name

    @property
    def shown_name(self) -> str:
        return f"`{self.name}`" if self.is_key else f"`{self.name.replace(':', ' ').split()[-1]}`"

    @property
    def value(self) -> object:
        if self.is_key:
            return SETTINGS[self.name][1].default
        module, _, name = self.name.partition(":")
        found: object = import_module(f"sordini.{module}")
        for part in name.split("."):
            defaults = getattr(found, "_field_defaults", {})
            found = defaults[part] if part in defaults else getattr(found, part)
        return found

    @property
    def shown_value(self) -> str:
        value = self.value
        if value in NO_LIMIT:
            return "no limit"
        if not self.unit and isinstance(value, int):
            return f"{value:,}"
        if self.unit == "bytes":
            return size_text(value)
        return f"{value} {self.unit}".strip()


def size_text(value: object) -> str:
    """A number of bytes in its largest unit, where it is a whole number of that."""
    assert isinstance(value, int)
    for factor, unit in UNITS:
        if value >= factor and not value % factor:
            return f"{value // factor} {unit}"
    return f"{value:,} bytes"


CLOSED: Final = "the connection is closed, with one log line"
WAIT: Final = "peers wait in the backlog"

BOUNDS: Final = (
    # Frames.
    Bound(
        "a request",
        "socket.request.max.bytes",
        f"{CLOSED}, before a byte of it is kept",
        (
            f"{NETWORK}/test_hostile_peers.py::test_a_wrong_first_frame_is_refused_with_one_line",
            "tests/process/test_limits.py::test_a_request_larger_than_configured_closes_its_connection",
        ),
        "bytes",
    ),
    Bound(
        "a request before the login",
        "sasl.server.max.receive.size",
        CLOSED,
        (
            "tests/compat/test_sasl_clients.py::test_before_the_login_a_request_is_at_most_as_large_as_configured",
            f"{PROTOCOL}/test_framing.py::test_before_the_login_a_frame_may_be_smaller_only_and_the_refusal_names_the_key",
        ),
        "bytes",
    ),
    Bound(
        "memory that a frame has before its bytes come",
        "protocol.framing:RECEIVE_BYTES",
        "memory follows the bytes that came, whatever was declared",
        (
            f"{PROTOCOL}/test_framing.py::test_memory_follows_the_bytes_received_and_not_the_declared_length",
            "tests/process/test_limits.py::test_fifty_peers_that_announce_100_mib_cost_what_they_sent",
        ),
        "bytes",
    ),
    Bound(
        "unfinished requests of all connections",
        "queued.max.request.bytes",
        "connections inside a frame of more than 1 MiB are not read; those that progress least are closed",
        (
            f"{NETWORK}/test_hostile_peers.py::test_at_the_memory_cap_unfinished_requests_stop_and_all_of_them_finish_in_the_end",
            f"{NETWORK}/test_hostile_peers.py::test_at_the_memory_cap_silent_connections_are_closed_with_a_line_and_a_small_request_never_waits",
        ),
        "bytes",
    ),
    Bound(
        "responses that a peer does not read",
        "broker.network.limits:ConnectionLimits.queued_bytes_max",
        "its requests are neither read nor started; after 30 s without progress the connection is closed",
        (
            f"{NETWORK}/test_hostile_peers.py::test_20_000_pipelined_requests_of_a_sleeping_reader_wait_in_its_own_buffers",
            f"{NETWORK}/test_file_slices.py::test_a_peer_that_does_not_read_its_slice_is_closed_after_a_bounded_wait",
        ),
        "bytes",
    ),
    Bound(
        "unanswered Produce requests of a connection",
        "sordini.connection.pending.produce.requests.max",
        "the next one starts when one is answered",
        (
            f"{NETWORK}/test_requests.py::test_the_number_of_parked_produces_on_a_connection_is_bounded",
            f"{PROTOCOL}/test_request_pipeline.py::test_the_number_of_parked_requests_is_bounded",
        ),
    ),
    Bound(
        "their bytes",
        "broker.network.limits:ConnectionLimits.pending_bytes_max",
        "the next one starts when one is answered",
        (f"{PROTOCOL}/test_request_pipeline.py::test_the_bytes_of_parked_requests_are_bounded",),
        "bytes",
    ),
    # What a request says.
    Bound(
        "elements of all arrays of a request of up to 1 MiB (twice as many between brokers)",
        "broker.requests.decoding_costs:COST_MAX",
        f"{CLOSED}; a larger request may have as many for each MiB",
        (
            f"{UNIT}/requests/test_dispatch.py::test_a_larger_request_may_have_more_elements_in_proportion_and_one_between_brokers_twice_as_many",
            f"{PROTOCOL}/test_messages_laws.py::test_a_message_has_a_bounded_number_of_elements_in_all_its_arrays_together",
        ),
    ),
    Bound(
        "elements of one array",
        "protocol.primitives:COST_MAX",
        f"{CLOSED}, as for a count that the bytes left cannot hold",
        (
            f"{PROTOCOL}/test_codecs.py::test_a_count_that_the_bytes_left_cannot_hold_is_a_wire_error",
            "tests/process/test_limits.py::test_a_declared_count_costs_nothing",
        ),
    ),
    Bound(
        "a string",
        "protocol.primitives:STRING_BYTES_MAX",
        CLOSED,
        (f"{PROTOCOL}/test_codecs.py::test_a_string_longer_than_a_classic_length_can_say_is_a_wire_error",),
        "bytes",
    ),
    Bound(
        "tagged fields of a struct",
        "protocol.primitives:TAGS_MAX",
        CLOSED,
        (f"{PROTOCOL}/test_codecs.py::test_a_struct_may_carry_a_bounded_number_of_tags",),
    ),
    Bound(
        "a topic's name",
        "protocol.topic_names:NAME_LENGTH_MAX",
        "INVALID_TOPIC_EXCEPTION",
        (
            f"{UNIT}/topics/test_topics_handler.py::test_a_name_that_could_leave_the_directory_or_forge_a_line_is_refused",
            f"{UNIT}/topics/test_topics_handler.py::test_the_longest_topic_name_is_accepted",
        ),
        "characters",
    ),
    Bound(
        "how often a request may name one thing",
        "broker.requests.request_checks:NAME_REPEATS_MAX",
        "INVALID_REQUEST for the whole request",
        (
            f"{UNIT}/requests/test_hostile_requests.py::test_a_request_that_names_one_thing_again_and_again_is_refused_as_a_whole",
        ),
    ),
    Bound(
        "partitions that a request creates",
        "sordini.create.partitions.max",
        "POLICY_VIOLATION for the whole request",
        (
            f"{UNIT}/topics/test_topics_handler.py::test_a_request_for_too_much_is_refused_as_a_whole",
            f"{UNIT}/topics/test_partitions_handler.py::test_the_limit_of_new_partitions_is_that_of_all_topics_of_a_request",
        ),
    ),
    Bound(
        "topics that are being auto-created",
        "broker.topics.auto_creation:AUTO_CREATING_MAX",
        "LEADER_NOT_AVAILABLE, which clients retry",
        (f"{UNIT}/topics/test_topic_admin.py::test_concurrent_auto_creations_are_bounded",),
    ),
    Bound(
        "partitions of a page of DescribeTopicPartitions",
        "max.request.partition.size.limit",
        "the page ends with a cursor",
        (f"{UNIT}/topics/test_describe_partitions_handler.py::test_no_page_is_larger_than_the_broker_allows",),
    ),
    Bound(
        "resources whose settings a request changes",
        "broker.administration.alter_configs_handler:RESOURCES_MAX",
        "POLICY_VIOLATION for the whole request",
        (
            f"{UNIT}/administration/test_configs_handlers.py::test_a_request_for_too_many_resources_is_refused_as_a_whole",
        ),
    ),
    Bound(
        "settings of one resource in it",
        "broker.administration.alter_configs_handler:EDITS_MAX",
        "POLICY_VIOLATION for this resource",
        (
            f"{UNIT}/administration/test_configs_handlers.py::test_a_resource_with_more_settings_than_there_can_be_is_refused_and_the_others_are_changed",
        ),
    ),
    Bound(
        "entries or filters of a request about ACLs",
        "broker.security.acls.acls_handler:CREATIONS_MAX",
        "INVALID_REQUEST for the whole request",
        (
            f"{UNIT}/security/acls/test_acls_handler.py::test_a_request_of_more_entries_or_filters_than_allowed_is_refused_as_a_whole",
        ),
    ),
    Bound(
        "a response made of rows",
        "broker.requests.decoding_costs:ANSWER_BYTES_MAX",
        "INVALID_REQUEST",
        (f"{UNIT}/requests/test_dispatch.py::test_an_answer_larger_than_any_client_reads_is_refused",),
        "bytes",
    ),
    # Records.
    Bound(
        "a record batch",
        "message.max.bytes",
        "MESSAGE_TOO_LARGE",
        (f"{RECORDS}/test_produce_validation.py::test_the_size_limit_counts_the_whole_batch_and_is_exact",),
        "bytes",
    ),
    Bound(
        "a compressed batch once expanded, where it is opened",
        "sordini.expanded.bytes.max",
        "MESSAGE_TOO_LARGE, expanded in steps of 64 KiB up to there",
        (
            f"{RECORDS}/test_produce_validation.py::test_a_bomb_is_too_large_when_opened",
            f"{RECORDS}/test_compression.py::test_a_bomb_is_refused_in_small_steps",
            f"{UNIT}/records/test_produce_handler.py::test_where_compressed_batches_are_opened_a_bomb_is_too_large",
        ),
        "bytes",
    ),
    Bound(
        "ratio that a block of snappy may declare; of the other codecs, which have no declared size, see below",
        "protocol.records.expansion:SNAPPY_EXPANSION_MAX",
        "CORRUPT_MESSAGE, before memory is reserved",
        (f"{RECORDS}/test_compression.py::test_a_snappy_block_that_declares_too_much_allocates_nothing",),
        "",
    ),
    Bound(
        "CPU time for the records of a request, for each MiB of it",
        "broker.records.jobs.queue:CPU_MS_PER_MIB",
        "MESSAGE_TOO_LARGE for the batch that does not fit into it, NOT_ENOUGH_REPLICAS for those behind it",
        (
            "tests/process/test_record_jobs.py::test_a_job_that_takes_more_time_than_it_may_is_refused_and_its_child_lives",
            f"{UNIT}/records/test_slow_produce.py::test_what_a_request_may_take_is_shared_by_its_partitions",
        ),
        "ms",
    ),
    Bound(
        "records that wait for a child process",
        "sordini.record.workers.queue.bytes.max",
        "NOT_ENOUGH_REPLICAS, which producers retry; a fetch is answered without records",
        (f"{UNIT}/records/jobs/test_queue.py::test_more_bytes_than_may_wait_are_refused_at_once_and_logged",),
        "bytes",
    ),
    Bound(
        "their number",
        "broker.records.jobs.queue:JOBS_MAX",
        "the same",
        (f"{UNIT}/records/jobs/test_queue.py::test_more_jobs_than_may_wait_are_refused",),
    ),
    Bound(
        "address space of a child process",
        "broker.records.jobs.child:MEMORY_BYTES_MAX",
        "MESSAGE_TOO_LARGE; the child goes on",
        (
            "tests/process/test_record_jobs.py::test_a_job_that_takes_more_memory_than_it_may_is_refused_and_its_child_lives",
        ),
        "bytes",
    ),
    Bound(
        "CPU time for the values of a request that are decoded, for each MiB of it",
        "broker.records.jobs.queue:DECODE_MS_PER_MIB",
        "MESSAGE_TOO_LARGE for the batch",
        (f"{DECODING}::test_a_batch_that_takes_more_than_a_job_may_is_refused",),
        "ms",
    ),
    Bound(
        "CPU time for one value that is decoded",
        "broker.records.schemas.decoding:VALUE_MS_MAX",
        "INVALID_RECORD for the batch, with the record's index",
        (
            f"{DECODING}::test_a_pattern_that_backtracks_refuses_its_value_within_the_limit_of_one",
            f"{DECODING}::test_others_are_served_while_hostile_values_are_decoded_and_the_broker_loads_no_library",
        ),
        "ms",
    ),
    Bound(
        "processes that end at the values of one batch",
        "broker.records.jobs.children:DECODERS_MAX",
        "INVALID_RECORD for the batch",
        (f"{DECODING}::test_values_that_end_every_child_are_refused_and_not_asked_for_again",),
    ),
    Bound(
        "schemas of all subjects, for values that are decoded",
        "broker.records.schemas.registered_texts:CHARACTERS_MAX",
        "INVALID_RECORD for values of those beyond",
        (
            f"{UNIT}/records/schemas/test_registered_texts.py::test_texts_beyond_the_bound_are_not_kept_until_there_is_room",
            f"{DECODING}::test_schemas_that_are_too_long_for_one_batch_or_not_all_there_refuse_it",
        ),
        "characters",
    ),
    Bound(
        "schemas of one batch, with what they refer to",
        "broker.records.schemas.registered_texts:JOB_CHARACTERS_MAX",
        "MESSAGE_TOO_LARGE",
        (
            f"{UNIT}/records/schemas/test_registered_texts.py::test_the_schemas_of_one_record_set_are_bounded",
            f"{DECODING}::test_schemas_that_are_too_long_for_one_batch_or_not_all_there_refuse_it",
        ),
        "characters",
    ),
    Bound(
        "wrappers inside wrappers (formats 0 and 1), from a client",
        "protocol.records.legacy:DEPTH_SENT",
        "INVALID_RECORD",
        (
            f"{RECORDS}/test_legacy_validation.py::test_a_wrapper_in_a_wrapper_is_refused_from_a_client_and_read_from_a_log",
        ),
    ),
    Bound(
        "the same, read from a log",
        "protocol.records.legacy:DEPTH_READ",
        "INVALID_RECORD; all of them together expand to the bound above",
        (f"{RECORDS}/test_legacy.py::test_how_deep_wrappers_nest_is_bounded_and_so_is_all_they_hold",),
    ),
    Bound(
        "records converted for a response to Fetch v0 to v3, in sum",
        "sordini.fetch.converted.bytes.max",
        "the response ends there, except for a first batch that is larger",
        (
            f"{UNIT}/records/test_slow_produce.py::test_the_brokers_own_bound_holds_for_all_that_is_converted_for_an_answer",
        ),
        "bytes",
    ),
    Bound(
        "a response to Fetch",
        "fetch.max.bytes",
        "the response ends there, except for a first batch that is larger",
        (f"{UNIT}/records/test_fetch_handler.py::test_the_brokers_own_limit_bounds_every_answer",),
        "bytes",
    ),
    Bound(
        "fetch sessions",
        "max.incremental.fetch.session.cache.slots",
        "a client without one sends all its partitions each time; an idle one, or for a follower a consumer's, is evicted",
        (
            f"{UNIT}/records/test_fetch_sessions.py::test_a_full_table_refuses_a_small_new_session_but_evicts_a_stale_one",
        ),
    ),
    Bound(
        "partitions of all of them",
        "sordini.fetch.session.partitions.max",
        "FETCH_SESSION_ID_NOT_FOUND for one that grows, and no new one",
        (
            f"{UNIT}/records/test_fetch_sessions.py::test_all_sessions_together_hold_a_bounded_number_of_partitions",
            f"{UNIT}/records/test_fetch_sessions.py::test_a_session_that_grows_past_the_bound_ends_and_its_client_opens_a_new_one",
        ),
    ),
    # Groups and transactions.
    Bound(
        "members of a group",
        "group.max.size",
        "GROUP_MAX_SIZE_REACHED",
        (f"{UNIT}/groups/test_coordinator.py::test_a_group_does_not_grow_beyond_its_maximum_size",),
    ),
    Bound(
        "members of a share group",
        "group.share.max.size",
        "GROUP_MAX_SIZE_REACHED",
        (
            f"{UNIT}/groups/share/test_machine.py::test_a_group_has_no_more_members_than_allowed_and_those_that_it_has_may_join_again",
        ),
    ),
    Bound(
        "share sessions of a broker",
        "group.share.max.share.sessions",
        "SHARE_SESSION_LIMIT_REACHED",
        (
            f"{UNIT}/shares/test_share_requests.py::test_no_more_sessions_are_opened_than_allowed_and_their_partitions_are_bounded",
        ),
    ),
    Bound(
        "records of a partition that a share group has in flight",
        "group.share.partition.max.record.locks",
        "none are acquired, but for the rest of a batch, before records are acknowledged",
        (
            f"{UNIT}/shares/test_share_partition.py::test_no_more_records_are_in_flight_than_the_limit_but_for_the_rest_of_a_batch",
        ),
    ),
    Bound(
        "share partitions that a broker leads, in memory",
        "broker.shares.share_partitions:SHARE_PARTITIONS_MAX",
        "those that are not used make room; UNKNOWN_SERVER_ERROR for the partition where none is",
        (f"{UNIT}/shares/test_share_requests.py::test_share_partitions_that_are_not_used_make_room_for_others",),
    ),
    Bound(
        "state batches of a share partition in one request",
        "broker.share_state.state_apis:BATCHES_MAX",
        "INVALID_REQUEST for the partition",
        (
            f"{UNIT}/share_state/test_share_states.py::test_200_000_batches_in_one_request_are_served_in_slices_or_refused",
        ),
    ),
    Bound(
        "runs of offsets in a stored state of a share partition",
        "broker.share_state.machine.stored_state:STATE_RUNS_MAX",
        "INVALID_REQUEST for the write",
        (f"{UNIT}/share_state/test_stored_state.py::test_a_state_may_not_have_more_runs_than_a_snapshot_has_room_for",),
    ),
    Bound(
        "groups with settings of their own",
        "broker.configuration.group_configs:GROUPS_MAX",
        "POLICY_VIOLATION for the group",
        (
            f"{UNIT}/administration/test_group_configs.py::test_too_many_groups_with_settings_are_refused_and_others_change",
        ),
    ),
    Bound(
        "groups, members with their metadata, and offsets, in memory",
        "sordini.group.memory.bytes.max",
        "GROUP_MAX_SIZE_REACHED for a member, INVALID_COMMIT_OFFSET_SIZE for an offset of another partition",
        (
            f"{UNIT}/groups/test_memory_limit.py::test_metadata_of_all_groups_is_limited_in_sum_and_existing_members_stay",
            f"{UNIT}/groups/test_memory_limit.py::test_offsets_of_invented_groups_are_limited_and_existing_ones_can_be_replaced",
        ),
        "bytes",
    ),
    Bound(
        "metadata of an offset",
        "offset.metadata.max.bytes",
        "OFFSET_METADATA_TOO_LARGE for this offset",
        (f"{UNIT}/groups/test_offset_handlers.py::test_too_long_metadata_is_refused_and_other_offsets_are_committed",),
        "bytes",
    ),
    Bound(
        "session timeout of a member",
        "group.max.session.timeout.ms",
        "INVALID_SESSION_TIMEOUT",
        (f"{UNIT}/groups/test_coordinator.py::test_session_timeouts_are_held_to_the_brokers_bounds",),
        "ms",
    ),
    Bound(
        "transactional ids",
        "sordini.transactional.ids.max",
        "POLICY_VIOLATION for a new one, and one log line",
        (
            f"{UNIT}/transactions/test_transactions_handler.py::test_new_ids_beyond_the_limit_are_refused_and_known_ones_served",
        ),
    ),
    Bound(
        "open transactions",
        "sordini.transactions.ongoing.max",
        "POLICY_VIOLATION for a new one, and one log line",
        (
            f"{UNIT}/transactions/test_transactions_handler.py::test_transactions_beyond_the_limit_are_refused_until_one_ends",
        ),
    ),
    Bound(
        "transaction timeout",
        "transaction.max.timeout.ms",
        "INVALID_TRANSACTION_TIMEOUT",
        (f"{UNIT}/transactions/test_transactions_handler.py::test_a_timeout_above_the_brokers_is_refused",),
        "ms",
    ),
    Bound(
        "AddPartitionsToTxn requests that wait for the end of the transaction before, for each partition of its topic",
        "broker.transactions.held_requests:HELD_MAX",
        "CONCURRENT_TRANSACTIONS at once",
        (f"{UNIT}/transactions/test_held_requests.py::test_only_so_many_requests_are_held",),
    ),
    Bound(
        "producer ids of a partition",
        "sordini.partition.producers.max",
        "the longest silent one is forgotten; KAFKA_STORAGE_ERROR, which producers retry, where none is silent",
        (
            "tests/unit/storage/test_producer_state.py::test_past_the_bound_a_new_producer_is_refused_while_none_is_silent_and_those_there_are_go_on",
            "tests/unit/storage/test_producer_state.py::test_past_the_bound_those_that_are_silent_for_longest_are_forgotten_for_a_new_one",
        ),
    ),
    # Connections and logins.
    Bound(
        "connections",
        "max.connections",
        f"{WAIT}; the brokers' own listener, where there are others, has this bound for itself",
        (
            f"{NETWORK}/test_connections.py::test_at_max_connections_peers_wait_until_a_connection_closes",
            f"{NETWORK}/test_connections.py::test_the_brokers_own_listener_is_not_held_up_by_max_connections",
            "tests/unit/broker/configuration/test_listener_connections.py::test_a_listener_has_its_own_bounds_and_else_the_brokers",
        ),
    ),
    Bound(
        "connections of a listener (`listener.name.<name>.`)",
        "max.connections",
        f"{WAIT}; other listeners accept",
        (
            f"{NETWORK}/test_connections.py::test_a_listeners_own_bound_does_not_hold_up_another_listener",
            f"{NETWORK}/test_connections.py::test_the_brokers_own_listener_has_its_own_bound",
            "tests/process/test_configs.py::test_a_listeners_own_limit_is_changed_at_run_time_and_holds_up_no_other_listener",
        ),
    ),
    Bound(
        "connections of an address",
        "max.connections.per.ip",
        "the connection is closed",
        (
            f"{NETWORK}/test_connections.py::test_past_max_connections_per_ip_a_connection_is_closed_at_once",
            "tests/process/test_limits.py::test_an_address_has_so_many_connections_and_no_more",
        ),
    ),
    Bound(
        "connections per second",
        "max.connection.creation.rate",
        "peers wait in the backlog",
        (
            f"{NETWORK}/test_quotas.py::test_connections_above_the_brokers_rate_wait_and_are_accepted_later",
            f"{NETWORK}/test_quotas.py::test_the_brokers_rate_holds_up_and_counts_no_connection_between_brokers",
        ),
    ),
    Bound(
        "connections of a listener per second (`listener.name.<name>.`)",
        "max.connection.creation.rate",
        f"{WAIT}; other listeners accept",
        (
            f"{NETWORK}/test_quotas.py::test_connections_above_a_listeners_rate_wait_while_another_listener_accepts",
            f"{NETWORK}/test_quotas.py::test_the_brokers_own_listener_has_its_own_rate",
        ),
    ),
    Bound(
        "connections of an address above its quota that wait to be closed",
        "broker.network.connection_rates:CLOSING_MAX",
        "the connection is closed at once",
        (f"{NETWORK}/test_quotas.py::test_so_many_connections_wait_to_be_closed_and_no_more",),
    ),
    Bound(
        "clients whose use is measured",
        "broker.requests.quotas.client_quotas:METERS_MAX",
        "the oldest meter begins anew",
        (f"{UNIT}/requests/quotas/test_client_quotas.py::test_meters_are_bounded_however_many_client_ids_there_are",),
    ),
    Bound(
        "entities whose quotas a request changes",
        "broker.administration.client_quotas_handler:ENTRIES_MAX",
        "POLICY_VIOLATION for the whole request",
        (
            f"{UNIT}/administration/test_client_quotas_handler.py::test_a_request_for_too_many_entities_is_refused_as_a_whole",
        ),
    ),
    Bound(
        "connections of a processor",
        "sordini.processor.connections.max",
        WAIT,
        (f"{NETWORK}/test_connections.py::test_a_processor_owns_a_bounded_number_of_connections",),
    ),
    Bound(
        "idle time of a connection",
        "connections.max.idle.ms",
        "the connection is closed",
        (f"{NETWORK}/test_connections.py::test_an_idle_connection_is_closed_and_a_busy_one_is_kept",),
        "ms",
    ),
    Bound(
        "time to the first complete request",
        "sordini.first.request.timeout.ms",
        "the connection is closed",
        (f"{NETWORK}/test_hostile_peers.py::test_a_slow_first_request_is_closed_where_a_deadline_is_configured",),
        "ms",
    ),
    Bound(
        "TLS handshakes under way",
        "sordini.tls.handshakes.max",
        WAIT,
        (f"{NETWORK}/test_tls.py::test_at_the_bound_of_handshakes_peers_wait_in_the_backlog",),
    ),
    Bound(
        "time of a TLS handshake",
        "sordini.tls.handshake.timeout.ms",
        "the connection is closed",
        (f"{NETWORK}/test_tls.py::test_a_handshake_has_a_deadline_and_holds_no_thread",),
        "ms",
    ),
    Bound(
        "connections that have not logged in",
        "sordini.logins.pending.max",
        "the connection is closed",
        (
            f"{UNIT}/security/sasl/test_login.py::test_so_many_connections_may_be_about_to_log_in_and_each_has_so_much_time",
        ),
    ),
    Bound(
        "time of a login",
        "sordini.login.timeout.ms",
        "the connection is closed",
        (
            f"{UNIT}/security/sasl/test_login.py::test_so_many_connections_may_be_about_to_log_in_and_each_has_so_much_time",
        ),
        "ms",
    ),
    Bound(
        "iterations of SCRAM, checked before anything is hashed",
        "broker.security.sasl.scram_credential:ITERATIONS_MAX",
        "UNACCEPTABLE_CREDENTIAL",
        (
            f"{UNIT}/security/sasl/test_login.py::test_users_are_described_and_wrong_changes_refused_with_the_codes_of_apache_kafka",
        ),
    ),
    Bound(
        "a bearer token",
        "broker.security.sasl.oauthbearer.tokens:TOKEN_BYTES_MAX",
        "the token is refused before anything of it is read",
        (f"{BEARER}/test_tokens.py::test_a_token_is_bounded_before_anything_of_it_is_read",),
    ),
    Bound(
        "a document with an issuer's keys",
        "broker.security.sasl.oauthbearer.key_set:DOCUMENT_BYTES_MAX",
        "it is refused, over HTTP without being read to its end, and the former keys stay in force",
        (
            f"{BEARER}/test_key_set.py::test_documents_are_bounded_in_bytes_and_in_keys",
            f"{NETWORK}/test_documents.py::test_a_longer_document_is_refused_and_not_read_to_its_end",
        ),
    ),
    Bound(
        "its keys",
        "broker.security.sasl.oauthbearer.key_set:KEYS_MAX",
        "it is refused, and the former keys stay in force",
        (f"{BEARER}/test_key_set.py::test_documents_are_bounded_in_bytes_and_in_keys",),
    ),
    Bound(
        "time between two fetches of keys that tokens of unknown keys cause",
        "broker.security.sasl.oauthbearer.refresh_schedule:EARLY_MS",
        "the keys are fetched when they are due",
        (f"{BEARER}/test_key_source.py::test_however_many_keys_are_missing_they_are_fetched_at_most_once_in_a_while",),
        "ms",
    ),
    Bound(
        "addresses whose failed logins are remembered",
        "broker.security.sasl.failed_logins:ADDRESSES_MAX",
        "the one that failed longest ago is forgotten",
        (f"{UNIT}/security/sasl/test_failed_logins.py::test_so_many_addresses_are_remembered",),
    ),
    Bound(
        "decisions of the authorizer that are remembered",
        "broker.security.acls.authorizer:REMEMBERED_MAX",
        "they are made again",
        (f"{UNIT}/security/test_authorizer.py::test_a_decision_is_forgotten_with_a_change_and_memory_is_bounded",),
    ),
    Bound(
        "request shapes of the prepared way",
        "broker.requests.prepared_requests:PREPARED_MAX",
        "the general way serves",
        (
            f"{UNIT}/records/prepared/test_prepared_produce.py::test_the_table_is_bounded_and_learns_some_new_shapes_when_it_is_full",
        ),
    ),
    Bound(
        "one push of a client's metrics, as it comes and decompressed",
        "telemetry.max.bytes",
        "it is refused, and read no further",
        (
            f"{TELEMETRY}/test_telemetry_handler.py::test_a_push_of_more_than_telemetry_max_bytes_is_refused",
            f"{TELEMETRY}/test_decoding.py::test_what_expands_to_the_bound_is_read_and_one_byte_more_is_refused",
        ),
        "bytes",
    ),
    Bound(
        "pushes that wait to be read",
        "broker.metrics.telemetry.client_telemetry:WAITING_BYTES",
        "the client is to push later",
        (f"{TELEMETRY}/test_telemetry_handler.py::test_pushes_beyond_what_may_wait_are_put_off",),
        "bytes",
    ),
    Bound(
        "processor time, in ms, for one push",
        "broker.metrics.telemetry.reader_process:CPU_MS",
        "it is refused",
        (f"{TELEMETRY}/test_decoding.py::test_a_push_that_takes_too_long_is_refused_and_the_child_goes_on",),
    ),
    Bound(
        "clients that push and are remembered",
        "sordini.client.telemetry.clients.max",
        "the one that was silent for longest is forgotten",
        (
            f"{TELEMETRY}/test_instances.py::test_of_too_many_instances_the_one_that_was_silent_for_longest_is_forgotten_and_counted",
        ),
    ),
    Bound(
        "segments in one response to DescribeSegments",
        "broker.administration.segments_handler:SEGMENTS_MAX",
        "the rest is left out, with the offset at which it begins",
        (f"{UNIT}/administration/test_activity_handlers.py::test_more_segments_than_the_bound_are_left_out",),
    ),
    Bound(
        "events that a broker remembers of its own activity",
        "broker.administration.activity.event_log:EVENTS_MAX",
        "the oldest are forgotten",
        (f"{UNIT}/administration/test_event_log.py::test_a_row_that_was_dropped_is_not_continued",),
    ),
    Bound(
        "slow requests of a second whose spans are exported",
        "sordini.tracing.requests.per.second.max",
        "they are dropped, and counted",
        (
            f"{TRACING}/test_slow_request.py::test_in_no_second_more_requests_are_admitted_than_twice_the_rate",
            "tests/process/test_tracing.py::test_requests_beyond_the_rate_are_counted_and_dropped",
        ),
    ),
    Bound(
        "slow requests that wait to be exported",
        "broker.metrics.tracing.span_export:WAITING_MAX",
        "they are dropped, and counted",
        (
            f"{TRACING}/test_span_export.py::test_an_exporter_that_hangs_fills_the_queue_and_what_is_beyond_it_is_counted",
        ),
    ),
    Bound(
        "bytes that are kept of a slow request's response",
        "broker.metrics.tracing.slow_request:ANSWER_BYTES_MAX",
        "its spans have no error codes",
        (
            f"{TRACING}/test_traced_service.py::test_a_response_is_kept_up_to_a_bound_that_bytes_of_files_do_not_count_for",
        ),
        "bytes",
    ),
    Bound(
        "partitions, and errors, that a span lists",
        "broker.metrics.tracing.spans:LISTED_MAX",
        "a span has their number, and no more of them",
        (f"{TRACING}/test_spans.py::test_lists_and_texts_are_bounded",),
    ),
    Bound(
        "series of lag at the Prometheus endpoint",
        "sordini.metrics.group.partitions.max",
        "committed offsets of other groups have no series, and are counted",
        ("tests/unit/broker/metrics/test_readings.py::test_series_of_lag_are_bounded_and_what_is_left_out_is_counted",),
    ),
    Bound(
        "values of metrics of all clients",
        "sordini.client.telemetry.series.max",
        "values of other metrics are dropped, and counted",
        (
            f"{TELEMETRY}/test_instances.py::test_values_beyond_the_bound_of_all_clients_are_dropped_and_counted_and_known_ones_change",
        ),
    ),
    Bound(
        "values of metrics of one client",
        "broker.metrics.telemetry.machine.figures:FIGURES_PER_CLIENT_MAX",
        "values of other metrics are dropped, and counted",
        (f"{TELEMETRY}/test_instances.py::test_one_client_does_not_take_the_place_of_all",),
    ),
    Bound(
        "subscriptions to metrics of clients",
        "broker.configuration.client_metrics_configs:SUBSCRIPTIONS_MAX",
        "no other can be made",
        (
            f"{UNIT}/administration/test_client_metrics_configs.py::test_subscriptions_are_bounded_and_those_there_are_can_be_changed",
        ),
    ),
)

ABOUT_NO_PEER: Final = frozenset(
    {
        "transaction.state.log.load.buffer.size",
        "sordini.group.rebalance.history.max",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.share.delivery.count.limit",
        "group.share.max.assignment.interval.ms",
        "group.share.max.delivery.count.limit",
        "group.share.max.heartbeat.interval.ms",
        "group.share.max.partition.max.record.locks",
        "group.share.max.record.lock.duration.ms",
        "group.share.max.session.timeout.ms",
        "group.share.min.delivery.count.limit",
        "group.share.min.partition.max.record.locks",
        "share.coordinator.load.buffer.size",
        "offsets.load.buffer.size",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "controller.quota.window.size.seconds",
        "quota.window.size.seconds",
        "replication.quota.window.size.seconds",
        "log.index.size.max.bytes",
        "sordini.open.segments.max",
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "connections.max.reauth.ms",
        "socket.listen.backlog.size",
        "max.connections.per.ip.overrides",
        "reserved.broker.max.id",
        "controlled.shutdown.max.retries",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    }
)
"""Keys that sound like bounds of what a peer may cost, and are not: of the broker's own work, or of what records say."""


def rows() -> list[str]:
    return [
        f"| {bound.what} | {bound.shown_name} | {bound.shown_value} | {bound.beyond} | "
        f"{', '.join(f'`{test}`' for test in bound.tests)} |\n"
        for bound in BOUNDS
    ]
