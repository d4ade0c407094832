"""How far consumer groups are behind: in records, in time, and when they will have caught up.

    lags = await read_lags(cluster, ["billing"], now_ms)  # cluster_reader.py, of any `Cluster`
    for group in lags:
        print(group.name, group.lag, group.outlook)

model.py           a group and its partitions, at one moment
reading.py         all steps of one snapshot, as requests to send and answers to read: the shells carry them out
coordinators.py    steps: groups, their committed offsets, members
leaders.py         steps: log bounds, and the oldest unread record of each partition
outlook.py         when a partition, or a group, has caught up
measured_rates.py  rates from several snapshots, where the brokers know none (those of Apache Kafka)
spark_offsets.py   the offsets in a checkpoint of Spark
json_form.py       the form for programs
cluster_reader.py  the asyncio shell; all others are pure

A snapshot costs a few requests to each broker, whatever the number of groups: offsets, bounds and records are requested
for thousands of partitions at once. Brokers of Sordini are asked when a record was appended and how fast offsets
advance (DescribeUnreadRecords, DescribeGroupProgress); of others the record is fetched, and only its own time is known.
"""
