"""A person at a terminal: runs `forkyard` as a process, in a home and folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 120


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


@dataclass
class User:
    """Runs commands in one folder with one home."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self):
        return self.folder / "home"

    def environment(self):
        names = ("PATH", "HOME", "DOCKER_HOST", "PYTHONPATH")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return {**kept, "FORKYARD_HOME": str(self.home), "TERM": "dumb", **self.env}

    def argv(self, *arguments):
        return [sys.executable, "-m", "runner.entrypoints", *map(str, arguments)]

    def run(self, *arguments):
        done = subprocess.run(
            self.argv(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr.decode())

    def start(self, *arguments):
        return subprocess.Popen(
            self.argv(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def git(self, *arguments, cwd="code"):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *identity, *map(str, arguments)],
            cwd=self.folder / cwd,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            capture_output=True,
            check=True,
        ).stdout.decode()

    def make_repository(self):
        self.write("code/README", "hello\n")
        self.write("code/tests/check.sh", "#!/bin/sh\ngrep -q fixed answer\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "base")


def reply(tool, **arguments):
    return {"text": f"I use {tool}.", "calls": [{"tool": tool, "arguments": arguments}]}


def script(*replies):
    """Return a script that ends by finishing."""
    return json.dumps({"replies": [*replies, reply("finish", summary="done")]})


FIX = reply("write_file", path="answer", content="fixed\n")
SPOIL = reply("write_file", path="tests/check.sh", content="exit 0\n")
WRONG = reply("write_file", path="answer", content="other\n")


def batch_text(tasks, *, image="python", policy="repair", extra=""):
    """Return a batch file; tasks are (id, script text, expected outcome)."""
    head = f"""\
version: 1
name: small
{extra}
defaults:
  repo: {{path: ./code}}
  image: {image}
  policy: {policy}
  budget: {{wall_seconds: 100}}
  verify: {{argv: [sh, tests/check.sh], restore: ["tests/**"], timeout_seconds: 20}}
  constraints: [{{text: Keep the tests, protect: ["tests/**"]}}]
tasks:
"""
    rows = [
        f"  - id: {name}\n    goal: Write the answer.\n    expect: [{expect}]\n"
        f"    agent: {{kind: scripted, script: {text}}}\n"
        for name, text, expect in tasks
    ]
    return head + "".join(rows)
