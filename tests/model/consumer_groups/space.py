"""All steps from a state. Coordinators, clients and the shared part are numbered as they are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.consumer_groups import clients, invariants
from tests.model.consumer_groups.rules import REBALANCE, SESSION, Rules, Served
from tests.model.consumer_groups.scopes import start
from tests.model.consumer_groups.state import (
    IN,
    JOINING,
    NAMES,
    OUT,
    Client,
    Commit,
    Computing,
    Coordinator,
    Request,
    Shared,
    World,
    frozen,
)
from tests.model.explore import Did

BITS = 20
MASK = (1 << BITS) - 1
Numbered = tuple[int, int, int, int]
"""The coordinator, the two clients, the shared part."""
Found = tuple[Did, World]


class Numbers:
    """Values by number; equal ones are those whose frozen values are."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any, key: Any = None) -> int:
        number = self._numbers.setdefault(value if key is None else key, len(self.values))
        if number == len(self.values):
            assert number <= MASK
            self.values.append(value)
        return number


class Space:
    has_broken = True

    def __init__(self, rules: Rules, watched: frozenset[str] = invariants.ALL) -> None:
        self.rules = rules
        self.scope = rules.scope
        self._watched = watched
        self._coordinators, self._clients, self._shares = Numbers(), Numbers(), Numbers()
        self._served: dict[tuple[int, Any, int], Served] = {}
        self._numbers_by_id: dict[int, tuple[Coordinator, int]] = {}
        self._verdicts: dict[int, str] = {}
        self._falls: dict[tuple[int, int], bool] = {}
        self._settled: dict[bool, dict[Numbered, bool]] = {False: {}, True: {}}

    # Numbers and worlds.

    def first(self) -> Numbered:
        return self.numbered(start(self.scope))

    def numbered(self, world: World) -> Numbered:
        first, second = map(self._clients.number, world.clients)
        return self._coordinator(world.coordinator), first, second, self._shares.number(world.shared)

    def world(self, numbered: Numbered) -> World:
        coordinator, first, second, shared = numbered
        both = self._clients.values[first], self._clients.values[second]
        return World(self._coordinators.values[coordinator], both, self._shares.values[shared])

    def canonical(self, numbered: Numbered) -> int:
        packed = 0
        for number in numbered:
            packed = packed << BITS | number
        return packed

    def unpacked(self, packed: int) -> Numbered:
        return packed >> 3 * BITS, packed >> 2 * BITS & MASK, packed >> BITS & MASK, packed & MASK

    def _coordinator(self, coordinator: Coordinator) -> int:
        known = self._numbers_by_id.get(id(coordinator))
        if known is None:
            group = coordinator.group
            transient = (group.rebalance_deadlines_ms, group.is_target_under_way, group.topics_version)
            key = (invariants.persistent(group), frozen(transient), frozen(coordinator.log), coordinator.newest)
            # The value is kept, so that its id stays its own.
            known = coordinator, self._coordinators.number(coordinator, key)
            self._numbers_by_id[id(coordinator)] = known
        return known[1]

    # Laws.

    def broken(self, numbered: Numbered) -> str:
        world = self.world(numbered)
        return next((law for law in self._broken(numbered, world) if law in self._watched), "")

    def _broken(self, numbered: Numbered, world: World) -> Iterator[str]:
        verdict = self._verdicts.get(numbered[0])
        if verdict is None:
            verdict = self._verdicts[numbered[0]] = invariants.broken_in(world.coordinator)
        yield verdict
        if self._has_two_owners(world):
            yield invariants.ONE_OWNER
        if invariants.is_given_too_early(world.coordinator.group, world.clients):
            yield invariants.RELEASED
        if any(commit.is_over and self._is_accepted(world, *commit[:3]) for commit in world.shared.commits):
            yield invariants.IN_ORDER
        for law in (invariants.PROGRESS, invariants.EVENTUALLY):
            if law in self._watched and not self.settles(world, has_timeouts=law == invariants.EVENTUALLY):
                yield law

    def broken_by_step(self, before: Numbered, after: Numbered) -> str:
        pair = before[0], after[0]
        falls = self._falls.get(pair)
        if falls is None:
            groups = (self._coordinators.values[number].group for number in pair)
            falls = self._falls[pair] = invariants.is_falling(*groups)
        falls = falls or any(
            before[at] != after[at]
            and invariants.is_client_falling(self._clients.values[before[at]], self._clients.values[after[at]])
            for at in (1, 2)
        )
        return invariants.EPOCHS if falls and invariants.EPOCHS in self._watched else ""

    def _has_two_owners(self, world: World) -> bool:
        first, second = world.clients
        return any(
            self._is_accepted(world, 0, first.epoch, partition) and self._is_accepted(world, 1, second.epoch, partition)
            for partition in first.owned & second.owned
        )

    def _is_accepted(self, world: World, member: int, epoch: int, partition: int) -> bool:
        return self.rules.is_commit_accepted(world.coordinator, member, epoch, partition)

    # Progress.

    def settles(self, world: World, *, has_timeouts: bool = False) -> bool:
        """Whether rounds of answered heartbeats come to a settled group. What is on its way counts for nothing.

        `has_timeouts`: where rounds change nothing any more, rebalance timeouts pass.
        """
        settled = self._settled[has_timeouts]
        partitions, computing, connections = world.shared.partitions, world.shared.computing, world.shared.connections
        shared = Shared(0, 0, 0, 0, 0, 0, 0, partitions, computing, connections=connections)
        here = self.numbered(world._replace(shared=shared))
        way: dict[Numbered, None] = {}
        while here not in settled and here not in way:
            way[here] = None
            world = self.world(here)
            if invariants.is_settled(world):
                settled[here] = True
                break
            after = self.numbered(self._round(world))
            if after == here and has_timeouts:
                after = self.numbered(self._timed_out(world))
            here = after
        settled.update(dict.fromkeys(way, settled.get(here, False)))
        return settled[here]

    def _timed_out(self, world: World) -> World:
        for me, name in enumerate(NAMES):
            if name in world.coordinator.group.rebalance_deadlines_ms:
                world = self._fenced(world, me, REBALANCE)
        return world

    def _round(self, world: World) -> World:
        for me in range(2):
            client = world.clients[me]
            if clients.must_revoke(client):
                world = _with_client(world, me, clients.revoked(client))
            elif client.phase != OUT:
                served = self._serve(world, _request(world, me))
                after = clients.answered(clients.sent(world.clients[me]), served.answer)
                world = _with_client(self._after(world, served), me, after)
        if world.shared.computing is not None:
            world = self._computed(world)
        for me, client in enumerate(world.clients):
            if client.phase == OUT and NAMES[me] in world.coordinator.group.members:
                world = self._fenced(world, me, SESSION)
        return world

    # Possible steps.

    def steps(self, numbered: Numbered) -> Iterator[tuple[Did, Numbered]]:
        for did, world in self._steps(self.world(numbered)):
            after = self.numbered(world)
            if after != numbered:
                yield did, after

    def _steps(self, world: World) -> Iterator[Found]:
        for me in range(2):
            yield from self._client_steps(world, me)
        shared, group = world.shared, world.coordinator.group
        if shared.fences:
            fewer = _spent(world, fences=shared.fences - 1)
            for me, name in enumerate(NAMES):
                if name in group.members and world.clients[me].phase != OUT:
                    yield ("is fenced", me, SESSION), self._fenced(fewer, me, SESSION)
                    if name in group.rebalance_deadlines_ms:
                        yield ("is fenced", me, REBALANCE), self._fenced(fewer, me, REBALANCE)
        for me, name in enumerate(NAMES):
            if name in group.members and world.clients[me].phase == OUT:
                yield ("expires", me), self._fenced(world, me, SESSION)
        if shared.moves:
            yield ("moves",), self._moved(world)
        if shared.computing is not None:
            yield ("is computed", shared.computing.epoch), self._computed(world)
        if shared.growths:
            yield ("grows",), _spent(world, growths=shared.growths - 1, partitions=shared.partitions + 1)
        for place, request in enumerate(shared.requests):
            fewer = _spent(world, requests=shared.requests[:place] + shared.requests[place + 1 :])
            served = self._serve(fewer, request)
            yield ("arrives", request, served.answer), self._after(fewer, served)

    def _client_steps(self, world: World, me: int) -> Iterator[Found]:
        client, shared = world.clients[me], world.shared
        if client.phase == OUT:
            if shared.joins:
                opened = _spent(_with_client(world, me, Client(JOINING)), joins=shared.joins - 1)
                yield from self._requested(opened, me)
            return
        yield from self._requested(world, me)
        if clients.must_revoke(client):
            yield ("revokes", me, client.owned - client.target), _with_client(world, me, clients.revoked(client))
        if shared.leaves:
            out = _spent(_with_client(world, me, Client(OUT)), leaves=shared.leaves - 1)
            yield ("vanishes", me), out
            leaving = clients.leave(client, me)._replace(connection=shared.connections[me])
            served = self._serve(out, leaving)
            yield ("leaves", me, served.answer), self._after(out, served)
            if shared.delays:
                yield ("leaves late", me), _delayed(out, leaving)
        if shared.restarts and client.phase == IN:
            yield (
                ("restarts", me),
                _spent(_with_client(world, me, Client(JOINING)), restarts=shared.restarts - 1),
            )
        yield from self._commits(world, me)

    def _requested(self, world: World, me: int) -> Iterator[Found]:
        request, shared = _request(world, me), world.shared
        served = self._serve(world, request)
        after = self._after(world, served)
        waiting = clients.sent(after.clients[me])
        yield ("exchanges", request, served.answer), _with_client(after, me, clients.answered(waiting, served.answer))
        yield ("is not answered", request, served.answer), _with_client(after, me, clients.unanswered(waiting))
        if shared.delays:
            abandoned = _with_client(world, me, clients.unanswered(world.clients[me]))
            yield ("is delayed", request), _delayed(abandoned, request)

    def _commits(self, world: World, me: int) -> Iterator[Found]:
        client, commits = world.clients[me], world.shared.commits
        if len(commits) < self.scope.delayed_commits and not client.is_void:
            for partition in client.owned:
                late = (me, client.epoch, partition)
                kept = tuple(sorted((*commits, Commit(*late, is_over=False))))
                yield ("commits late", *late), _spent(world, commits=kept)

    # What the coordinator does.

    def _serve(self, world: World, request: Request) -> Served:
        partitions = world.shared.partitions
        key = self._coordinator(world.coordinator), request, partitions
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = self.rules.serve(world.coordinator, request, partitions)
        return served

    def _fenced(self, world: World, me: int, deadline: str) -> World:
        partitions = world.shared.partitions
        key = self._coordinator(world.coordinator), (me, deadline), partitions
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = self.rules.fence(world.coordinator, NAMES[me], deadline, partitions)
        return self._after(world, served)

    def _computed(self, world: World) -> World:
        done, partitions = world.shared.computing, world.shared.partitions
        assert isinstance(done, Computing)
        key = self._coordinator(world.coordinator), done, partitions
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = self.rules.computed(world.coordinator, done, partitions)
        return self._after(_spent(world, computing=None), served)

    def _moved(self, world: World) -> World:
        """Clients find the new coordinator; a target that is under way is forgotten.

        What is delayed arrives at the broker that is coordinator no more, and is refused there.
        """
        shared = world.shared._replace(moves=world.shared.moves - 1, computing=None)
        if not self.scope.moves_back:
            shared = shared._replace(requests=(), connections=(0, 0))
        first, second = map(clients.unanswered, world.clients)
        return self._noted(World(self.rules.moved(world.coordinator), (first, second), shared))

    def _after(self, world: World, served: Served) -> World:
        shared = world.shared if served.computing is None else world.shared._replace(computing=served.computing)
        return self._noted(World(served.coordinator, world.clients, shared))

    def _noted(self, world: World) -> World:
        """Whose ownership has ended by what the coordinator has done."""
        group = world.coordinator.group
        first, second = (
            client._replace(is_void=client.is_void or (client.phase == IN and NAMES[me] not in group.members))
            for me, client in enumerate(world.clients)
        )
        commits = tuple(
            commit._replace(is_over=commit.is_over or commit.partition in invariants.assigned(group, 1 - commit.member))
            for commit in world.shared.commits
        )
        shared = world.shared if commits == world.shared.commits else world.shared._replace(commits=commits)
        return World(world.coordinator, (first, second), shared)


def _with_client(world: World, me: int, client: Client) -> World:
    first, second = world.clients
    return world._replace(clients=(client, second) if me == 0 else (first, client))


def _spent(world: World, **changes: Any) -> World:
    return world._replace(shared=world.shared._replace(**changes))


def _request(world: World, me: int) -> Request:
    """A client's next heartbeat, on its connection."""
    return clients.request(world.clients[me], me)._replace(connection=world.shared.connections[me])


def _delayed(world: World, request: Request) -> World:
    """The client has abandoned the connection of this one."""
    shared = world.shared
    requests = tuple(sorted((*shared.requests, request), key=_request_key))
    first, second = shared.connections
    connections = (first + 1, second) if request.member == 0 else (first, second + 1)
    spent = shared._replace(requests=requests, delays=shared.delays - 1, connections=connections)
    return world._replace(shared=spent)


def _request_key(request: Request) -> Any:
    owned = () if request.owned is None else (tuple(sorted(request.owned)),)
    return request.member, request.connection, request.kind, request.epoch, owned, request.is_full
