"""Whole jobs under a seeded scheduler; what goes wrong there on purpose is not worth a warning."""

import logging

logging.getLogger("jobmanager").addHandler(logging.NullHandler())
