"""A broker as a member of its cluster: which broker it is, its registration, and its contact with the others.

identity.py        broker id and cluster id
membership.py      registered in every session, with a controller that stands for election
store_contact.py   the state of the session: connected, disconnected, possibly expired, expired
tree_guard.py      keeps a running broker out of other clusters' trees
health.py          whether the broker serves, for DescribeConfigs and /health; health_keys.py has the names
peer_clocks.py     clock differences between brokers
commands/          the controller's commands, carried out on this broker
peers/             requests to other brokers and to the controller
"""
