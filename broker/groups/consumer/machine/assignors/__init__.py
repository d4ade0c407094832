"""Server-side assignors: which member of a consumer group (KIP-848) gets which partitions. Pure.

`by_name.py` is the table of them. An assignor is a generator: it yields the steps made, about one per partition and
member, so that the caller runs it in slices; its result is the new target assignment. Results are those of Apache Kafka
4.4.0 for the same group, which includes the order of Java's hash tables (`java_order.py`): members, topics and
partitions are considered in it, and a different order gives the same balance with other owners. Racks play no part, as
in Apache Kafka 4.4.0.
"""
