"""What is released: a wheel and a source distribution, with what is kept here and nothing else, byte for byte again."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "preaction-{}"
NOT_RELEASED = {".editorconfig", ".gitattributes", ".gitignore"}


@pytest.fixture(scope="module")
def kept(repository: Path) -> set[str]:
    """The files of the checkout that git would keep."""
    if not (repository / ".git").exists():
        pytest.skip("not a checkout: what is built here is built from one")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=repository, capture_output=True, check=True).stdout.decode().split("\0")
    return {name for name in listed if name and (repository / name).is_file()}


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def build(repository: Path, into: Path, *what: str) -> Path:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None, "uv is needed: make setup"
    done = subprocess.run([uv, "build", "--offline", "--out-dir", into, *what], cwd=repository, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return into


@pytest.fixture(scope="module")
def built(kept: set[str], repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both; the wheel is built from the source distribution."""
    return build(repository, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def source(built: Path, project: dict[str, Any]) -> dict[str, bytes]:
    """The files of the source distribution, by their path inside it; pyproject.toml as it was written."""
    root = NAME.format(project["version"])
    with tarfile.open(built / f"{root}.tar.gz") as tar:
        opened = {member.name: tar.extractfile(member) for member in tar.getmembers() if not member.isdir()}
        files = {name.removeprefix(f"{root}/"): file.read() if file else b"" for name, file in opened.items()}
    if ours := files.pop("pyproject.toml.orig", None):  # the backend writes the other one in a form of its own
        assert tomllib.loads(files["pyproject.toml"].decode()) == tomllib.loads(ours.decode())
        files["pyproject.toml"] = ours
    return files


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, bytes]:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def test_a_second_build_gives_the_same_bytes(built: Path, repository: Path, tmp_path: Path) -> None:
    again = build(repository, tmp_path)
    files = sorted(path.name for path in built.iterdir() if path.suffix in (".whl", ".gz"))
    assert len(files) == 2
    assert [name for name in files if (again / name).read_bytes() != (built / name).read_bytes()] == []


def test_the_source_distribution_builds_the_same_wheel_as_the_checkout(
    built: Path, repository: Path, tmp_path: Path
) -> None:
    (ours,), (straight,) = built.glob("*.whl"), build(repository, tmp_path, "--wheel").glob("*.whl")
    assert straight.read_bytes() == ours.read_bytes()


def test_the_source_distribution_holds_what_is_kept_here_and_nothing_else(
    source: dict[str, bytes], kept: set[str], repository: Path
) -> None:
    assert source.keys() - {"PKG-INFO"} == kept - NOT_RELEASED
    assert [name for name in source.keys() & kept if source[name] != (repository / name).read_bytes()] == []


def test_the_wheel_holds_the_package_and_nothing_else(
    wheel: dict[str, bytes], kept: set[str], project: dict[str, Any], repository: Path
) -> None:
    about = f"{NAME.format(project['version'])}.dist-info/"
    package = {name: name.removeprefix("src/") for name in kept if name.startswith("src/")}
    assert {name for name in wheel if not name.startswith(about)} == set(package.values())
    assert [name for name, inside in package.items() if wheel[inside] != (repository / name).read_bytes()] == []
    listed = {name.removeprefix(about) for name in wheel if name.startswith(about)}
    assert listed == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert wheel["preaction/py.typed"] == b""
    assert wheel[f"{about}licenses/LICENSE"] == (repository / "LICENSE").read_bytes()


def test_no_file_names_a_place_on_this_machine(
    source: dict[str, bytes], wheel: dict[str, bytes], repository: Path, built: Path
) -> None:
    somewhere = [place for place in (repository, Path.home(), Path(sys.prefix), built) if place != Path("/")]
    places = [f"{place}/".encode() for place in somewhere]
    files = [*source.items(), *wheel.items()]
    assert [(name, place) for name, content in files for place in places if place in content] == []


def test_the_metadata_is_whole(wheel: dict[str, bytes], project: dict[str, Any], repository: Path) -> None:
    about = NAME.format(project["version"]) + ".dist-info"
    said = Metadata.from_email(wheel[f"{about}/METADATA"], validate=True)
    assert (said.name, str(said.version), said.summary) == ("preaction", project["version"], project["description"])
    assert (said.license_expression, said.license_files) == (project["license"], project["license-files"])
    assert str(said.requires_python) == project["requires-python"]
    assert said.description == (repository / "README.md").read_text("utf-8")
    assert said.description_content_type == "text/markdown"
    assert set(said.provides_extra or ()) == {canonicalize_name(name) for name in project["optional-dependencies"]}
    plain = {str(each) for each in said.requires_dist or () if "extra ==" not in str(each.marker)}
    assert plain == {str(Requirement(line)) for line in project["dependencies"]}
    assert b"preaction = preaction.cli:main" in wheel[f"{about}/entry_points.txt"]
