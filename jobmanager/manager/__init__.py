"""Decisions of the job manager: one pure state machine."""
