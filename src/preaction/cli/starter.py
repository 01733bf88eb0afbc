"""What `preaction init` writes: a rules file, its schema, and a small program; with a pack, one that runs as it is."""

import json
import keyword
import re
from dataclasses import dataclass
from typing import Final

from preaction.rules_file import json_schema

RULES, SCHEMA, PACK, EXAMPLE = "gate.yaml", "gate.schema.json", "pack.yaml", "example.py"
CASE: Final = "A-1"
"""The id of the example's case."""
_RESERVED: Final = re.compile(r"(?i)true|false|null|yes|no|on|off|y|n|[0-9._:+-]+([ex][0-9.+-]*)?")


@dataclass(frozen=True, slots=True)
class Answers:
    """What the rules are about: all names, checked. Without `texts` the tool acts by its `outcomes` alone."""

    origin: str
    agent_key_env: str
    job: str
    tool: str
    case_field: str
    texts: tuple[str, ...]
    others: tuple[str, ...]
    output: str
    outcomes: tuple[str, ...]
    pack: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """All that a call may set, each once."""
        return tuple(dict.fromkeys((self.case_field, *self.texts, *self.others)))


def files(answers: Answers) -> dict[str, str]:
    """Name → content of each file."""
    made = {RULES: _rules(answers), SCHEMA: json.dumps(json_schema(), indent=2) + "\n"}
    if answers.pack:
        made[PACK] = _pack(answers)
    made[EXAMPLE] = _example(answers) if answers.pack else _short_example(answers)
    return made


def _yaml(name: str) -> str:
    """A name as YAML 1.2's core schema and 1.1 both read it as text."""
    return json.dumps(name) if _RESERVED.fullmatch(name) or name[0] in "-.:/" or ": " in name else name


def _list(names: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_yaml, names))}]"


def _rules(answers: Answers) -> str:
    acts = f"writes: {_yaml(answers.output)}" if answers.output else f"outcomes: {_list(answers.outcomes)}"
    why = "the output that the pack must allow" if answers.output else "the decided outcome must be one of these"
    lines = [
        f"# yaml-language-server: $schema={SCHEMA}",
        f"origin: {json.dumps(answers.origin)}    # where the authority answers",
        f"agent_key_env: {answers.agent_key_env}    # the environment variable with the key; a key never stands here",
        f"job: {_yaml(answers.job)}",
        "decision_tool: get_job_decision    # the authority's own tools, by their names in your runtime",
        "output_check_tool: check_output",
        "tools:",
        f"  {_yaml(answers.tool)}:",
        f"    {acts}    # {why}",
        f"    entity: {{field: {_yaml(answers.case_field)}}}    # the field that names the case",
        f"    fields: {_list(answers.fields)}    # all that a call may set",
    ]
    if answers.texts:
        lines.append(f"    output_check: {{fields: {_list(answers.texts)}}}    # the text that must have been checked")
    return "\n".join((*lines, "unlisted: deny    # tools without a rule are denied", ""))


def _pack(answers: Answers) -> str:
    outcome, output = answers.outcomes[0], answers.output
    lines = [
        "# What may be done with a case. The authority decides by it: preaction serve --pack pack.yaml --dev-keys",
        f"pack: {_yaml(answers.job)}",
        'version: "1"',
        "jobs:",
        f"  {_yaml(answers.job)}:",
        "    title: Decide whether the tool may act on a case",
        "    subject: {kind: case, identity: provided, match: exact}",
        "    facts:",
        "      approved: {type: boolean, from: caller, sources: [human]}    # put what your decision rests on here",
        "    evidence: {fresh_for: PT1H}",
        "    outcomes:",
        f"      - id: {_yaml(outcome)}",
        "        when: facts.approved",
        "        next_step: Do it.",
        *([f"        outputs: [{_yaml(output)}]"] if output else []),
        "    when_unresolved: {next_step: Leave it to a person.}",
    ]
    if output:
        rule = (
            f"id: no-promises, field: {answers.texts[0]}, must_not_match: '(?i)\\bguarantee', message: Promise nothing."
        )
        lines += [
            "    outputs:",
            f"      {_yaml(output)}:",
            f"        fields: {_list(answers.texts)}",
            "        rules:",
            f"          - {{{rule}}}",
        ]
    return "\n".join((*lines, ""))


# The program ----------------------------------------------------------------------------------------------------------


def _function(answers: Answers) -> str:
    """The tool, as a function that acts."""
    named = not any(map(keyword.iskeyword, answers.fields))  # such as `from`
    parameters, shown = (", ".join(answers.fields),) * 2 if named else ("**fields", "fields")
    return f'def {_python_name(answers.tool)}({parameters}):\n    print("done:", {shown})\n'


def _python_name(tool: str) -> str:
    return tool if tool.isidentifier() and not keyword.iskeyword(tool) else "act"


def _call(answers: Answers) -> str:
    values = {
        name: CASE if name == answers.case_field else "Hello." if name in answers.texts else ""
        for name in answers.fields
    }
    return json.dumps(values)


def _example(answers: Answers) -> str:
    record = ""
    if answers.texts:
        record = f"""\
        content = {{name: call[name] for name in {json.dumps(list(answers.texts))}}}
        checked = authority.check_output(decision["executionId"], output={json.dumps(answers.output)}, content=content)
        gate.output_checks.record(session, checked)
"""
    return f'''\
"""One call, denied and then allowed. The authority of {PACK} runs in this process: python {EXAMPLE}"""

from pathlib import Path

from preaction import ActionDenied, ActionGate, felspar_job_describer, felspar_output_check_verifier, felspar_verifier
from preaction.authority import LocalAuthority

HERE = Path(__file__).parent


{_function(answers)}

with LocalAuthority.from_pack(HERE / "{PACK}") as authority:
    gate = ActionGate.from_file(  # with nothing but the path it asks the origin, with the key from the environment
        HERE / "{RULES}",
        verify=felspar_verifier(authority),
        describe=felspar_job_describer(authority),
        verify_output_check=felspar_output_check_verifier(authority),
    )
    guarded = gate.wrap({json.dumps(answers.tool)}, {_python_name(answers.tool)})
    call = {_call(answers)}
    with gate.session("chat-1") as session:
        try:
            guarded(**call)
        except ActionDenied as denied:
            print(denied)
        evidence = {{"approved": {{"value": True, "source": "human"}}}}
        decision = authority.decide({json.dumps(answers.job)}, entity_id="{CASE}", evidence=evidence)
        gate.decisions.record(session, result=decision)
{record}        guarded(**call)
'''


def _short_example(answers: Answers) -> str:
    return f'''\
"""One call that is denied, since nothing was decided on its case: python {EXAMPLE}"""

from pathlib import Path

from preaction import ActionDenied, ActionGate


{_function(answers)}

gate = ActionGate.from_file(Path(__file__).with_name("{RULES}"))
guarded = gate.wrap({json.dumps(answers.tool)}, {_python_name(answers.tool)})
with gate.session("chat-1"):
    try:
        guarded(**{_call(answers)})
    except ActionDenied as denied:
        print(denied)
'''
