"""Registrations of brokers that cannot be decoded or reached, and a context in which they exist."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cluster.cluster import Cluster


def a_registration(**changes: object) -> bytes:
    """A valid one of a broker that cannot be reached, with some keys changed or, at None, left out."""
    sound = {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["PLAINTEXT://127.0.0.1:1"],
        "jmx_port": -1,
        "port": 1,
        "host": "127.0.0.1",
        "version": 5,
        "timestamp": "1600000000000",
    }
    return json.dumps({key: value for key, value in (sound | changes).items() if value is not None}).encode()


REGISTRATIONS = {
    "no JSON": b"{not json",
    "nothing": b"",
    "another kind of JSON": b"[1, 2]",
    "bytes that are no text": b"\xff\xfe\x00",
    "no jmx_port": a_registration(jmx_port=None),
    "no endpoints": a_registration(endpoints=None),
    "endpoints of another kind": a_registration(endpoints={"PLAINTEXT": 1}),
    "no listener for brokers": a_registration(
        listener_security_protocol_map={"OTHER": "PLAINTEXT"}, endpoints=["OTHER://127.0.0.1:1"]
    ),
    "a port that is none": a_registration(endpoints=["PLAINTEXT://127.0.0.1:99999"]),
    "an address without a listener": a_registration(),
}
OTHER_NODES = ["nine", "-9", "99999999999"]
"""Names that are no broker's id."""


@contextmanager
def registered(cluster: Cluster, nodes: Mapping[str, bytes]) -> Iterator[None]:
    """These nodes below /brokers/ids, by their names."""
    paths = [f"/brokers/ids/{name}" for name in nodes]
    for path, data in zip(paths, nodes.values(), strict=True):
        cluster.tree.put(path, data)
    try:
        yield
    finally:
        for path in paths:
            cluster.tree.delete(path)


ALL_AT_ONCE = {
    **{str(number): data for number, data in enumerate(REGISTRATIONS.values(), 9)},
    **dict.fromkeys(OTHER_NODES, a_registration()),
}
