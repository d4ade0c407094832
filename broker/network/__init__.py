"""Sockets and connections: acceptor, processors, channels, transport, TLS handshakes, limits, HTTP.

It knows frames and peers, and no request: a `Service` (ports.py) answers frames. TLS is a socket over a socket
(tls_socket.py), so that the transport knows nothing of it; tls_handshakes.py computes handshakes in threads.
"""
