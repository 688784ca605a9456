"""Whole jobs under a seeded scheduler; warnings about intended faults are suppressed."""

import logging

logging.getLogger("jobmanager").addHandler(logging.NullHandler())
