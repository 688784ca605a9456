"""Open panes: partial aggregates of events, in order or in any order."""
