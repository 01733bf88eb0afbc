"""Coverage-guided fuzzing of what reads foreign bytes: `make fuzz`, or `fuzz.py TARGET` with options of libFuzzer.

Each target says what must hold for any bytes at all; whatever else is raised is a finding, kept as `crash-…`.
"""

import json
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["preaction"]):
    from preaction._core.company import plain_address
    from preaction.errors import InvalidJSON
    from preaction.results import read_result
    from preaction.wire import strict_json


def strict(data: bytes) -> None:
    """Only `InvalidJSON` is raised, and what is read is what the standard library reads, of one JSON text."""
    try:
        value = strict_json.loads(data)
    except InvalidJSON:
        return
    assert value == json.loads(data.decode("utf-8"))
    assert strict_json.loads(json.dumps(value, ensure_ascii=False)) == value


def results(data: bytes) -> None:
    """Nothing is raised, and only a result that is `ok` has content."""
    for given in (data, data.decode("utf-8", "replace"), {"content": [{"type": "text", "text": data}]}):
        read = read_result(given)
        assert isinstance(read.content, dict)
        assert read.state == "ok" or not read.content


def addresses(data: bytes) -> None:
    """Nothing is raised, and an address has one `@`, no control and nothing that a header could be read from."""
    text = data.decode("utf-8", "replace")
    found = plain_address(text)
    if found is None:
        return
    local, host = found
    assert text == text.strip()
    assert text.isascii()
    assert text.isprintable()
    assert local
    assert host
    assert host == host.lower()
    assert not set(host) & set('@ ,;:<>()[]\\"')
    assert plain_address(f"{local}@{host}") == found


TARGETS: dict[str, Callable[[bytes], None]] = {each.__name__: each for each in (strict, results, addresses)}

if __name__ == "__main__":
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
