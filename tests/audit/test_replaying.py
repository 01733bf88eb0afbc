"""Records judged again: the same verdict, or a word on why not; and never another one unnoticed."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.test_trail import OPEN, SECRET, audited, json_values
from core.test_record import SCENES
from kit import MAIL, REPLY, TICKET, company, decided, helpdesk, mail, reply
from preaction import ActionGate
from preaction.audit.reading import record_of
from preaction.audit.replaying import differences, replay_record
from preaction.errors import InvalidJSON, RecordMismatch
from preaction.testing import FakeAuthority

FOR_A_COMPANY = [name for name, scene in SCENES.items() if scene()[2] == MAIL]


def replayed(record: dict[str, Any]) -> list[str]:
    """In what the replay of a record differs from what it says."""
    read = record_of(json.loads(json.dumps(record)))
    return differences(read, replay_record(read))


@pytest.mark.parametrize("name", SCENES)
def test_a_record_with_whole_arguments_gives_its_verdict_again(name: str) -> None:
    assert replayed(audited(SCENES[name](), arguments="whole")[1]) == []


@pytest.mark.parametrize("name", [name for name in SCENES if name not in FOR_A_COMPANY])
def test_a_record_without_texts_gives_its_verdict_again(name: str) -> None:
    assert replayed(audited(SCENES[name]())[1]) == []


@pytest.mark.parametrize("name", FOR_A_COMPANY)
def test_recipients_that_are_not_kept_cannot_be_judged_and_those_that_are_can(name: str) -> None:
    with pytest.raises(RecordMismatch, match="the value of 'to', which the decision looks at, is not kept"):
        replayed(audited(SCENES[name]())[1])
    assert replayed(audited(SCENES[name](), keep=["to", "subject"])[1]) == []


@pytest.mark.parametrize("value", [SECRET, None, 1, 1.5, False, [], ["a", 1], {}, {SECRET: {SECRET: [1]}}, "a\nb"])
def test_each_shape_stands_for_its_value(value: object) -> None:
    for fields in (["ticketId", "body", "subject"], ["ticketId", "body", "subject.*"]):
        scene = helpdesk(rule={"fields": fields, "null_only": ["to"]})
        decided(*scene)
        for name in ("body", "subject", "to", SECRET):
            assert replayed(audited((*scene, REPLY, reply(**{name: value})))[1]) == []


@given(st.dictionaries(st.sampled_from(["body", "BODY", "to", "subject", "open", SECRET]), json_values, max_size=4))
def test_whatever_was_left_out_the_verdict_is_the_same_or_cannot_be_told(args: dict[str, Any]) -> None:
    _, record = audited((*OPEN, REPLY, {"ticketId": TICKET, **args}))
    with suppress(RecordMismatch):
        assert replayed(record) == []


def test_a_nested_text_is_checked_by_its_digest() -> None:
    rule = {"fields": ["ticketId", "mail.body", "mail.note"], "output_check": {"fields": ["mail.body"]}}
    gate, authority = helpdesk(rule=rule)
    decided(gate, authority, content={"mail.body": "Paid."})
    call = {"ticketId": TICKET, "mail": {"body": "Paid.", "note": SECRET}}
    verdict, record = audited((gate, authority, REPLY, call))
    assert verdict.allow
    assert "Paid." not in json.dumps(record)
    assert replayed(record) == []


# ---------------------------------------------------------------- what can't be replayed says so


def test_what_the_gate_could_not_judge_cannot_be_replayed() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    authority.clock = None  # type: ignore[assignment]

    def breaks(ask: object) -> object:
        raise OSError

    scene = (gate, FakeAuthority(), REPLY, reply())
    gate._sessions.answer = lambda *given: breaks(given)  # type: ignore[method-assign]
    with pytest.raises(RecordMismatch, match="the gate itself failed"):
        replayed(audited(scene)[1])


@pytest.mark.parametrize(
    ("tool", "args", "why"),
    [("other", {}, "no rule names this tool"), (REPLY, {"a": float("nan")}, "its arguments are not kept")],
)
def test_what_was_no_call_cannot_be_replayed(tool: str, args: dict[str, Any], why: str) -> None:
    gate, authority = helpdesk(unlisted="deny")
    with pytest.raises(RecordMismatch, match=why):
        replayed(audited((gate, authority, tool, args))[1])


def test_an_id_that_is_prose_is_not_kept_so_it_is_not_judged() -> None:
    with pytest.raises(RecordMismatch, match="the value of 'ticketId'"):
        replayed(audited((*SCENES["allowed"]()[:3], reply(ticketId="long " * 50)))[1])


def test_a_call_without_a_session_replays_as_one() -> None:
    gate, authority = helpdesk()
    written: list[dict[str, Any]] = []
    gate = helpdesk(authority=authority, audit=written.append)[0]
    assert gate.check(None, REPLY, reply()).code == "no_session"
    assert written[0]["session"] is None
    assert replayed(written[0]) == []


def test_in_test_mode_the_subject_tells_the_case_so_it_must_be_kept() -> None:
    scene = company(test_recipients=["t@acme.example"])
    decided(*scene, "acme.example")
    args = mail(to="t@acme.example", subject="acme.example")
    with pytest.raises(RecordMismatch, match="the value of 'subject'"):
        replayed(audited((*scene, MAIL, args), keep=["to"])[1])
    verdict, record = audited((*scene, MAIL, args), keep=["to", "subject"])
    assert verdict.allow
    assert replayed(record) == []


# ---------------------------------------------------------------- tampering


def allowed(**options: Any) -> dict[str, Any]:
    return audited(SCENES["allowed once"](), **options)[1]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each value inside a JSON value."""
    if at:
        yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*at, key))


def altered(record: dict[str, Any], place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    copied = copy.deepcopy(record)
    holder = copied
    for key in place[:-1]:
        holder = holder[key]
    change(holder, place[-1])
    return copied


def removed(holder: Any, key: Any) -> None:
    del holder[key]


def replaced(holder: Any, key: Any) -> None:
    holder[key] = [{"kind": "other"}]


@pytest.mark.parametrize("change", [removed, replaced])
def test_a_record_whose_parts_are_removed_or_replaced_never_raises_anything_else(
    change: Callable[[Any, Any], None],
) -> None:
    record = allowed()
    for place in places({name: record[name] for name in ("arguments", "rules", "rounds", "verdict")}):
        try:
            replayed(altered(record, place, change))
        except (InvalidJSON, RecordMismatch) as error:
            assert "\n" not in str(error)  # noqa: PT017 - which place failed is in the record


@pytest.mark.parametrize("options", [{}, {"arguments": "whole"}])
def test_an_ask_of_the_record_that_is_gone_or_altered_is_a_mismatch(options: dict[str, Any]) -> None:
    record = allowed(**options)
    for place in places(record["rounds"]):
        if len(place) == 2:
            with pytest.raises(RecordMismatch):
                replayed(altered(record, ("rounds", *place), removed))
        if len(place) == 4 and place[2] == "ask" and place[3] not in ("take",):
            with pytest.raises(RecordMismatch):
                replayed(altered(record, ("rounds", *place), lambda holder, key: holder.update({key: "x"})))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("verdict", "code"), "undecided"),
        (("verdict", "allow"), False),
        (("verdict", "case"), "HC-9"),
        (("verdict", "executionId"), None),
        (("verdict", "checks", "text", "state"), "failed"),
        (("rules", "rule", "writes"), "another-output"),
        (("rules", "options", "releases"), ["another"]),
        (("rules", "options", "refuseFields"), ["body"]),
        (("arguments", "leftOut", "body"), None),
        (("arguments", "leftOut", "more"), "text"),
    ],
)
def test_a_record_that_was_altered_does_not_give_the_verdict_that_it_says(
    place: tuple[Any, ...], value: object
) -> None:
    record = altered(allowed(), place, lambda holder, key: holder.update({key: value}))
    with suppress(InvalidJSON, RecordMismatch):
        assert replayed(record) != []


def test_arguments_that_are_not_those_of_the_digest_are_refused() -> None:
    record = allowed(arguments="whole")
    record["arguments"]["view"]["body"] = "something else"
    with pytest.raises(RecordMismatch, match="not those of its digest"):
        replayed(record)


def test_two_names_for_one_field_and_two_digests_of_one_text_are_refused() -> None:
    record = allowed()
    record["arguments"]["view"]["BODY"] = "text"
    with pytest.raises(RecordMismatch, match="its arguments can't be read"):
        replayed(record)
    record = allowed()
    (asked,) = record["rounds"][1]
    record["rounds"].append([{**asked, "ask": {**asked["ask"], "digest": "sha-256:" + "0" * 64}}])
    with pytest.raises(RecordMismatch, match="it holds two digests of one text"):
        replayed(record)


def test_a_call_for_a_company_replays_by_the_suffixes_of_its_gate() -> None:
    gate: ActionGate
    gate, authority = company(own_suffixes=["corp"])
    decided(gate, authority, "acme.corp")
    written: list[dict[str, Any]] = []
    options: dict[str, Any] = {"own_suffixes": ["corp"], "audit": written.append}
    gate = company(authority=authority, **options)[0]
    decided(gate, authority, "acme.corp")
    gate.check("chat-7", MAIL, mail(to="a@acme.corp"))
    assert written[0]["verdict"]["code"] == "allowed"
    assert written[0]["rules"]["options"]["ownSuffixes"] == ["corp"]
