"""Exports of the page's server to other systems: OpenTelemetry and OpenLineage."""
