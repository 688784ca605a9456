"""The methods of :class:`planner.Stream` that create one from files, items, logs and topics."""
