"""What client telemetry decides and keeps. Pure."""
