"""What an entry of a function consists of, and how it is declared."""
