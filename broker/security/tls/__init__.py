"""TLS of listeners, and of connections to other brokers: certificates, their changes, and principals."""
