"""Which images a Dockerfile builds on, so that a build never pulls one silently."""

from __future__ import annotations

import re

_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
_COPY_FROM = re.compile(r"^(?:COPY|ADD)\s.*?--from=(\S+)", re.IGNORECASE)


def list_base_images(dockerfile: str) -> tuple[str, ...]:
    """Return the references named by FROM and COPY --from, stages and scratch left out.

    A variable is replaced by its default; one without a default stays as it is written, so that
    the reference is not found and the build is refused.
    """
    defaults: dict[str, str] = {}
    stages: set[str] = set()
    images: list[str] = []
    for line in _CONTINUED.sub(" ", dockerfile).splitlines():
        words = line.split()
        match [word.upper() for word in words[:1]]:
            case ["ARG"] if not images:
                defaults.update(_arg_default(words[1:]))
            case ["FROM"]:
                image, stage = _from_line(words[1:], defaults)
                images.append(image)
                stages.add(stage.lower())
            case ["COPY" | "ADD"]:
                copied = _COPY_FROM.match(line.strip())
                if copied and not copied[1].isdigit():
                    images.append(copied[1])
    own = stages | {"scratch"}
    return tuple(dict.fromkeys(image for image in images if image.lower() not in own))


def _arg_default(words: list[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: value.strip("\"'") for name, sign, value in pairs if sign}


def _from_line(words: list[str], defaults: dict[str, str]) -> tuple[str, str]:
    names = [word for word in words if not word.startswith("--")]
    image = _VARIABLE.sub(lambda found: _value(found, defaults), names[0]) if names else ""
    stage = names[2] if len(names) >= 3 and names[1].upper() == "AS" else ""
    return image, stage


def _value(found: re.Match[str], defaults: dict[str, str]) -> str:
    name = found[1] or found[3]
    return defaults.get(name) or found[2] or found[0]
