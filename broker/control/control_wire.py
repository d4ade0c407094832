"""The controller's commands and their answers as messages (ZooKeeper clusters), both ways. Pure.

`request_of` and `answer_of` are the controller's end, `command_of` and `response_of` the commanded broker's. A version
that has no place for something loses it: what is read back then has the value that says "not told".
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sordini.broker.control import leader_and_isr, stop_replica, update_metadata
from sordini.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from sordini.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from sordini.replication.cluster_model import Answer, Command, LeaderAndIsr, StopReplica, UpdateMetadata
from sordini.replication.inter_broker import InterBrokerVersions

Request: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Response: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class ControlWire:
    """A controller's end: in which version it sends each request, and on which listener leaders are found."""

    def __init__(self, versions: InterBrokerVersions, listener: str) -> None:
        """`listener` is `inter.broker.listener.name`."""
        self._versions = versions
        self._listener = listener

    def request(self, command: Command) -> tuple[Any, int]:
        """The request message, and the version to send it in."""
        version = self._version(command)
        return request_of(command, version, self._listener), version

    def _version(self, command: Command) -> int:
        match command:
            case LeaderAndIsr():
                return self._versions.leader_and_isr
            case UpdateMetadata():
                return self._versions.update_metadata
            case StopReplica():
                return self._versions.stop_replica

    @staticmethod
    def answer(command: Command, response: Any) -> Answer:
        """What the response to this command says."""
        return answer_of(command, response)


def request_of(command: Command, version: int, listener: str) -> Request:
    """A command in one version of its request; leaders are told with their address on `listener`."""
    match command:
        case LeaderAndIsr():
            return leader_and_isr.request_of(command, version, listener)
        case UpdateMetadata():
            return update_metadata.request_of(command, version)
        case StopReplica():
            return stop_replica.request_of(command, version)


def command_of(request: Request, listener: str) -> Command:
    """The command that a request carries, whatever its version. Raises WireError for what no controller says."""
    match request:
        case LeaderAndIsrRequest():
            return leader_and_isr.command_of(request, listener)
        case UpdateMetadataRequest():
            return update_metadata.command_of(request)
        case StopReplicaRequest():
            return stop_replica.command_of(request)


def response_of(command: Command, answer: Answer) -> Response:
    """An answer as the response to the command's request, in any version: every partition is named."""
    match command:
        case LeaderAndIsr():
            return leader_and_isr.response_of(command, answer)
        case UpdateMetadata():
            return UpdateMetadataResponse(error_code=answer.error)
        case StopReplica():
            return stop_replica.response_of(command, answer)


def answer_of(command: Command, response: Response) -> Answer:
    """What the response to a command says; a partition that it does not name succeeded."""
    match response:
        case UpdateMetadataResponse():
            return Answer(response.error_code)
        case StopReplicaResponse():
            return stop_replica.answer_of(response)
        case LeaderAndIsrResponse():
            assert isinstance(command, LeaderAndIsr), f"a {type(response).__name__} to a {type(command).__name__}"
            return leader_and_isr.answer_of(command, response)
