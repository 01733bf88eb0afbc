"""G1–G3 at the seams: what is measured, and how names are compared, on arguments alone."""

import json
import math
from typing import Any

import pytest

from preaction._core.call import MAX_BITS, MAX_BYTES, MAX_DEPTH, Call, Malformed, fold, plain, read_call
from preaction._core.denied import Denied


def read(value: Any) -> Call | Denied:
    return read_call("chat-7", "reply", {"x": value})


@pytest.mark.parametrize("item", ["\x01", True, False, {"\x01": "\x01"}, 10**300], ids=ascii)
def test_g01_what_takes_most_room_is_measured_as_it_is_written(item: Any) -> None:
    each = len(json.dumps(item)) + 2
    many = [item] * ((MAX_BYTES - len('{"x": []}') + 2) // each)
    assert isinstance(read(many), Call)
    assert isinstance(read([*many, item]), Denied)


def test_g01_one_list_in_many_places_is_given_up_early() -> None:
    shared: list[Any] = []
    for _ in range(30):
        shared = [shared, shared]  # 2**30 lists, once copied
    assert isinstance(read(shared), Denied)


def test_g01_a_value_by_itself_may_be_as_deep_as_arguments() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert plain(value) == value
    with pytest.raises(Malformed) as raised:
        plain([value])
    assert str(raised.value) == raised.value.why == f"the arguments are nested more than {MAX_DEPTH} deep"
    assert raised.value.place() == "[0]" * MAX_DEPTH


def test_g01_an_integer_may_have_so_many_bits() -> None:
    assert plain(2**MAX_BITS - 1) == 2**MAX_BITS - 1
    with pytest.raises(Malformed):
        plain(2**MAX_BITS)


def test_a_number_keeps_its_sign() -> None:
    assert math.copysign(1, plain(-0.0)) == -1


@pytest.mark.parametrize(
    ("text", "folded"), [("AbZ", "abz"), ("@[`{", "@[`{"), ("ÄBZ", "Äbz"), ("\u212aK", "\u212ak"), ("", "")], ids=ascii
)
def test_g02_names_are_compared_without_ascii_case_and_nothing_else(text: str, folded: str) -> None:
    assert fold(text) == folded
