"""Windows in FROM, and what queries around them know of the windows of their rows."""
