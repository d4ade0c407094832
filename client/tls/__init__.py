"""TLS on top of a port `Socket`, for clients and for the broker: stores, contexts, and the socket itself.

`stores.py` reads PEM and PKCS#12, `contexts.py` makes OpenSSL's contexts, `tls_socket.py` computes TLS in memory: no
socket is made by Python's `ssl`. cryptography is imported where a store needs it only (40 ms).
"""
