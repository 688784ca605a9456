"""The methods of a stream that begin one: files, items, logs and topics."""
