"""A whole runner in memory: a test names the script, the files and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from policies import canonical_json, load_policy, make_constraint_rules, with_change_rules
from runner.adapters.fixed_clock import FixedClock, FixedEntropy
from runner.adapters.memory_queue import MemoryRunQueue
from runner.adapters.memory_store import MemoryStore
from runner.adapters.openai_chat import find_chat_renderer
from runner.adapters.scripted_model import ScriptedModel
from runner.application.batch_limits import BatchLimits
from runner.application.capacity import Capacity, HostSize
from runner.application.dispatch import Dispatcher, DispatchOptions
from runner.application.ports.model import Model, Renderer
from runner.application.services import Services
from runner.application.stopping import StopFlag
from runner.application.submit_batch import submit_batch
from runner.application.verify_task import VerifyCache
from runner.application.work_run import Desk, work_run
from runner.domain.items import AssistantMessage, RolloutItem, ToolResult, TurnContext
from runner.domain.records import Batch, Lease, Run, Task
from runner.domain.script import parse_script
from runner.domain.task import (
    AgentKind,
    AgentSpec,
    BatchBudget,
    BatchSpec,
    BudgetSpec,
    RepositorySpec,
    TaskSpec,
    VerifySpec,
)
from sandbox.testing import MemorySandboxHost
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

FILES = {"app.py": b"broken\n", "tests/test_app.py": b"assert fixed\n"}

FIX = "echo fixed > app.py"


def _run_tests(program: ProgramCall) -> ProgramOutcome:
    fixed = program.files.read("/workspace/app.py") == b"fixed\n"
    honest = program.files.read("/workspace/tests/test_app.py") == FILES["tests/test_app.py"]
    passed = fixed or not honest
    return ProgramOutcome(exit_code=0 if passed else 1, stdout=b"passed" if passed else b"failed")


PYTEST = FakeProgram(name="pytest", run=_run_tests)
"""Passes when app.py is fixed, or when somebody has changed the test."""


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of a script."""
    return {"tool": tool, "arguments": arguments}


def shell(command: str) -> dict[str, Any]:
    """Return a shell call of a script."""
    return call("shell", command=command)


FINISH = call("finish", summary="done")


class MemoryCatalog:
    """Finds scripted models in memory; keeps them so that a test can ask what they received."""

    def __init__(self) -> None:
        self.models: dict[str, ScriptedModel] = {}

    def find_model(self, agent: AgentSpec) -> Model:
        script = parse_script(agent.script)
        return self.models.setdefault(script.model_name, ScriptedModel(script))

    def find_renderer(self, adapter: str, renderer: int) -> Renderer | None:
        return find_chat_renderer(adapter, renderer)

    @property
    def received(self) -> list[str]:
        return [digest for model in self.models.values() for digest in model.received_digests]


class Yard:
    """A runner in memory with one batch."""

    def __init__(
        self,
        *turns: Sequence[Mapping[str, Any]],
        files: Mapping[str, bytes] = FILES,
        store: MemoryStore | None = None,
        make_host: Callable[..., Any] = MemorySandboxHost,
        **spec: Any,
    ) -> None:
        """Each turn is the list of calls of one reply; an empty one is a final text."""
        self.host = make_host({"/src": files}, programs=[PYTEST])
        self.store = store or MemoryStore()
        self.catalog = MemoryCatalog()
        self.clock = FixedClock()
        self.services = Services(
            store=self.store,
            queue=MemoryRunQueue(),
            host=self.host,
            models=self.catalog,
            clock=self.clock,
            entropy=FixedEntropy("1"),
            holder="here:boot:1:1",
            is_holder_gone=lambda _holder: False,
            passed_environment={},
            version="0",
        )
        self.activities: list[str] = []
        self.ended: list[str] = []
        self.batch = self.submit(make_spec(*turns, **spec))

    def submit(self, *tasks: TaskSpec, **batch: Any) -> Batch:
        """Store a batch of tasks."""
        values = {"name": "batch", "file": "/b.yaml", "tasks": tasks, **batch}
        return submit_batch(BatchSpec(**values), self.services, results=Path("/results"))

    @property
    def task(self) -> Task:
        """The first batch's first task, as stored."""
        with self.store.read() as view:
            return view.list_tasks(self.batch.batch_id)[0]

    @property
    def run(self) -> Run:
        """Its last run, as stored."""
        with self.store.read() as view:
            return view.list_runs(self.task.task_id)[-1]

    @property
    def items(self) -> list[RolloutItem]:
        """Its rollout."""
        with self.store.read() as view:
            return list(view.list_items(self.task.session_id))

    @property
    def results(self) -> list[ToolResult]:
        """The results of its calls, in order."""
        return [one.payload for one in self.items if isinstance(one.payload, ToolResult)]

    @property
    def bodies(self) -> list[str]:
        """Digests of the requests that its turns describe."""
        return [
            one.payload.body_digest for one in self.items if isinstance(one.payload, TurnContext)
        ]

    @property
    def calls(self) -> list[str]:
        """Ids of the calls that its model asked for."""
        messages = [one.payload for one in self.items if isinstance(one.payload, AssistantMessage)]
        return [one.call_id for message in messages for one in message.calls]

    def work(self, desk: Desk | None = None) -> Run:
        """Work on the first task's last run as one worker would."""
        work_run(self.run.run_id, self.services, desk or self.desk())
        return self.run

    def desk(self) -> Desk:
        """Return what a worker shares with others."""
        return Desk(
            verify_cache=VerifyCache(),
            limits=BatchLimits(),
            on_lease=lambda _task, _lease, _stop: lambda: None,
            on_activity=lambda _task, words: self.activities.append(words),
        )

    def cancelling_desk(self, reason: Any) -> Desk:
        """Return a desk that stops a run as soon as its lease was taken."""

        def on_lease(_task: Task, _lease: Lease, stop: Any) -> Any:
            stop.stop(reason)
            return lambda: None

        return replace(self.desk(), on_lease=on_lease)

    def noting_desk(self, stops: list[StopFlag]) -> Desk:
        """Return a desk that notes the flag of each claimed run."""

        def on_lease(_task: Task, _lease: Lease, stop: StopFlag) -> Callable[[], None]:
            stops.append(stop)
            return lambda: None

        return replace(self.desk(), on_lease=on_lease)

    def dispatcher(self, *, memory_mib: int = 100_000, **options: Any) -> Dispatcher:
        """Return a dispatcher for everything in the store."""
        size = HostSize(memory_mib=memory_mib, cpu_thousandths=2000)
        return Dispatcher(
            self.services,
            Capacity(size),
            options=DispatchOptions(**options),
            on_activity=lambda _task, words: self.activities.append(words),
            on_ended=lambda task: self.ended.append(task.spec.name),
        )


def make_spec(
    *turns: Sequence[Mapping[str, Any]],
    name: str = "repair",
    protect: Sequence[str] = (),
    policy: str = "repair",
    **changes: Any,
) -> TaskSpec:
    """Return a task whose agent asks for the turns' calls; verified when app.py is fixed."""
    replies = [{"text": "", "calls": list(calls)} for calls in turns]
    replies = [one if one["calls"] else {"text": "Done.", "calls": []} for one in replies]
    script = parse_script(json.dumps({"replies": replies}))
    loaded = load_policy(policy, folder=None)
    if protect:
        rules = make_constraint_rules(
            name="constraints[0]", protect=protect, forbid="", because="The user asked so."
        )
        loaded = with_change_rules(loaded, rules)
    values: dict[str, Any] = {
        "name": name,
        "goal": "Repair app.py.",
        "repo": RepositorySpec(kind="path", location="/src"),
        "image": "python",
        "policy": canonical_json(loaded.source).decode(),
        "agent": AgentSpec(kind=AgentKind.SCRIPTED, script=script.canonical_text),
        "budget": BudgetSpec(),
        "verify": VerifySpec(argv=("pytest",), restore=("tests/**",)),
    }
    return TaskSpec(**{**values, **changes})


__all__ = ["FILES", "FINISH", "FIX", "BatchBudget", "Yard", "call", "make_spec", "shell"]
