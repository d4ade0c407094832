"""DescribeTopicPartitions and ListConfigResources, judged by an Apache Kafka without ZooKeeper."""

from typing import Any

from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


def _describe(broker: Broker, names: list[str], limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return broker.ask("DescribeTopicPartitions", 0, topics=topics, response_partition_limit=limit, cursor=at)


def _made(broker: Broker, topic: str, partitions: int = 1) -> str:
    """A topic that is not only made but also known where it is asked for."""
    name = broker.create(topic, partitions)
    until(
        lambda: _describe(broker, [name]),
        lambda seen: isinstance(seen, str) or len(seen["topics"][0]["partitions"]) == partitions,
    )
    return name


@situation("DescribeTopicPartitions of topics, answered in the order of their names", judge=KRAFT)
def describe(broker: Broker) -> Any:
    second, first = _made(broker, "parts-b", partitions=2), _made(broker, "parts-a")
    return [_describe(broker, [second, first]), _describe(broker, [first])]


@situation("DescribeTopicPartitions of unknown, invalid, empty and repeated names", judge=KRAFT)
def unknown(broker: Broker) -> Any:
    topic = _made(broker, "parts-known")
    return {
        "unknown": _describe(broker, [broker.name("parts-nowhere"), topic]),
        "invalid": _describe(broker, ["in valid"]),
        "empty": _describe(broker, [""]),
        "twice": _describe(broker, [topic, topic]),
    }


@situation("DescribeTopicPartitions in pages, each from the cursor of the one before", judge=KRAFT)
def pages(broker: Broker) -> Any:
    names = [_made(broker, "pages-a", partitions=3), _made(broker, "pages-b"), _made(broker, "pages-c", partitions=2)]
    seen, cursor = [], None
    for _ in range(6):
        answer = _describe(broker, names, 2, cursor)
        seen.append(answer)
        if answer["next_cursor"] is None:
            break
        cursor = (answer["next_cursor"]["topic_name"], answer["next_cursor"]["partition_index"])
    return seen


@situation("DescribeTopicPartitions with limits of one, none and less, and one beyond what a broker gives", judge=KRAFT)
def limits(broker: Broker) -> Any:
    topic = _made(broker, "parts-limits", partitions=3)
    return {limit: _describe(broker, [topic], limit) for limit in (1, 3, 4, 0, -1, 2**31 - 1)}


@situation("DescribeTopicPartitions from cursors before, between and behind the topics", judge=KRAFT)
def cursors(broker: Broker) -> Any:
    first, second = _made(broker, "cursor-b", partitions=2), _made(broker, "cursor-d")
    both = [first, second]
    return {
        "before": _describe(broker, both, cursor=(broker.name("cursor-a"), 0)),
        "at a partition": _describe(broker, both, cursor=(first, 1)),
        "beyond its partitions": _describe(broker, both, cursor=(first, 7)),
        "between": _describe(broker, both, cursor=(broker.name("cursor-c"), 5)),
        "behind": _describe(broker, both, cursor=(broker.name("cursor-e"), 0)),
        "negative": _describe(broker, both, cursor=(first, -1)),
    }


@situation("DescribeTopicPartitions of all topics: an empty list", judge=KRAFT)
def all_topics(broker: Broker) -> Any:
    topic = _made(broker, "parts-all", partitions=2)
    answer = _describe(broker, [])
    names = [row["name"] for row in answer["topics"]]
    return {"sorted": names == sorted(names), "there": [row for row in answer["topics"] if row["name"] == topic]}


@situation("ListConfigResources v0 lists the client metrics resources", judge=KRAFT)
def config_resources(broker: Broker) -> Any:
    return broker.ask("ListConfigResources", 0)
