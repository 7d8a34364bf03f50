"""A process that writes to a store, for tests that run several or kill one.

Usage: store_writer.py URL SESSION COUNT WORD BYTES. Each acknowledged append prints its seq.
"""

from __future__ import annotations

import sys

from store_builders import NOON, said

from runner.adapters.sql import open_sql_store
from runner.domain.ids import SessionId


def main() -> None:
    url, session, count, word, size = sys.argv[1:]
    with open_sql_store(url) as store:
        for number in range(int(count)):
            text = f"{word}{number} ".ljust(int(size), "x")
            with store.write() as writer:
                placed = writer.append_items(SessionId(session), [said(text)], at=NOON)
            print(placed[0].seq, flush=True)  # noqa: T201  the acknowledgement


if __name__ == "__main__":
    main()
