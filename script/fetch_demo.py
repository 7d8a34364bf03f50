"""Prepare the demo's real input in .demo/: three repositories, five scripts and the batch file.

Nothing of it is committed: two releases of each project are fetched by name, and the change that
the newer one made becomes the scripted agent's replies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import yaml
from release import make_repository, read_release
from replies import Repair, Reply, cheating_replies, repair_replies, wrong_replies

_SCRIPT = Path(__file__).resolve().parent
_INPUT = _SCRIPT / "demo_input"
_DEMO = _SCRIPT.parent / ".demo"
_CACHE = _DEMO / "cache"
_STAMP = _DEMO / "stamp"
_MADE = ("repos", "scripts", "repairs.yaml")


def main() -> int:
    """Make what is missing or out of date; return the exit code."""
    stamp = _input_digest()
    if _is_current(stamp):
        return 0
    started = time.monotonic()
    _CACHE.mkdir(parents=True, exist_ok=True)
    try:
        for which in ("older", "newer"):
            _fetch(_INPUT / f"{which}.txt")
    except subprocess.CalledProcessError as error:
        print(f"setup: fetching the demo's sources failed:\n{error.stderr}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="next-", dir=_DEMO) as folder:
        _make(Path(folder))
        _replace(Path(folder))
    _STAMP.write_text(stamp, encoding="utf-8")
    print(f"setup: demo input made in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _policy() -> str:
    """Name the policy: a hard disk limit needs root on the host."""
    return "repair" if os.geteuid() == 0 else "repair-watched"


def _input_digest() -> str:
    inputs = [*sorted(_INPUT.iterdir()), *sorted(_SCRIPT.glob("*.py"))]
    total = hashlib.sha256(_policy().encode())
    for path in inputs:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _is_current(stamp: str) -> bool:
    made = all((_DEMO / name).exists() for name in _MADE)
    return made and _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == stamp


def _fetch(requirements: Path) -> None:
    wanted = _read_pins(requirements)
    if all(_archive(name, version).is_file() for name, version in wanted.items()):
        return
    print(f"setup: fetching {', '.join('-'.join(pin) for pin in wanted.items())} …", flush=True)
    argv = [
        *(sys.executable, "-m", "pip", "download", "--no-input", "--quiet", "--no-deps"),
        *("--no-binary", ":all:", "--require-hashes", "-r", str(requirements)),
        *("-d", str(_CACHE)),
    ]
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)


def _read_pins(requirements: Path) -> dict[str, str]:
    lines = requirements.read_text(encoding="utf-8").splitlines()
    pins = (line.split()[0].split("==") for line in lines if "==" in line)
    return dict(pins)


def _archive(name: str, version: str) -> Path:
    return _CACHE / f"{name}-{version}.tar.gz"


def _make(folder: Path) -> None:
    sqlparse = _repair("sqlparse", tests="tests/test_grouping.py", look_for="Comparison")
    more = _repair("more-itertools", tests="tests/test_more.py", look_for="def split_after")
    unidiff = _repair("unidiff", tests="tests/test_parser.py", look_for="RE_DIFF_GIT_HEADER")
    older = _read_pins(_INPUT / "older.txt")
    for name, repair in (("sqlparse", sqlparse), ("more-itertools", more), ("unidiff", unidiff)):
        title = f"{name} {older[name]}"
        make_repository(folder / "repos" / name, repair.older, repair.newer, title=title)
    scripts = folder / "scripts"
    scripts.mkdir()
    _write_script(scripts / "grouping-not-in.yaml", repair_replies(sqlparse))
    _write_script(scripts / "split-and-gray-product.yaml", repair_replies(more))
    _write_script(scripts / "binary-patches.yaml", repair_replies(unidiff))
    _write_script(scripts / "wrong-fix.yaml", wrong_replies(unidiff, "unidiff/constants.py"))
    _write_script(scripts / "edits-tests.yaml", cheating_replies(sqlparse))
    template = string.Template((_INPUT / "repairs.yaml").read_text(encoding="utf-8"))
    batch = template.substitute(policy=_policy())
    (folder / "repairs.yaml").write_text(batch, encoding="utf-8")


def _repair(name: str, *, tests: str, look_for: str) -> Repair:
    older, newer = (_read_pins(_INPUT / f"{which}.txt")[name] for which in ("older", "newer"))
    return Repair(
        package=name.replace("-", "_"),
        tests=tests,
        look_for=look_for,
        older=read_release(_archive(name, older)),
        newer=read_release(_archive(name, newer)),
    )


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, for people."""


def _block_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _block_text)


def _write_script(path: Path, replies: Iterable[Reply]) -> None:
    document = {"replies": [_plain(reply) for reply in replies]}
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    path.write_text(text, encoding="utf-8")


def _plain(reply: Reply) -> dict[str, object]:
    return {"text": reply.text, "calls": [asdict(call) for call in reply.calls]}


def _replace(folder: Path) -> None:
    for name in _MADE:
        old = _DEMO / name
        if old.is_dir():
            shutil.rmtree(old)
        (folder / name).replace(old)


if __name__ == "__main__":
    sys.exit(main())
