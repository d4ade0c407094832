"""kazoo's handler on a TLS socket."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

from sordini.client.tls.contexts import TlsMaterial, client_context, server_context
from sordini.client.tls.stores import pem_key_store, pem_trust_store
from sordini.client.tls.system_sockets import secured
from sordini.coordination_store.kazoo_handler import LoopHandler
from tests.support.certificates import Authority

WAIT_S_MAX = 20


def test_a_socket_with_decrypted_bytes_is_readable_although_the_system_has_none() -> None:
    """Two answers in one record: the second one would wait for a third."""
    authority = Authority()
    issued = authority.issue("localhost")
    keys, trust = pem_key_store(issued.key_pem(), issued.chain_pem, None), pem_trust_store(authority.pem)
    protocols = ("TLSv1.2",)  # Without session tickets, which are readable, too.
    context = client_context(TlsMaterial(protocols, (), None, trust), checks_host=True)
    serving = server_context(TlsMaterial(protocols, (), keys, None), "none")
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(serving.wrap_socket, theirs, server_side=True)
        client, server = secured(ours, context, "localhost"), accepting.result(WAIT_S_MAX)
    silent, other = socket.socketpair()
    handler = LoopHandler(lambda *_: None, lambda _: None, lambda _: None, context)
    with client, server, silent, other:
        server.sendall(b"firstsecond")
        assert client.recv(5) == b"first"
        assert handler.select([silent, client], [], [], 0)[0] == [client]
        other.sendall(b"x")
        assert set(handler.select([silent, client], [], [], 0)[0]) == {client, silent}
        assert client.recv(6) == b"second"
        assert handler.select([client], [], [], 0)[0] == []
