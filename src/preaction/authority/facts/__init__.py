"""Facts that the authority reads by itself, from a database or a service, so that no caller can invent them."""
