"""What a team writes, made ready, and what it rules. Pure: read `pack`, then `release`, then `decide` and `outputs`."""
