"""Keys by their former names: they work, with a warning, wherever a key can be given."""

from __future__ import annotations

import pytest

from sordini.broker.administration.config_receiver import ConfigReceiver, load_layers
from sordini.broker.configuration.config import SETTINGS, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.edits import Edit, Operation, edit_broker
from sordini.broker.configuration.environment import environment_entries
from sordini.broker.configuration.renamed_keys import RENAMED
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.config_loading import load_config, log_ignored_keys
from sordini.protocol.errors import BrokerError
from sordini.replication.metadata_store import paths, znodes
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, a_broker

FORMER, PRESENT = "sordini.record.waiting.bytes.max", "sordini.record.workers.queue.bytes.max"


def test_no_former_name_is_a_key_and_every_present_one_is() -> None:
    assert not RENAMED.keys() & SETTINGS.keys()
    assert set(RENAMED.values()) <= SETTINGS.keys()


@pytest.mark.parametrize("former", sorted(RENAMED))
def test_a_former_name_sets_the_key_and_is_no_unknown_one(former: str) -> None:
    field, declared = SETTINGS[RENAMED[former]]
    text = "true" if declared.default is False else "false" if declared.default is True else "17"
    config, unknown = build_config({former: text})
    assert getattr(config, field) == declared.rule.read(former, text) != declared.default
    assert unknown == []


def test_a_key_by_both_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=rf"{FORMER} is the former name of {PRESENT}"):
        build_config({FORMER: "17", PRESENT: "18"})


def test_a_loaded_configuration_names_the_former_names_for_the_log_and_knows_the_key_as_set() -> None:
    loaded = load_config({FORMER: "17"})
    assert (list(loaded.renamed), loaded.unknown) == ([FORMER], [])
    assert PRESENT in loaded.explicit


def test_a_variable_of_the_environment_may_have_the_former_name() -> None:
    assert environment_entries({"KAFKA_SORDINI_RECORD_WAITING_BYTES_MAX": "17"}) == {FORMER: "17"}


def test_what_a_store_holds_by_the_former_name_is_in_force_until_the_present_one_is_set() -> None:
    dynamic = DynamicConfig(build_config({})[0])
    assert dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {FORMER: "17"}) == []
    assert dynamic.config.record_workers_queue_bytes_max == 17
    dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {FORMER: "17", PRESENT: "18"})
    assert dynamic.config.record_workers_queue_bytes_max == 18


def test_a_change_by_the_former_name_is_written_by_the_present_one() -> None:
    change = Edit(FORMER, Operation.SET, "17")
    assert edit_broker({}, [change], is_default=False) == {PRESENT: "17"}
    assert edit_broker({FORMER: "16"}, [Edit(PRESENT, Operation.DELETE, None)], is_default=False) == {}


def test_one_change_by_both_names_is_refused() -> None:
    with pytest.raises(BrokerError, match="more than once"):
        edit_broker({}, [Edit(FORMER, Operation.SET, "17"), Edit(PRESENT, Operation.SET, "17")], is_default=False)


def test_the_start_warns_of_each_former_name_and_says_the_present_one() -> None:
    log = ListLog()
    log_ignored_keys(load_config({FORMER: "17"}), log)
    assert log.at("warning") == [("configuration key has a new name", {"key": FORMER, "now": PRESENT})]


async def test_a_former_name_in_the_store_is_warned_of_at_the_start_and_at_a_change() -> None:
    async with a_broker() as broker:
        own = paths.broker_entity(ME)
        parts = broker.parts
        receiver = ConfigReceiver(ME, broker.dynamic, parts.topic_configs, parts.replicas, broker.log)
        receiver.changed(own, {FORMER: "17"})
        warning = ("configuration key has a new name", {"entity": own, "key": FORMER, "now": PRESENT})
        assert broker.log.at("warning") == [warning]
        assert broker.dynamic.config.record_workers_queue_bytes_max == 17

        await broker.session.create(paths.config(own), znodes.encode_config({FORMER: "18"}))
        await load_layers(broker.session, ME, broker.dynamic, broker.log)
        assert broker.log.at("warning") == [warning, warning]
        assert broker.dynamic.config.record_workers_queue_bytes_max == 18
