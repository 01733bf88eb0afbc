"""Every log record of the gate's side has a code beside its words, and docs/operations.md lists them all."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from test_architecture import TREES, functions

LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log"}
WITHOUT = {
    "authority": "an authority's own process, whose log is for its operator",
    "mcp_tools.py": "the authority's tools over MCP, in its process",
}
VERDICTS = ("telemetry.py", "_Deciding._log")  # one record per check, with the code of its verdict


def logged() -> Iterator[tuple[str, str, ast.Call, ast.AST]]:
    """Each call of a logger: its module, the function around it, the call, and that function or module."""
    for module, tree in TREES.items():
        if module.split("/")[0] in WITHOUT:
            continue
        around: dict[ast.AST, tuple[str, ast.AST]] = dict.fromkeys(ast.walk(tree), ("", tree))
        for name, function in functions(tree):
            around.update(dict.fromkeys(ast.walk(function), (name, function)))
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)) if level in LEVELS:
                    if re.fullmatch(r"_?log(ger|ging)?", name, re.IGNORECASE):
                        yield module, around[node][0], node, around[node][1]


def told_by(call: ast.Call, function: ast.AST, module: str) -> ast.Dict | None:
    """The dict that is handed to the logger as `extra`, there or by a name given to it in its function or module."""
    extra = next((each.value for each in call.keywords if each.arg == "extra"), None)
    if isinstance(extra, ast.Name):
        for node in [*ast.walk(function), *ast.walk(TREES[module])]:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value) if name == extra.id:
                    return value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as value) if name == extra.id:
                    return value
    return extra if isinstance(extra, ast.Dict) else None


def codes_with_levels() -> dict[str, str]:
    """Each code, and at what level it is logged."""
    found = {}
    for module, around, call, function in logged():
        place = f"{module}:{call.lineno}"
        told = told_by(call, function, module)
        assert told is not None, f"{place}: no extra"
        pairs = zip(told.keys, told.values, strict=True)
        codes = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "code"]
        assert len(codes) == 1, f"{place}: no code in its extra"
        level = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        match codes[0]:
            case ast.Constant(value=str(code)):
                found[code] = level
            case ast.Attribute(value=ast.Name(id="GATE_ERROR"), attr="code"):
                found["gate_error"] = level
            case ast.Name(id="code") if around == "_warn":
                found.update(dict.fromkeys(codes_of_warnings(module), level))
            case _:
                assert (module, around) == VERDICTS, f"{place}: a code that can't be read here"
    return found


def codes_of_warnings(module: str) -> Iterator[str]:
    for node in ast.walk(TREES[module]):
        match node:
            case ast.Call(func=ast.Name(id="_warn"), args=[_, ast.Constant(value=str(code)), *_]):
                yield code


def test_every_log_record_has_a_code_that_the_docs_know_with_its_level(repository: Path) -> None:
    page = (repository / "docs/operations.md").read_text("utf-8")
    section = page.partition("\n## Logging\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    documented = {code: row[1] for row in rows[1:] for code in re.findall(r"`(\w+)`", row[0])}
    assert len(documented) > 12
    assert codes_with_levels() == documented


def test_the_rooms_without_codes_are_there_and_log() -> None:
    for room in WITHOUT:
        texts = [ast.unparse(tree) for module, tree in TREES.items() if module.split("/")[0] == room]
        assert any("logging.getLogger" in text for text in texts), room


def test_no_log_record_has_a_trace_whose_values_may_be_secret() -> None:
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level), keywords=given):
                    if re.fullmatch(r"_?log(ger|ging)?", name, re.IGNORECASE):
                        traced = level == "exception" or {"exc_info", "stack_info"} & {each.arg for each in given}
                        assert not traced, f"{module}:{node.lineno}: log the type of the error alone"
