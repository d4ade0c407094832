"""Every test of connections to other brokers runs on uvloop and on asyncio's own loop."""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
