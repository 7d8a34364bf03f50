import pytest
from apt_sources import AptSource, debian_sources, parse_deb822, parse_one_line

DEBIAN = AptSource(uri="http://mirror.invalid/debian", suite="bookworm", components=("main",))


def test_the_one_line_form_is_read_with_and_without_options():
    text = """
    # deb http://off.invalid/debian bookworm main
    deb http://mirror.invalid/debian bookworm main contrib  # the usual
    deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://x.invalid/apt stable main
    deb-src http://mirror.invalid/debian bookworm main
    """

    found = tuple(parse_one_line(text))

    assert found == (
        AptSource(
            uri="http://mirror.invalid/debian", suite="bookworm", components=("main", "contrib")
        ),
        AptSource(
            uri="https://x.invalid/apt",
            suite="stable",
            components=("main",),
            signed_by="/usr/share/keyrings/x.gpg",
        ),
    )


def test_a_deb822_stanza_gives_one_source_for_each_uri_and_suite():
    text = """Types: deb deb-src
# snapshot
URIs: http://a.invalid/debian http://b.invalid/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Enabled: no
URIs: http://off.invalid/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://src.invalid/debian
Suites: bookworm
Components: main
"""

    found = [(source.uri, source.suite) for source in parse_deb822(text)]

    assert found == [
        ("http://a.invalid/debian", "bookworm"),
        ("http://a.invalid/debian", "bookworm-updates"),
        ("http://b.invalid/debian", "bookworm"),
        ("http://b.invalid/debian", "bookworm-updates"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        AptSource(
            uri="https://vpn.invalid/debian",
            suite="bookworm",
            components=("main",),
            signed_by="/usr/share/keyrings/vpn-archive-keyring.gpg",
        ),
        AptSource(uri="https://x.invalid/debian", suite="bookworm", components=("stable",)),
        AptSource(uri="cdrom:[Debian]/", suite="bookworm", components=("main",)),
        AptSource(uri="http://mirror.invalid/debian", suite="trixie", components=("main",)),
    ],
)
def test_third_parties_and_other_releases_are_left_out(other):
    assert debian_sources((other, DEBIAN), "bookworm") == (DEBIAN,)
    assert debian_sources((other,), "bookworm") == ()


def test_the_release_comes_before_its_security_archive():
    security = AptSource(
        uri="http://mirror.invalid/debian-security",
        suite="bookworm-security",
        components=("main",),
    )

    found = debian_sources((security, DEBIAN), "bookworm")

    assert found == (DEBIAN, security)
    assert found[1].line == "deb http://mirror.invalid/debian-security bookworm-security main"
