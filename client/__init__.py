"""A client of Kafka brokers on our own compiled messages: connections, versions, authentication, routing, retries.

The commands, the Spark source and the requests between brokers use it. The protocol is without I/O
(`connection.ClientConnection`); two shells carry it out, `async_connection.AsyncConnection` on an asyncio loop and
`blocking.BlockingConnection` in programs without one. This is a whole program:

    import asyncio
    from sordini.client import addresses, async_connection, connection, routing, sockets, versions

    async def topics(bootstrap):
        socket = await sockets.connect(addresses.parse_bootstrap(bootstrap)[0])
        link = async_connection.AsyncConnection(socket, connection.ClientConnection("example", 100_000_000))
        served = await link.run(versions.negotiate())
        request = routing.metadata_request(None)
        response = await link.send(request, served.highest(connection.API_OF[type(request)]), timeout_ms=30_000)
        link.close()
        return [topic.name for topic in response.topics]

`routing` says which broker a request goes to, `retries` after which errors it is sent again, `authentication` holds the
SASL exchanges (run after `negotiate()`, as it is). Records in a response are bytes; `protocol/records` reads them.
"""

from sordini.system.supported import check_system

check_system()
