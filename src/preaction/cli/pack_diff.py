"""`preaction pack diff`: what one release says otherwise than another, in words."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from preaction.cli.database import SigningKey
from preaction.cli.failing import fail, needs_authority, say, told
from preaction.errors import ConfigurationError

if TYPE_CHECKING:
    from preaction.authority.packs.release import Release
    from preaction.wire.models import ReleaseChanges

_SIGNS: Final = {"more": "+", "less": "-", "either": "?", "none": "."}
_TIMEOUT_S: Final = 20


def diff(
    old: Annotated[str, typer.Argument(help="A pack's YAML file; with --db or --origin the name of a release.")],
    new: Annotated[str, typer.Argument(help="What it is compared with, named likewise.")],
    db: Annotated[str | None, typer.Option(help="Compare releases in this database.")] = None,
    signing_key: SigningKey = None,
    origin: Annotated[str | None, typer.Option(help="Compare releases of this running authority.")] = None,
    operator_key_env: Annotated[
        str, typer.Option(help="With --origin: the environment variable that holds an operator's key.")
    ] = "PREACTION_OPERATOR_KEY",
    pack: Annotated[str | None, typer.Option(help="With --db or --origin: the pack whose releases they are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as one JSON object.")] = False,
) -> None:
    """Say which outcome now allows what, and all else that is different.

    `+` more may be done, `-` less, `?` either, so read it, `.` neither.
    """
    with needs_authority():
        from preaction.authority.packs import changes
        from preaction.wire.models import ReleaseChange, ReleaseChanges

    if db is not None and origin is not None:
        fail("preaction: --db and --origin are two places; releases of one are compared")
    if (pack is None) == (db is not None or origin is not None):
        fail("preaction: --pack names whose releases are compared; it belongs to --db or --origin, and they to it")
    if origin is not None and pack is not None:
        said = _asked(origin, _key(operator_key_env), pack, old, new)
    else:
        with needs_authority(), told():
            two = _files(old, new) if db is None else _stored(db, signing_key, str(pack), old, new)
            found = changes.diff(*two)
        said = ReleaseChanges(
            pack=two[1].pack,
            since=two[0].version,
            release=two[1].version,
            may_grow=changes.may_grow(found),
            changes=[ReleaseChange(job=each.job, effect=each.effect, words=each.words) for each in found],
        )
    _print(said, as_json=as_json)
    raise typer.Exit(int(said.may_grow))


def _print(said: "ReleaseChanges", *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(said.model_dump(mode="json"), ensure_ascii=False))
        return
    say(f"{said.pack} {said.since} -> {said.release}")
    job = None
    for change in said.changes:
        if change.job != job:
            job = change.job
            say(f"{job}:")
        say(f"  {_SIGNS[change.effect]} {change.words}")
    say("More may be done, or might." if said.may_grow else "No more may be done than before.")


def _files(old: str, new: str) -> "tuple[Release, Release]":
    from preaction.authority.local import pack_text
    from preaction.authority.packs.release import read_release

    found = []
    for file in (old, new):
        with told(file):
            found.append(read_release(pack_text(Path(file))))
    return found[0], found[1]


def _stored(db: str, signing_key: Path | None, pack: str, old: str, new: str) -> "tuple[Release, Release]":
    from preaction.authority.ledger.shelf import Shelf
    from preaction.authority.storage.storage import Storage

    if db.startswith("sqlite:///") and not Path(db.removeprefix("sqlite:///")).is_file():
        raise ConfigurationError("the database isn't there")  # opening it would make one
    with closing(Storage(db, signing_key)) as storage, storage.reading() as connection:
        found = [Shelf(storage).pinned(connection, pack, version) for version in (old, new)]
    for version, release in zip((old, new), found, strict=True):
        if release is None:
            raise ConfigurationError(f"the database has no release {version} of {pack}, or it was altered there")
    return found[0], found[1]  # type: ignore[return-value] # neither is None: the loop has seen to that


def _asked(origin: str, key: str, pack: str, old: str, new: str) -> "ReleaseChanges":
    """What a running authority says, bound to what it was asked."""
    import httpx
    from pydantic import ValidationError

    from preaction.rest.origin import read_origin
    from preaction.wire.models import ReleaseChanges

    with told():
        where = read_origin(origin)
    path = f"/v0/packs/{quote(pack, safe='')}/releases/{quote(new, safe='')}/changes"
    try:
        with httpx.Client(base_url=str(where), trust_env=False, timeout=_TIMEOUT_S) as http:
            answer = http.get(path, params={"since": old}, headers={"Authorization": f"Bearer {key}"})
    except (httpx.HTTPError, ValueError) as error:
        fail(f"preaction: {where} gave no answer: {type(error).__name__}")
    if answer.status_code == 404:
        fail(f"preaction: {where} has no such pack or releases that this key may see")
    if answer.status_code != 200:
        fail(f"preaction: {where} refused the request: {answer.status_code}")
    try:
        said = ReleaseChanges.model_validate_json(answer.content)
    except ValidationError:
        fail(f"preaction: {where} answered with something else than the changes")
    if (said.pack, said.since, said.release) != (pack, old, new):
        fail(f"preaction: {where} answered about other releases than it was asked about")
    return said


def _key(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        fail(f"preaction: --operator-key-env: the environment has no {variable}")
    return value
