"""What a served authority does in a second, as a ratio to a bare Starlette endpoint: `make bench-authority`.

Side by side on the same machine, by the same client, with the same number of connections: a decision, a verification
and an output check against one durable insert, one indexed read and one durable insert of a bare endpoint over the same
kind of database. The client takes its part of the machine's cores from both alike. Prints one line of JSON a figure.

    python bench/load.py [--seconds 3] [--receipts 1000,100000] [--workers 1,2] [--databases sqlite,postgresql]
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent / "tests")  # and not this folder, where `authority` is something else

CONNECTIONS = 16
ROUNDS = 3  # of each, one after the other, so that a machine that slows down slows both
EVIDENCE = {"topic": {"value": "billing", "source": "human"}, "amount": {"value": 20.5, "source": "erp"}}
REPLY = {"body": "Here is your answer.\nThe billing team\n"}
DECIDE = "/v0/jobs/triage-ticket/decisions"


# ---------------------------------------------------------------- the client


async def one_connection(host: str, port: int, requests: Iterator[bytes], until: float, took: list[float]) -> int:
    """Send one request after the other until the time is over; how many weren't answered with 200."""
    reader, writer = await asyncio.open_connection(host, port)
    bad = 0
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        took.append(time.perf_counter() - began)
        bad += not head.startswith(b"HTTP/1.1 200")
    writer.close()
    return bad


def measure(origin: str, seconds: float, request: Callable[[int], bytes]) -> list[float]:
    """The seconds that each request took, from all connections together."""
    host, port = origin.removeprefix("http://").split(":")
    took: list[float] = []
    numbers = iter(range(1 << 62))
    requests = (request(number) for number in numbers)

    async def crowd() -> list[int]:
        until = time.perf_counter() + seconds
        tasks = [one_connection(host, int(port), requests, until, took) for _ in range(CONNECTIONS)]
        return await asyncio.gather(*tasks)

    bad = sum(asyncio.run(crowd()))
    if bad:
        raise SystemExit(f"{bad} requests were not answered with 200")
    return took


def post(path: str, body: object, key: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


# ---------------------------------------------------------------- the bare endpoint


def bare(url: str, rows: int) -> None:
    """Serve `POST /read/{id}`, one indexed read, and `POST /insert`, one durable insert, until killed."""
    import sqlalchemy as sa
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.routing import Route

    from preaction.authority.server.serve import serve_forever
    from preaction.authority.storage.databases import open_database

    database = open_database(url, Path("none"))
    wide = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    table = sa.Table("t", sa.MetaData(), sa.Column("id", wide, primary_key=True), sa.Column("body", sa.Text))
    body = "x" * 1500  # about what a decision's row has
    with database.writer.begin() as connection:
        table.metadata.create_all(connection)
        connection.execute(table.insert(), [{"id": number, "body": body} for number in range(rows)])
    mark = "?" if url.startswith("sqlite") else "%s"

    def read(number: int) -> str:
        with database.reader.connect() as connection:
            cursor = connection.connection.cursor()
            cursor.execute(f"SELECT body FROM t WHERE id = {mark}", (number,))
            return cursor.fetchone()[0]

    def insert(number: int) -> None:
        with database.writer.begin() as connection:
            cursor = connection.connection.cursor()
            cursor.execute("BEGIN IMMEDIATE" if mark == "?" else "BEGIN")
            cursor.execute(f"INSERT INTO t (id, body) VALUES ({mark}, {mark})", (number, body))

    async def read_one(request) -> Response:
        number = int(request.path_params["id"]) % rows
        found = await run_in_threadpool(read, number) if database.distant else read(number)
        return Response(found, media_type="application/json")

    async def insert_one(request) -> Response:
        await request.body()
        await run_in_threadpool(insert, int.from_bytes(os.urandom(7)))
        return Response(b"{}", media_type="application/json")

    routes = [Route("/read/{id}", read_one, methods=["POST"]), Route("/insert", insert_one, methods=["POST"])]
    app = Starlette(routes=routes)
    workers = int(os.environ["WORKERS"])
    database.writer.dispose()
    database.reader.dispose()
    serve_forever(
        app, "127.0.0.1", 0, lambda served: print(json.dumps({"origin": served.origin}), flush=True), workers=workers
    )


# ---------------------------------------------------------------- what is measured


@contextmanager
def process(*command: str, **environment: str) -> Iterator[dict[str, str]]:
    """A server in a process of its own, and the line that it printed when it was ready."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        yield json.loads(running.stdout.readline())
    finally:
        running.terminate()
        running.wait()


def fill(url: str, key: Path, pack: Path, receipts: int) -> list[str]:
    """Bring a database to so many decisions, each on a case of its own; ids of a thousand of them."""
    import sqlalchemy as sa

    from preaction.authority import LocalAuthority
    from preaction.authority.storage.tables import EXECUTIONS
    from preaction.wire.models import DecisionRequest

    with LocalAuthority.from_pack(pack, url, signing_key=key) as authority:
        deciding, storage = authority._service._deciding, authority._storage
        with storage.reading() as connection:
            there = connection.execute(sa.select(sa.func.count()).select_from(EXECUTIONS)).scalar_one()
        while there < receipts:
            batch = min(2000, receipts - there)
            with storage.writing() as connection:  # many in one transaction, or the disk would make this take hours
                for number in range(there, there + batch):
                    request = DecisionRequest.model_validate({"entity_id": f"HC-{number}", "evidence": EVIDENCE})
                    deciding._write(authority._agent, "triage-ticket", request, None, connection)
            there += batch
        step = max(1, receipts // 1000)
        chosen = sa.select(EXECUTIONS.c.id).where(EXECUTIONS.c.number % step == 0).limit(1000)
        with storage.reading() as connection:
            return list(connection.execute(chosen).scalars())


def figures(served: dict[str, str], plain: dict[str, str], ids: list[str], seconds: float, tag: dict) -> None:
    """Measure each of the three beside its bare counterpart, and print the ratios."""
    key, run = served["agentKey"], os.urandom(4).hex()
    decide = partial(post, DECIDE, key=key)
    body = {"output": "billing-team-reply", "content": REPLY}
    pairs = {
        "decision": (
            lambda number: decide({"entity_id": f"{run}-{number}", "evidence": EVIDENCE}),
            lambda number: post("/insert", {"entity_id": number, "evidence": EVIDENCE}),
        ),
        "verification": (
            lambda number: post(f"/v0/executions/{ids[number * 7919 % len(ids)]}/verify", {}, key),
            lambda number: post(f"/read/{number * 7919}", {}),
        ),
        "output check": (
            lambda number: post(f"/v0/executions/{ids[number * 7919 % len(ids)]}/output-checks", body, key),
            lambda number: post("/insert", body),
        ),
    }
    for name, (ours, theirs) in pairs.items():
        rounds = []
        for _ in range(ROUNDS):
            rounds.append((measure(served["origin"], seconds, ours), measure(plain["origin"], seconds, theirs)))
        a_second = [[len(each) / seconds for each in pair] for pair in rounds]
        took = sorted(each for pair in rounds for each in pair[0])
        bare_took = sorted(each for pair in rounds for each in pair[1])
        said = {
            "what": name,
            "a_second": round(statistics.median(pair[0] for pair in a_second)),
            "bare_a_second": round(statistics.median(pair[1] for pair in a_second)),
            "times_slower": round(statistics.median(pair[1] / pair[0] for pair in a_second), 2),
            "p50_ms": round(1000 * took[len(took) // 2], 2),
            "p99_ms": round(1000 * took[len(took) * 99 // 100], 2),
            "bare_p99_ms": round(1000 * bare_took[len(bare_took) * 99 // 100], 2),
        }
        print(json.dumps({**tag, **said}), flush=True)


def filled(task: tuple[str, Path, Path, int]) -> list[str]:
    """`fill`, in a process of its own that gives way to whatever else the machine does."""
    os.nice(19)
    return fill(*task)


def copied(source: str, url: str, key: Path) -> None:
    """The rows of one database in another, under the same signing key: to decide a million times takes longer."""
    import sqlalchemy as sa

    from preaction.authority.storage.databases import open_database
    from preaction.authority.storage.storage import Storage
    from preaction.authority.storage.tables import METADATA

    Storage(url, key).close()
    there, here = open_database(source, key), open_database(url, key)
    with there.reader.connect() as reading, here.writer.begin() as writing:
        for table in METADATA.sorted_tables:
            writing.execute(table.delete())
            for rows in reading.execute(sa.select(table)).mappings().partitions(2000):
                writing.execute(table.insert(), [dict(row) for row in rows])
    with here.writer.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM ANALYZE")
    for database in (there, here):
        database.reader.dispose()
        database.writer.dispose()


def audited(url: str, key: Path, tag: dict) -> None:
    """Print how long `preaction audit-chain` takes to read and check the whole database."""
    audit = ("audit-chain", "--db", url, "--signing-key", str(key), "--json")
    command = [sys.executable, "-c", "from preaction.cli import main; main()", *audit]
    began = time.perf_counter()
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    took = time.perf_counter() - began
    if said["findings"]:
        raise SystemExit(f"the audit found {said['findings']} altered rows")
    print(json.dumps({**tag, "what": "audit", "receipts": said["executions"], "seconds": round(took, 1)}), flush=True)


def databases(names: list[str], folder: Path, opened: ExitStack) -> dict[str, Callable[[str], str]]:
    """Each kind of database, with what makes a new one and gives its URL."""
    found = {}
    if "sqlite" in names:
        found["sqlite"] = lambda name: f"sqlite:///{folder / name}.db"
    if "postgresql" in names:
        from authority.postgres import Postgres, programs

        there = programs()
        if there is None:
            print(json.dumps({"database": "postgresql", "not measured": "this machine has none"}), flush=True)
        else:
            server = Postgres(there, durable=True)
            opened.callback(server.remove)
            found["postgresql"] = lambda _name: server.new_database()
    return found


def main() -> None:
    """Measure all that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--receipts", default="1000,100000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--folder", type=Path, help="keep the filled files there, and use those that are there")
    parser.add_argument("--bare", nargs=2)
    asked = parser.parse_args()
    if asked.bare:
        bare(asked.bare[0], int(asked.bare[1]))
        return
    from authority.packs import HELPDESK

    print(json.dumps({"cores": len(os.sched_getaffinity(0)), "connections": CONNECTIONS}), flush=True)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="preaction-load-")))
        kept = asked.folder or folder
        pack = folder / "pack.yaml"
        pack.write_text(HELPDESK, "utf-8")
        made = databases(asked.databases.split(","), folder, opened)
        # All are filled before the first is measured, so that what is compared is measured close together.
        keys = {size: kept / f"{size}-key" for size in sorted(map(int, asked.receipts.split(",")))}
        source = {size: f"sqlite:///{kept / str(size)}.db" for size in keys}
        tasks = [(source[size], key, pack, size) for size, key in keys.items()]
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            ids = dict(zip(keys, pool.map(filled, tasks), strict=True))
        urls = {}
        for kind, size in product(made, keys):
            urls[kind, size] = source[size] if kind == "sqlite" else made[kind](f"ours-{size}")
            if kind != "sqlite":
                copied(source[size], urls[kind, size], keys[size])
        print(json.dumps({"filled": list(keys)}), flush=True)
        for kind, workers in product(made, asked.workers.split(",")):
            for size, key in keys.items():
                serve = ("--pack", str(pack), "--db", urls[kind, size], "--signing-key", str(key), "--dev-keys")
                command = [sys.executable, "-c", "from preaction.cli import main; main()", "serve", *serve]
                plain_url = made[kind](f"bare-{size}-{workers}")
                plainly = [sys.executable, __file__, "--bare", plain_url, str(size)]
                with (
                    process(*command, "--workers", workers) as served,
                    process(*plainly, WORKERS=workers) as plain,
                ):
                    tag = {"database": kind, "workers": int(workers), "receipts": size}
                    figures(served, plain, ids[size], asked.seconds, tag)
        for size, kind in product(keys, made):
            audited(urls[kind, size], keys[size], {"database": kind})


if __name__ == "__main__":
    main()
