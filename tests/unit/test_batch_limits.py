"""Limits of a whole batch."""

import threading
from dataclasses import replace

import pytest
from run_builders import FINISH, FIX, Yard, make_spec, shell

from runner.application.batch_limits import BatchLimits, find_batch_limit
from runner.application.stopping import RunStoppedError, StopFlag, StopReason
from runner.domain.budget import Usage
from runner.domain.outcome import Outcome
from runner.domain.task import BatchBudget

GOOD = ([shell(FIX)], [FINISH])


def test_a_batch_makes_no_more_model_calls_at_once_than_it_says() -> None:
    yard = Yard(*GOOD)
    batch = yard.submit(make_spec(*GOOD), budget=BatchBudget(model_calls_parallel=1))
    limits, stop = BatchLimits(), StopFlag()
    stop.stop(StopReason.CANCELLED)

    with limits.model_call(batch, StopFlag()), pytest.raises(RunStoppedError):
        limits.model_call(batch, stop).__enter__()


def test_a_slot_is_free_again_after_the_call() -> None:
    yard = Yard(*GOOD)
    batch = yard.submit(make_spec(*GOOD), budget=BatchBudget(model_calls_parallel=1))
    limits = BatchLimits()
    with limits.model_call(batch, StopFlag()):
        pass

    with limits.model_call(batch, StopFlag()):
        pass


def test_money_spent_by_other_tasks_of_the_batch_ends_a_run() -> None:
    yard = Yard(*GOOD)
    first, second = make_spec(*GOOD, name="spent"), make_spec(*GOOD, name="poor")
    batch = yard.submit(first, second, budget=BatchBudget(cost_micro_usd=100))
    with yard.store.write() as writer:
        run = writer.list_last_runs(batch.batch_id)[0]
        writer.save_run(replace(run, usage=Usage(cost_micro_usd=100)), expected=run.state)
    yard.batch = batch

    hit = find_batch_limit(batch, yard.services)
    yard.dispatcher(batch_id=batch.batch_id).run(threading.Event())

    assert hit is not None
    assert (hit.allowed, hit.used) == (100, 100)
    with yard.store.read() as view:
        outcomes = {run.outcome for run in view.list_last_runs(batch.batch_id)}
    assert outcomes == {Outcome.BUDGET_EXHAUSTED}


def test_a_batch_without_a_money_limit_has_none() -> None:
    yard = Yard(*GOOD)

    assert find_batch_limit(yard.batch, yard.services) is None
