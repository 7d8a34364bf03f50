"""What every use case may use: the ports, bound by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runner.application.capacity import LeastRoom
from runner.application.ports.clock import Clock, Entropy
from runner.application.ports.model import ModelCatalog
from runner.application.ports.queue import RunQueue
from runner.application.ports.store import Store
from runner.domain.ids import RANDOM_BYTES, make_id
from sandbox import SandboxHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The ports and the few facts about this process that use cases need."""

    store: Store
    queue: RunQueue
    host: SandboxHost
    models: ModelCatalog
    clock: Clock
    entropy: Entropy
    holder: str
    """Who takes leases: `host:boot id:pid:start time` of this process."""
    is_holder_gone: Callable[[str], bool]
    """Tells whether the process behind a holder ran on this host and is no more."""
    passed_environment: Mapping[str, str]
    """The runner's environment, from which a policy's `env.pass` takes names."""
    version: str
    least_room: LeastRoom = field(default_factory=LeastRoom)
    """With less on a file system no run starts here."""

    def make_id(self, kind: str) -> str:
        """Return a new id of a kind (batch, task, session, run, message, call)."""
        return make_id(kind, self.entropy.random_bytes(RANDOM_BYTES))
