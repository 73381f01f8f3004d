"""The server-side assignors of consumer groups, by name (``group.consumer.assignors``)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from gateway.base.slices import Slices
from gateway.groups.consumer.assignors import range_assignor, uniform_assignor
from gateway.groups.consumer.assignors.group_spec import GroupAssignment, GroupSpec

ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec], Slices[GroupAssignment]]]] = MappingProxyType(
    {
        uniform_assignor.NAME: uniform_assignor.assign,
        range_assignor.NAME: range_assignor.assign,
    }
)

__all__ = ["ASSIGNORS"]
