"""Names of images: by inputs, nothing else."""

import os

import pytest

from sandbox import ImageMissingError, SourceError
from sandbox.docker.images import ImageBuilder
from sandbox.docker.testing import MemoryImageEngine

BASE = "forkyard-base:bookworm"


@pytest.fixture
def images_dir(tmp_path):
    folder = tmp_path / "images"
    for name in ("base", "python", "node"):
        (folder / name).mkdir(parents=True)
    (folder / "base" / "recipe.toml").write_text(f'tag = "{BASE}"\n')
    (folder / "python" / "Dockerfile").write_text(f"FROM {BASE}\n")
    (folder / "python" / "requirements.txt").write_text("pytest==1\n")
    (folder / "node" / "Dockerfile").write_text(f"FROM {BASE}\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mine"
    made.mkdir()
    (made / "Dockerfile").write_text("FROM scratch\n")
    return made


def fetch_nothing(_requirements, _folder):
    return


def make_builder(images_dir, *references, fetch_wheels=fetch_nothing):
    return ImageBuilder(MemoryImageEngine(*references), images_dir, fetch_wheels=fetch_wheels)


def test_all_builtin_images_are_listed_and_said_to_be_missing(images_dir):
    listed = make_builder(images_dir).list_images()

    assert [(image.name, image.present) for image in listed] == [
        ("node", False),
        ("python", False),
    ]
    assert all(image.tag.startswith(f"forkyard/{image.name}:") for image in listed)


@pytest.mark.parametrize(
    "changed", ["python/Dockerfile", "python/requirements.txt", "base/recipe.toml"]
)
def test_each_input_changes_the_name(images_dir, changed):
    builder = make_builder(images_dir)
    before = builder.tag_of("python")

    (images_dir / changed).write_text("# other\n")

    assert builder.tag_of("python") != before


def test_times_and_other_images_do_not_change_the_name(images_dir):
    builder = make_builder(images_dir)
    before = builder.tag_of("python")

    os.utime(images_dir / "python" / "Dockerfile", (1, 1))
    (images_dir / "node" / "Dockerfile").write_text("FROM other\n")

    assert builder.tag_of("python") == before


@pytest.mark.parametrize(
    "reference", ["python:3.11", "me/python", "sha256:00", "..", "base", "go"]
)
def test_what_is_not_built_in_stays_as_it_is(images_dir, reference):
    assert make_builder(images_dir).tag_of(reference) == reference


def test_a_missing_base_stops_the_build_before_anything_is_sent(images_dir):
    engine = MemoryImageEngine()

    with pytest.raises(ImageMissingError, match=r"script/setup") as caught:
        ImageBuilder(engine, images_dir, fetch_wheels=fetch_nothing).build("python")

    assert caught.value.image == BASE
    assert engine.built == []


def test_wheels_are_fetched_for_a_builtin_image_and_sent_along(images_dir):
    engine = MemoryImageEngine(BASE)

    def fetch(requirements, wheels):
        (wheels / "a.whl").write_text(requirements.name)

    built = ImageBuilder(engine, images_dir, fetch_wheels=fetch).build("python")

    assert built.present
    assert engine.built[0].members == ("Dockerfile", "requirements.txt", "wheels/a.whl")


def test_no_label_makes_a_container_look_like_ours(images_dir):
    engine = MemoryImageEngine(BASE)

    ImageBuilder(engine, images_dir, fetch_wheels=fetch_nothing).build("node")

    assert [name for name, _ in engine.built[0].labels] == ["forkyard.image"]


def test_an_unknown_name_is_not_built_and_the_known_ones_are_named(images_dir):
    with pytest.raises(ImageMissingError) as caught:
        make_builder(images_dir).build("go")

    known = ", ".join(one.name for one in make_builder(images_dir).list_images())
    assert str(caught.value) == (f"image 'go' is no built-in image: name a built-in one ({known})")


def test_a_name_with_a_typo_is_told_the_closest_one(images_dir):
    builder = make_builder(images_dir)

    for look in (builder.resolve, builder.build):
        with pytest.raises(ImageMissingError, match=r"did you mean 'python'\?$"):
            look("pyton")


def test_a_users_folder_is_named_by_its_files_and_no_wheels_are_fetched(images_dir, folder):
    (folder / "requirements.txt").write_text("x\n")
    engine = MemoryImageEngine()

    def fetch(_requirements, _wheels):
        pytest.fail("fetched")

    builder = ImageBuilder(engine, images_dir, fetch_wheels=fetch)
    built = builder.build(f"build:{folder}")

    assert built.tag.startswith("forkyard/build:")
    assert builder.resolve(f"build:{folder}") == built.image_id


@pytest.mark.parametrize("change", ["bytes", "name", "mode", "link"])
def test_any_change_in_a_users_folder_gives_another_name(images_dir, folder, change):
    (folder / "run").write_text("1")
    (folder / "link").symlink_to("run")
    builder = make_builder(images_dir)
    before = builder.tag_of(f"build:{folder}")

    if change == "bytes":
        (folder / "run").write_text("2")
    elif change == "name":
        (folder / "run").rename(folder / "ran")
    elif change == "mode":
        (folder / "run").chmod(0o755)
    else:
        (folder / "link").unlink()
        (folder / "link").symlink_to("Dockerfile")

    assert builder.tag_of(f"build:{folder}") != before


def test_what_dockerignore_leaves_out_is_neither_hashed_nor_sent(images_dir, folder):
    (folder / ".dockerignore").write_text("# big\nsecret\n")
    engine = MemoryImageEngine()
    builder = ImageBuilder(engine, images_dir)
    before = builder.tag_of(f"build:{folder}")

    (folder / "secret").write_text("x")
    built = builder.build(f"build:{folder}")

    assert built.tag == before
    assert engine.built[0].members == (".dockerignore", "Dockerfile")


def test_a_link_is_sent_as_a_link_and_never_followed(images_dir, folder, tmp_path):
    (tmp_path / "outside").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    builder = make_builder(images_dir)
    before = builder.tag_of(f"build:{folder}")

    (tmp_path / "outside").write_text("other")

    assert builder.tag_of(f"build:{folder}") == before


def test_a_users_base_that_is_missing_is_refused(images_dir, folder):
    (folder / "Dockerfile").write_text("FROM debian:somewhere\n")

    with pytest.raises(ImageMissingError, match="debian:somewhere"):
        make_builder(images_dir).build(f"build:{folder}")


def test_a_folder_without_a_dockerfile_is_the_users_mistake(images_dir, tmp_path):
    with pytest.raises(SourceError, match="no Dockerfile"):
        make_builder(images_dir).tag_of(f"build:{tmp_path / 'images'}")


def test_a_fifo_in_a_folder_is_the_users_mistake(images_dir, folder):
    os.mkfifo(folder / "pipe")

    with pytest.raises(SourceError, match="pipe"):
        make_builder(images_dir).tag_of(f"build:{folder}")
