"""Reads policy files and merges them: built-in ceiling, organisation, repository, batch.

The only I/O of this package. No environment variable is read; the folder is an argument.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from policies.errors import PolicyFileError
from policies.layer import Layer, parse_layer
from policies.layering import merge_layers
from policies.policy import Policy
from policies.repository import repository_file

BUILTIN_NAMES = ("repair", "repair-watched")
CEILING_NAME = "ceiling"
MAX_FILE_BYTES = 1024 * 1024


def load_policy(
    name_or_path: str,
    *,
    folder: Path | None,
    repository: str = "",
    mount_roots: Sequence[str] = (),
) -> Policy:
    """Load a policy with all layers that stand above it.

    Args:
        name_or_path: a built-in name, or the path of a file: it has a `/` or ends in `.yaml`.
        folder: holds `organisation.yaml` and `repos/`; files that are not there are no layers.
        repository: the source's URL or absolute path; empty = no layer of a repository.
        mount_roots: host folders that policies may mount from, or from below.

    Raises:
        PolicyFileError: a file is missing, unreadable or says something that has no meaning.
        PolicyRefusedError: a file uses a feature that is not enforced yet.
        PolicyExampleError: an example does not hold in the merged policy.
    """
    layers = [
        _load_builtin(CEILING_NAME),
        *_load_folder(folder, repository),
        _load_batch_layer(name_or_path),
    ]
    return merge_layers(layers, mount_roots=mount_roots, name=Path(name_or_path).stem)


def _load_builtin(name: str) -> Layer:
    resource = files("policies").joinpath("builtin", f"{name}.yaml")
    return parse_layer(resource.read_text("utf-8"), file=f"policies/builtin/{name}.yaml")


def _load_folder(folder: Path | None, repository: str) -> Iterator[Layer]:
    if folder is None:
        return
    places = [folder / "organisation.yaml"]
    if repository:
        places.append(folder / "repos" / repository_file(repository))
    for place in places:
        if _is_there(place):
            yield _load_file(place)


def _is_there(place: Path) -> bool:
    """Tell whether a layer is wanted; a link that leads nowhere is one that got lost."""
    try:
        place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # nobody can have put a file there
            return False
        raise PolicyFileError(str(place), 1, "", f"cannot be read: {error.strerror}") from error
    return True


def _load_batch_layer(name_or_path: str) -> Layer:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return _load_file(Path(name_or_path))
    if name_or_path in BUILTIN_NAMES:
        return _load_builtin(name_or_path)
    known = ", ".join(BUILTIN_NAMES)
    problem = f"no built-in policy has this name; there are {known}; a path has a / in it"
    raise PolicyFileError(name_or_path, 1, "policy", problem)


def _load_file(path: Path) -> Layer:
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PolicyFileError(file, 1, "", f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise PolicyFileError(file, 1, "", f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(file, line, "", "is not UTF-8 text") from error
    return parse_layer(text, file=file)
