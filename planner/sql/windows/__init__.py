"""Windows in FROM, and the windows to which the rows of a query belong."""
