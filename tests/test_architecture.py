"""Rules about the code itself that neither ruff, mypy nor import-linter can hold."""

import ast
import re
import subprocess
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import preaction

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = Path(preaction.__file__).resolve().parent  # installed from a wheel, there is no src/
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in MODULES.items()}

LONGEST_FUNCTION = 60  # lines without its docstring; aim for 40
LONGEST_MODULE = 400  # lines; aim for 300

# Where `except Exception` or wider may stand, once each: (module, function) → why nothing narrower would do.
BROAD_EXCEPTS: dict[tuple[str, str], str] = {
    ("gate.py", "ActionGate._door"): "the gate's door: whatever goes wrong inside, the call is denied",
    ("drive.py", "_settle"): "a fetch that fails is an answer, so that its siblings go on; it denies",
    ("drive.py", "_asettle"): "the same, in an event loop",
    ("options.py", "read_clock"): "a clock of the user's own that fails at creation becomes a ConfigurationError",
    ("cli/hook.py", "hook"): "a hook that ends by a trace lets the tool run; any failure is exit code 2",
    ("stores/sqlite.py", "SQLiteStore._writing"): "a transaction is taken back whatever ended it; raised again",
    ("adapters/_bridge.py", "Bridge.ask"): "an adapter is total: whatever fails in it, the call is denied (A2)",
    ("adapters/_bridge.py", "Bridge.total"): "the same, in an event loop, what reads the runtime's objects among it",
    ("adapters/_bridge.py", "Bridge.ran"): "a result that can't be recorded denies its session from then on",
    ("adapters/agno.py", "_Gating.at_start.look_again"): "a run whose tools can't be guarded ends",
    ("adapters/_agno_call.py", "Call.__init__"): "a call that can't be read is malformed, which denies",
    (
        "adapters/claude_agent_sdk.py",
        "_now",
    ): "a server that can't list its tools lists none, and rules must find theirs",
    ("adapters/fastmcp.py", "GateMiddleware._batch"): "a session that can't be read has no batch; the bridge denies it",
    ("adapters/langchain.py", "_Guarded.read"): "arguments that can't be copied or read are malformed, which denies",
    ("adapters/langchain.py", "PreactionMiddleware._around"): "the same, before it comes to the bridge",
    (
        "adapters/mcp_proxy/http.py",
        "HttpFront._look",
    ): "a server that can't list its tools is asked again; until then all that the rules don't name is denied",
    ("adapters/mcp_proxy/http.py", "HttpFront._session"): "what one session failed on ends it, and no other's",
    (
        "authority/facts/lookups.py",
        "_Entry._read",
    ): "whatever a look-up raises, its facts are missing, which leaves the case undecided; the error may hold secrets",
    (
        "authority/server/api.py",
        "_Door.__call__",
    ): "the server's door: a plain 500, where else values would reach its log",
    ("audit/trail.py", "AuditTrail.write"): "a sink of the user's own; raised again where its record is required",
    ("lint/mcp_listing.py", "list_tools"): "a task group tells what failed in it as one: named, it ends lint",
    ("lint/tools.py", "_imported"): "a module of the user's own may raise anything when it is imported: it is named",
    ("mcp_tools.py", "call_tool"): "the MCP SDK would answer with the error's own words, and values with them",
    ("pipeline/audit.py", "Audits.__call__"): "a sink that need not take a record may fail; any other's error goes on",
    ("pipeline/audit.py", "_awaited"): "the same, for sinks that are async",
    ("pipeline/acting.py", "_words"): "an error's text is the tool's own code; where that fails there is none",
    ("calling.py", "_called"): "a function that fails is an answer, and each step says what it means",
    ("calling.py", "_settled"): "the same, for what is awaited",
    (
        "pipeline/pipeline.py",
        "ToolPipeline._leave",
    ): "a store or sink that is down changes nothing of how a call is left",
    ("pipeline/pipeline.py", "ToolPipeline.handle"): "the pipeline's door; what is no Exception is raised again",
    ("pipeline/pipeline.py", "ToolPipeline.handle_sync"): "the same, from a thread",
    (
        "pipeline/result.py",
        "plain_result",
    ): "an object of a tool's own may do anything when it is read: no result (P11)",
    ("preflight/execution.py", "aexecute"): "whatever interrupts an act, how it was left is recorded; raised again",
    ("preflight/execution.py", "execute"): "the same, from a thread",
    ("pipeline/work.py", "tell"): "a channel of the user's own that is down stops no call",
    (
        "pipeline/parse.py",
        "parse_arguments",
    ): "an object of the caller's own may do anything when it is read: no JSON (P1)",
    ("preflight/values.py", "frozen"): "an object of somebody else's may do anything when it is read: no value (F5)",
    ("reporting.py", "VerdictReporter._send"): "a client of the user's own; the thread that reports must live on",
    ("rest/send.py", "Sender._exchange"): "the port: whatever a transport raises is a failed exchange, and that denies",
    ("rest/send.py", "AsyncSender._exchange"): "the same, for an event loop",
    ("telemetry.py", "Telemetry._harmless"): "an SDK or a log handler of the user's own that fails changes no verdict",
}


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its dotted name, classes and outer functions included."""
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}{node.name}."
        yield from functions(node, inner)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, the docstring left out."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def calls_of(name: str, tree: ast.AST) -> list[int]:
    """Lines where something of this name is called, whatever it is an attribute of."""
    called = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [node.lineno for node in called if name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))]


def is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(getattr(kind, "id", "").removesuffix("Group") in ("Exception", "BaseException") for kind in kinds)


def broad_excepts(tree: ast.AST) -> Iterator[str]:
    """The innermost function around each broad handler, once per handler."""
    owner: dict[ast.AST, str] = {}
    for name, function in functions(tree):
        owner.update(dict.fromkeys(ast.walk(function), name))  # inner functions come later and win
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and is_broad(node):
            yield owner.get(node, "<module>")


def tracked_files() -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout: what is tracked isn't known here")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    paths = (REPOSITORY / name for name in listed.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def lines_matching(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}")
    return found


# ---------------------------------------------------------------- what the package shows


def test_public_names_are_exactly_those_listed() -> None:
    listed = list(preaction.__all__)
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(dir(preaction))
    for name in listed:
        getattr(preaction, name)
    here = {name for name, value in vars(preaction).items() if not isinstance(value, types.ModuleType)}
    assert {name for name in here if not name.startswith("_")} <= set(listed), "public, but not in __all__"


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


# ---------------------------------------------------------------- how the code is built


def test_a_call_is_allowed_in_exactly_one_line() -> None:
    places = [f"{module}:{line}" for module, tree in TREES.items() for line in calls_of("Allowed", tree)]
    assert len(places) == 1, places


def test_the_decision_reads_no_clock() -> None:
    places = [
        f"{module}:{line} {reader}()"
        for module, tree in TREES.items()
        if module.startswith("_core/")
        for reader in ("now", "utcnow", "today", "open")
        for line in calls_of(reader, tree)
    ]
    assert not places, "the time and all else from outside come in as arguments"


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{module} {name}: {length(function)} lines"
        for module, tree in TREES.items()
        for name, function in functions(tree)
        if length(function) > LONGEST_FUNCTION
    ]
    assert not too_long


def test_no_module_is_too_long() -> None:
    lengths = {module: len(text.splitlines()) for module, text in MODULES.items()}
    assert not {module: lines for module, lines in lengths.items() if lines > LONGEST_MODULE}


def test_every_broad_except_has_its_reason_here() -> None:
    found = [(module, name) for module, tree in TREES.items() for name in broad_excepts(tree)]
    assert sorted(found) == sorted(BROAD_EXCEPTS), "narrow the except, or say in BROAD_EXCEPTS why that would be wrong"


def test_only_the_bridge_denies_for_an_adapter_since_it_sees_to_observe_mode() -> None:
    found = [module for module, tree in TREES.items() for _ in calls_of("Stop", tree)]
    assert sorted(found) == [
        "adapters/_bridge.py",
        "adapters/_bridge.py",
        "adapters/fastmcp.py",  # other words for a denial of the gate's
        "adapters/mcp_proxy/relay.py",  # where the gate enforces, in the line above it
        "adapters/openai_agents.py",  # other words, as for FastMCP
    ]


def test_no_module_imports_the_root_package() -> None:
    places = [
        f"{module}:{node.lineno}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == "preaction" and node.level == 0)
        or (isinstance(node, ast.Import) and any(alias.name == "preaction" for alias in node.names))
    ]
    assert not places, "the root gathers the public names; a module imports from where a name lives"


# ---------------------------------------------------------------- what is left lying about


def test_nothing_is_left_to_do_and_nothing_hides_from_coverage() -> None:
    marks = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b|pragma: no" r" (?:cover|branch)")
    code = [path for path in tracked_files() if path.suffix in (".py", ".md", ".toml", ".yml", ".yaml")]
    assert not lines_matching(marks, code)


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    places = re.compile(r"(?<![\w.$}/-])/(?:work/|root/|home/[a-z])|(?:extra-)?index-" r"url")
    assert not lines_matching(places, tracked_files())
