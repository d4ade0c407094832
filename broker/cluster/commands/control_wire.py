"""The controller's commands and their answers as messages (ZooKeeper clusters), both ways. Pure.

`request_of` and `answer_of` are for the controller, `command_of` and `response_of` for the receiving broker. A field
that a version lacks is lost: the command read back has the default for it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sordini.broker.cluster.commands import leader_and_isr, stop_replica, update_metadata
from sordini.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from sordini.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from sordini.replication.cluster_model import Command, CommandAnswer, LeaderAndIsr, StopReplica, UpdateMetadata
from sordini.replication.inter_broker_versions import InterBrokerVersions

Request: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Response: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class ControlWire:
    """The controller's side: the version of each request, and the listener whose addresses leaders are given with."""

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
    def answer(command: Command, response: Any) -> CommandAnswer:
        """The answer that the response carries."""
        return answer_of(command, response)


def request_of(command: Command, version: int, listener: str) -> Request:
    """A command in one version of its request, with the leaders' addresses on `listener`."""
    match command:
        case LeaderAndIsr():
            return leader_and_isr.request_of(command, version, listener)
        case UpdateMetadata():
            return update_metadata.request_of(command, version)
        case StopReplica():
            return stop_replica.request_of(command, version)


def command_of(request: Request, listener: str) -> Command:
    """The command that a request carries, whatever its version. Raises WireError for an unknown security protocol."""
    match request:
        case LeaderAndIsrRequest():
            return leader_and_isr.command_of(request, listener)
        case UpdateMetadataRequest():
            return update_metadata.command_of(request)
        case StopReplicaRequest():
            return stop_replica.command_of(request)


def response_of(command: Command, answer: CommandAnswer) -> Response:
    """An answer as the response to the command's request, in any version; it names every partition."""
    match command:
        case LeaderAndIsr():
            return leader_and_isr.response_of(command, answer)
        case UpdateMetadata():
            return UpdateMetadataResponse(error_code=answer.error)
        case StopReplica():
            return stop_replica.response_of(command, answer)


def answer_of(command: Command, response: Response) -> CommandAnswer:
    """The answer that a response carries; a partition that it does not name succeeded."""
    match response:
        case UpdateMetadataResponse():
            return CommandAnswer(response.error_code)
        case StopReplicaResponse():
            return stop_replica.answer_of(response)
        case LeaderAndIsrResponse():
            assert isinstance(command, LeaderAndIsr), f"a {type(response).__name__} to a {type(command).__name__}"
            return leader_and_isr.answer_of(command, response)
