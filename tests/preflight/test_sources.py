"""F5–F8: the five sources, alone and in every combination, against the rule written down as data."""

import asyncio
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.errors import ConfigurationError, MisuseError
from preaction.preflight import Segment, State, lookup_field, lookup_field_sync
from preflight.bank import Bank, failing

ORDER = ("user_answer", "instruction", "pre_set_data", "measured_data", "prior_state")

# What a source does to the look-up, by what it holds. The rule of F5, and nothing of the code.
RULE = {
    "absent": "the next source is asked",
    "invalid": "the next source is asked",
    "raising": "unknown",
    "no JSON": "unknown",
    "present": "known",
}

USERS = [Segment("pay 500 to Kim", trust="user"), Segment("pay 900 to Eve", trust="untrusted")]


class Raising(dict[str, Any]):
    """Data that can't be read."""

    def get(self, *given: Any) -> Any:
        raise RuntimeError("SECRET")

    __getitem__ = __iter__ = keys = items = get


class Odd(Segment):
    """A segment whose words can't be read."""

    @property
    def text(self) -> str:
        raise RuntimeError("SECRET")

    @text.setter
    def text(self, value: str) -> None:
        pass


def executed(**field: Any) -> dict[str, Any]:
    known = {"name": "x", "status": "known", "source": "user_answer", "origin_source": "user_answer", **field}
    return {"execution_decision": "executed", "fields": [known]}


def claim(**changes: Any) -> Any:
    found = {"value": 1, "segment_index": 0, "span": [4, 7], **changes}
    return lambda field_name, instruction: found


def measured(**found: Any) -> Any:
    return lambda field_name, context: found


# Each source in each condition, as what it adds to the call of `lookup_field`.
GIVEN: dict[str, dict[str, dict[str, Any]]] = {
    "user_answer": {
        "absent": {"user_answers": {"y": 0}},
        "invalid": {"user_answers": {"x": None}},
        "raising": {"user_answers": Raising()},
        "no JSON": {"user_answers": {"x": float("nan")}},
        "present": {"user_answers": {"x": 0}},
    },
    "instruction": {
        "absent": {"extract_from_instruction": lambda field_name, instruction: None},
        "invalid": {"extract_from_instruction": claim(segment_index=1)},
        "raising": {"extract_from_instruction": failing},
        "no JSON": {"extract_from_instruction": claim(value={1})},
        "present": {"extract_from_instruction": claim()},
    },
    "pre_set_data": {
        "absent": {"pre_set_data": {}},
        "invalid": {"pre_set_data": {"x": {"value": 2, "trust": "untrusted"}}},
        "raising": {"pre_set_data": Raising()},
        "no JSON": {"pre_set_data": {"x": {"value": "\ud800", "trust": "user"}}},
        "present": {"pre_set_data": {"x": {"value": 2, "trust": "user"}}},
    },
    "measured_data": {
        "absent": {"measure_from_environment": lambda field_name, context: None},
        "invalid": {"measure_from_environment": measured(valid=False, value=3)},
        "raising": {"measure_from_environment": failing},
        "no JSON": {"measure_from_environment": measured(valid=True, value=10**5000)},
        "present": {"measure_from_environment": measured(valid=True, value=3)},
    },
    "prior_state": {
        "absent": {"prior_state": None},
        "invalid": {"prior_state": {**executed(value=4), "execution_decision": "failed"}},
        "raising": {"prior_state": Raising()},
        "no JSON": {"prior_state": executed(value=object())},
        "present": {"prior_state": executed(value=4, origin_source="measured_data")},
    },
}
VALUES = dict(zip(ORDER, range(5), strict=True))


def expected(conditions: tuple[str, ...]) -> tuple[Any, str | None, bool]:
    """Value, source and whether there is a note, by the rule."""
    for source, condition in zip(ORDER, conditions, strict=True):
        if RULE[condition] == "known":
            return VALUES[source], source, False
        if RULE[condition] == "unknown":
            return None, None, True
    return None, None, False


def said(record: dict[str, Any]) -> tuple[Any, str | None, bool]:
    assert ("value" in record) is (record["status"] == "known")
    origin = "measured_data" if record["source"] == "prior_state" else record["source"]
    assert record["origin_source"] == origin
    assert "SECRET" not in str(record)
    return record.get("value"), record["source"], "note" in record


@pytest.mark.parametrize("first", RULE)
def test_f5_all_combinations_of_the_five_sources(first: str) -> None:
    for rest in itertools.product(RULE, repeat=4):
        conditions = (first, *rest)
        given: dict[str, Any] = {"instruction": USERS}
        for source, condition in zip(ORDER, conditions, strict=True):
            given |= GIVEN[source][condition]
        assert said(lookup_field_sync("x", **given)) == expected(conditions), conditions


def test_f5_the_same_with_coroutine_functions_in_a_loop() -> None:
    def later(hook: Any) -> Any:
        async def awaited(**given: Any) -> Any:
            return hook(**given)

        return awaited

    async def all_of_them() -> None:
        for conditions in itertools.product(("absent", "raising", "present"), repeat=5):
            given: dict[str, Any] = {"instruction": USERS}
            for source, condition in zip(ORDER, conditions, strict=True):
                given |= {name: later(one) if callable(one) else one for name, one in GIVEN[source][condition].items()}
            assert said(await lookup_field("x", **given)) == expected(conditions), conditions

    asyncio.run(all_of_them())


def test_f5_the_hooks_below_a_decided_or_failed_source_are_not_asked() -> None:
    asked: list[str] = []

    def extract(field_name: str, instruction: Any) -> None:
        asked.append("instruction")

    def measure(field_name: str, context: Any) -> None:
        asked.append("measured_data")

    hooks: dict[str, Any] = {"extract_from_instruction": extract, "measure_from_environment": measure}
    lookup_field_sync("x", instruction=USERS, user_answers={"x": 1}, **hooks)
    lookup_field_sync("x", instruction=USERS, user_answers=Raising(), **hooks)
    assert asked == []
    lookup_field_sync("x", instruction=USERS, **hooks)
    assert asked == ["instruction", "measured_data"]


@pytest.mark.parametrize("value", [0, False, "", [], {}, 0.0, 2**70, "\0", [[None]]])
@pytest.mark.parametrize("source", ORDER)
def test_f5_what_is_empty_to_python_is_a_value_all_the_same(source: str, value: Any) -> None:
    given = {
        "user_answer": {"user_answers": {"x": value}},
        "instruction": {"extract_from_instruction": claim(value=value)},
        "pre_set_data": {"pre_set_data": {"x": {"value": value, "trust": "user"}}},
        "measured_data": {"measured_data": {"x": {"value": value, "valid": True}}},
        "prior_state": {"prior_state": executed(value=value)},
    }
    record = lookup_field_sync("x", instruction=USERS, **given[source])
    assert (record["value"], type(record["value"]), record["source"]) == (value, type(value), source)


# ---------------------------------------------------------------- F6: the instruction

NOTHING_OF_IT = {
    "an untrusted segment": {"segment_index": 1},
    "no span": {"span": None},
    "an empty span": {"span": [4, 4]},
    "a reversed span": {"span": [7, 4]},
    "a span of blanks": {"span": [3, 4]},
    "a span that ends outside": {"span": [4, 99]},
    "a span that begins before": {"span": [-3, 7]},
    "a span of floats": {"span": [4.0, 7.0]},
    "a span of booleans": {"span": [False, True]},
    "a span of texts": {"span": ["4", "7"]},
    "a span of one": {"span": [4]},
    "a span of three": {"span": [4, 7, 8]},
    "a span as a text": {"span": "47"},
    "no index": {"segment_index": None},
    "an index outside": {"segment_index": 2},
    "an index from the end": {"segment_index": -2},
    "a boolean index": {"segment_index": False},
    "an index as a text": {"segment_index": "0"},
    "no value": {"value": None},
}


@pytest.mark.parametrize("changes", NOTHING_OF_IT.values(), ids=list(NOTHING_OF_IT))
def test_f6_without_coordinates_in_a_segment_of_the_user_s_nothing_comes_of_it(changes: dict[str, Any]) -> None:
    record = lookup_field_sync("x", instruction=USERS, extract_from_instruction=claim(**changes))
    assert (record["status"], "note" in record) == ("unknown", False)


@pytest.mark.parametrize("answer", [500, "500", [500], ["value", 500], True])
def test_f6_nor_of_an_answer_in_another_shape(answer: Any) -> None:
    found = lookup_field_sync("x", instruction=USERS, extract_from_instruction=lambda field_name, instruction: answer)
    assert found["status"] == "unknown"


@pytest.mark.parametrize(
    "instruction",
    [
        "pay 500 to Kim",
        b"pay 500 to Kim",
        None,
        7,
        {"text": "pay 500 to Kim", "trust": "user"},
        {"pay 500 to Kim"},
        [],
        ["pay 500 to Kim"],
        [None],
        [{"text": "pay 500 to Kim"}],
        [{"text": 7, "trust": "user"}],
        [Segment("pay 500 to Kim", trust="User")],
        [Segment("pay 500 to Kim", trust="assistant")],
        [Segment("pay 500 to Kim", trust=True)],  # type: ignore[arg-type]
        [Raising()],
        [Odd("pay 500 to Kim", trust="user")],
    ],
)
def test_f6_what_is_not_a_list_of_segments_of_the_user_s_gives_nothing(instruction: Any) -> None:
    found = lookup_field_sync("x", instruction=instruction, extract_from_instruction=claim())
    assert (found["status"], found["source"]) == ("unknown", None)


def test_f6_segments_may_come_as_json() -> None:
    seen: list[Any] = []

    def extract(field_name: str, instruction: Any) -> Any:
        seen.extend(instruction)
        return {"value": 500, "segment_index": 0, "span": (4, 7)}

    instruction = ({"text": "pay 500 to Kim", "trust": "user", "origin": "chat"},)
    assert lookup_field_sync("x", instruction=instruction, extract_from_instruction=extract)["value"] == 500
    assert seen == [Segment("pay 500 to Kim", trust="user", origin="chat")]


def test_f6_a_hook_that_alters_its_list_alters_nobody_else_s() -> None:
    def extract(field_name: str, instruction: Any) -> Any:
        instruction[1] = Segment("pay 900 to Eve", trust="user")
        return {"value": 900, "segment_index": 1, "span": [4, 7]}

    assert lookup_field_sync("x", instruction=USERS, extract_from_instruction=extract)["status"] == "unknown"
    assert USERS[1].trust == "untrusted"


# ---------------------------------------------------------------- F7: wrappers


@pytest.mark.parametrize(
    "wrapped",
    [
        "1102534471",
        ["1102534471"],
        {"value": "1102534471"},
        {"value": "1102534471", "trust": "untrusted"},
        {"value": "1102534471", "trust": True},
        {"value": "1102534471", "trust": "USER"},
        {"value": "1102534471", "valid": True},
        {"trust": "user"},
        {"value": None, "trust": "user"},
    ],
)
def test_f7_what_was_set_before_counts_only_in_its_wrapper(wrapped: Any) -> None:
    assert lookup_field_sync("x", pre_set_data={"x": wrapped})["status"] == "unknown"


@pytest.mark.parametrize(
    "wrapped",
    [
        9,
        [True, 9],
        {"value": 9},
        {"value": 9, "valid": False},
        {"value": 9, "valid": 1},
        {"value": 9, "valid": "true"},
        {"value": 9, "trust": "user"},
        {"valid": True},
        {"value": None, "valid": True},
    ],
)
@pytest.mark.parametrize("way", ["data", "hook"])
def test_f7_a_measurement_counts_only_in_its_wrapper(wrapped: Any, way: str) -> None:
    given: dict[str, Any] = {"measured_data": {"x": wrapped}}
    if way == "hook":
        given = {"measure_from_environment": lambda field_name, context: wrapped}
    assert lookup_field_sync("x", **given)["status"] == "unknown"


def test_f7_where_a_hook_measures_the_caller_s_data_is_for_the_hook() -> None:
    data = {"x": {"valid": True, "value": 9}}
    refusing = lookup_field_sync("x", measured_data=data, measure_from_environment=measured(valid=False, value=9))
    assert refusing["status"] == "unknown"
    passing = lookup_field_sync(
        "x", measured_data=data, measure_from_environment=lambda field_name, context: context["measured_data"]["x"]
    )
    assert (passing["value"], passing["source"]) == (9, "measured_data")


def test_f7_data_that_is_no_json_is_not_passed_over_because_a_hook_measures() -> None:
    record = lookup_field_sync(
        "x", measured_data={"x": {"valid": True, "value": {1}}}, measure_from_environment=measured(valid=True, value=9)
    )
    assert record["note"] == 'measured_data.x: a value of type set is not JSON (in "value")'


# ---------------------------------------------------------------- F8: an earlier record


@pytest.mark.parametrize("decision", ["execute", "ask_user", "hold", "deferred", "failed", None, True])
def test_f8_only_what_was_executed_is_a_baseline(decision: Any) -> None:
    prior = {**executed(value=4), "execution_decision": decision}
    assert lookup_field_sync("x", prior_state=prior)["status"] == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"origin_source": None},
        {"origin_source": ""},
        {"origin_source": "model"},
        {"origin_source": "prior_state"},
        {"origin_source": ["user_answer"]},
        {"status": "unknown"},
        {"masked": True},
        {"masked": "yes"},
        {"masked": None},
        {"value": None},
        {"name": "X"},
    ],
)
def test_f8_a_field_without_an_origin_or_a_masked_one_is_none(changes: dict[str, Any]) -> None:
    assert lookup_field_sync("x", prior_state=executed(**{"value": 4, **changes}))["status"] == "unknown"


def test_f8_nor_one_that_the_record_has_twice_or_not_at_all() -> None:
    twice = executed(value=4)
    twice["fields"] *= 2
    for prior in (twice, {**twice, "fields": None}, {**twice, "fields": [7]}, {**twice, "fields": []}):
        assert lookup_field_sync("x", prior_state=prior)["status"] == "unknown"


def test_f8_the_first_origin_is_inherited_through_any_number_of_runs() -> None:
    record = lookup_field_sync("x", user_answers={"x": 4})
    for _ in range(3):
        record = lookup_field_sync("x", prior_state={"execution_decision": "executed", "fields": [record]})
        assert (record["source"], record["origin_source"], record["value"]) == ("prior_state", "user_answer", 4)


def test_f8_a_state_may_stand_for_its_record() -> None:
    state = Bank().ready()
    prior = State.from_json(state.to_json() | {"execution_decision": "executed"})
    record = lookup_field_sync("to_account", prior_state=prior)
    assert (record["source"], record["origin_source"]) == ("prior_state", "user_answer")


# ---------------------------------------------------------------- values


NO_JSON: dict[str, tuple[Any, str]] = {
    "NaN": (float("nan"), "a number is not finite"),
    "an infinity": (float("-inf"), "a number is not finite"),
    "a huge integer": (10**5000, "a number is too long to be written out"),
    "a lone surrogate": ("a\ud800", "a text holds a lone surrogate"),
    "a set": ({1, 2}, "a value of type set is not JSON"),
    "bytes": (b"1", "a value of type bytes is not JSON"),
    "NaN deep inside": ({"a": [0, {"b": float("nan")}]}, 'a number is not finite (in "{}a[1].b")'),
    "a name that is no text": ({1: 2}, "a field name is not a string"),
}


@pytest.mark.parametrize(("value", "why"), NO_JSON.values(), ids=list(NO_JSON))
@pytest.mark.parametrize("source", ORDER)
def test_f5_a_value_that_is_no_json_is_unknown_and_names_its_place(source: str, value: Any, why: str) -> None:
    given = {
        "user_answer": {"user_answers": {"x": value}},
        "instruction": {"extract_from_instruction": claim(value=value)},
        "pre_set_data": {"pre_set_data": {"x": {"value": value, "trust": "user"}}},
        "measured_data": {"measured_data": {"x": {"value": value, "valid": True}}},
        "prior_state": {"prior_state": executed(value=value)},
    }
    record = lookup_field_sync("x", instruction=USERS, **given[source])
    if source != "user_answer" and "(in" not in why:
        why += ' (in "value")'
    assert record["status"] == "unknown"
    assert record["note"] == f"{source}.x: " + why.format("" if source == "user_answer" else "value.")


def test_f5_a_source_that_is_no_mapping_is_one_that_failed() -> None:
    record = lookup_field_sync("x", user_answers=[("x", 1)], pre_set_data={"x": {"value": 2, "trust": "user"}})  # type: ignore[arg-type]
    assert record["note"] == "user_answer.x: a mapping is needed, not list"
    assert lookup_field_sync("x", prior_state=[1])["note"] == "prior_state.x: a record is needed, not list"  # type: ignore[arg-type]


def test_f5_a_name_writes_no_line_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    record = lookup_field_sync("x\nERROR all good", user_answers=Raising())
    assert record["note"] == "user_answer.x ERROR all good: it could not be read"
    lookup_field_sync("x\nERROR all good", instruction=USERS, extract_from_instruction=failing)
    assert [record.getMessage() for record in caplog.records] == [
        'preflight: "user_answer.x\\nERROR all good" could not be read: RuntimeError',
        'preflight: "instruction.x\\nERROR all good" could not be looked up: ValueError',
    ]


def test_f5_a_decided_value_is_nobody_else_s() -> None:
    answer = {"iban": ["DE1"]}
    answers = {"x": answer}
    record = lookup_field_sync("x", user_answers=MappingProxyType(answers))
    answer["iban"].append("EVIL")
    answers["x"] = {"iban": ["EVIL"]}
    assert record["value"] == {"iban": ["DE1"]}


def test_f5_nothing_is_asked_about_no_name() -> None:
    for name in ("", None, 7):
        with pytest.raises(MisuseError, match="name: the name of a field is needed"):
            lookup_field_sync(name)  # type: ignore[arg-type]


def test_f13_the_time_is_utc_with_milliseconds() -> None:
    clock = Bank().clock
    assert lookup_field_sync("x", clock=clock)["resolved_at"] == "2026-08-11T09:12:03.114Z"
    with pytest.raises(ConfigurationError, match="clock"):
        lookup_field_sync("x", clock=lambda: clock().replace(tzinfo=None))


async def test_f5_the_sync_form_works_beside_a_running_loop_and_with_coroutines() -> None:
    async def measure(field_name: str, context: Any) -> Any:
        await asyncio.sleep(0)
        return {"valid": True, "value": 9}

    assert lookup_field_sync("x", measure_from_environment=measure)["value"] == 9
    assert (await lookup_field("x", measure_from_environment=measure))["value"] == 9
    assert (await lookup_field("x", measure_from_environment=measured(valid=True, value=9)))["value"] == 9


# ---------------------------------------------------------------- never one that no source holds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=4,
)
SOURCE_NAMES = st.sampled_from([*ORDER, "model", None])
TRUST = st.sampled_from(["user", "untrusted", "User", None])
SEGMENTS = st.lists(st.builds(Segment, st.text(max_size=6), TRUST), max_size=3)
INDEX = st.integers(-2, 7) | st.booleans() | st.none()
CLAIM = JSON | st.fixed_dictionaries(
    {"value": JSON, "segment_index": INDEX, "span": st.lists(INDEX, min_size=1, max_size=3) | JSON}
)
SETTLED = JSON | st.fixed_dictionaries({"value": JSON, "trust": TRUST})
MEASURED = JSON | st.fixed_dictionaries({"value": JSON, "valid": st.sampled_from([True, False, 1, "true", None])})
FIELD = st.fixed_dictionaries(
    {"name": st.sampled_from("xy"), "value": JSON, "status": st.sampled_from(["known", "unknown", None])},
    optional={"source": SOURCE_NAMES, "origin_source": SOURCE_NAMES, "masked": st.booleans()},
)
PRIOR = st.none() | st.fixed_dictionaries(
    {"execution_decision": st.sampled_from(["executed", "execute", None]), "fields": st.lists(FIELD, max_size=2)}
)
NAMED = st.dictionaries(st.sampled_from("xy"), JSON, max_size=2)


def held_by(source: str, given: Mapping[str, Any]) -> Any:
    """What a source holds by its definition, None being nothing. Written from F5 to F8, not from the code."""
    wrapped = given[source]
    match source:
        case "user_answer":
            return wrapped.get("x")
        case "pre_set_data":
            return wrapped["value"] if isinstance(wrapped, dict) and wrapped.get("trust") == "user" else None
        case "measured_data":
            return wrapped["value"] if isinstance(wrapped, dict) and wrapped.get("valid") is True else None
        case "instruction":
            if not isinstance(wrapped, dict) or set(wrapped) != {"value", "segment_index", "span"}:
                return None
            whole = [segment.text if segment.trust == "user" else "" for segment in given["segments"]]
            index, span = wrapped["segment_index"], wrapped["span"]
            if type(index) is not int or index not in range(len(whole)) or not isinstance(span, list) or len(span) != 2:
                return None
            inside = range(len(whole[index]) + 1)
            right = all(type(end) is int and end in inside for end in span)
            return wrapped["value"] if right and whole[index][span[0] : span[1]].strip() else None
        case _:
            if wrapped is None or wrapped["execution_decision"] != "executed":
                return None
            fields = [one for one in wrapped["fields"] if one["name"] == "x"]
            if len(fields) != 1 or fields[0]["status"] != "known" or fields[0].get("masked"):
                return None
            return fields[0]["value"] if fields[0].get("origin_source") in ORDER[:4] else None


def same(one: Any, other: Any) -> bool:
    """Equal in every type as well: True is no 1."""
    return repr(one) == repr(other)


@given(st.data())
def test_f5_a_value_is_known_only_if_one_of_the_five_holds_exactly_it(data: st.DataObject) -> None:
    segments = data.draw(SEGMENTS)
    given: dict[str, Any] = {
        "segments": segments,
        "user_answer": data.draw(NAMED),
        "instruction": data.draw(CLAIM),
        "pre_set_data": data.draw(SETTLED),
        "measured_data": data.draw(MEASURED),
        "prior_state": data.draw(PRIOR),
    }
    record = lookup_field_sync(
        "x",
        instruction=segments,
        user_answers=given["user_answer"],
        extract_from_instruction=lambda field_name, instruction: given["instruction"],
        pre_set_data={"x": given["pre_set_data"]},
        measure_from_environment=lambda field_name, context: given["measured_data"],
        prior_state=given["prior_state"],
    )
    if record["status"] == "unknown":
        assert "value" not in record
        holding = [source for source in ORDER if held_by(source, given) is not None]
        assert "note" in record or not holding
    else:
        assert same(record["value"], held_by(record["source"], given))
        above = ORDER[: ORDER.index(record["source"])]
        assert [source for source in above if held_by(source, given) is not None] == []
