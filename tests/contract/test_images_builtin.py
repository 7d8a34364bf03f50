"""What the built-in images promise to whoever works inside, whatever their base came from."""

from pathlib import Path

import docker
import pytest

from sandbox.docker.image_engine import open_image_engine
from sandbox.docker.images import ImageBuilder

IMAGES = Path(__file__).resolve().parents[2] / "images"

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PACKAGE = """
mkdir -p /tmp/p/one && cd /tmp/p && touch one/__init__.py
printf 'from setuptools import setup\\nsetup(name="one", packages=["one"])\\n' >setup.py
pip install -q --no-index --no-build-isolation --no-deps . && cd / && python -c 'import one'
"""
NPM = """
mkdir -p /tmp/p && cd /tmp/p
printf '{"name":"one","version":"1.0.0","bin":{"one":"one.js"}}' >package.json
printf '#!/usr/bin/env node\\nconsole.log(1)\\n' >one.js && chmod +x one.js
npm install --silent -g --offline . && one
"""


@pytest.fixture(scope="module")
def client():
    opened = docker.from_env()
    yield opened
    opened.close()


@pytest.fixture(scope="module", params=["python", "node"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def image(name):
    with open_image_engine() as engine:
        return ImageBuilder(engine, IMAGES).build(name).image_id


@pytest.fixture
def run(client, image):
    """Run a command as a sandbox would: read-only root, nothing but HOME, /tmp and a workspace."""

    def run_in_image(script, uid=1000):
        places = ("/home/agent", "/tmp", "/workspace")
        mounts = dict.fromkeys(places, f"exec,uid={uid},gid={uid},mode=0755")
        output = client.containers.run(
            image,
            ["bash", "-ec", script],
            user=f"{uid}:{uid}",
            read_only=True,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            tmpfs=mounts,
            remove=True,
        )
        return output.decode().strip()

    return run_in_image


def test_no_setuid_program_is_left(run):
    assert run("find / -xdev -type f -perm /6000 2>/dev/null || true") == ""


def test_the_usual_tools_are_there(run):
    tools = "bash git grep find patch sed tar curl diff make less ps python python3 unzip"

    assert run(f"for one in {tools}; do command -v $one >/dev/null || echo $one; done") == ""


def test_the_usual_uid_has_a_name_a_home_and_a_git_identity(run):
    shown = run(
        "id -un; echo $HOME; cd /workspace; git init -q; git commit -qm x --allow-empty; pwd"
    )

    assert shown.splitlines() == ["agent", "/home/agent", "/workspace"]


def test_another_uid_works_too(run):
    assert run("cd; git init -q .; git commit -qm x --allow-empty; echo $HOME", uid=4321) == (
        "/home/agent"
    )


def test_what_is_installed_lands_in_home(run, name):
    script = {"python": PACKAGE, "node": NPM}[name]

    shown = run(f"{script}\nfind /home/agent -name 'one*' | head -n 1")

    assert "/home/agent/." in shown


def test_nothing_starts_by_itself_and_nothing_is_declared_writable(client, image):
    config = client.api.inspect_image(image)["Config"]

    assert not config.get("Volumes")
    assert not config.get("Healthcheck")
    assert not config.get("Entrypoint")
    assert config["User"] == "1000:1000"
