"""Live: from a broker's topic through a query into another topic, exactly once."""
