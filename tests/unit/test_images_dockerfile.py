import pytest

from sandbox.docker.dockerfile import list_base_images


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM a:1\nRUN true\n", ("a:1",)),
        ("from --platform=linux/amd64 a:1 as x\nFROM x\nCOPY --from=x /a /b\n", ("a:1",)),
        ("FROM a\nCOPY --from=b:2 /x /y\n", ("a", "b:2")),
        ("FROM a AS s\nCOPY --chown=1:1 --from=0 /x /y\n", ("a",)),
        ("FROM scratch\nCOPY x /\n", ()),
        ("ARG V=2\nFROM a:${V}\n", ("a:2",)),
        ("FROM a:${V:-3}\n", ("a:3",)),
        ("ARG V\nFROM a:$V\n", ("a:$V",)),
        ("FROM \\\n  # why\n  a:1 \\\n  AS x\n", ("a:1",)),
        ("# FROM b\nFROM a\nRUN echo FROM c\n", ("a",)),
    ],
)
def test_what_a_dockerfile_builds_on_is_found(text, images):
    assert list_base_images(text) == images
