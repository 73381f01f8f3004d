"""Keeps the text of the tree plain: words, headings, widths, lengths and constructs that are out.

``findings`` returns each rule that a file breaks, with its line. It reads files only; it does not
judge whether a sentence is true or good. Limits that the tree does not meet yet are a ratchet in
``tidy.json``: a count may fall, never rise. ``python -m tools.check tidy --fix`` writes lower
counts; a higher one needs an edit by hand, and a reason in the commit.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tools.check import clocks

RATCHET: Final = Path(__file__).with_name("tidy.json")
CODE_WIDTH: Final = 100
PROSE_WIDTH: Final = 120
FUNCTION_LINES_MAX: Final = 60
#: A file this long is counted in the report; one longer than the second needs a reason.
FILE_LINES_LONG: Final = 400
FILE_LINES_MAX: Final = 600

#: Words of no field that the text of this project once used, and what to write instead.
_WORDS_OUT: Final = {
    r"whoever|whomever|whosoever": "name the actor",
    r"(?:some|any|every)body('s)?|nobody('s)?": "name the actor, or 'no client', 'every node'",
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
#: The word boundary stands before the alternatives, so that most places are passed over at once.
_WORD_OUT: Final = re.compile(
    rf"\b(?:{'|'.join(rf'(?P<w{n}>{words})' for n, words in enumerate(_WORDS_OUT))})\b",
    re.IGNORECASE,
)
_INSTEAD: Final = {f"w{n}": instead for n, instead in enumerate(_WORDS_OUT.values())}
#: The strings and comments of a file. ``tokenize`` finds the same ones in ten times the time.
_STRING_OR_COMMENT: Final = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |"{3} (?:[^"\\]|\\.|"(?!""))* "{3} | '{3} (?:[^'\\]|\\.|'(?!''))* '{3}
    |" (?:[^"\\\n]|\\.)* " | ' (?:[^'\\\n]|\\.)* ' """,
    re.DOTALL | re.VERBOSE,
)
#: Comments that tools read. A formatter cannot wrap them.
_TOOL_COMMENT: Final = re.compile(r"  # (?:type: ignore|noqa|fmt: skip).*")
#: Names that were replaced by the field's own.
_NAMES_OUT: Final = re.compile(
    r"\b(Later|Hub|Guard|Exchange|Door|Rooms|Fate|Guests?|Wish|Asker|PassingOn|NotPassedOn|Office"
    r"|Nonsense|Spliced|Waiters|Verdict|Amnesia|ImageKeeper|LogKeeper|AuditKeeper|SmallFiles)\b"
)
#: Text that a file with a forbidden construct must have. Only such a file has its expressions
#: walked: those of the whole tree are a million nodes, its statements a tenth of that.
_SUSPECT: Final = re.compile(
    rf"{_NAMES_OUT.pattern}|\b(?:exec|eval|modules)\b|\bTrue[\s)]+or\b|\bor[\s(]+True\b"
)
_RIDDLES: Final = "Who|Whom|Whoever|Whose|What|Whatever|Nobody|Somebody|Everybody|Anybody"
#: A docstring, comment or heading that begins so hides its actor.
_HEAD_OUT: Final = re.compile(rf"^({_RIDDLES})\b")
#: So does a sentence that follows another one.
_SENTENCE_OUT: Final = re.compile(rf"[a-z`)][.;:] ({_RIDDLES})\b(?![^.?]*\?)")
_ALLOWED: Final = re.compile(r"# tidy: ([a-z-]+): \S")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")


_Defined: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One place that breaks a rule. ``rule`` is the ratchet's key, ``line`` counts from 1."""

    path: str
    line: int
    rule: str
    text: str


def findings(path: Path, name: str) -> Iterator[Finding]:
    """Each rule that the file breaks. ``name`` is its path from the top of the tree.

    ``# tidy: RULE: REASON`` in the line above a place, or in its own, allows that place to break
    the rule.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from _page(text, name)
        return
    lines = text.splitlines()
    for one in _code(text, name):
        reasons = [_ALLOWED.search(line) for line in lines[max(0, one.line - 2) : one.line]]
        if not any(reason and reason[1] == one.rule for reason in reasons):
            yield one


def is_long(path: Path) -> bool:
    """True for code of more than ``FILE_LINES_LONG`` lines: a warning, not a finding."""
    return path.suffix == ".py" and path.read_bytes().count(b"\n") > FILE_LINES_LONG


def _code(text: str, name: str) -> Iterator[Finding]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield Finding(name, 1, "file-length", f"{len(lines)} lines")
    for number, line in enumerate(lines, 1):
        if len(line) > CODE_WIDTH and len(line := _TOOL_COMMENT.sub("", line)) > CODE_WIDTH:
            yield Finding(name, number, "width", f"{len(line)} columns")
    tree = ast.parse(text)
    docstrings = set()
    for node in _defined(tree):
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            docstrings.add(first.lineno)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield Finding(name, node.lineno, "function-length", f"{node.name}: {length} lines")
    for number, prose in _prose(text, docstrings):
        yield from _words(name, number, prose)
        if head := _HEAD_OUT.match(prose):
            yield Finding(name, number, "head", f"begins with {head[1]}: name the actor")
    for one in clocks.findings(text, tree, name):
        yield Finding(name, *one)
    if _SUSPECT.search(text):
        for expression in ast.walk(tree):
            yield from _constructs(name, expression)


def _defined(tree: ast.Module) -> Iterator[_Defined]:
    """The module, and the classes and functions in it at any depth."""
    yield tree
    unseen: list[ast.AST] = [*tree.body]
    while unseen:
        node = unseen.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            # A lambda and a conditional expression have a body, too, which is no list.
            if isinstance(inside := getattr(node, block, None), list):
                unseen += inside


def _prose(text: str, docstrings: set[int]) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment, and of each line of a docstring; these begin at those lines."""
    line, position, after_comment = 1, 0, -1
    for found in _STRING_OR_COMMENT.finditer(text):
        line += text.count("\n", position, found.start())
        position = found.start()
        if found["comment"]:
            content = found["comment"].lstrip("#: ")
            # The second line of a comment goes on with a sentence: only the first has a head.
            yield line, content if after_comment != line - 1 else " " + content
            after_comment = line
        elif line in docstrings:
            content = found[0].removeprefix('"""').removesuffix('"""')
            for number, part in enumerate(content.splitlines(), line):
                yield number, part if number == line else "  " + part.strip()


def _words(name: str, number: int, prose: str) -> Iterator[Finding]:
    plain = re.sub(r"``[^`]*``|`[^`]*`", "", prose) if "`" in prose else prose
    for found in _WORD_OUT.finditer(plain):
        instead = _INSTEAD[found.lastgroup or ""]
        yield Finding(name, number, "word", f"{found[0]!r}: write {instead}")
    for found in _SENTENCE_OUT.finditer(prose):
        yield Finding(name, number, "head", f"begins with {found[1]}: name the actor")


def _constructs(name: str, node: ast.AST) -> Iterator[Finding]:
    match node:
        case ast.BoolOp(op=ast.Or()):
            if any(isinstance(one, ast.Constant) and one.value is True for one in node.values):
                yield Finding(name, node.lineno, "or-true", "`or True` is always true")
        case ast.Call(func=ast.Name(id="exec" | "eval" as called)):
            # Tests may run the code of documents; programs never make code at run time.
            if not name.startswith("tests/"):
                yield Finding(name, node.lineno, "exec", f"{called} of text at run time")
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"))],
            value=ast.Constant(value=None),
        ):
            yield Finding(name, node.lineno, "hidden-module", "a module is hidden from importers")
        case ast.Name(id=ident) | ast.ClassDef(name=ident) if _NAMES_OUT.fullmatch(ident):
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
