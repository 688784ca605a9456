"""Other spellings of what is compiled, tree for tree."""
