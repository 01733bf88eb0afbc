"""F13, F8: a masked value is in no storage, and what stands in its place is no value."""

import json
from typing import Any

import pytest

from preaction.errors import ConfigurationError
from preaction.preflight.masking import MaskedStorage
from preaction.preflight.storage import MemoryStorage
from preflight.samples import ACCOUNT, KEY, field, record


def kept(given: dict[str, Any], *fields: str) -> dict[str, Any]:
    """What is in the storage behind the mask."""
    inner = MemoryStorage()
    MaskedStorage(inner, fields).persist(KEY, given)
    return inner.records()[0]


def test_f13_a_masked_field_is_marked_and_has_no_value() -> None:
    given = record()
    masked = kept(given, "to_account")
    assert masked["fields"] == [given["fields"][0] | {"value": None, "masked": True}, given["fields"][1]]
    assert {**masked, "fields": given["fields"]} == given
    assert list(masked) == list(given)
    assert given == record()


def test_f13_an_unknown_field_stays_without_a_value() -> None:
    unknown = {"name": "to_account", "status": "unknown", "source": None, "origin_source": None}
    assert kept(record("ask_user", fields=[unknown]), "to_account")["fields"] == [unknown]
    assert kept(record("ask_user", fields=None), "to_account")["fields"] is None


@pytest.mark.parametrize(
    ("name", "masks"),
    [("/to/iban", "/to/iban"), ("/to/iban", "to"), ("/to/iban", "/to"), ("to", "/to/iban"), ("a/b", "/a~1b")],
)
def test_f13_a_field_is_masked_by_each_of_its_names(name: str, masks: str) -> None:
    assert ACCOUNT not in json.dumps(kept(record(fields=[field(name, {"iban": ACCOUNT})]), masks))


@pytest.mark.parametrize("name", ["/to/iban2", "tool", "/from/iban", "iban", "/"])
def test_f13_a_field_of_another_name_is_not(name: str) -> None:
    given = record(fields=[field(name, ACCOUNT)])
    assert kept(given, "/to/iban") == given


def deferred() -> dict[str, Any]:
    texts = [
        {"text": f"send it to {ACCOUNT} on Monday", "trust": "user", "origin": None},
        {"text": "and tell me", "trust": "user", "origin": None},
    ]
    answers = {"to_account": ACCOUNT, "memo": f"to {ACCOUNT}", "amount": 500000}
    return record(
        "deferred",
        fixed={"c1_when_case": "scheduled", "c2_user_action_name": f"pay {ACCOUNT}", "c3_provider_action_name": "pay"},
        fields=[field("to_account", ACCOUNT), field("memo", [f"to {ACCOUNT}"]), field("amount", 500000)],
        reason=f"something about {ACCOUNT}",
        deferred_input={"user_id": "u_01", "instruction": texts, "user_checklist": [], "user_answers": answers},
    )


def test_f13_the_value_is_masked_wherever_it_stands() -> None:
    masked = kept(deferred(), "to_account")
    assert ACCOUNT not in json.dumps(masked)
    assert [(one["value"], one.get("masked")) for one in masked["fields"]] == [
        (None, True),
        (None, True),
        (500000, None),
    ]
    assert masked["deferred_input"]["user_answers"] == {"amount": 500000}
    # Nothing can be taken from what was masked, and all else stands
    assert [one["trust"] for one in masked["deferred_input"]["instruction"]] == ["masked", "user"]
    assert masked["deferred_input"]["instruction"][0]["text"] == "send it to *** on Monday"
    assert masked["fixed"]["c2_user_action_name"] == "pay ***"


def test_f13_a_short_value_is_masked_in_its_field_and_tears_nothing_else() -> None:
    given = record(fields=[field("pin", 202), field("amount", 202000)])
    masked = kept(given, "pin")
    assert masked["fields"] == [given["fields"][0] | {"value": None, "masked": True}, given["fields"][1]]
    assert masked["timestamp"] == given["timestamp"]


def test_f13_what_is_loaded_is_what_was_kept() -> None:
    storage = MaskedStorage(MemoryStorage(), ["to_account"])
    storage.persist(KEY, record())
    assert storage.load(KEY) == kept(record(), "to_account")
    assert storage.claim("one")
    assert not storage.claim("one")


async def test_f13_a_storage_of_ones_own_may_be_async() -> None:
    inner = AsyncStorage()
    storage = MaskedStorage(inner, ["to_account"])
    await storage.persist(KEY, record())
    assert await storage.load(KEY) == kept(record(), "to_account")
    assert (storage.claim("one"), storage.claim("one")) == (True, False)


class AsyncStorage:
    """No more than the port, async."""

    def __init__(self) -> None:
        self.kept = MemoryStorage()

    async def persist(self, action_key: str, record: Any) -> None:
        self.kept.persist(action_key, record)

    async def load(self, action_key: str) -> Any:
        return self.kept.load(action_key)


@pytest.mark.parametrize(
    ("inner", "fields"),
    [(object(), ["a"]), (MemoryStorage(), "to_account"), (MemoryStorage(), [1]), (MemoryStorage(), [])],
)
def test_f13_what_cannot_mask_is_refused(inner: Any, fields: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"storage|fields"):
        MaskedStorage(inner, fields)
