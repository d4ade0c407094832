"""The coordination store of a cluster: an embedded one on a SQLite file, for one process, or ZooKeeper.

It implements the port `CoordinationStore` of `replication/ports.py`, is the only room that knows kazoo and sqlite3, and
knows no broker.

embedded.py, embedded_session.py    the store of one process; znode_tree.py is its state, database.py its file
zookeeper.py, zookeeper_session.py  ZooKeeper and a session with it, through kazoo (kazoo_handler.py, kazoo_watches.py,
                                    kazoo_operations.py); kazoo_lines.py logs kazoo's errors
zookeeper_access.py                 its TLS, login and access control lists; kazoo_values.py its errors and events
stateful_session.py                 id, state and watches of a session, in both stores
session_proxy.py                    a session whose calls another one carries out
current_session.py                  one session object across renewals
store_location.py                   locations such as embedded:DIR, and the `.moved` note
store_migration.py                  copies a cluster's tree from one store to another
"""

from sordini.system.supported import check_system

check_system()
