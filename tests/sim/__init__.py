"""Simulates whole jobs under a seeded scheduler. Warnings about planned faults are suppressed."""

import logging

logging.getLogger("jobmanager").addHandler(logging.NullHandler())
