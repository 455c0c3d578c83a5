"""Hardware counters: which there are, what fits into one pass, and (later) what follows from their values."""
