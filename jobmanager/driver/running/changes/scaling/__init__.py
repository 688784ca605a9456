"""How many vertices the stages of a job get, and which keys each of them owns."""
