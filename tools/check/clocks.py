"""Finds verdicts by the clock in tests, and waiting that ``tests/waiting.py`` does not do.

Four rules. ``clock``: an ordering comparison with a time that was read, or with a name made of one.
``limit``: ``fail_after`` of less than 30 s. ``waits``: a function that is named as those of
``tests/waiting.py``. ``poll``: a loop that sleeps until its condition changes. A comparison of two
runs of one process, or a loop that only spends time, says so: ``# tidy: clock: REASON``.

It follows a time through names of one file, not through calls and attributes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

#: Modules that wait and measure for all tests.
_MAY: Final = ("tests/waiting.py", "tests/speed.py")
_CLOCKS: Final = re.compile(
    r"(monotonic|perf_counter|process_time|thread_time|current_time|time)(_ns)?"
)
#: Text that a file with a finding has. Only such a file has its expressions walked.
_SUSPECT: Final = re.compile(
    r"time\(|_ns\(|monotonic|perf_counter|fail_after|sleep\(|def _*(?:until|wait_|eventually)"
)
_WAITS: Final = re.compile(r"_*(until|wait_for|wait_until|eventually)")
#: A shorter limit can be reached on a busy machine, s.
_LIMIT_MIN_S: Final = 30
_ORDER: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: Calls whose result is a time if an argument is one.
_PASSES_ON: Final = ("abs", "float", "max", "min", "round", "sorted", "sum")

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Clock(NamedTuple):
    """One place that breaks a rule of this module."""

    line: int
    rule: str
    text: str


def findings(text: str, tree: ast.Module, name: str) -> Iterator[Clock]:
    """Each place of a test file that breaks a rule. ``name`` is its path from the top."""
    if not name.startswith("tests/") or name in _MAY or not _SUSPECT.search(text):
        return
    timed = _timed_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if any(isinstance(op, _ORDER) for op in node.ops):
                if any(_is_time(side, timed) for side in (node.left, *node.comparators)):
                    yield Clock(node.lineno, "clock", f"{ast.unparse(node)[:60]}: count work")
            case ast.Call(args=[ast.Constant(value=int() | float() as limit_s), *_]):
                if _name(node.func) == "fail_after" and limit_s < _LIMIT_MIN_S:
                    yield Clock(node.lineno, "limit", f"fail_after({limit_s}): 30 s or more")
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _WAITS.fullmatch(node.name):
                yield Clock(node.lineno, "waits", f"{node.name}: use tests/waiting.py")
            case ast.While() if not isinstance(node.test, ast.Constant) and _sleeps(node):
                yield Clock(node.lineno, "poll", "a loop that sleeps: use tests/waiting.py")


def _timed_names(tree: ast.Module) -> set[str]:
    """The names that get a time that was read, or something made of one."""
    timed: set[str] = set()
    gets = list(_gets(tree))
    while True:
        found = {name for name, value in gets if _is_time(value, timed)}
        if found <= timed:
            return timed
        timed |= found


def _gets(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of each assignment to a name, and of each element added to its list."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from ((_name(one), value) for one, value in zip(names, values, strict=False))
            case ast.Assign(targets=targets, value=value):
                yield from ((_name(one), value) for one in targets)
            case ast.AugAssign(target=target, value=value):
                yield _name(target), value
            case ast.NamedExpr(target=target, value=value):
                yield _name(target), value
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[value]):
                yield _name(owner), value


def _is_time(node: ast.expr, timed: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in timed
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _PASSES_ON:
            return any(_is_time(one, timed) for one in arguments)
        case ast.Call(func=function):
            return bool(_CLOCKS.fullmatch(_name(function)))
        case ast.BinOp(left=left, right=right):
            return _is_time(left, timed) or _is_time(right, timed)
    return False


def _name(node: ast.expr) -> str:
    """The last part of a dotted name; empty for other expressions."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _sleeps(loop: ast.While) -> bool:
    return any(isinstance(one, ast.Call) and _name(one.func) == "sleep" for one in ast.walk(loop))
