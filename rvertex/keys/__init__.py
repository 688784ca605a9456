"""Keys as dense numbers: what grouping and joining are built on."""
