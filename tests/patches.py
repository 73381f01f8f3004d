"""Puts other attributes into objects while a context lasts: how bugs are seeded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock


def patched(owner: Any, **new: Any) -> AbstractContextManager[Any]:
    """``owner`` with other attributes while the context lasts."""
    patch: AbstractContextManager[Any] = mock.patch.multiple(owner, **new)
    return patch


@contextlib.contextmanager
def together(*contexts: AbstractContextManager[Any]) -> Iterator[None]:
    """Enter all ``contexts`` at once."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
