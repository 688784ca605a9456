"""Replays, lineage, comparison of versions, capsules."""
