"""The decisions of the job manager, as one pure state machine."""
