"""A client of Kafka brokers on our own compiled messages: connections, versions, authentication, routing, retries.

Commands, mirrors, the Spark source, the test kit and requests between brokers use it. This is a whole program:

    import asyncio
    from sordini.client import addresses, cluster, cluster_core, sockets

    async def topics(bootstrap):
        access = cluster_core.Access(tuple(addresses.parse_bootstrap(bootstrap)), "example")
        async with cluster.Cluster(access, sockets.connect) as found:
            response = await found.retry(lambda: found.metadata(None))
        return [topic.name for topic in response.topics]

One core without I/O: `connection` (requests to bytes, bytes to responses), `versions`, `authentication`, `routing`,
`group_offsets`, `record_requests`, `retries`, and `cluster_core`, which says how the parts fit together. `errors` is
the one hierarchy of errors; their texts are for the user of a command line. Two shells: on asyncio
`pipelined_connection` and `cluster`, for threads `blocking`, `blocking_link` and `link_pool`. `async_connection`, with
one request in flight, is that of brokers among themselves. `tls/` has TLS for clients and for brokers: `stores` reads
PEM and PKCS#12, `contexts` makes OpenSSL's contexts, `tls_socket` is a socket of the port on top of another one.

It has no producer with sequences: `retries` is of requests that may be repeated as they are. Commands produce by
aiokafka, a mirror by transactions (`mirror/writer.py`).

May import `protocol` and `system`. Knows no broker of ours: whatever speaks the protocol may be at the other end.
Records in a response are bytes; `protocol/records` reads them.
"""

from sordini.system.supported import check_system

check_system()
