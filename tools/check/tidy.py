"""Keeps the text of the tree plain: words, headings, widths, lengths and constructs that are out.

``findings`` returns each rule that a file breaks, with its line. It reads files only; it does not
judge whether a sentence is true or good. Limits that the tree does not meet yet are a ratchet in
``tidy.json``: a count may fall, never rise. ``python -m tools.check tidy --fix`` writes lower
counts; a higher one needs an edit by hand, and a reason in the commit.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RATCHET: Final = Path(__file__).with_name("tidy.json")
CODE_WIDTH: Final = 100
PROSE_WIDTH: Final = 120
FUNCTION_LINES_MAX: Final = 60
FILE_LINES_MAX: Final = 400

#: Words of no field that the text of this project once used, and what to write instead.
_WORDS_OUT: Final = {
    r"whoever|whomever|whosoever": "name the actor",
    r"(?:some|any|every)body('s)?|nobody('s)?": "name the actor, or write 'no client', 'every node'",
    r"the house|of the house|the stones?|lowest stone": "the package, the gateway",
    r"(?:next|front|back) door|doors?": "listener",
    r"strangers?": "a client, a peer, a reader",
    r"guests?": "HTTP connection",
    r"(?:takes?|left|lost|its|in) office": "leadership",
    r"keeps? an account|the account of|account of (?:who|changes)": "audit log, audit entry",
    r"rng": "random numbers, jitter",
    r"witness(?:es)?": "non-electable voter",
    r"nonsense": "invalid response, protocol violation",
    r"amnesia": "lost quorum state",
    r"of ours|ours|theirs": "this node's, the peer's",
    r"rooms?": "package, space",
    r"the rim|floors?": "layer",
}
_WORD_OUT: Final = re.compile(
    "|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(_WORDS_OUT)), re.IGNORECASE
)
#: Names that were replaced by the field's own.
_NAMES_OUT: Final = re.compile(
    r"\b(Later|Hub|Guard|Exchange|Door|Rooms|Fate|Guests?|Wish|Asker|PassingOn|NotPassedOn|Office"
    r"|Nonsense|Spliced|Waiters|Verdict|Amnesia|ImageKeeper|LogKeeper|AuditKeeper|SmallFiles)\b"
)
_RIDDLES: Final = "Who|Whom|Whoever|Whose|What|Whatever|Nobody|Somebody|Everybody|Anybody"
#: A docstring, comment or heading that begins so hides its actor.
_HEAD_OUT: Final = re.compile(rf"^({_RIDDLES})\b")
#: So does a sentence that follows another one.
_SENTENCE_OUT: Final = re.compile(rf"[a-z`)][.;:] ({_RIDDLES})\b(?![^.?]*\?)")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")


class Finding(NamedTuple):
    """One place that breaks a rule. ``rule`` is the ratchet's key, ``line`` counts from 1."""

    path: str
    line: int
    rule: str
    text: str


def findings(path: Path, name: str) -> Iterator[Finding]:
    """Each rule that the file breaks. ``name`` is its path from the top of the tree."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _code(text, name)
    else:
        yield from _page(text, name)


def _code(text: str, name: str) -> Iterator[Finding]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield Finding(name, 1, "file-length", f"{len(lines)} lines")
    for number, line in enumerate(lines, 1):
        # A formatter cannot wrap these comments, which must stand on the line that they speak of.
        line = re.sub(r"  # (?:type: ignore|noqa|fmt: skip).*", "", line)
        if len(line) > CODE_WIDTH:
            yield Finding(name, number, "width", f"{len(line)} columns")
    tree = ast.parse(text)
    for number, prose in _prose(text, tree):
        yield from _words(name, number, prose)
        if head := _HEAD_OUT.match(prose):
            yield Finding(name, number, "head", f"begins with {head[1]}: name the actor")
    yield from _constructs(name, tree)


def _prose(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of each line of a docstring, and of each comment."""
    starts = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                starts.add(first.lineno)
    after_comment = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            content = token.string.lstrip("#: ")
            # The second line of a comment goes on with a sentence: only the first has a head.
            yield token.start[0], content if after_comment != token.start[0] - 1 else " " + content
            after_comment = token.start[0]
        elif token.type == tokenize.STRING and token.start[0] in starts:
            content = token.string.lstrip("rR").removeprefix('"""').removesuffix('"""')
            for number, line in enumerate(content.splitlines()):
                yield token.start[0] + number, line if number == 0 else "  " + line.strip()


def _words(name: str, number: int, prose: str) -> Iterator[Finding]:
    plain = re.sub(r"``[^`]*``|`[^`]*`", "", prose)
    for found in _WORD_OUT.finditer(plain):
        instead = list(_WORDS_OUT.values())[int((found.lastgroup or "w0")[1:])]
        yield Finding(name, number, "word", f"{found[0]!r}: write {instead}")
    for found in _SENTENCE_OUT.finditer(prose):
        yield Finding(name, number, "head", f"begins with {found[1]}: name the actor")


def _constructs(name: str, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield Finding(name, node.lineno, "function-length", f"{node.name}: {length} lines")
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            if any(isinstance(one, ast.Constant) and one.value is True for one in node.values):
                yield Finding(name, node.lineno, "or-true", "`or True` is always true")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # Tests may run the code of documents; programs never make code at run time.
            if node.func.id in ("exec", "eval") and not name.startswith("tests/"):
                yield Finding(name, node.lineno, "exec", f"{node.func.id} of text at run time")
        elif isinstance(node, ast.Assign):
            target = ast.unparse(node.targets[0])
            if target.startswith("sys.modules[") and ast.unparse(node.value) == "None":
                yield Finding(
                    name, node.lineno, "hidden-module", "a module is hidden from importers"
                )
        if isinstance(node, (ast.Name, ast.ClassDef)):
            ident = node.id if isinstance(node, ast.Name) else node.name
            if _NAMES_OUT.fullmatch(ident):
                yield Finding(name, node.lineno, "name", f"{ident} has a name of the field")


def _page(text: str, name: str) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or line.startswith(("|", "[")):
            continue
        if len(line) > PROSE_WIDTH:
            yield Finding(name, number, "width", f"{len(line)} columns")
        yield from _words(name, number, line)
        if (head := _HEAD_OUT.match(line.lstrip("#>*- "))) and line.startswith("#"):
            yield Finding(name, number, "head", f"begins with {head[1]}: name the subject")


def over_ratchet(found: list[Finding], allowed: dict[str, dict[str, int]]) -> list[Finding]:
    """The findings of each file and rule whose count is above what the ratchet allows."""
    counts = Counter((one.path, one.rule) for one in found)
    return [
        one
        for one in found
        if counts[one.path, one.rule] > allowed.get(one.path, {}).get(one.rule, 0)
    ]


def counted(found: list[Finding]) -> dict[str, dict[str, int]]:
    """The ratchet as these findings have it: file -> rule -> count, sorted."""
    table: dict[str, dict[str, int]] = {}
    for (path, rule), count in sorted(Counter((one.path, one.rule) for one in found).items()):
        table.setdefault(path, {})[rule] = count
    return table


def read_ratchet() -> dict[str, dict[str, int]]:
    """The committed counts; empty where there is no file."""
    return json.loads(RATCHET.read_text(encoding="utf-8")) if RATCHET.is_file() else {}


def write_ratchet(found: list[Finding]) -> None:
    """Write the counts of ``found`` where they are lower than the committed ones."""
    allowed, now = read_ratchet(), counted(found)
    lower = {
        path: {
            rule: min(count, now[path][rule]) for rule, count in rules.items() if rule in now[path]
        }
        for path, rules in allowed.items()
        if path in now
    }
    kept = {path: rules for path, rules in lower.items() if rules}
    RATCHET.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
