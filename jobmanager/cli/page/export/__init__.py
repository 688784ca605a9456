"""What the server of the page sends to other systems: OpenTelemetry and OpenLineage."""
