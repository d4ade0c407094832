"""Sordini: a standalone asyncio broker that speaks the Kafka wire protocol."""

__version__ = "0.9.0"
