"""The versions of requests that are newer than 3.9, judged by the newest Apache Kafka."""

from typing import Any

from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker


def _versions(broker: Broker, **fields: Any) -> Any:
    software = {"client_software_name": "situations", "client_software_version": "1.0"}
    answer = broker.ask("ApiVersions", 5, **{**software, **fields})
    if isinstance(answer, str):
        return answer
    return {"error_code": answer["error_code"], "keys": bool(answer["api_keys"]), "time": answer["throttle_time_ms"]}


def _cluster_id(broker: Broker) -> str:
    return str(broker.ask("Metadata", 12, topics=[])["cluster_id"])


@situation("ApiVersions v5 that names the cluster and the node, right and wrong", judge=KRAFT)
def destinations(broker: Broker) -> Any:
    here = _cluster_id(broker)
    clusters = {"none": None, "this": here, "another": "another", "empty": ""}
    return {
        (name, node_id): _versions(broker, cluster_id=cluster_id, node_id=node_id)
        for name, cluster_id in clusters.items()
        for node_id in (0, 1, -1, -2, 2**31 - 1)
    }


@situation("ApiVersions v5 of another cluster with a malformed software name", judge=KRAFT)
def destination_and_name(broker: Broker) -> Any:
    return _versions(broker, cluster_id="another", node_id=0, client_software_name="bad name!")


@situation("a connection on which ApiVersions v5 was misrouted continues", judge=KRAFT)
def misrouted_connection(broker: Broker) -> Any:
    conversation = broker.connect()
    software = {"client_software_name": "situations", "client_software_version": "1.0"}
    try:
        first = conversation.ask("ApiVersions", 5, cluster_id="another", node_id=0, **software)
        metadata = conversation.ask("Metadata", 12, topics=[])
        again = conversation.ask("ApiVersions", 5, cluster_id=metadata["cluster_id"], node_id=0, **software)
        return [first["error_code"], len(metadata["brokers"]), again["error_code"]]
    finally:
        conversation.close()


@situation("DeleteGroups v3 of unknown groups, of an empty id, of one twice, and of none", judge=KRAFT)
def deleted_groups(broker: Broker) -> Any:
    unknown = broker.name("nothing")
    until(
        lambda: broker.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[unknown, ""]),
        lambda seen: all(row["error_code"] == 0 for row in seen["coordinators"]),
    )
    until(
        lambda: broker.ask("DeleteGroups", 3, groups_names=[unknown, ""]),
        lambda seen: all(row["error_code"] not in NOT_READY for row in seen["results"]),
    )
    answer = broker.ask("DeleteGroups", 3, groups_names=[unknown, "", unknown])
    answer["results"].sort(key=lambda row: row["group_id"])
    return [answer, broker.ask("DeleteGroups", 3, groups_names=[])]


@situation("DescribeLogDirs v5 shows whether a directory is cordoned", judge=KRAFT)
def log_dirs(broker: Broker) -> Any:
    answer = broker.ask("DescribeLogDirs", 5, topics=[])
    rows = [(row["error_code"], row["topics"], row["is_cordoned"]) for row in answer["results"]]
    return {"error_code": answer["error_code"], "rows": rows}


def _cordon(broker: Broker, entity: str, value: str) -> Any:
    change = {"name": "cordoned.log.dirs", "config_operation": 0, "value": value}
    resources = [{"resource_type": 4, "resource_name": entity, "configs": [change]}]
    return broker.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=True)


@situation("a cordon around directories of a broker: none, an unknown one, and all of them", judge=KRAFT)
def cordons(broker: Broker) -> Any:
    values = {"none": "", "unknown": "/nowhere", "all and more": "*,/nowhere", "all": "*"}
    seen = {name: _cordon(broker, "0", value) for name, value in values.items()}
    return seen | {"of all brokers": _cordon(broker, "", "*")}


@situation("DescribeConfigs of groups and of client metrics", judge=KRAFT)
def configs_of_groups(broker: Broker) -> Any:
    def described(kind: int, name: str) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        answer = broker.ask("DescribeConfigs", 4, resources=[resource])
        for row in answer["results"]:
            row["configs"] = sorted(entry["name"] for entry in row["configs"])
        return answer

    group, metrics = 32, 16
    return {
        "a group": described(group, broker.name("group-without-members")),
        "no group": described(group, ""),
        "client metrics": described(metrics, broker.name("metrics")),
        "no client metrics": described(metrics, ""),
    }
