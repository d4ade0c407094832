"""Every page of a console before the scene, by name."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.console.scene import HOSTILE_GROUP

PAGES = {
    "cluster": "/",
    "topics": "/topics?internal=yes",
    "topic": "/topic?name=orders",
    "records": "/topic/records?name=orders",
    "search": "/topic/records?name=orders&start=beginning&text=%24.order%3D10042&where=json",
    "transactional-records": "/topic/records?name=payments&partition=0&records_shown=aborted",
    "hostile": "/topic/records?name=hostile&start=beginning&limit=100",
    "record": "/topic/record?name=orders&partition=1&offset=3",
    "segments": "/topic/segments?name=orders",
    "consumers": "/topic/consumers?name=orders",
    "configuration": "/topic/configuration?name=customers",
    "change-configuration": "/topic/configuration?name=customers&key=retention.ms",
    "produce": "/topic/produce?name=orders",
    "add-partitions": "/topic/partitions?name=orders",
    "delete-topic": "/topic/delete?name=orders",
    "create-topic": "/topics/create",
    "groups": "/groups",
    "group": "/group?name=billing",
    "consumer-group": "/group?name=shipping",
    "hostile-group": f"/group?{urlencode({'name': HOSTILE_GROUP})}",
    "rebalances": "/group/history?name=billing",
    "reset": "/group/reset?name=reports",
    "remove-member": "/group/remove-member?name=billing&member=m&instance=",
    "transactions": "/transactions",
    "transaction": "/transaction?id=payments-1",
    "acls": "/acls",
    "users": "/users",
    "quotas": "/quotas",
    "mirrors": "/mirrors",
    "pipelines": "/pipelines",
    "not-found": "/topic?name=no-such-topic",
}
