"""How the job manager decides: one pure state machine."""
