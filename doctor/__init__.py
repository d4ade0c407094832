"""What is wrong between a client and a cluster, or with a broker's host, and the line of configuration that mends it.

    knowledge/    each fault: its paragraph, its remedy, and what clients print because of it; pure
    client_way/   a client's way to a cluster, step by step: names, TCP, what listens there, TLS, login, the cluster
    broker_host/  a server.properties and the machine it is for: nothing is started, nothing is changed
    findings      what both hand back: a `Report` of checks and findings; `report_text` is the report for a terminal

A probe decides which fault it is and hands over facts, never sentences. The knowledge makes the sentences, so that a
test can plant a fault and compare its name, and a console can show the same report. Nothing here prints.

May import `broker` and what is below it: a server.properties is read as a broker reads it. Any cluster may be at the
other end: Apache Kafka, Sordini, or what only resembles them.
"""
