"""The data pipeline on Spark: from topic to table, exactly once. Nothing of the broker's process imports it."""
