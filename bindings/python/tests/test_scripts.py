"""The scripts around the tests: what cannot run is said, and what fails is not taken for passed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FACE = Path(__file__).parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", FACE.parents[1] / "target"))
PASSES = "assert True\n"
LEAVES = "raise SystemExit from None\n"
FAILS = "raise RuntimeError('this example is wrong')\n"


def run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: it for key, it in os.environ.items() if key != "CI"} | variables
    words = [str(it) for it in command]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)


def readme(folder: Path, *examples: str) -> subprocess.CompletedProcess[str]:
    text = "".join(f"```python\n{it}```\n" for it in examples)
    path = folder / "README.md"
    path.write_text(text)
    return run(sys.executable, "-W", "error", FACE / "tests" / "readme.py", path)


def test_an_example_that_leaves_early_ends_no_other(tmp_path: Path) -> None:
    done = readme(tmp_path, PASSES, LEAVES, PASSES, PASSES, PASSES, PASSES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5 examples passed"
    assert "skipped: example 2" in done.stdout


def test_an_example_that_fails_is_not_passed(tmp_path: Path) -> None:
    for wrong in (FAILS, "raise SystemExit(3)\n", "raise SystemExit('no')\n"):
        for position in range(6):
            examples = [PASSES, LEAVES, PASSES, PASSES, PASSES]
            examples.insert(position, wrong)
            done = readme(tmp_path, *examples)
            assert done.returncode != 0 and "examples passed" not in done.stdout


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An interpreter without what was installed beside it."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S \"$@\"\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("ci", "status"), [("", 77), ("1", 1)])
def test_a_face_without_its_tests_is_no_face_that_passed(bare: Path, ci: str, status: int) -> None:
    done = run(FACE / "test", "--programs", VARVITE_PYTHON=str(bare), CARGO_TARGET_DIR=str(TARGET), CI=ci)
    assert done.returncode == status, done.stdout + done.stderr
    for what in ("pytest and hypothesis", "mypy", "pyright"):
        assert f"skipped: {what}" in done.stdout
    assert "skipped: example" in done.stdout  # that of numpy


def toolchains(folder: Path, face: str, **programs: str) -> subprocess.CompletedProcess[str]:
    """With nothing in the path but these programs and those of a shell."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name in ("bash", "cat", "dirname", "head", "id", "mkdir", "printf", "sed", "sort", "sh", "chmod"):
        found = shutil.which(name)
        assert found
        (binaries / name).symlink_to(found)
    for name, program in programs.items():
        path = binaries / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\necho {path.name} \"$@\" >>'{folder}/called'\n{program}\n")
        path.chmod(0o755)
    script = FACE.parent / "toolchains"
    return run("bash", script, face, PATH=str(binaries), CARGO_TARGET_DIR=str(folder / "target"))


PYTHON = """
case "$*" in
    "-c import platform"*) echo 3.12.1 ;;
    "-m venv "*) mkdir -p "$3/bin" && printf '#!/bin/sh\\ncase "$*" in *numpy*) exit 1 ;; esac\\n' >"$3/bin/pip"
        cat "$3/bin/pip" >"$3/bin/python" && chmod 755 "$3/bin/pip" "$3/bin/python" ;;
esac
"""


def test_toolchains_go_on_after_what_fails(tmp_path: Path) -> None:
    """Neither apt nor one module keeps the others from being installed, and what is missing is told."""
    done = toolchains(tmp_path, "python", apt_get="exit 100", sudo="exit 1", python3=PYTHON)
    called = (tmp_path / "called").read_text()
    assert "python3 -m venv" in called
    assert (tmp_path / "target" / "python" / "bin" / "pip").exists()
    missing = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    assert done.returncode == 1
    assert missing == ["missing: objdump (the package binutils)", "missing: the module numpy>=2,<3"], done.stderr


def test_toolchains_ask_nothing_and_know_what_is_too_old(tmp_path: Path) -> None:
    tools = {it: "exit 0" for it in ("cc", "dune", "ocamlfind")}
    done = toolchains(tmp_path, "ocaml", sudo="exit 1", ocamlopt="echo 4.08.1", **tools)
    called = (tmp_path / "called").read_text()
    assert done.returncode == 1 and "missing: OCaml 4.13 or later: this is 4.08.1" in done.stderr
    assert "missing: dune" not in done.stderr
    assert all(line.startswith("sudo -n ") for line in called.splitlines() if line.startswith("sudo"))


def test_toolchains_that_are_there_are_left_alone(tmp_path: Path) -> None:
    tools = {it: "exit 0" for it in ("cc", "dune", "ocamlfind", "apt_get")}
    done = toolchains(tmp_path, "ocaml", ocamlopt="echo 4.13.0", **tools)
    assert (done.returncode, done.stderr) == (0, "")
    assert "apt-get" not in (tmp_path / "called").read_text()


def test_the_module_links_on_systems_of_apple(tmp_path: Path) -> None:
    """Where the linker wants every symbol, it is told that Python has those that are missing."""
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("there is no rustc")
    program = tmp_path / "build"
    subprocess.run([compiler, "--edition=2024", str(FACE / "build.rs"), "-o", str(program)], check=True)
    told = run(program, CARGO_CFG_TARGET_VENDOR="apple").stdout
    assert "rustc-cdylib-link-arg=-undefined\n" in told and "rustc-cdylib-link-arg=dynamic_lookup\n" in told
    assert "link-arg" not in run(program, CARGO_CFG_TARGET_VENDOR="unknown").stdout
