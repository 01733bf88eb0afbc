"""What a pack says in CEL, regular expressions and JSON Schema, compiled and bounded: nothing of it can hang a server.

What may take long is evaluated in a process of its own (`evaluator`, `evaluating`).
"""
