"""A new signing key for a database. Every server of it changes to the new key with its next write or unknown seal."""

import sqlalchemy as sa

from preaction.authority.ledger.head import head
from preaction.authority.storage.storage import Storage
from preaction.authority.storage.tables import RESEALED, SCHEMA


def rotate(storage: Storage) -> tuple[str, str]:
    """Sign by a new key from now on; gives the `kid` of the old one and of the new one.

    The file has both keys before the database names the new one, and the old one's private half leaves it afterwards:
    wherever this is ended, the file has the key that the database names. Raises `ConfigurationError` when the file
    can't be written and `Refused` when the database can't, or when the chain's head was altered.
    """
    with storage.writing() as connection:
        old = storage.signer.kid
        new = storage.keys.prepare(until=head(storage, connection)["number"])
        for table in RESEALED:
            for row in [dict(row) for row in connection.execute(sa.select(table)).mappings()]:
                if storage.intact(table, row):  # what was altered before stays so
                    storage.replace(connection, table, row, new)
        connection.execute(SCHEMA.update().values(kid=new.kid))
    with storage.writing():  # takes the new key; and no other rotation writes the file meanwhile
        storage.keys.settle()
    return old, new.kid
