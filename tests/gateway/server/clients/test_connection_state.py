"""Every state, every event: the transitions that the table lists happen, and no others."""

from __future__ import annotations

import itertools

import pytest

from gateway.server.clients.connection_state import (
    TRANSITIONS,
    ConnectionState,
    Event,
    ImpossibleTransition,
    State,
)

LISTED = [(state, event) for state, row in TRANSITIONS.items() for event in row]
PAIRS = list(itertools.product(State, Event))


def in_state(state: State) -> ConnectionState:
    connection = ConnectionState()
    connection.now = state
    return connection


def reachable(start: State) -> set[State]:
    """The states that a connection in ``start`` can enter, ``start`` included."""
    found, to_visit = {start}, [start]
    while to_visit:
        new = set(TRANSITIONS[to_visit.pop()].values()) - found
        found |= new
        to_visit.extend(new)
    return found


@pytest.mark.parametrize(("state", "event"), LISTED)
def test_listed_event_enters_the_next_state(state: State, event: Event) -> None:
    connection = in_state(state)
    connection.on(event)
    assert connection.now is TRANSITIONS[state][event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair not in LISTED])
def test_unlisted_event_raises_and_leaves_the_state(state: State, event: Event) -> None:
    connection = in_state(state)
    with pytest.raises(ImpossibleTransition, match=f"{event.name} in {state.name}"):
        connection.on(event)
    assert connection.now is state


def test_connection_begins_with_the_handshake() -> None:
    assert ConnectionState().now is State.HANDSHAKE


def test_every_state_can_be_reached_from_the_first() -> None:
    assert reachable(State.HANDSHAKE) == set(State)


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED])
def test_open_connection_can_be_cut_drained_and_closed(state: State) -> None:
    assert TRANSITIONS[state][Event.CUT] is State.CUT
    assert Event.DRAIN in TRANSITIONS[state]
    if state is State.HANDLING:  # handlers return, or raise, before the task ends
        state = TRANSITIONS[state][Event.HANDLED]
    assert TRANSITIONS[state][Event.CLOSE] is State.CLOSED


def test_closed_connection_stays_closed() -> None:
    assert reachable(State.CLOSED) == {State.CLOSED}


def test_cut_connection_can_only_close() -> None:
    assert reachable(State.CUT) == {State.CUT, State.CLOSED}


@pytest.mark.parametrize("state", [State.DRAINING, State.DRAINING_PENDING, State.CUT, State.CLOSED])
def test_draining_connection_never_handles_a_request_again(state: State) -> None:
    for following in reachable(state):
        assert Event.REQUEST not in TRANSITIONS[following]
        assert not in_state(following).takes_requests


@pytest.mark.parametrize("state", State)
def test_requests_are_handled_only_when_every_response_is_sent(state: State) -> None:
    assert in_state(state).takes_requests is (state is State.READY)
    assert (Event.REQUEST in TRANSITIONS[state]) is (state in (State.READY, State.HANDLING))


@pytest.mark.parametrize("state", State)
def test_response_can_complete_if_and_only_if_one_is_awaited(state: State) -> None:
    # A cut connection may still await one: its task has not noticed the cut.
    completes = Event.COMPLETED in TRANSITIONS[state] and state is not State.CUT
    assert in_state(state).is_awaiting_response is completes
