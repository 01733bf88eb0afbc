"""The database: how it is opened, its tables and upgrades, whose turn it is. What rows mean is for the `ledger`."""
