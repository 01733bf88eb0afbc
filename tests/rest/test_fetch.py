"""A batch of asks over a real socket: how many requests it takes, what is remembered, what goes on at the same time."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from rest.answers import ANSWERS, ASKS, CHECK, CHECKED, DESCRIBE, DESCRIPTION, EVERYTHING, REPLAY, VERIFY
from rest.authority_server import Asked, AuthorityServer, Behaviour, by_path, in_turn, resets, says
from rest.ways import Way, call, client, every_way, fetch

SEPARATE = by_path(executions=REPLAY, jobs=DESCRIPTION, output_checks=CHECKED)
PATHS = [
    "/v0/executions/exe_1/verify",
    "/v0/jobs/triage-ticket/releases/2026-11-03.1",
    "/v0/output-checks/chk_1/verify",
]


@every_way
async def test_one_batch_is_one_request(way: Way) -> None:
    with AuthorityServer(says(EVERYTHING)) as server:
        async with client(way, server.origin) as felspar:
            for _ in range(3):
                assert await fetch(way, felspar, ASKS) == ANSWERS
        assert [asked.line for asked in server.asked] == [b"POST /v0/executions/exe_1/verify HTTP/1.1"] * 3
        assert server.asked[0].json == {"include": {"description": True, "outputChecks": ["chk_1"]}}
        assert server.connections == 1


@every_way
async def test_who_ignores_the_wish_is_asked_apart_and_that_is_remembered(way: Way) -> None:
    with AuthorityServer(SEPARATE) as server:
        async with client(way, server.origin) as felspar:
            assert await fetch(way, felspar, ASKS) == ANSWERS
            assert [sorted(server.targets), server.asked[0].json] == [
                PATHS,
                {"include": {"description": True, "outputChecks": ["chk_1"]}},
            ]
            server.asked.clear()
            assert await fetch(way, felspar, ASKS) == ANSWERS
            assert sorted(server.targets) == PATHS
            assert not any(b"include" in asked.body for asked in server.asked)
        async with client(way, server.origin) as felspar:  # another client knows nothing of it
            server.asked.clear()
            assert await fetch(way, felspar, ASKS) == ANSWERS
            assert sum(b"include" in asked.body for asked in server.asked) == 1


@every_way
async def test_an_unknown_output_check_is_no_ignored_wish(way: Way) -> None:
    with AuthorityServer(says({**EVERYTHING, "outputChecks": {}})) as server:
        async with client(way, server.origin) as felspar:
            for _ in range(2):
                answers = await fetch(way, felspar, ASKS)
                assert answers == ANSWERS | {CHECK: Unavailable("the authority does not know the output check")}
        assert len(server.asked) == 2


@every_way
async def test_separate_asks_are_on_their_way_at_the_same_time(way: Way) -> None:
    """Every answer waits for all requests, so one after the other would never end."""
    asks: Sequence[Ask] = [
        Verify("exe_1"),
        Verify("exe_2"),
        Describe("j", "1"),
        VerifyOutputCheck("c1"),
        VerifyOutputCheck("c2"),
    ]
    together = threading.Barrier(len(asks), timeout=30)

    def behave(connection: socket.socket, asked: Asked) -> object:
        together.wait()
        return SEPARATE(connection, asked)

    with AuthorityServer(behave) as server:
        async with client(way, server.origin) as felspar:
            answers = await fetch(way, felspar, asks)
        assert not any(isinstance(answer, Unavailable) for answer in answers.values())
        assert len(server.asked) == server.connections == len(asks)


@every_way
async def test_one_failure_leaves_the_other_answers_alone(way: Way) -> None:
    with AuthorityServer(by_path(executions=REPLAY, jobs=says({}, 503), output_checks=resets)) as server:
        async with client(way, server.origin) as felspar:
            answers = await fetch(way, felspar, ASKS)
    assert answers == {
        VERIFY: ANSWERS[VERIFY],
        DESCRIBE: Unavailable("the authority answered with status 503"),
        CHECK: Unavailable("the authority could not be reached"),
    }


@every_way
async def test_case_h06_h08_h09_an_odd_id_makes_no_request(way: Way) -> None:
    asks: list[Ask] = [Verify("../admin/receipts/rc-1"), Verify("rc-9?status=approved&x="), Verify("%2e%2e%2fadmin")]
    with AuthorityServer(says(EVERYTHING)) as server:
        async with client(way, server.origin) as felspar:
            answers = await fetch(way, felspar, asks)
        assert answers == dict.fromkeys(asks, Unavailable("the id is not one that an authority issues"))
        assert server.connections == 0


@every_way
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("../x", "..%2Fx"),
        ("%2e%2e", "%252e%252e"),
        ("a b+c", "a%20b%2Bc"),
        ("caf\u00e9", "caf%C3%A9"),
        ("...", "..."),
        ("a;b=c", "a%3Bb%3Dc"),
        ("a\\..\\b", "a%5C..%5Cb"),
        ("a\x00\r\n", "a%00%0D%0A"),
    ],
)
async def test_names_arrive_as_one_segment_byte_for_byte(way: Way, name: str, sent: str) -> None:
    with AuthorityServer(says(DESCRIPTION)) as server:
        async with client(way, server.origin) as felspar:
            await fetch(way, felspar, [Describe(name, name)])
    assert server.targets == [f"/v0/jobs/{sent}/releases/{sent}"]


@every_way
async def test_a_second_round_has_only_the_time_that_the_first_left(way: Way) -> None:
    silent = threading.Event()

    def hangs(connection: socket.socket, asked: Asked) -> bool:
        return silent.wait(30)

    with AuthorityServer(in_turn(says(REPLAY), hangs)) as server:
        async with client(way, server.origin) as felspar:
            answers = await fetch(way, felspar, ASKS, 2.0)
        silent.set()
    late = Unavailable("the authority did not answer in time")
    assert answers == {VERIFY: ANSWERS[VERIFY], DESCRIBE: late, CHECK: late}


@every_way
@pytest.mark.parametrize("deadline_s", [0.0, -1.0])
async def test_without_time_nothing_is_asked(way: Way, deadline_s: float) -> None:
    with AuthorityServer(says(EVERYTHING)) as server:
        async with client(way, server.origin) as felspar:
            answers = await fetch(way, felspar, ASKS, deadline_s)
        assert answers == dict.fromkeys(ASKS, Unavailable("the authority did not answer in time"))
        assert server.asked == []


@pytest.mark.parametrize("way", ["loop", "transport of the loop"])
async def test_a_cancelled_task_stops_at_once(way: Way) -> None:
    asked, silent = threading.Event(), threading.Event()

    def hangs(connection: socket.socket, request: Asked) -> bool:
        asked.set()
        return silent.wait(30)

    with AuthorityServer(hangs) as server:
        async with client(way, server.origin) as felspar:
            task = asyncio.ensure_future(felspar.afetch(ASKS, 30.0))
            assert await asyncio.to_thread(asked.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 8)
            silent.set()


async def test_many_threads_and_tasks_share_one_client() -> None:
    with AuthorityServer(says(EVERYTHING)) as server:
        async with client("loop", server.origin) as felspar:
            ways: list[Way] = ["thread", "loop"]
            found = await asyncio.gather(*(fetch(ways[n % 2], felspar, ASKS, 60.0) for n in range(80)))
        assert found == [ANSWERS] * 80
        assert len(server.asked) == 80


@every_way
@pytest.mark.parametrize("behave", [says({"hasError": False, "code": 100005, "msg": "bad receipt", "data": None})])
async def test_case_h04(way: Way, behave: Behaviour) -> None:
    """A failure inside a 200 body, under names that nobody here looks at."""
    with AuthorityServer(behave) as server:
        async with client(way, server.origin) as felspar:
            answers: Any = await fetch(way, felspar, [VERIFY])
    assert answers == {VERIFY: Unavailable("the answer lacked or mistyped a field it needs (valid)")}


@every_way
async def test_case_h31(way: Way) -> None:
    """A sound answer about another execution: a method refuses it; a gate sees the id and refuses it (G19)."""
    with AuthorityServer(says({**REPLAY, "executionId": "exe_2"})) as server:
        async with client(way, server.origin) as felspar:
            answers: Any = await fetch(way, felspar, [VERIFY])
            assert answers[VERIFY].execution_id == "exe_2"
            with pytest.raises(Exception, match="about something else than was asked for"):
                await call(way, felspar, "verify", "exe_1")
