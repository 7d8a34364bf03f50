"""What every image engine does, double and Docker, and what ImageBuilder makes of it."""

import io
import tarfile
import time
import uuid

import pytest

from sandbox import EngineError, ImageMissingError
from sandbox.docker.image_engine import open_image_engine
from sandbox.docker.images import ImageBuilder
from sandbox.docker.testing import MemoryImageEngine


@pytest.fixture(params=["memory", pytest.param("docker", marks=[pytest.mark.engine])])
def engine(request):
    if request.param == "memory":
        yield MemoryImageEngine()
        return
    with open_image_engine() as opened:
        yield opened


@pytest.fixture
def reference(engine):
    name = f"forkyard/test:{uuid.uuid4().hex[:12]}"
    yield name
    if not isinstance(engine, MemoryImageEngine) and engine.find_image(name):
        engine._client.remove_image(name, force=True)


@pytest.fixture
def images_dir(tmp_path):
    for name in ("base", "tiny"):
        (tmp_path / name).mkdir()
    (tmp_path / "base" / "recipe.toml").write_text('tag = "forkyard-base:absent"\n')
    (tmp_path / "tiny" / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    return tmp_path


def context(dockerfile):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(dockerfile)
        archive.addfile(member, io.BytesIO(dockerfile))
    stream.seek(0)
    return stream


def test_an_image_that_was_built_is_found_by_reference_and_by_id(engine, reference):
    assert engine.find_image(reference) is None

    lines = list(
        engine.build_image(
            context(b"FROM scratch\nCOPY Dockerfile /\n"), reference=reference, labels={"a": "b"}
        )
    )

    image_id = engine.find_image(reference)
    assert image_id is not None
    assert image_id.startswith("sha256:")
    assert engine.find_image(image_id) == image_id
    assert any("COPY Dockerfile /" in line for line in lines)


def test_a_failing_step_is_an_error_and_leaves_no_image(engine, reference):
    dockerfile = b"FROM scratch\nCOPY Dockerfile /\nRUN false\n"

    with pytest.raises(EngineError, match=reference):
        list(engine.build_image(context(dockerfile), reference=reference, labels={}))

    assert engine.find_image(reference) is None


@pytest.mark.parametrize(
    "missing", ["python:0.0.1-absent", "forkyard-absent/nothing:1", f"sha256:{'0' * 64}"]
)
def test_a_missing_image_is_an_error_and_never_a_pull(engine, images_dir, missing):
    builder = ImageBuilder(engine, images_dir)

    with pytest.raises(ImageMissingError, match="nothing is pulled silently"):
        builder.resolve(missing)

    assert engine.find_image(missing) is None


def test_a_builtin_image_is_missing_until_it_is_built_once(engine, images_dir):
    (images_dir / "tiny" / "unique").write_text(uuid.uuid4().hex)
    builder = ImageBuilder(engine, images_dir)
    with pytest.raises(ImageMissingError, match="tiny"):
        builder.resolve("tiny")

    built = builder.build("tiny")
    again: list[str] = []
    builder.build("tiny", progress=again.append)

    assert built.present
    assert builder.resolve("tiny") == built.image_id
    assert again == []
    if not isinstance(engine, MemoryImageEngine):
        engine._client.remove_image(built.tag, force=True)


@pytest.mark.engine
def test_a_missing_image_is_refused_before_the_engine_is_asked_for_anything_else(images_dir):
    missing = f"forkyard-absent/{uuid.uuid4().hex[:12]}:1"
    with open_image_engine() as engine:
        since = time.time()

        with pytest.raises(ImageMissingError):
            ImageBuilder(engine, images_dir).resolve(missing)

        until = time.time()
        events = engine._client.events(
            since=since, until=until, filters={"image": [missing]}, decode=True
        )
        assert list(events) == []
