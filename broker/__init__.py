"""The server: requests of Kafka clients over the logs of `storage` and the partitions of `replication`.

A subject has its handlers, its rules of authorization and its machine in one room. From the top down, each imports only
rooms below it (an import contract checks it, imports for types too):

process         a broker as a process: configuration file, daemon, signals, the log
wiring          how one broker is put together, started and stopped
metrics         plain counters as metrics, when they are requested; metrics that clients push
administration  settings, quotas and log directories by request
records         Produce, Fetch, ListOffsets, DeleteRecords; their prepared ways; records that take long to open
transactions    the transaction coordinator, markers, verification
groups          the group coordinator and committed offsets
cluster         this broker as a member: registration, health, the controller's commands, requests to other brokers
coordinators    what every coordinator with an internal topic needs
topics          the metadata cache; creation, deletion, growth and moves of topics
security        logins, certificates, access control, the audit log
requests        from a frame to a handler and back: dispatch, calls, slices of long work, quotas
network         sockets, connections, TLS handshakes, limits
configuration   the keys, and the values in force
"""

from sordini.system.supported import check_system

check_system()
