"""What a program can tell by a command's exit code. `--help` says it, and the page on the command line."""

from collections.abc import Mapping
from typing import Final

EXIT_CODES: Final[Mapping[str, Mapping[int, str]]] = {
    "init": {0: "everything was written", 2: "it was not: an answer can't be right, or files are there already"},
    "lint": {
        0: "nothing is wrong, or only hints, or without --strict warnings",
        1: "there are errors, or with --strict warnings",
        2: "the file can't be right at all, or the authority or the tools can't be asked",
    },
    "check": {0: "allowed, or not gated", 1: "denied", 2: "it can't be judged"},
    "explain": {0: "explained", 2: "no record can be read"},
    "watch": {
        0: "all of it was read, with --once or to the end of a pipe",
        1: "so it was, but for what could not be read and is named",
        2: "no trail can be read there",
        130: "ended by Ctrl-C",
    },
    "replay": {
        0: "each gave the verdict that it says",
        1: "one gave another",
        2: "one can't be replayed or read",
    },
    "backtest": {
        0: "every call keeps its verdict",
        1: "one doesn't, or it can't be told",
        2: "something can't be read",
    },
    "report": {0: "the page was written", 2: "there is no page: something can't be read or written"},
    "serve": {0: "ended by Ctrl-C or SIGTERM", 2: "it can't serve"},
    "proxy": {0: "the client has left, or it was told to end", 1: "the server is gone", 2: "it can't begin"},
    "mcp": {0: "stdin has ended", 2: "it can't begin"},
    "conformance": {
        0: "the authority differs in no line",
        1: "it differs in one",
        2: "it can't be checked at all",
    },
    "hook": {0: "answered, also with a denial", 2: "something failed, so the call is blocked"},
    "retain": {0: "removed, or counted with --dry-run", 2: "nothing was removed"},
    "verify": {0: "the decision holds, or a receipt is genuine", 1: "it doesn't, or isn't", 2: "there is no answer"},
    "audit-chain": {0: "the chain is whole", 1: "there are findings", 2: "it can't be read"},
    "audit verify": {0: "the chain is whole", 1: "there are findings", 2: "it can't be read, or has no entry"},
    "pack check": {0: "the pack can be released", 2: "it can't"},
    "pack diff": {
        0: "no more may be done than before, for sure",
        1: "more may be done, or might",
        2: "they can't be compared",
    },
    "keys create": {0: "created", 2: "not created"},
    "keys revoke": {0: "revoked", 2: "there is no such key, or it can't be revoked"},
    "keys rotate": {0: "signed by a new key from now on", 2: "by the old one, as before"},
}
"""Command → exit code → what it means."""


def in_words(command: str) -> str:
    """The exit codes of a command as the end of its help, a line each."""
    return "\n".join(("Exit codes:", *(f"{code} {means}" for code, means in EXIT_CODES[command].items())))
