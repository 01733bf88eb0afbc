"""What is written down and found again: executions and their chain, releases, verdicts; kept, cleared and re-sealed."""
