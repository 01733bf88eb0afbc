"""What `survivors.toml` explains: mutants that no test need kill, each with the reason.

`[[<room>]]` is one mutant: its `function`, the line `before` and `after`, and `why`. `[[kind]]` is a rule for many:
`function` is a pattern as for file names, `before` and `after` are regular expressions for the whole line. What stays
of a line is a group in the one, and a reference to it in the other.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mutation.mutants import Mutant
from mutation.trials import Outcome

KIND = "kind"
KEYS = {"function", "before", "after", "why"}


@dataclass(frozen=True)
class Explanation:
    """One entry; `room` is `kind` for a rule."""

    room: str
    function: str
    before: str
    after: str
    why: str

    def covers(self, mutant: Mutant) -> bool:
        """Whether it is about this mutant."""
        if self.room == KIND:  # as one expression, so that `after` can refer to what stays of `before`
            lines = re.fullmatch(f"{self.before}\n{self.after}", f"{mutant.before}\n{mutant.after}")
            return lines is not None and fnmatchcase(mutant.function, self.function)
        return (self.function, self.before, self.after) == (mutant.function, mutant.before, mutant.after)


def explanations(text: str) -> list[Explanation]:
    """Read the file's text. Raises ValueError for an entry that lacks a key, has another one, or gives no reason."""
    found = []
    for room, entries in tomllib.loads(text).items():
        for entry in entries:
            if set(entry) != KEYS or not entry["why"].strip():
                raise ValueError(f"survivors.toml: an entry has {', '.join(sorted(KEYS))}, and a reason: {entry}")
            found.append(Explanation(room, **entry))
    return found


def unexplained(outcomes: Mapping[Mutant, Outcome], explained: Iterable[Explanation]) -> list[Mutant]:
    """The mutants that no test noticed and no entry is about; and those that were not tried as they should."""
    entries = list(explained)
    lived = [mutant for mutant, outcome in outcomes.items() if outcome not in ("killed", "timeout")]
    return [one for one in lived if outcomes[one] == "broken" or not any(entry.covers(one) for entry in entries)]


def useless(outcomes: Mapping[Mutant, Outcome], explained: Iterable[Explanation]) -> list[str]:
    """Entries whose mutants are all killed or gone, in words. A time-out tells nothing: the machine may be slow."""
    killed = [mutant for mutant, outcome in outcomes.items() if outcome == "killed"]
    others = [mutant for mutant, outcome in outcomes.items() if outcome != "killed"]
    return [
        f"survivors.toml explains what {'is killed' if any(map(entry.covers, killed)) else 'does not exist'}: {entry}"
        for entry in explained
        if not any(map(entry.covers, others))
    ]


def doubtful(outcomes: Mapping[Mutant, Outcome], explained: Iterable[Explanation]) -> list[Mutant]:
    """Those that make a run fail, and may by chance: a machine short of memory breaks a trial, a test that fails once
    kills what it can't notice, and so makes its explanation useless."""
    covered = [[mutant for mutant in outcomes if entry.covers(mutant)] for entry in explained]
    killed = [mutants for mutants in covered if all(outcomes[mutant] == "killed" for mutant in mutants)]
    return [
        one for one, outcome in outcomes.items() if outcome == "broken" or any(one in mutants for mutants in killed)
    ]


def as_entry(room: str, outcome: Outcome, mutant: Mutant) -> str:
    """The mutant as an entry of `survivors.toml`, for whom a reason is known."""
    keys = [f"{key} = {_quoted(getattr(mutant, key))}" for key in ("function", "before", "after")]
    return "\n".join([f"[[{room}]]  # {outcome}", *keys, 'why = ""'])


def _quoted(text: str) -> str:
    return f"'''{text}'''" if "'" in text or "\n" in text else f"'{text}'"
