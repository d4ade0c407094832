"""FindCoordinator and InitProducerId of transactional ids: who coordinates, and which epoch a producer gets."""

from typing import Any

from tests.compat.situations.members import wait_for_coordinator as wait_for_group_coordinator
from tests.compat.situations.producers import TIMEOUT_MS, Producer, initialised, wait_for_coordinator
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

MAX_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms"""


@situation("FindCoordinator v1 to v3 of a transactional id, and of an empty one")
def coordinator_single(broker: Broker) -> Any:
    producer = Producer(broker, "find-transactional")
    return {
        f"v{version} {name}": broker.ask("FindCoordinator", version, key_type=1, key=key)
        for version in (1, 2, 3)
        for name, key in (("an id", producer.id), ("an empty id", ""))
    }


@situation("FindCoordinator v4 to v6 of several transactional ids, of an empty one, and of none")
def coordinator_several(broker: Broker) -> Any:
    producer = Producer(broker, "find-several-transactional")
    keys = {"several": [producer.id, broker.name("other"), producer.id], "an empty id": [""], "none": []}
    return {
        f"v{version} {name}": broker.ask("FindCoordinator", version, key_type=1, coordinator_keys=asked)
        for version in (4, 5, 6)
        for name, asked in keys.items()
    }


@situation("InitProducerId v0 to v5 with a new transactional id, and with the same again")
def every_version(broker: Broker) -> Any:
    seen = {}
    for version in range(6):
        producer = Producer(broker, f"init-v{version}")
        seen[version] = [producer.init(version), producer.init(version), producer.describe()]
    return seen


@situation("InitProducerId with a timeout of 0, below, at the maximum and above it")
def timeouts(broker: Broker) -> Any:
    producer = Producer(broker, "init-timeouts")
    asked = (0, -1, -(2**31), 1, MAX_TIMEOUT_MS, MAX_TIMEOUT_MS + 1, 2**31 - 1)
    return {
        f"{timeout_ms} v{version}": [producer.init(version, transaction_timeout_ms=timeout_ms), producer.describe()]
        for timeout_ms in asked
        for version in (0, 4)
    }


@situation("InitProducerId with a wrong timeout aborts no open transaction")
def wrong_timeout_in_a_transaction(broker: Broker) -> Any:
    topic = broker.create("init-wrong-timeout")
    producer = initialised(broker, "init-wrong-timeout")
    producer.write(topic)
    refused = [producer.init(transaction_timeout_ms=0), producer.init(transaction_timeout_ms=MAX_TIMEOUT_MS + 1)]
    return [refused, producer.describe(), producer.commit()]


@situation("InitProducerId with an empty transactional id, v0 to v5")
def empty_id(broker: Broker) -> Any:
    wait_for_coordinator(broker, broker.name("init-empty"))
    fields = {"transactional_id": "", "transaction_timeout_ms": TIMEOUT_MS}
    return {version: broker.ask("InitProducerId", version, **fields) for version in range(6)}


@situation("InitProducerId with a long transactional id, and with letters of every kind")
def odd_ids(broker: Broker) -> Any:
    seen = {}
    for name in ("n" * 2_000, "a space", "ümläut", "a/b:c*", "."):
        producer = Producer(broker, name)
        seen[name[:10]] = [producer.init(), producer.describe()["producer_epoch"]]
    return seen


@situation("InitProducerId while a transaction is open aborts it, and raises the epoch twice")
def with_an_open_transaction(broker: Broker) -> Any:
    topic = broker.create("init-open")
    seen = {}
    for version in (0, 3, 4, 5):
        producer = initialised(broker, f"init-open-v{version}")
        producer.write(topic)
        first = producer.init(version)
        seen[version] = [first, producer.init_after(version), producer.describe()]
    return seen


@situation("a producer whose transaction a newer one aborted is fenced in every request")
def fenced(broker: Broker) -> Any:
    topic = broker.create("init-fenced")
    wait_for_group_coordinator(broker, "g")
    producer = initialised(broker, "init-fenced")
    producer.write(topic)
    Producer(broker, "init-fenced").init_after()
    seen: dict[str, Any] = {f"EndTxn v{version}": producer.end(version) for version in range(5)}
    seen |= {f"AddPartitionsToTxn v{version}": producer.add({topic: [0]}, version) for version in range(4)}
    seen |= {f"AddOffsetsToTxn v{version}": producer.add_offsets("g", version) for version in range(5)}
    return seen | {"Produce": producer.send(topic)["error_code"]}


@situation("InitProducerId with the producer's id and epoch raises its epoch, and again when it is repeated (KIP-360)")
def raised(broker: Broker) -> Any:
    seen = {}
    for version in (3, 4, 5):
        producer = initialised(broker, f"init-raised-v{version}")
        own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        answers = [producer.init(version, **own), producer.init(version, **own), producer.init(version, **own)]
        newer = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        answers += [producer.init(version, **newer), producer.init(version, **own), producer.describe()]
        seen[version] = answers
    return seen


@situation("InitProducerId with the epoch before the last one that a producer began with")
def epoch_given_up_to_another(broker: Broker) -> Any:
    seen = {}
    for version in (3, 4):
        producer = initialised(broker, f"init-given-up-v{version}")
        own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        seen[version] = [producer.init(version), producer.init(version, **own), producer.describe()]
    return seen


@situation("InitProducerId with a wrong producer id, or an epoch that is not the producer's")
def wrong_identity(broker: Broker) -> Any:
    producer = initialised(broker, "init-wrong")
    producer.init()
    producer.init()
    own, other = producer.producer_id, broker.new_producer_id()
    asked = {
        "an older epoch": (own, 0),
        "a newer epoch": (own, 7),
        "another producer's id": (other, producer.epoch),
        "an id that was never given": (own + 10**9, producer.epoch),
        "the last epoch": (own, 2**15 - 1),
        "the last but one": (own, 2**15 - 2),
        "an id of -2": (-2, 0),
        "an epoch of -2": (own, -2),
    }
    seen: dict[str, Any] = {
        f"{name} v{version}": producer.init(version, producer_id=producer_id, producer_epoch=epoch)
        for name, (producer_id, epoch) in asked.items()
        for version in (3, 4)
    }
    return seen | {"in the end": producer.describe()}


@situation("InitProducerId of a transactional id with a producer id but no epoch, and the reverse")
def half_identity(broker: Broker) -> Any:
    producer = initialised(broker, "init-half")
    own = producer.producer_id
    return {
        "no epoch": producer.init(producer_id=own, producer_epoch=-1),
        "no id": producer.init(producer_id=-1, producer_epoch=0),
        "no timeout either": producer.init(producer_id=own, producer_epoch=-1, transaction_timeout_ms=0),
        "in the end": producer.describe(),
    }


@situation("InitProducerId with a producer id and epoch of a transactional id that is not known")
def unknown_with_identity(broker: Broker) -> Any:
    other = initialised(broker, "init-unknown-other")
    seen = {}
    for epoch in (0, 5):
        producer = Producer(broker, f"init-unknown-{epoch}")
        seen[epoch] = [producer.init(producer_id=other.producer_id, producer_epoch=epoch), producer.describe()]
    return seen


@situation("InitProducerId with the producer's id and epoch while its transaction is open")
def raised_in_a_transaction(broker: Broker) -> Any:
    topic = broker.create("init-raised-open")
    producer = initialised(broker, "init-raised-open")
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    producer.write(topic)
    first = producer.init(**own)
    aborted = producer.wait_for("CompleteAbort")
    return [first, aborted, producer.init(**own), producer.init(), producer.describe()]


@situation("InitProducerId with a wrong producer id while a transaction is open")
def wrong_in_a_transaction(broker: Broker) -> Any:
    topic = broker.create("init-wrong-open")
    producer = initialised(broker, "init-wrong-open")
    producer.write(topic)
    refused = producer.init(producer_id=broker.new_producer_id(), producer_epoch=0)
    return [refused, producer.describe(), producer.commit()]


@situation("InitProducerId with an epoch given up while the successor's transaction is open")
def given_up_in_a_transaction(broker: Broker) -> Any:
    topic = broker.create("init-given-up-open")
    producer = initialised(broker, "init-given-up-open")
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    producer.init()
    producer.write(topic)
    answer = producer.init(**own)
    state = until(producer.state, lambda state: not state.startswith("Prepare"))
    return [answer, state]


@situation("InitProducerId after a commit and after an abort")
def after_the_end(broker: Broker) -> Any:
    topic = broker.create("init-after")
    seen = {}
    for name in ("commit", "abort"):
        producer = initialised(broker, f"init-after-{name}")
        producer.write(topic)
        (producer.commit if name == "commit" else producer.abort)()
        seen[name] = [producer.describe(), producer.init(), producer.describe()]
    return seen


@situation("InitProducerId with another timeout is the next transaction's timeout")
def another_timeout(broker: Broker) -> Any:
    producer = initialised(broker, "init-another-timeout")
    first = producer.describe()
    producer.init(transaction_timeout_ms=5_000)
    return [first, producer.describe()]


@situation("a transaction that takes longer than its timeout is aborted, and its producer fenced")
def timed_out(broker: Broker) -> Any:
    topic = broker.create("init-timed-out")
    producer = initialised(broker, "init-timed-out", transaction_timeout_ms=100)
    producer.add({topic: [0]})
    aborted = producer.wait_for("CompleteAbort")
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return {
        "described": aborted,
        "EndTxn": [producer.end(version, commits=commits) for version in (1, 2) for commits in (True, False)],
        "AddPartitionsToTxn": [producer.add({topic: [0]}, version) for version in (1, 2)],
        "Produce": producer.send(topic)["error_code"],
        "its own epoch": [producer.init(version, **own) for version in (3, 4)],
        "a new one": producer.init(),
    }
