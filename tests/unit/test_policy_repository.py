from __future__ import annotations

import pytest

from policies import PolicyFileError, repository_file


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("https://github.com/a/b", "github.com/a/b.yaml"),
        ("https://github.com/a/b.git", "github.com/a/b.yaml"),
        ("https://user:pw@GitHub.com:443/a/b.git/", "github.com/a/b.yaml"),
        ("ssh://git@github.com:22/a/b", "github.com/a/b.yaml"),
        ("git@github.com:a/b.git", "github.com/a/b.yaml"),
        ("file:///srv/code/b", "srv/code/b.yaml"),
        ("/srv/code/b", "srv/code/b.yaml"),
        ("/srv/code/b/.git", "srv/code/b/.git.yaml"),
        ("/srv/code/./b.tar.gz", "srv/code/b.tar.gz.yaml"),
    ],
)
def test_one_repository_has_one_file_however_it_is_named(source: str, file: str) -> None:
    assert str(repository_file(source)) == file


@pytest.mark.parametrize("source", ["", "/", "../b", "/srv/../../b", "https://h/../b", "a\0b"])
def test_a_source_that_would_lead_elsewhere_is_refused(source: str) -> None:
    with pytest.raises(PolicyFileError):
        repository_file(source)
