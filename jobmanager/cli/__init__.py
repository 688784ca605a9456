"""The ``jobmanager`` command."""
