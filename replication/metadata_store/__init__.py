"""The tree in the coordination store, which is Apache Kafka's: paths, contents of znodes, and their changes.

Topics, settings, registrations, access control entries, notifications, the cluster's id, and the format of `/sordini`.

May import the port of `replication/ports.py` and `cluster_model.py`. Never imports the controller, and never writes
into the tree of another cluster.
"""
