"""How one broker is put together from its ports.

    server.py              starts, runs and stops it; running.py is what runs
    joining.py             joins the cluster; stopping.py leaves it and stops the parts
    startup.py             the checks and steps before there is a broker; each can refuse the start
    listeners.py           binding, connection limits, the metrics endpoint
    assembly.py            builds the parts (parts.py) from what they need (deps.py)
    handler_table.py       which handler serves which API
    inter_broker.py        transport to other brokers, ISR changes, producer ids; replica_fetchers.py the followers
    cluster_wiring.py      membership, controller channel, controlled shutdown
    log_cleaner.py         the cleaner with its settings and its log lines

Nothing runs until the server starts it. Bundles such as `BrokerDeps` and `BrokerParts` are passed between functions of
this room only; a part's constructor gets the single things that it uses.
"""
