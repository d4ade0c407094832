"""Share groups (KIP-932): members that read the same partitions, and acknowledge record by record.

Here is the membership: who reads which partitions. `machine/` decides (pure), `groups.py` binds it to a partition of
__consumer_offsets. Which records a member gets is decided by the leaders of the partitions (`broker/shares`); where a
group stands in a partition is stored by the share coordinator, which is requested by way of
`broker/share_state/ports.py`.
"""
