import pytest

from sandbox import SourceError
from sandbox.git.locations import check_ref, check_url


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "-x",
        "--output=/host",
        "--upload-pack=touch /tmp/x",
        "refs/heads/a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "@{u}",
        "@",
        "a\nb",
        "/a",
        "a/",
        "a//b",
        "x.lock",
        ".a",
        "a/.b",
        "a*",
    ],
)
def test_a_ref_that_is_no_plain_name_is_refused(ref):
    with pytest.raises(SourceError, match="give one"):
        check_ref("here", ref)


@pytest.mark.parametrize("ref", ["HEAD", "main", "feature/x-1", "v1.0", "refs/tags/v1", "ab" * 20])
def test_a_plain_name_is_taken(ref):
    check_ref("here", ref)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "fd::17",
        "ftp://host/x",
        "/just/a/path",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=x/y",
        "https://host/a\nb",
        "git@host:path",
        "https://[bad/x",
        "file://relative",
    ],
)
def test_a_url_outside_the_allowed_schemes_is_refused(url):
    with pytest.raises(SourceError):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@host/x",
        "https://hunter2@host/x",
        "ssh://git:hunter2@host/x",
        "https://host/x?token=hunter2",
        "https://host/x#hunter2",
        "https://user:hunter2@host:port/x",
        "ftp://user:hunter2@host/x",
    ],
)
def test_credentials_are_refused_and_never_repeated(url):
    with pytest.raises(SourceError) as caught:
        check_url(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTPS://Host.Example/A/b.git/", "https://host.example/A/b.git"),
        ("ssh://git@host/A", "ssh://git@host/A"),
        ("file:///srv/x", "file:///srv/x"),
    ],
)
def test_spellings_of_one_url_are_one_source(url, canonical):
    assert check_url(url) == canonical
