"""The logical plan: nodes, properties that follow from them, and their text."""
