"""Row patterns (MATCH): parse their text, analyse their conditions, and build the plan."""
