"""Running aggregates: a result per row or time, over all rows before it or over a frame of them."""
