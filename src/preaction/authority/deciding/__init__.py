"""To decide, to decide again and to check a text: each is one transaction, and is answered once."""
