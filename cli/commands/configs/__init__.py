"""`sordini configs`: settings of brokers, topics and groups."""
