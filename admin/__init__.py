"""What a program may request of any Kafka cluster: topics, groups, settings, transactions, access, as rows of values.

Each function takes a `ClusterClient`, repeats what is temporary, and returns what the cluster said, or raises a
ClientError whose text is for the user. The command line and the console print the same rows.

May import `client`, `protocol`, `system` and the model of access control entries. Never prints, never reads a command
line, and holds no state between two calls.
"""
