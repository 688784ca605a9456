"""RVertex: inputs in one order, a chain of operators, outputs to streams."""
