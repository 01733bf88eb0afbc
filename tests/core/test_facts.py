"""What the authority answered, read strictly: usable, or a clause that says why not."""

from types import MappingProxyType
from typing import Any

import pytest

from kit import TICKET
from preaction._core.facts import (
    OTHER_DESCRIPTION,
    Describe,
    Unavailable,
    Verify,
    description,
    text_check,
    verification,
)
from preaction.testing import FakeAuthority
from preaction.wire.models import JobDescription, OutputCheckVerification, Verification


def answers() -> tuple[dict[str, Any], FakeAuthority]:
    """A good answer on a receipt, and the authority that gave it."""
    authority = FakeAuthority()
    authority.decide(TICKET)
    return authority.good_answer(Verify("exe_1")), authority


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"valid": "true"}, "the answer lacked or mistyped 'valid'"),
        ({"problems": ["x", 7]}, "the answer lacked or mistyped 'problems.1'"),
        ({"replay": {"job": "j"}}, "the answer lacked or mistyped 'replay.release'"),
    ],
)
def test_a_field_that_is_missing_or_mistyped_is_named(changes: dict[str, Any], why: str) -> None:
    good, _ = answers()
    assert verification(good | changes) == Unavailable(why)


@pytest.mark.parametrize("given", [None, "{}", [], 7, b"{}"])
def test_what_is_no_object_is_no_answer(given: object) -> None:
    why = Unavailable("the answer was not an object")
    assert (verification(given), text_check(given), description(given, Describe("j", "r"))) == (why, why, why)


def test_any_mapping_is_read_if_it_is_plain_json() -> None:
    good, _ = answers()
    read = verification(MappingProxyType(good))
    assert isinstance(read, Verification)
    assert read == verification(good)
    assert verification(MappingProxyType(good | {"more": object()})) == Unavailable("the answer was not plain JSON")


def test_what_nobody_asked_for_is_ignored_in_an_object_whatever_it_is() -> None:
    good, _ = answers()
    assert verification(good | {"more": object()}) == verification(good)


def test_a_model_and_a_reason_are_taken_as_they_are() -> None:
    good, authority = answers()
    read = verification(good)
    assert verification(read) is read
    why = Unavailable("it did not answer in time")
    assert verification(why) is why
    assert isinstance(text_check(read), Unavailable)
    check = authority.check_output(authority.decide(TICKET), {"body": "x"})
    assert isinstance(text_check(check | {"valid": True}), OutputCheckVerification)


def test_g25_a_description_is_of_the_job_and_the_release_that_were_asked_for() -> None:
    _, authority = answers()
    given = authority.description("r1")
    assert isinstance(description(given, Describe("triage-ticket", "r1")), JobDescription)
    for job, release in (("triage-ticket", "r2"), ("another", "r1")):
        assert description(given, Describe(job, release)) is OTHER_DESCRIPTION
