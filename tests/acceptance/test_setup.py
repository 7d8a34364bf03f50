"""script/setup as a user meets it when there is nothing to do, or nothing it may do."""

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def run_setup(**environment):
    return subprocess.run(
        [ROOT / "script" / "setup"],
        cwd="/",
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.engine
def test_a_second_run_says_nothing_and_leaves_time_to_start_within_five_seconds():
    run_setup()
    started = time.monotonic()

    done = run_setup()

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - started < 3


def test_an_engine_elsewhere_that_is_silent_is_said_in_one_line_with_exit_code_3(tmp_path):
    done = run_setup(DOCKER_HOST=f"unix://{tmp_path}/none.sock")

    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        f"setup: no Docker engine answers at DOCKER_HOST=unix://{tmp_path}/none.sock"
    ]
