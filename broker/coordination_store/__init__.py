"""The coordination store: the port `CoordinationStore` on a SQLite file (embedded) or on ZooKeeper.

embedded.py, embedded_session.py    the store of one process; znode_tree.py is its state, database.py its file
zookeeper.py, kazoo_handler.py      ZooKeeper through kazoo; kazoo_lines.py logs kazoo's errors
zookeeper_access.py                 its TLS, login and access control lists; kazoo_values.py its errors and events
session_proxy.py                    a session whose calls another one carries out
current_session.py                  one session object across renewals
store_location.py                   locations such as embedded:DIR, and the `.moved` note
store_migration.py                  copies a cluster's tree from one store to another
"""
