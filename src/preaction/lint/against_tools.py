"""6 · Which names of the rules no real tool has, what a tool takes otherwise, and which tools act without a rule."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from preaction._core.denied import quote
from preaction._core.paths import Path, opens, parse_path
from preaction._core.rule import Rule, squash
from preaction.adapters._json_schema import fits
from preaction.lint.notes import Note, instead, listed, near
from preaction.lint.shapes import at, branches, fields_of, is_address, types_of
from preaction.lint.tools import Tool
from preaction.rules_file import RulesInFile

ACTS: Final = frozenset(
    (
        *("accept", "add", "append", "apply", "approve", "archive", "assign", "ban", "buy", "cancel"),
        *("clear", "close", "commit", "confirm", "create", "delete", "deploy", "disable", "drop", "edit"),
        *("enable", "execute", "exec", "forward", "grant", "import", "insert", "invite", "kick", "launch"),
        *("lock", "merge", "modify", "move", "mute", "notify", "overwrite", "patch", "pay", "provision"),
        *("publish", "purge", "push", "put", "reject", "remove", "rename", "reopen", "replace", "reset"),
        *("resolve", "respond", "restart", "restore", "revoke", "rotate", "run", "save", "sell", "send"),
        *("set", "share", "start", "stop", "submit", "subscribe", "suspend", "transfer", "trigger"),
        *("unassign", "unlock", "upload", "upsert", "wipe", "withdraw", "write"),
    )
)
"""Words of a tool's name that say that it changes something."""
READS: Final = frozenset(
    (
        *("check", "compare", "count", "describe", "diff", "download", "explain", "export", "fetch", "find"),
        *("get", "inspect", "is", "list", "load", "look", "lookup", "peek", "preview", "query", "read"),
        *("retrieve", "search", "show", "status", "summarize", "validate", "verify", "view", "watch"),
    )
)
NOUNS: Final = frozenset(
    (
        *("block", "book", "charge", "comment", "copy", "credit", "debit", "email", "invoice", "issue"),
        *("mail", "message", "note", "order", "payment", "pin", "post", "purchase", "refund", "release"),
        *("reply", "schedule", "ship", "sign", "update"),
    )
)
"""Words that say so only where no other word tells: they may stand for a thing as well."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def looks_like_acting(name: str) -> bool:
    """Whether a tool's name says that it changes something: by its first word that tells, else by its ends."""
    words = [word.lower() for word in _WORDS.findall(name)]
    telling = next((word for word in words if word in ACTS or word in READS), None)
    return telling in ACTS if telling else not NOUNS.isdisjoint((*words[:1], *words[-1:]))


def notes_against_tools(
    given: RulesInFile, rules: Mapping[str, Rule], tools: Sequence[Tool], accept: Collection[str]
) -> Iterator[Note]:
    """What of `rules` the real tools don't have. `accept` are names of the rules that they need not have."""
    real = {tool.name: tool for tool in tools}
    meant: set[str] = set()
    for named, rule in rules.items():
        if named in real:
            yield from _notes_on(named, rule, real[named])
        elif named not in accept:
            meant |= {near(named, real.keys() - rules.keys()) or named}
            why = f"there is no tool {quote(named)}, so this rule guards nothing"
            yield Note("unknown-tool", ("tools", named), why, instead(named, real, "name one that there is"), key=True)
    for option in ("decision_tool", "output_check_tool"):
        name = getattr(given, option)
        if name is not None and name not in real and name not in accept:
            why = f"there is no tool {quote(name)}, so what it returns is never recorded"
            remedy = instead(name, real, f"give --accept {name} if another server has it")
            yield Note("unknown-tool", (option,), why, remedy)
    own = {given.decision_tool, given.output_check_tool}
    for tool in tools:
        if tool.name not in rules and tool.name not in own:
            yield from _without_rule(tool, given, rules, meant)


def _without_rule(tool: Tool, given: RulesInFile, rules: Mapping[str, Rule], meant: Collection[str]) -> Iterator[Note]:
    alike = next((name for name in rules if squash(name) == squash(tool.name)), None)
    if alike is not None:
        if tool.name not in meant:
            why = f"the tool {quote(tool.name)} can be taken for this one, so all its calls are denied"
            yield Note("look-alike-tool", ("tools", alike), why, "rename one of the two", key=True)
    elif given.unlisted == "allow" and tool.name not in meant:
        yield from _acting(tool)


def _acting(tool: Tool) -> Iterator[Note]:
    name, remedy = quote(tool.name), "write a rule for it, or set unlisted: deny"
    if tool.read_only is True:
        if looks_like_acting(tool.name):
            why = f"the tool {name} says that it only reads, but its name says that it acts; no rule gates it"
            yield Note("read-only-doubted", ("tools",), why, "look at what it does; if it acts, write a rule", key=True)
    elif tool.destructive is True:
        why = f"the tool {name} says that it destroys, and no rule gates it"
        yield Note("destructive-tool-without-rule", ("tools",), why, remedy, key=True)
    elif tool.read_only is False or looks_like_acting(tool.name):
        says = "says" if tool.read_only is False else "has a name that says"
        why = f"the tool {name} {says} that it acts, and no rule gates it"
        yield Note("acting-tool-without-rule", ("tools",), why, remedy, key=True)


# One gated tool -------------------------------------------------------------------------------------------------------


def _notes_on(name: str, rule: Rule, tool: Tool) -> Iterator[Note]:
    place = ("tools", name)
    names = frozenset(fields_of(tool.schema, tool.schema)[0])
    wrong: set[str] = set()
    for note, path in (*_case(rule, tool, place, names), *_texts(rule, tool, place, names)):
        wrong.add(path.text)
        yield note
    for note, text in _fixed(rule, tool, place, names):
        wrong.add(text)
        yield note
    for note, text in _allowed(rule, tool, place, names, wrong):
        wrong.add(text)
        yield note
    yield from _left_out(rule, tool, place, {near(text, names) for text in wrong})
    yield from _addresses(rule, tool, place)


def _absent(code: str, place: tuple[str | int, ...], path: Path, names: Collection[str], so: str) -> Note:
    why = f"the tool has no field {quote(path.text)}{so}"
    return Note(code, place, why, instead(path.text, names, "name a field that it has"))


def _case(rule: Rule, tool: Tool, place: tuple[str, str], names: Collection[str]) -> Iterator[tuple[Note, Path]]:
    if rule.entity is None or not opens(rule.opened, rule.entity):
        return
    where, schema = (*place, "entity", "field"), at(rule.entity, tool.schema)
    if schema is None:
        yield _absent("entity-not-in-tool", where, rule.entity, names, ", so no call can name its case"), rule.entity
        return
    types = types_of(schema, tool.schema)
    if types and not types & {"string", "integer"}:
        why = f"the field {quote(rule.entity.text)} holds {listed(types)}, and an id is a string or an integer"
        yield Note("entity-no-id", where, why, "name the field that holds the id of the case"), rule.entity


def _texts(rule: Rule, tool: Tool, place: tuple[str, str], names: Collection[str]) -> Iterator[tuple[Note, Path]]:
    for index, path in enumerate(rule.texts):
        where, schema = (*place, "output_check", "fields", index), at(path, tool.schema)
        if not opens(rule.opened, path):
            continue
        if schema is None:
            yield _absent("checked-field-not-in-tool", where, path, names, ", so no call can carry its text"), path
        elif (types := types_of(schema, tool.schema)) and "string" not in types:
            why = f"the field {quote(path.text)} holds {listed(types)}, and only a string is a text that can be checked"
            yield Note("checked-field-no-text", where, why, "name the field that holds the text"), path


def _fixed(rule: Rule, tool: Tool, place: tuple[str, str], names: Collection[str]) -> Iterator[tuple[Note, str]]:
    for path, value in rule.fixed:
        where, schema = (*place, "fixed", path.text), at(path, tool.schema)
        if schema is None:
            so = f", so {quote(value)} is fixed nowhere"
            yield _absent("fixed-not-in-tool", where, path, names, so), path.text
        elif not _takes(schema, value, tool):
            why = f"the tool doesn't take {quote(value)} in {quote(path.text)}"
            yield Note("fixed-not-taken", where, why, "fix it to a value that the tool's schema allows"), path.text


def _takes(schema: Mapping[str, Any], value: object, tool: Tool) -> bool:
    """Whether neither types nor lists of values rule `value` out; of alternatives one is enough."""
    try:
        if not fits(schema, value, tool.schema):
            return False
    except (RecursionError, TypeError, AttributeError):  # no JSON Schema, so nothing is known of it
        return True
    lists = [each["enum"] for each in branches(schema, tool.schema) if isinstance(each.get("enum"), list)]
    return not lists or any(value in values for values in lists)


def _allowed(
    rule: Rule, tool: Tool, place: tuple[str, str], names: Collection[str], wrong: Collection[str]
) -> Iterator[tuple[Note, str]]:
    for key in ("fields", "null_only"):
        for index, text in enumerate(getattr(rule.source, key)):
            path, where = parse_path(text, key), (*place, key, index)
            schema = at(path, tool.schema)
            if text in wrong:
                continue
            if schema is None:
                yield _absent("field-not-in-tool", where, path, names, ""), text
            elif key == "fields" and not path.open and _holds_more(rule, path, schema, tool):
                why = f"the tool takes objects in {quote(text)}, and this lets single values through only"
                remedy = f"list the fields in them, such as {quote(f'{text}.name')} or {quote(f'{text}[].name')}"
                yield Note("field-holds-more", where, why, remedy), text


def _holds_more(rule: Rule, path: Path, schema: Mapping[str, Any], tool: Tool) -> bool:
    """Whether the tool takes nothing but objects there, and the rule opens none."""
    if any(len(other.steps) > len(path.steps) and _below(other, path) for other in _paths(rule)):
        return False
    if types_of(schema, tool.schema) == {"object"}:
        return True
    items = [each["items"] for each in branches(schema, tool.schema) if isinstance(each.get("items"), Mapping)]
    return bool(items) and all(types_of(each, tool.schema) == {"object"} for each in items)


def _paths(rule: Rule) -> list[Path]:
    return [parse_path(text, "fields") for text in rule.source.fields]


def _below(path: Path, above: Path) -> bool:
    return [name for name, _ in path.steps[: len(above.steps)]] == [name for name, _ in above.steps]


def _left_out(rule: Rule, tool: Tool, place: tuple[str, str], meant: Collection[str | None]) -> Iterator[Note]:
    """Fields of the tool that no call may set: those that it needs, and those that are true unless it is told."""
    fields, _ = fields_of(tool.schema, tool.schema)
    for name in sorted(fields):
        if squash(name) in {squash(key) for key in rule.opened} or name in meant:
            continue
        if name in tool.needed:
            why = f"the tool needs the field {quote(name)}, which no call may set, so none gets through"
            yield Note("needed-field-not-listed", (*place, "fields"), why, f"list {quote(name)} in 'fields', or fix it")
        elif isinstance(fields[name], Mapping) and fields[name].get("default") is True:
            why = f"the field {quote(name)} is true unless a call says otherwise, and no call may"
            remedy = f"if that does more than you mean, set fixed: {{{name}: false}}"
            yield Note("default-left-open", (*place, "fields"), why, remedy)


def _addresses(rule: Rule, tool: Tool, place: tuple[str, str]) -> Iterator[Note]:
    """Fields that the schema says are mail addresses, which their names don't tell."""
    found = {flaw.place for flaw in rule.weak if flaw.code == "recipient-not-listed"}
    guarded = {path.steps for path in rule.recipients}
    for index, path in enumerate(_paths(rule)):
        schema = at(path, tool.schema)
        if path.steps in guarded or ("fields", index) in found or not schema or not is_address(schema, tool.schema):
            continue
        why = f"the field {quote(path.text)} holds mail addresses and is not in 'recipients'"
        remedy = "add it to 'recipients', or leave it out of 'fields'"
        yield Note("recipient-not-listed", (*place, "fields", index), why, remedy)
