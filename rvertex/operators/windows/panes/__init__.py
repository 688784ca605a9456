"""Open panes: partial aggregates of events that arrive in order or in any order."""
