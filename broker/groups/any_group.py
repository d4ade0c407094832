"""A group of whichever kind."""

from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.machine.state import Group
from sordini.broker.groups.share.machine.state import ShareGroup

AnyGroup = Group | ConsumerGroup | ShareGroup
