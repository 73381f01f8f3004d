"""The table: every advertised version is served, and the codec has it."""

from __future__ import annotations

import pytest

import kwire
from gateway.handlers import table
from gateway.handlers.context import Handler
from gateway.handlers.table import handlers


@pytest.mark.parametrize("handler", handlers().values(), ids=lambda handler: handler.name)
def test_versions_lie_inside_those_of_the_messages(handler: Handler) -> None:
    assert len(handler.versions) > 0 and handler.versions.step == 1
    assert all(version in handler.request_type(version).VERSIONS for version in handler.versions)
    newer = {version for version in handler.versions if version not in handler.old_requests}
    assert newer <= set(kwire.response_type(handler.api_key).VERSIONS)


@pytest.mark.parametrize("handler", handlers().values(), ids=lambda handler: handler.name)
def test_a_handler_is_named_after_its_api_and_is_one_for_brokers(handler: Handler) -> None:
    request = kwire.request_type(handler.api_key)
    assert request.NAME.removesuffix("Request").lower() == handler.name.replace("_", "")
    assert "broker" in request.LISTENERS


def test_no_unstable_version_is_offered() -> None:
    for handler in handlers().values():
        request = kwire.request_type(handler.api_key)
        assert not (request.LATEST_VERSION_UNSTABLE and request.VERSIONS[-1] in handler.versions), (
            handler.name
        )


def test_a_handler_is_found_by_key_and_version() -> None:
    fetch = handlers()[1]
    assert fetch.name == "fetch" and 18 in fetch.versions
    assert not {3, 19, -1} & set(fetch.versions)
    assert not {-1, 32767, 52} & handlers().keys()


def test_two_handlers_of_one_key_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MODULES", ("fetch", "metadata", "fetch"))
    with pytest.raises(ValueError, match="api key 1: both fetch and fetch"):
        table.handlers.__wrapped__()
