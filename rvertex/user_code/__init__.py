"""User code in a plan: its calls, its context, and its errors."""
