"""A client's way to a cluster, one step after the other.

    names -> TCP at every address -> TLS -> ApiVersions -> login -> Metadata
          -> every advertised address, the same way -> controller, partitions -> coordinators -> a scratch topic

`endpoint` goes the way to one address, `walk` the whole; `peer_probe` finds out what else may listen, `peer` decides
it. Requests go through the one `client`; only what a client never sees (bytes of other protocols, certificates that it
refuses) has connections of its own. Without permission to write, nothing in the cluster is changed or created.
"""
