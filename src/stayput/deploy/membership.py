"""Who belongs to a fleet: clients, their keys and the tokens that let them in, as rows. Must not import torch."""

from __future__ import annotations

import time
from dataclasses import dataclass

import sqlalchemy as sa

from stayput.deploy.fleet_state import FleetState
from stayput.deploy.identity import KnownKey, StoredToken, new_token
from stayput.deploy.store import Store
from stayput.deploy.tables import clients, tokens
from stayput.errors import AccessDenied, InvalidSetting, UnknownName

LONGEST_NAME = 64
"""Of a client; names are in logs and on pages."""


@dataclass(frozen=True, slots=True)
class Member:
    """A client as it is stored."""

    number: int
    """k."""
    name: str
    key_id: str | None
    num_examples: int
    enrolled_at: float | None
    revoked_at: float | None
    public_bytes: bytes | None = None

    @property
    def key(self) -> KnownKey | None:
        """Its key, once it has one."""
        if self.public_bytes is None:
            return None
        return KnownKey(self.public_bytes, self.name, revoked=self.revoked_at is not None)


class Membership:
    """The members of one fleet."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, name: str, token: StoredToken, *, now: float) -> int:
        """A new client with a token that lets it in, once; its number is the next free one."""
        if not (0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()):
            raise InvalidSetting(
                f"name={name!r}: must be 1 to {LONGEST_NAME} printable characters, without spaces around"
            )
        with self._store.transaction() as connection:
            if connection.execute(sa.select(clients.c.number).where(clients.c.name == name)).first() is not None:
                raise InvalidSetting(f"name={name!r}: must be new to the fleet (see: stayput clients list)")
            number = int(
                connection.execute(sa.select(sa.func.coalesce(sa.func.max(clients.c.number), -1))).scalar_one()
            )
            number += 1
            connection.execute(clients.insert().values(number=number, name=name, created_at=now))
            _insert_token(connection, token, client=number)
        return number

    def add_reader(self, token: StoredToken) -> None:
        """A token that reads the status and nothing else."""
        with self._store.transaction() as connection:
            _insert_token(connection, token, client=None)

    def token(self, token_id: str) -> tuple[StoredToken, int | None, float | None] | None:
        """A token, whose client it is for (None: it reads the status), and when it was used."""
        with self._store.transaction() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.token_id == token_id)).first()
        if row is None:
            return None
        return StoredToken(row.token_id, row.digest, row.expires_at), row.client, row.used_at

    def enrol(self, token_id: str, key_id: str, public_bytes: bytes, *, now: float) -> Member:
        """Use a token up and take the client's key, in one transaction. The same key may come again."""
        with self._store.transaction() as connection:
            client = connection.execute(sa.select(tokens.c.client).where(tokens.c.token_id == token_id)).scalar_one()
            holder = connection.execute(sa.select(clients.c.number).where(clients.c.key_id == key_id)).scalar()
            if holder not in (None, client):
                raise AccessDenied(
                    "used-key", "key: belongs to another client of this fleet; every client needs a key of its own"
                )
            unused = tokens.update().where(tokens.c.token_id == token_id, tokens.c.used_at.is_(None))
            if connection.execute(unused.values(used_at=now)).rowcount == 1:
                connection.execute(
                    clients.update()
                    .where(clients.c.number == client)
                    .values(key_id=key_id, public_key=public_bytes, enrolled_at=now)
                )
            row = connection.execute(sa.select(clients).where(clients.c.number == client)).one()
            if row.key_id != key_id:  # an answer that was lost on its way is asked for with the same key
                raise AccessDenied("used-token", "token: used before; ask the coordinator's operator for a new one")
            if row.revoked_at is not None:
                raise AccessDenied(
                    "revoked-key", f"key {key_id} ({row.name}): was revoked by the coordinator's operator"
                )
            return _member(row)

    def members(self) -> list[Member]:
        """All of them, in the order of their numbers."""
        with self._store.transaction() as connection:
            return [_member(row) for row in connection.execute(sa.select(clients).order_by(clients.c.number))]

    def revoke(self, name: str, *, now: float) -> Member:
        """A client may not act any more; what it has reported stays."""
        with self._store.transaction() as connection:
            row = connection.execute(sa.select(clients).where(clients.c.name == name)).first()
            if row is None:
                raise UnknownName("client", name, [known[0] for known in connection.execute(sa.select(clients.c.name))])
            connection.execute(
                clients.update().where(clients.c.name == name, clients.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            connection.execute(
                tokens.update().where(tokens.c.client == row.number, tokens.c.used_at.is_(None)).values(used_at=now)
            )
            return _member(row)


def new_client_token(state: FleetState, name: str, *, expires_at: float | None = None) -> tuple[str, int]:
    """A new client of a fleet: the text of its token, shown once, and its number."""
    text, stored = _new_token(state, expires_at)
    store = state.open_store()
    try:
        return text, Membership(store).add(name, stored, now=time.time())
    finally:
        store.close()


def new_status_token(state: FleetState, *, expires_at: float | None = None) -> str:
    """The text of a token that reads the status."""
    text, stored = _new_token(state, expires_at)
    store = state.open_store()
    try:
        Membership(store).add_reader(stored)
    finally:
        store.close()
    return text


def _new_token(state: FleetState, expires_at: float | None) -> tuple[str, StoredToken]:
    certificate = state.certificate()
    return new_token(expires_at=expires_at, fingerprint=None if certificate is None else certificate.fingerprint)


def _insert_token(connection: sa.Connection, token: StoredToken, *, client: int | None) -> None:
    connection.execute(
        tokens.insert().values(token_id=token.token_id, digest=token.digest, expires_at=token.expires_at, client=client)
    )


def _member(row: sa.Row[tuple[object, ...]]) -> Member:
    return Member(row.number, row.name, row.key_id, row.num_examples, row.enrolled_at, row.revoked_at, row.public_key)
