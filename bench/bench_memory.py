"""Prints how many MB 100,000 recorded decisions hold."""

import gc
import resource

from preaction import create_action_gate
from preaction.testing import FakeAuthority


def _resident_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    """Ten sessions of ten thousand decisions."""
    authority = FakeAuthority()
    gate = create_action_gate(job=authority.job, tools={}, verify=authority, describe=authority, clock=authority.clock)
    before = _resident_mb()
    for session in range(10):
        for number in range(10_000):
            gate.decisions.record(f"chat-{session}", result=authority.decide(f"HC-{session}-{number}"))
            authority._known.clear()  # what the fake would remember is not the gate's
    print(round(_resident_mb() - before, 1))


if __name__ == "__main__":
    main()
