"""What a plan costs: rows, bytes, state and core seconds, estimated."""
