"""The authority's operations for agents as MCP tools, for whoever answers them: the authority itself, or its client.

`TOOLS` are plain data from the wire's models; `build_server` needs the MCP SDK.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, Field, ValidationError

from preaction.errors import PreactionError
from preaction.wire.models import (
    Decision,
    DecisionRequest,
    JobDescription,
    OutputCheck,
    OutputCheckRequest,
    Request,
)

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_LOG: Final = logging.getLogger(__name__)
INSTALL: Final = "pip install 'preaction[authority-mcp]'"
FAILED: Final = "This authority failed to answer."
MAX_PLACES: Final = 50
MAX_JOBS: Final = 100
"""How many jobs the description of the tools names."""


class JobDecisionArguments(DecisionRequest):
    """Arguments of `get_job_decision`."""

    job: Annotated[str, Field(description="The job to decide.")]


class OutputCheckArguments(OutputCheckRequest):
    """Arguments of `check_output`."""

    execution_id: Annotated[str, Field(alias="execution_id", description="The executionId of a decision.")]


class DescribeJobArguments(Request):
    """Arguments of `describe_job`."""

    job: Annotated[str, Field(description="The job to describe.")]


@dataclass(frozen=True, slots=True)
class AuthorityTool:
    """One tool: its arguments and its result are models of the wire. `reads`: nothing is stored by a call."""

    name: str
    title: str
    description: str
    arguments: type[Request]
    result: type[BaseModel]
    reads: bool = False


TOOLS: Final[Mapping[str, AuthorityTool]] = {
    tool.name: tool
    for tool in (
        AuthorityTool(
            "get_job_decision",
            "Get a decision",
            "Have a job decided on one case, before anything is done about it. evidence maps each fact to "
            "{value, source, observedAt?}; describe_job says which facts, fields or content a job takes. The result's "
            "nextStep says what to do; its executionId is the receipt. A later decision on the case replaces it.",
            JobDecisionArguments,
            Decision,
        ),
        AuthorityTool(
            "check_output",
            "Check a text",
            "Have the exact text checked that is going to be sent, by the rules of a decision's outcome. content maps "
            "each field of the output to its text. A text that is changed afterwards has to be checked again.",
            OutputCheckArguments,
            OutputCheck,
        ),
        AuthorityTool(
            "describe_job",
            "Describe a job",
            "What a job decides on, the facts it takes, its outcomes, and the rules of its outputs.",
            DescribeJobArguments,
            JobDescription,
            reads=True,
        ),
    )
}


class ToolRefused(PreactionError):
    """The call can't be answered; its words go to the agent as they are."""


def refused(title: str, places: Iterable[tuple[str, str]] = ()) -> ToolRefused:
    """A refusal with the (JSON pointer, what is wrong there) of each error, one a line."""
    lines = [f"{pointer or '/'}: {detail}" for pointer, detail in places]
    return ToolRefused("\n".join([title, *lines[:MAX_PLACES]]))


def read_arguments(tool: AuthorityTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they came, when they fit; raises `ToolRefused` with the place of each error."""
    try:
        tool.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        places = ((_pointer(each["loc"]), each["msg"]) for each in found)
        raise refused("The call can't be used.", places) from None
    return dict(arguments)


def _pointer(path: Iterable[object]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


AnswerTool: TypeAlias = Callable[[Any, AuthorityTool, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""(the HTTP request or None, the tool, its arguments) → the result as plain JSON; raises `ToolRefused`."""
ListJobs: TypeAlias = Callable[[Any], Awaitable[Sequence[Mapping[str, Any]]]]
"""(the HTTP request or None) → the jobs that the caller's key may use, as `list_jobs` answers."""


async def call_tool(
    answer: AnswerTool, request: Any, tool: AuthorityTool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The result of one `tools/call`, as plain JSON; it never raises."""
    try:
        result = await answer(request, tool, read_arguments(tool, arguments))
    except ToolRefused as refusal:
        return _error(str(refusal))
    except Exception as error:  # noqa: BLE001
        _LOG.error("a tool failed: %s", type(error).__name__)
        return _error(FAILED)
    text = json.dumps(result, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": json.loads(text), "isError": False}


def _error(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": True}


def build_server(answer: AnswerTool, list_jobs: ListJobs, version: str) -> "Server[Any]":
    """An MCP server with these tools, for any transport and both eras of the protocol.

    Results are structured content and the same JSON in one text block; refusals are errors with the refusal's words.
    """
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, CallToolResult, ListToolsResult, Tool

    async def tools(context: Any, _params: Any) -> ListToolsResult:
        listed = await list_tools(list_jobs, context.request)
        return ListToolsResult(tools=[Tool.model_validate(tool, by_name=False) for tool in listed])

    async def call(context: Any, params: Any) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, "This authority has no such tool.")
        result = await call_tool(answer, context.request, tool, params.arguments or {})
        return CallToolResult.model_validate(result, by_name=False)

    return Server(
        "preaction authority",
        version=version,
        instructions="Decide with get_job_decision before you act, and have each text checked with check_output.",
        on_list_tools=tools,
        on_call_tool=call,
        get_tool_input_schema=lambda name: input_schema(TOOLS[name]) if name in TOOLS else None,
    )


async def list_tools(list_jobs: ListJobs, request: Any) -> list[dict[str, Any]]:
    """The entries of `tools/list`, as plain JSON."""
    try:
        jobs = await list_jobs(request)
    except PreactionError:
        jobs = ()  # the tools are there all the same, and say themselves why they can't be used
    return [_tool_json(tool, jobs) for tool in TOOLS.values()]


def input_schema(tool: AuthorityTool) -> dict[str, Any]:
    """JSON Schema of a tool's arguments, as they are read."""
    return tool.arguments.model_json_schema(by_alias=True)


def _tool_json(tool: AuthorityTool, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One entry of `tools/list`, as it goes over the wire; `jobs` are named in its description."""
    names = "; ".join(
        f"{job['job']} ({job['title']})" if job.get("title") else str(job["job"]) for job in jobs[:MAX_JOBS]
    )
    about_job = bool(names) and "job" in tool.arguments.model_fields
    return {
        "name": tool.name,
        "title": tool.title,
        "description": f"{tool.description} Jobs: {names}." if about_job else tool.description,
        "inputSchema": input_schema(tool),
        "outputSchema": tool.result.model_json_schema(by_alias=True, mode="serialization"),
        "annotations": {
            "readOnlyHint": tool.reads,
            "destructiveHint": False,
            "idempotentHint": tool.reads,
            "openWorldHint": False,
        },
    }
