"""What a call in SQL needs before it is an expression: names, literals, what engines differ in."""
