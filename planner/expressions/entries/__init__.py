"""The parts of a function's entry in the catalogue, and how they are declared."""
