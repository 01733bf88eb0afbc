"""The decision: pure, in the order in which a call meets it. No module here does I/O, reads a clock or starts a thread.

denied → call → rule → company → case → facts → checks → verdict → procedure, and record beside them.
"""
