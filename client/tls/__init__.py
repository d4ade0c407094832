"""TLS on top of a port `Socket`, for clients and for the broker: stores, contexts, and the socket itself."""
