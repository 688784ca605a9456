"""The logical plan: nodes, facts that follow from them, and their text."""
