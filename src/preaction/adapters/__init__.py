"""The same gate in the agent runtimes that people use: one module per runtime, over one bridge.

Importing this package imports no runtime. Each module says what to install where its runtime is missing.
"""
