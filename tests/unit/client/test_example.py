"""The example in the package's docstring is a program that runs."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import sordini.client
from sordini.broker.network.sockets import SystemNetwork
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.support.scripted_peer import Asked, ScriptedPeer, response


def answer(asked: Asked) -> bytes:
    if asked.key is ApiKey.API_VERSIONS:
        row = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=7)
        return response(asked, ApiVersionsResponse(api_keys=[row]))
    return response(asked, MetadataResponse(topics=[MetadataResponseTopic(name="orders")]))


def example() -> str:
    paragraphs = textwrap.dedent(sordini.client.__doc__ or "").split("\n\n")
    code = [paragraph for paragraph in paragraphs if paragraph.startswith("    ")]
    return textwrap.dedent("\n\n".join(code))


async def test_the_example_of_the_package_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(example(), "example", "exec"), names)
    peer = ScriptedPeer(SystemNetwork(), answer)
    assert await asyncio.wait_for(names["topics"](f"{peer.address[0]}:{peer.address[1]}"), 30) == ["orders"]
    assert [asked.version for asked in peer.asked] == [3, 7]
    peer.close()
