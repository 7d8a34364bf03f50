"""Prove a rollout: the chain holds, its anchors fit, and every request can be built again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies import digest_bytes
from runner.application.ports.model import ModelCatalog
from runner.application.services import Services
from runner.domain.context import rebuild_request
from runner.domain.ids import EvidenceId, TaskId
from runner.domain.items import RolloutItem, TurnContext
from runner.domain.records import Run
from runner.errors import DamagedRolloutError, NotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutProblem:
    """One thing that is not as it should be."""

    seq: int
    """Item, 0 = the rollout as a whole."""
    offset: int | None
    """Byte in the file that was read; None for a rollout in the store."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutProof:
    """What was checked and found."""

    items: int
    anchored: bool
    """Length and head hash fit the last ended run's row."""
    requests_sent: int
    requests_rebuilt: int
    problems: tuple[RolloutProblem, ...]

    @property
    def ok(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems


def verify_rollout(task_id: TaskId, services: Services) -> RolloutProof:
    """Check the rollout of a task in the store.

    Raises:
        NotFoundError: there is no such task.
    """
    with services.store.read() as view:
        task = view.get_task(task_id)
        runs = view.list_runs(task_id)
        try:
            items = view.list_items(task.session_id)
        except DamagedRolloutError as error:
            problem = RolloutProblem(seq=error.seq, offset=None, problem=error.problem)
            return _damaged(problem)
        anchors = _check_anchors(items, runs)
        turns = [item for item in items if isinstance(item.payload, TurnContext)]
        checked = [_check_turn(items, turn, services.models, view.get_evidence) for turn in turns]
    problems = [one for one in checked if one is not None]
    return RolloutProof(
        items=len(items),
        anchored=not anchors and any(run.head for run in runs),
        requests_sent=len(turns),
        requests_rebuilt=len(turns) - len(problems),
        problems=(*anchors, *problems),
    )


def _damaged(problem: RolloutProblem) -> RolloutProof:
    return RolloutProof(
        items=max(problem.seq - 1, 0),
        anchored=False,
        requests_sent=0,
        requests_rebuilt=0,
        problems=(problem,),
    )


def _check_anchors(items: Sequence[RolloutItem], runs: Sequence[Run]) -> list[RolloutProblem]:
    problems: list[RolloutProblem] = []
    for run in runs:
        if not run.state.terminal or not run.head:
            continue
        if run.items > len(items):
            text = f"run {run.run_id} was anchored at {run.items} items, {len(items)} are left"
            problems.append(RolloutProblem(seq=len(items), offset=None, problem=text))
        elif items[run.items - 1].hash != run.head:
            text = f"the item is not the one that run {run.run_id} was anchored at"
            problems.append(RolloutProblem(seq=run.items, offset=None, problem=text))
    return problems


def _check_turn(
    items: Sequence[RolloutItem],
    turn: RolloutItem,
    models: ModelCatalog,
    read_evidence: Callable[[EvidenceId], bytes],
) -> RolloutProblem | None:
    context = turn.payload
    assert isinstance(context, TurnContext)  # noqa: S101  chosen by kind above
    renderer = models.find_renderer(context.adapter, context.renderer)
    if renderer is None:
        text = f"this release has no renderer {context.renderer} of {context.adapter}"
        return RolloutProblem(seq=turn.seq, offset=None, problem=text)
    try:
        body = renderer.render(rebuild_request(items, turn, read_evidence))
    except NotFoundError as error:
        return RolloutProblem(seq=turn.seq, offset=None, problem=str(error))
    if digest_bytes(body) != context.body_digest:
        text = "the rebuilt request differs from the one that was sent"
        return RolloutProblem(seq=turn.seq, offset=None, problem=text)
    return None
