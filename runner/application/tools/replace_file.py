"""Replace a file's bytes inside the sandbox, whole or not at all."""

from __future__ import annotations

import hashlib
import posixpath

from runner.application.tools.run_command import Ran, run_script
from runner.application.tools.tool import ToolContext
from runner.application.tools.workspace_path import argument_of

REPLACE = """
target=$1 part_name=$2
if [ -L "$target" ]; then
  target=$(readlink -f -- "$target" && echo x) || { echo "the link leads nowhere" >&2; exit 73; }
  target=${target%?x}
fi
if [ -d "$target" ]; then echo "it is a directory" >&2; exit 73; fi
if [ -e "$target" ] && [ ! -f "$target" ]; then
  echo "it is not a regular file" >&2; exit 73
fi
if [ -f "$target" ] && [ ! -w "$target" ]; then
  echo "it is not writable" >&2; exit 73
fi
case $target in */*) folder=${target%/*} ;; *) folder=. ;; esac
mkdir -p -- "${folder:-/}" || exit 73
part=${folder:-}/$part_name
if [ -f "$target" ]; then cp -p -- "$target" "$part" || { rm -f -- "$part"; exit 73; }; fi
cat >"$part" && mv -f -- "$part" "$target" || { rm -f -- "$part"; exit 74; }
"""
"""73 and 74: EX_CANTCREAT and EX_IOERR of sysexits.h. A link stays a link: its target is replaced.
`cp -p` first keeps the mode; the rename makes a full disk leave the old bytes. Another hard link
to the file keeps the old bytes, too."""

REMOVE_PART = """
target=$1
if [ -L "$target" ]; then target=$(readlink -f -- "$target" && echo x); target=${target%?x}; fi
case $target in */*) folder=${target%/*} ;; *) folder=. ;; esac
rm -f -- "${folder:-}/$2"
"""
"""After a kill, which no trap survives."""


def replace_file(path: str, content: bytes, *, context: ToolContext) -> Ran:
    """Write a file, its parents made; a failure or a kill leaves the former bytes.

    Raises:
        SandboxLostError, EngineUnavailableError: what stopped us from knowing.
    """
    target = argument_of(path)
    name = posixpath.basename(target).encode() + b"\0" + content
    part = f".forkyard-part-{hashlib.sha256(name).hexdigest()[:16]}"
    ran = run_script(REPLACE, target, part, context=context, stdin=content)
    if ran.result.exit_code is None:
        run_script(REMOVE_PART, target, part, context=context)
    return ran
