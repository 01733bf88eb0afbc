"""The room's fixtures."""

from authority.postgres import postgres  # noqa: F401 (a fixture)
