"""The words that both sides of the wire speak: models, strict JSON, digests. Imports nothing of gate or authority."""
