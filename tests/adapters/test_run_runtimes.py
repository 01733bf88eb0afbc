"""`make test-runtimes`, with a `uv` that installs nothing; and the list that it reads."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LISTED = tomllib.loads(Path(__file__).with_name("runtimes.toml").read_text("utf-8"))

PYTEST = """#!{python}
import sys, time
if "-c" in sys.argv:
    print("one 1.0")
else:
    report = next(word.partition("=")[2] for word in sys.argv if word.startswith("--junit-xml="))
    time.sleep({seconds})
    counts = 'tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}"'
    open(report, "w").write("<testsuites><testsuite " + counts + "/></testsuites>")
    print("what pytest said")
    sys.exit({failures} > 0)
"""
UV = """#!{python}
import sys, pathlib
with open({log!r}, "a") as log:
    log.write(sys.argv[1] + "\\n")
if "broken==1" in sys.argv:
    sys.exit("no such version")
if sys.argv[1] == "venv":
    python = pathlib.Path(sys.argv[-1]) / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text({pytest!r})
    python.chmod(0o755)
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, in an empty place, with a list of two runtimes of which one can't be installed."""
    spec = importlib.util.spec_from_file_location("run_runtimes", Path(__file__).with_name("run_runtimes.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_runtimes", module)
    spec.loader.exec_module(module)
    listed = tmp_path / "runtimes.toml"
    listed.write_text(
        'one = {extra = "dev", newest = ["one==1"], oldest = ["one==0"], tests = "t.py"}\n'
        'two = {extra = "dev", newest = ["broken==1"], oldest = ["two==0"], tests = ["t.py"], packages = ["x"]}\n'
    )
    monkeypatch.setattr(module, "ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setattr(module, "LISTED", listed)
    use(monkeypatch, tmp_path)
    return module


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **results: Any) -> Path:
    """Put a `uv` in place whose environments give these results; the log of its commands."""
    results = {"tests": 3, "failures": 0, "skipped": 1, "seconds": 0, **results}
    log, uv = tmp_path / "log", tmp_path / "uv"
    uv.write_text(
        UV.format(python=sys.executable, log=str(log), pytest=PYTEST.format(python=sys.executable, **results))
    )
    uv.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(uv))
    return log


def test_newest_first_then_oldest_and_what_can_t_be_installed_has_failed(
    runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "passed" in line or "failed:" in line] == [
        "one-newest", "two-newest", "one-oldest", "two-oldest", "6",
    ]  # fmt: skip
    assert re.search(r"two-newest +broken==1 +failed: could not be installed \(\d+ s\)", lines[1])
    assert lines[2] == "no such version"
    assert re.search(r"one-newest +one 1\.0 +2 passed, 1 skipped \(\d+ s\)", lines[0])
    assert lines[-1] == "6 passed, 1 failed"


def test_an_environment_is_used_again_until_its_pins_change(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = use(monkeypatch, tmp_path)
    for _ in range(2):
        assert runner.main(["one", "--newest"]) == 0
    assert log.read_text().split() == ["venv", "pip"]
    runner.LISTED.write_text(runner.LISTED.read_text().replace("one==1", "one==2"))
    runner.main(["one", "--newest"])
    assert log.read_text().split() == ["venv", "pip"] * 2


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({"tests": 2, "skipped": 2}, "failed: no test ran"),
        ({"tests": 0, "skipped": 0}, "failed: no test ran"),
        ({"failures": 1}, "1 failed, 1 passed, 1 skipped"),
    ],
)
def test_failures_and_nothing_at_all_fail(
    runner: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    results: dict[str, int],
    said: str,
) -> None:
    use(monkeypatch, tmp_path, **results)
    assert runner.main(["one", "--oldest"]) == 1
    printed = capsys.readouterr().out
    assert said in printed
    assert "what pytest said" in printed


def test_what_there_is_no_time_for_is_named_and_is_no_failure(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["--within", "0"]) == 0
    skipped = "SKIPPED, no time left: one-newest, two-newest, one-oldest, two-oldest\n0 passed, 0 failed\n"
    assert capsys.readouterr().out == skipped
    use(monkeypatch, tmp_path, seconds=60)
    monkeypatch.setattr(runner, "LEAST_S", 0.1)
    assert runner.main(["one", "--newest", "--within", "2"]) == 0  # ended in the midst of it
    assert "SKIPPED, no time left: one-newest" in capsys.readouterr().out
    monkeypatch.setattr(runner, "LONGEST_S", 1)
    assert runner.main(["one", "--oldest"]) == 1
    assert "failed: still running after 1 s" in capsys.readouterr().out


def test_what_can_t_be_right_is_refused(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        runner.main(["three"])
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(SystemExit):
        runner.main([])
    with pytest.raises(SystemExit, match="unknown keys: test"):
        runner.read({"one": {"extra": "dev", "newest": [], "oldest": [], "test": "t.py"}})


@pytest.mark.parametrize("runtime", LISTED)
def test_every_runtime_listed_has_its_tests_and_an_extra_that_allows_its_pins(runtime: str) -> None:
    entry = LISTED[runtime]
    tests = [entry["tests"]] if isinstance(entry["tests"], str) else entry["tests"]
    assert [path for path in tests if not (ROOT / path).is_file()] == []
    allowed = {one.name: one for one in map(Requirement, PROJECT["optional-dependencies"][entry["extra"]])}
    for which in ("newest", "oldest"):
        pins = [Requirement(pin) for pin in entry[which]]
        versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
        assert [n for n, v in versions.items() if n in allowed and v not in allowed[n].specifier] == []
        assert versions.keys() & allowed.keys()
