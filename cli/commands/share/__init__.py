"""`sordini share`: share groups, whose members work on partitions together (KIP-932), and dead letters (KIP-1191)."""
