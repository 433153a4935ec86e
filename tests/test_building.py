"""`make` and `.ci/run` use the Python that they are asked for. The Pythons here are stand-ins of any version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# It takes itself for another version, and notes what it is asked to do. Its environments hold copies of it.
STAND_IN = """#!/bin/sh
if [ "$1" = -c ]; then
    start='import sys; sys.modules["pip"] = sys; sys.version_info = (3, {minor}, 0); exec(sys.argv[1])'
    exec {real} -I -S -c "$start" "$2"
fi
echo "3.{minor} $*" >> {log}
rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"
for tool in pip ruff mypy; do printf '#!/bin/sh\\n' > "$4/bin/$tool"; chmod +x "$4/bin/$tool"; done
"""
BROKEN = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"


class Workshop:
    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.venv = folder / "venv"
        self.log = folder / "log"
        self.environment = {**os.environ, "PATH": f"{self.bin}:/usr/bin:/bin", "PYENV_ROOT": str(folder / "pyenv")}
        for name in ("PYTHON", "VENV", "MAKEFLAGS", "MAKELEVEL"):
            self.environment.pop(name, None)

    def python(self, minor: int, place: str = "") -> Path:
        text = STAND_IN.format(real=sys.executable, minor=minor, log=self.log)
        return self.program(place or f"bin/python3.{minor}", text)

    def program(self, place: str, text: str) -> Path:
        path = self.bin.parent / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def make(self, *arguments: str) -> str:
        """Make what does nothing but ask for the environment; which environments were made for it."""
        self.log.write_text("")
        command = ["make", "-C", str(ROOT), "check", f"VENV={self.venv}", *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=60)
        return self.log.read_text()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_another_python_makes_the_environment_anew(workshop: Workshop) -> None:
    old, new = workshop.python(11), workshop.python(13)
    assert workshop.make(f"PYTHON={old}") == f"3.11 -m venv --clear {workshop.venv}\n"
    assert workshop.make(f"PYTHON={old}") == ""
    assert workshop.make(f"PYTHON={new}") == f"3.13 -m venv --clear {workshop.venv}\n"
    assert workshop.make() == "", "without a word the environment stays as it is"
    assert workshop.make(f"PYTHON={old}") == f"3.11 -m venv --clear {workshop.venv}\n"


@pytest.mark.parametrize("program", [BROKEN, STAND_IN.format(real=sys.executable, minor=10, log="/dev/null")])
def test_a_python_that_will_not_do_is_refused(workshop: Workshop, program: str) -> None:
    python = workshop.program("bin/python3.10", program)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        workshop.make(f"PYTHON={python}")
    assert "Python 3.11 or newer" in refused.value.stdout.decode()
    assert not workshop.venv.exists()


def ci(workshop: Workshop, make: str = "") -> tuple[int, list[str]]:
    """What `.ci/run` makes, and how it ends."""
    workshop.program("bin/make", f'#!/bin/sh\necho "$*" >> {workshop.log}\n{make}\n')
    ended = subprocess.run([ROOT / ".ci" / "run"], env=workshop.environment, capture_output=True, timeout=60)
    return ended.returncode, workshop.log.read_text().splitlines()


def hide(workshop: Workshop) -> None:
    """The machine's own Pythons do not count."""
    for minor in range(11, 20):
        workshop.program(f"bin/python3.{minor}", BROKEN)


def test_ci_tests_the_oldest_and_the_newest_python_that_work(workshop: Workshop) -> None:
    hide(workshop)
    workshop.python(11)
    workshop.python(12)
    newest = workshop.python(13, "pyenv/versions/3.13.7/bin/python3")
    made = ["test PYTHON=python3.11 VENV=.venv3.11", f"test PYTHON={newest} VENV=.venv3.13"]
    assert ci(workshop) == (0, made)


@pytest.mark.parametrize("failing", ["3.11", "3.13"])
def test_ci_fails_if_either_fails(workshop: Workshop, failing: str) -> None:
    hide(workshop)
    workshop.python(11)
    workshop.python(13)
    code, made = ci(workshop, f'case "$*" in *{failing}*) exit 2;; esac')
    assert (code, len(made)) == (1, 2)


def test_ci_needs_no_second_python(workshop: Workshop) -> None:
    hide(workshop)
    assert ci(workshop) == (0, ["test"])
    workshop.log.unlink()
    workshop.python(12)
    assert ci(workshop) == (0, ["test PYTHON=python3.12"])
