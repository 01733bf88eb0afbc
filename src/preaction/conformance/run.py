"""What the lines share: one job's description, a request that decides, one decision and one output check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from preaction.conformance.asking import Asker, Reply, path
from preaction.conformance.lines import NotChecked, read
from preaction.conformance.sample import JobSample, Samples, new_case, requests
from preaction.wire.models import Decision, JobDescription, OutputCheck, Verification


@dataclass
class Run:
    """One job of one authority. `job` is empty for lines about the whole authority.

    What a line needs and can't have raises `NotChecked`, so that one fault makes one line differ and not all.
    """

    asker: Asker
    samples: Samples
    job: str = ""
    jobs: list[str] = field(default_factory=list)
    _of_jobs: "dict[str, Run]" = field(default_factory=dict)

    def of(self, job: str) -> "Run":
        """The same for one job; what is known of it by now stays known."""
        return self._of_jobs.setdefault(job, Run(self.asker, self.samples, job, self.jobs))

    @property
    def sample(self) -> JobSample:
        """What the file says of this job."""
        return self.samples.jobs.get(self.job, JobSample())

    @cached_property
    def description(self) -> JobDescription:
        """The job's description at its current release."""
        reply = self.asker.get(path("jobs", self.job))
        if reply.status != 200:
            raise NotChecked("the job can't be described")
        return read(reply, JobDescription)

    @property
    def identity(self) -> str:
        """How the job's cases get their ids."""
        return "provided" if self.description.subject is None else self.description.subject.identity

    def case(self) -> str | None:
        """An id to decide on: the sample's, or a new one; None where the caller doesn't name the case."""
        if self.identity != "provided":
            return None
        new = new_case() if self.description.subject is not None else f"{new_case().lower()}.example"
        return self.sample.entity_id or new

    def forget(self) -> None:
        """Before a line: where decisions are on one and the same case, that of an earlier line may be superseded."""
        if self.sample.entity_id is not None or self.identity != "provided":
            for name in ("replied", "decision", "checked"):
                vars(self).pop(name, None)

    def ask(self, request: Mapping[str, Any], case: str | None, key: str | None = None) -> Reply:
        """Ask for a decision on a case; `key` is an Idempotency-Key."""
        named = {} if case is None else {"entity_id": case}
        return self.asker.post(path("jobs", self.job, "decisions"), {**named, **request}, headers=_idempotent(key))

    @cached_property
    def request(self) -> dict[str, Any]:
        """A request that decides."""
        if self.sample.request is not None:
            return self.sample.request
        if not self.description.facts:
            raise NotChecked("no request is known: give one with --samples")
        for request in requests(self.description):
            reply = self.ask(request, self.case())
            if reply.status == 200 and isinstance(reply.body, dict) and reply.body.get("status") == "decided":
                return request
        raise NotChecked("no request was found that decides: give one with --samples")

    @cached_property
    def replied(self) -> Reply:
        """The answer to a request that decides."""
        return self.ask(self.request, self.case())

    @cached_property
    def decision(self) -> Decision:
        """A decision that nothing supersedes."""
        return self.made(self.replied)

    def fresh(self) -> Decision:
        """Another decision; on the same case only where the request itself names the case."""
        return self.made(self.ask(self.request, self.case()))

    @staticmethod
    def made(reply: Reply) -> Decision:
        """The decision in a reply, for lines that are about something else."""
        if reply.status != 200:
            raise NotChecked("there is no decision to go by")
        return read(reply, Decision)

    def verify(self, execution_id: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Verify an execution."""
        return self.asker.post(path("executions", execution_id, "verify"), body or {})

    def verified(self, execution_id: str, body: Mapping[str, Any] | None = None) -> Verification:
        """The replay of an execution."""
        return read(self.verify(execution_id, body), Verification)

    # Texts --------------------------------------------------------------------------------------------------------

    @property
    def output(self) -> str:
        """An output that the decision's outcome lists."""
        decided = self.decision.outcome.id if self.decision.outcome else None
        listed = next((each.outputs for each in self.description.outcomes if each.id == decided), [])
        named = self.sample.output or next(iter(listed), None)
        if named is None:
            raise NotChecked("the outcome of the decision lists no output")
        return named

    @property
    def passes(self) -> dict[str, str]:
        """A text that follows the output's rules."""
        if self.sample.passes is None:
            raise NotChecked("no text is known that passes: give one with --samples")
        return self.sample.passes

    @property
    def fails(self) -> dict[str, str]:
        """A text that breaks a rule."""
        if self.sample.fails is None:
            raise NotChecked("no text is known that fails: give one with --samples")
        return self.sample.fails

    def check(self, execution_id: str, content: Any, output: str | None = None, key: str | None = None) -> Reply:
        """Have a text checked; `key` is an Idempotency-Key."""
        body = {"output": self.output if output is None else output, "content": content}
        return self.asker.post(path("executions", execution_id, "output-checks"), body, headers=_idempotent(key))

    @cached_property
    def checked(self) -> OutputCheck:
        """A check of the text that passes, for lines that are about something else."""
        reply = self.check(self.decision.execution_id, self.passes)
        if reply.status != 200:
            raise NotChecked("there is no output check to go by")
        return read(reply, OutputCheck)


def _idempotent(key: str | None) -> Mapping[str, str]:
    return {} if key is None else {"Idempotency-Key": key}
