"""What is left of a broker after an attack: whether it serves, makes topics, starts again, and what it touched."""

from __future__ import annotations

from uuid import uuid4

from tests.outside.processes import BrokerProcess, ProcessError
from tests.side_by_side.brokers import Side, is_serving
from tests.side_by_side.cases import await_leader, create
from tests.support.wire_client import Client

AS_IT_WAS = "serves"


def partitions_of(broker: BrokerProcess) -> set[str]:
    """Names of the directories in a log directory."""
    if not broker.data_directory.is_dir():
        return set()
    return {entry.name for entry in broker.data_directory.iterdir() if entry.is_dir()}


def of(side: Side, partitions_before: set[str] | None) -> str:
    """AS_IT_WAS, or what is wrong, in words. With the partitions before: none is to be new, and it is started again."""
    broker = side.broker
    restarts = partitions_before is not None
    found = touched(side, partitions_before)
    if is_serving(broker):
        found += [] if makes_a_topic(broker) else ["a topic that is made gets no leader"]
    else:
        found += ["does not answer" if broker.is_running else "has ended"]
    if restarts and not starts_again(broker):
        found += ["does not start again"]
    return "; ".join(found) or (f"{AS_IT_WAS}, also when started again" if restarts else AS_IT_WAS)


def touched(side: Side, partitions_before: set[str] | None) -> list[str]:
    """What was changed among the directories; without the partitions before new ones are as they should be."""
    new = set() if partitions_before is None else partitions_of(side.broker) - partitions_before
    made = sorted(repr(name)[1:-1] for name in new)
    found = [f"makes the directory `{name[:12]}{'...' if len(name) > 12 else ''}`" for name in made]
    if not (side.bystander / "mine").exists():
        found.append("renames or removes a directory outside of `log.dirs`")
    elif len(list(side.bystander.iterdir())) > 1:
        found.append("writes into a directory outside of `log.dirs`")
    return found


def makes_a_topic(broker: BrokerProcess) -> bool:
    """Whether a topic can be made, and has a leader soon."""
    topic = f"after-{uuid4().hex[:8]}"
    try:
        with Client("127.0.0.1", broker.port) as client:
            return create(client, topic) == 0 and await_leader(client, topic)
    except OSError:
        return False


def starts_again(broker: BrokerProcess) -> bool:
    """Whether a broker that is stopped starts, and serves."""
    try:
        broker.stop()
    except ProcessError:
        broker.kill()
    try:
        broker.start()
    except ProcessError:
        return False
    return is_serving(broker)
