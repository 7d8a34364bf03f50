"""Read which Debian mirrors this machine's apt uses, so that a base image comes from there too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<rest>.+)$")
_SCHEMES = ("http://", "https://", "file:/")
_DEBIAN_KEYRING = "debian-archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSource:
    """One archive of binary packages."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""
    """Keyring file; empty where apt uses its own."""

    @property
    def line(self) -> str:
        """The one-line form for sources.list, without options: an image has its own keyring."""
        return f"deb {self.uri} {self.suite} {' '.join(self.components)}"


def read_sources(apt_dir: Path) -> tuple[AptSource, ...]:
    """Read sources.list and sources.list.d as apt does; other file names are ignored by it."""
    listed = [apt_dir / "sources.list", *sorted((apt_dir / "sources.list.d").glob("*.list"))]
    found: list[AptSource] = []
    for path in listed:
        if path.is_file():
            found += parse_one_line(path.read_text(encoding="utf-8", errors="replace"))
    for path in sorted((apt_dir / "sources.list.d").glob("*.sources")):
        found += parse_deb822(path.read_text(encoding="utf-8", errors="replace"))
    return tuple(found)


def debian_sources(sources: tuple[AptSource, ...], suite: str) -> tuple[AptSource, ...]:
    """Keep the archives of a Debian release, the release itself first; empty if it is not there.

    Third parties use the same suite names: what is signed by another keyring than Debian's, or
    has no `main`, is left out.
    """
    suites = (suite, f"{suite}-security", f"{suite}-updates")
    kept = [
        source
        for name in suites
        for source in sources
        if source.suite == name and _is_debian(source)
    ]
    return tuple(kept) if kept and kept[0].suite == suite else ()


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Parse the lines `deb [options] URI SUITE COMPONENT…`."""
    for line in text.splitlines():
        match = _ONE_LINE.match(line.partition("#")[0].strip())
        if not match:
            continue
        suite, *components = match["rest"].split()
        signed_by = re.search(r"signed-by=(\S+)", match["options"] or "", re.IGNORECASE)
        yield AptSource(
            uri=match["uri"],
            suite=suite,
            components=tuple(components),
            signed_by=signed_by[1] if signed_by else "",
        )


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Parse stanzas of `Key: values`, one archive for each URI and suite."""
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = _stanza_fields(stanza)
        enabled = fields.get("enabled", "yes").lower() not in {"no", "false", "0"}
        if not enabled or "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield AptSource(
                    uri=uri,
                    suite=suite,
                    components=tuple(fields.get("components", "").split()),
                    signed_by=fields.get("signed-by", ""),
                )


def _stanza_fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t":
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
            continue
        key, _, value = line.partition(":")
        name = key.strip().lower()
        fields[name] = value.strip()
    return fields


def _is_debian(source: AptSource) -> bool:
    signed = not source.signed_by or _DEBIAN_KEYRING in source.signed_by
    return signed and "main" in source.components and source.uri.startswith(_SCHEMES)
