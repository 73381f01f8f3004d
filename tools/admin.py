"""Sends administration requests to a running Kafka cluster, again and again until a node can
answer.

It finds nodes, and error codes in any response; its caller makes the requests. It uses the codec of
``kwire.messages``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self, cast

from kwire import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from tools.wire_client import WireClient

#: REQUEST_TIMED_OUT, NOT_CONTROLLER, BROKER_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
#: COORDINATOR_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH,
#: DELEGATION_TOKEN_NOT_FOUND (the node has not read of it yet), and UNKNOWN_SERVER_ERROR, which a
#: node says that is just starting.
_ASK_AGAIN = frozenset({7, 41, 8, 14, 15, 6, 75, 62, -1})
_PAUSE_S = 0.1


class AdminError(Exception):
    """The cluster refused a request, or did not answer in time; the text holds request and error
    codes.
    """


class Admin:
    """Sends requests to the nodes in ``addresses``, and stays with the first that answers.

    With ``login`` (user, password) connections authenticate by SASL PLAIN. One thread at a time.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout_s: float = 30,
        login: tuple[str, str] | None = None,
    ) -> None:
        self._addresses = list(addresses)
        self._timeout_s = timeout_s
        self._login = login
        self._client: WireClient | None = None
        self._newest: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def send(
        self, request: Message, *, accept: Collection[int] = (), timeout_s: float | None = None
    ) -> Any:
        """Return the response of a node that can answer ``request``, at the newest common version.

        Error codes in ``accept`` are valid responses, as TOPIC_ALREADY_EXISTS is to a request that
        may have been sent twice. Raises AdminError.
        """
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                answer, version = self._call(request, max(deadline - time.monotonic(), 0.1))
                bad = [
                    (code, text)
                    for code, text in errors(answer.to_json(version))
                    if code not in accept
                ]
                if not bad:
                    return answer
                if not all(code in _ASK_AGAIN for code, _ in bad):
                    raise AdminError(f"{request.NAME} {request}: {bad}")
                trouble = f"{bad}"
            except (OSError, EOFError) as error:
                trouble = repr(error)
            self._hang_up()
            self._addresses.append(self._addresses.pop(0))
            if time.monotonic() > deadline:
                raise AdminError(f"{request.NAME}: no node carried it out in time: {trouble}")
            time.sleep(_PAUSE_S)

    def _call(self, request: Message, timeout_s: float) -> tuple[Message, int]:
        client = self._client or self._connect(timeout_s)
        client.set_timeout(timeout_s)
        key = cast(int, request.API_KEY)
        if key not in self._newest:
            raise AdminError(f"{self._addresses[0]} offers no {request.NAME}")
        version = min(self._newest[key], request.VERSIONS[-1])
        return client.call(request, version), version

    def _connect(self, timeout_s: float) -> WireClient:
        self._client = client = WireClient(self._addresses[0], timeout_s)
        if self._login is not None:
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = "\0".join(("", *self._login)).encode()
            answer = cast(Any, client.call(SaslAuthenticateRequest(auth_bytes=token), 2))
            if answer.error_code:
                raise AdminError(
                    f"{self._addresses[0]} refuses {self._login[0]}: {answer.error_message}"
                )
        # Version 3: every server of these days has it.
        versions = cast(
            Any,
            client.call(
                ApiVersionsRequest(client_software_name="tools", client_software_version="1"), 3
            ),
        )
        self._newest = {offered.api_key: offered.max_version for offered in versions.api_keys}
        return client

    def _hang_up(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()
            self._client = None


def errors(value: Any) -> Iterator[tuple[int, str | None]]:
    """Every error code but NONE in an answer's JSON form, with the message beside it."""
    if isinstance(value, list):
        for one in value:
            yield from errors(one)
    elif isinstance(value, dict):
        if value.get("errorCode"):
            yield value["errorCode"], value.get("errorMessage")
        for one in value.values():
            yield from errors(one)
