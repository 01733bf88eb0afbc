"""The whole life of a proposed call: one gate in front of every executor, for teams whose agent loop is their own.

Its parts are read in this order: `proposal`, `parse`, `schema`, `identity`.
"""
