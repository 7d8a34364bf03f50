import threading
import time

import pytest

from policies import digest_bytes
from runner.adapters.fixed_clock import FixedClock, FixedEntropy
from runner.adapters.model_catalog import HttpModelCatalog
from runner.domain.calls import ContextMessage, ModelRequest, Role
from runner.domain.script import parse_script
from runner.domain.task import AgentKind, AgentSpec
from runner.errors import MissingError, ModelUnavailableError, ScriptError


@pytest.fixture
def catalog():
    with HttpModelCatalog(clock=FixedClock(), entropy=FixedEntropy()) as opened:
        yield opened


def scripted(text: str) -> AgentSpec:
    script = parse_script(f'{{"replies": [{{"text": "{text}"}}]}}')
    return AgentSpec(kind=AgentKind.SCRIPTED, script=script.canonical_text)


def body_for(model) -> bytes:
    return model.render(
        ModelRequest(
            model=model.name,
            instructions="",
            tools=(),
            messages=(ContextMessage(role=Role.USER, text="go"),),
            max_output_tokens=10,
        )
    )


def test_each_script_is_a_model_of_its_own_on_one_server(catalog):
    one, other = catalog.find_model(scripted("one")), catalog.find_model(scripted("other"))

    replies = [model.complete(body_for(model), deadline_seconds=30) for model in (one, other)]

    assert [reply.text for reply in replies] == ["one", "other"]


def test_the_bytes_that_arrive_are_the_bytes_that_were_rendered(catalog):
    model = catalog.find_model(scripted("one"))
    body = body_for(model)

    model.complete(body, deadline_seconds=30)

    assert catalog.received_digests == (digest_bytes(body),)


def test_a_catalog_that_was_not_asked_has_started_nothing(catalog):
    assert catalog.received_digests == ()
    assert not any(one.name == "script-server" for one in threading.enumerate())


@pytest.mark.parametrize("kind", [AgentKind.MODEL, AgentKind.COMMAND])
def test_kinds_that_are_not_in_this_release_are_refused_by_name(catalog, kind):
    with pytest.raises(MissingError, match=f"kind '{kind.value}'"):
        catalog.find_model(AgentSpec(kind=kind))


def test_a_script_that_cannot_be_played_is_refused(catalog):
    with pytest.raises(ScriptError):
        catalog.find_model(AgentSpec(kind=AgentKind.SCRIPTED, script="{}"))


def test_renderers_are_found_by_what_a_turn_context_names(catalog):
    model = catalog.find_model(scripted("one"))

    renderer = catalog.find_renderer(model.adapter, model.renderer)

    assert renderer is not None
    assert catalog.find_renderer("anthropic", 1) is None


def test_closing_takes_less_than_a_second_with_an_idle_connection_open():
    with HttpModelCatalog(clock=FixedClock(), entropy=FixedEntropy()) as catalog:
        model = catalog.find_model(scripted("one"))
        model.complete(body_for(model), deadline_seconds=30)
        began = time.monotonic()
    took = time.monotonic() - began

    assert took < 1
    assert not any(one.name == "script-server" for one in threading.enumerate())
    with pytest.raises((ModelUnavailableError, RuntimeError)):
        model.complete(body_for(model), deadline_seconds=0.1)


def test_the_client_ignores_proxies_of_the_environment(catalog, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    model = catalog.find_model(scripted("one"))

    assert model.complete(body_for(model), deadline_seconds=30).text == "one"
