"""What a broker does now, and what it did to its logs lately, for `cluster status` and the console.

event_log.py         the last events of this broker, bounded; pure
loop_cpu.py          the CPU time of the event loop's thread over a minute, from samples; pure
broker_activity.py   both, fed by the server once a second, by retention and by the log cleaner
activity_handler.py  DescribeBrokerActivity

All of it is lost with a restart, whose own event is then the first one.
"""
