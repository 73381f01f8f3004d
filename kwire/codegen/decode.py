"""Emits the decoder of one message at one version: one flat function, everything inlined, runs of
fixed fields read at once.

A call per struct would cost 6 % and more, and a ``Struct.unpack_from`` for a run is cheaper than
any loop over its fields; the byte of the next length or tag count is read with the run.
``struct.error``, IndexError or one comparison at the end detects truncation, because a slice past
the end is only shorter. Every count is compared with the bytes left before its loop starts.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codegen.model import NONE, Field, Schema, Struct
from kwire.codegen.text import (
    BLOBS,
    FIXED,
    Formats,
    Helpers,
    Lines,
    default_expression,
    flexible_at,
    size_of,
    smallest,
)

#: Up to so many elements of fixed size are read one by one.
_FEW = 8


class DecodeEmitter:
    """Generates the decoder of one message version: ``def NAME(d, p, b)`` returns (object,
    position) from bytes ``d`` at position ``p``, with ``b`` elements still allowed.

    ``helpers`` maps each function that the decoder calls to its source.
    """

    def __init__(self, schema: Schema, version: int, formats: Formats, helpers: Helpers) -> None:
        self.schema, self.version, self.formats, self.helpers = schema, version, formats, helpers
        self.out = Lines()
        self.run: list[tuple[str, str]] = []
        self.after: list[str] = []
        self.depth = 0

    def message(self, name: str) -> str:
        """The text of the whole decoder."""
        root = self.schema.root
        with self.out.block(f"def {name}(d: bytes, p: int, b: int) -> tuple[{root.cls}, int]:"):
            self.out("e = len(d)")
            if any(f.type == "records" for s in self.schema.structs for f in s.at(self.version)):
                self.out("m = memoryview(d)")
            self.struct(root, "o")
            if any(
                _is_numbers(f)
                for s in self.schema.structs
                for f in s.fields
                if self.version in f.versions
            ):
                with self.out.block("if b < 0:"):
                    self.out("over_budget()")
            self.out("return o, p")
        return self.out.text()

    # --- runs of fixed fields
    # -------------------------------------------------------------------------------------

    def add(self, code: str, target: str, after: str = "") -> None:
        self.run.append((code, target))
        if after:
            self.after.append(after)

    def flush(self) -> None:
        """Read the run collected so far in one unpack."""
        if not self.run:
            return
        codes = [c for c, _ in self.run]
        targets = [t for _, t in self.run]
        if codes == ["B"]:
            self.out(f"{targets[0]} = d[p]")
        elif len(codes) == 1:
            self.out(f"{targets[0]} = {self.formats('u', codes)}(d, p)[0]")
        else:
            self.out(f"{', '.join(targets)} = {self.formats('u', codes)}(d, p)")
        self.out(f"p += {size_of(codes)}")
        for line in self.after:
            self.out(line)
        self.run, self.after = [], []

    def length(self, flexible: bool, code: str, *, string: bool = False) -> None:
        """Read a length or count into ``n``, which is one too high if it is compact."""
        self.add("B" if flexible else code, "n")
        self.flush()
        if flexible:
            with self.out.block("if n > 127:"):
                self.out(f"n, p = {'string_length' if string else 'more_varint'}(d, p, n)")

    # --- structs and fields
    # ---------------------------------------------------------------------------------------

    def struct(self, struct: Struct, var: str) -> None:
        """Make ``var``, a new ``struct``, and read it up to the end of its tag section."""
        self.flush()
        self.out(f"{var} = _new_{struct.cls}()")
        self.defaults(struct, var)
        for f in struct.at(self.version):
            self.field(f, f"{var}.{f.attr}")
        if self.version in self.schema.flexible:
            self.add("B", "n")
            self.flush()
            with self.out.block("if n:"):
                self.tags(struct, var)
        else:
            self.flush()

    def defaults(self, struct: Struct, var: str) -> None:
        """Fill what this version does not carry, and what tags may set later."""
        groups: dict[str, list[str]] = {}
        present = {f.attr for f in struct.at(self.version)}
        for f in struct.fields:
            if f.attr not in present:
                text = default_expression(f, shared=True)
                if text == "[]":
                    self.out(f"{var}.{f.attr} = []")
                else:
                    groups.setdefault(text, []).append(f"{var}.{f.attr}")
        groups.setdefault("()", []).append(f"{var}.unknown_tags")
        for text, targets in groups.items():
            self.out(f"{' = '.join(targets)} = {text}")

    def field(self, f: Field, target: str) -> None:
        if f.array:
            self.array(f, target)
        elif f.struct is not None:
            self.inner(f, target)
        elif f.type == "string":
            self.string(f, target)
        elif f.type in BLOBS:
            self.blob(f, target)
        elif f.type == "uuid":
            temp = f"u{len(self.run)}"
            self.add("16s", temp, f"{target} = Uuid({temp})")
        else:
            self.add(FIXED[f.type], target)

    def inner(self, f: Field, target: str) -> None:
        assert f.struct is not None
        self.depth += 1
        var = f"o{self.depth}"
        if self.version in f.nullable:
            # Outside a tag section a nullable struct is announced by a signed byte, any negative
            # one meaning null.
            self.add("b", "n")
            self.flush()
            with self.out.block("if n < 0:"):
                self.out(f"{target} = None")
            with self.out.block("else:"):
                self.struct(f.struct, var)
                self.out(f"{target} = {var}")
        else:
            self.struct(f.struct, var)
            self.out(f"{target} = {var}")
        self.depth -= 1

    def presence(self, f: Field, target: str, flexible: bool) -> bool:
        """Emit the code for a null length in ``n``; return True if the value must be read inside an
        ``else`` block.
        """
        nullable = self.version in f.nullable
        absent = "n == 0" if flexible else "n < 0"
        with self.out.block(f"if {absent}:"):
            self.out(f"{target} = None" if nullable else "null()")
        return nullable

    def string(self, f: Field, target: str) -> None:
        flexible = flexible_at(self.schema, f, self.version)
        self.length(flexible, "h", string=True)
        nested = self.presence(f, target, flexible)
        if nested:
            self.out("else:")
            self.out.level += 1
        self.out("q = p + n - 1" if flexible else "q = p + n")
        self.out(f"{target} = d[p:q].decode()")
        self.out("p = q")
        if nested:
            self.out.level -= 1

    def blob(self, f: Field, target: str) -> None:
        flexible = flexible_at(self.schema, f, self.version)
        self.length(flexible, "i")
        nested = self.presence(f, target, flexible)
        if nested:
            self.out("else:")
            self.out.level += 1
        self.out("q = p + n - 1" if flexible else "q = p + n")
        self.out(f"{target} = {'m' if f.type == 'records' else 'd'}[p:q]")
        self.out("p = q")
        if nested:
            self.out.level -= 1

    def array(self, f: Field, target: str) -> None:
        flexible = flexible_at(self.schema, f, self.version)
        if _is_numbers(f):
            self.numbers(f, target, flexible)
            return
        self.length(flexible, "i")
        nested = self.presence(f, target, flexible)
        if nested:
            self.out("else:")
            self.out.level += 1
        if flexible:
            self.out("n -= 1")
        least = smallest(self.schema, f, self.version)
        with self.out.block(f"if n > b or n{f' * {least}' if least > 1 else ''} > e - p:"):
            self.out("too_many(n, b)")
        self.out("b -= n")
        if f.struct is not None:
            self.struct_elements(f.struct, target)
        else:
            self.depth += 1
            items = f"l{self.depth}"
            self.out(f"{target} = {items} = []")
            with self.out.block("for _ in range(n):"):
                self.field(_element(f), "x")
                self.flush()
                self.out(f"{items}.append(x)")
            self.depth -= 1
        if nested:
            self.out.level -= 1

    def numbers(self, f: Field, target: str, flexible: bool) -> None:
        """An array of numbers. Short ones (nearly all) need no check of their own: their unpackers
        notice a missing byte.

        Their share of the budget is checked with the next count, or at the end.
        """
        code = FIXED[f.type]
        size = size_of([code])
        self.formats.used[f"_{code}s"] = f'_{code}s = array_unpackers("{code}")'
        self.add("B" if flexible else "i", "n")
        self.flush()
        with self.out.block("if 0 < n < 65:" if flexible else "if 0 <= n < 64:"):
            if flexible:
                self.out("n -= 1")
            self.out(f"{target} = [*_{code}s[n](d, p)]")
            self.out(f"p += n * {size}" if size > 1 else "p += n")
            self.out("b -= n")
        with self.out.block("else:"):
            nullable = self.version in f.nullable
            self.out(
                f'{target}, p, b = {"compact_" if flexible else ""}numbers(d, p, n, b, "{code}",'
                f" {nullable})"
            )

    def struct_elements(self, struct: Struct, target: str) -> None:
        self.depth += 1
        items, var = f"l{self.depth}", f"o{self.depth}"
        codes = self.fixed_codes(struct)
        if codes is not None:
            self.many_fixed(struct, target, codes)
            self.out("else:")
            self.out.level += 1
        self.out(f"{target} = {items} = []")
        with self.out.block("for _ in range(n):"):
            self.struct(struct, var)
            self.out(f"{items}.append({var})")
        if codes is not None:
            self.out.level -= 1
        self.depth -= 1

    def fixed_codes(self, struct: Struct) -> list[str] | None:
        """The format of a struct that holds nothing but fixed fields, or None."""
        fields = struct.at(self.version)
        if not fields or any(
            f.array or f.struct is not None or f.type not in FIXED for f in fields
        ):
            return None
        return [FIXED[f.type] for f in fields]

    def many_fixed(self, struct: Struct, target: str, codes: list[str]) -> None:
        """The branch for many elements of one size: all objects made at once, then all their values
        read at once.

        It is used while every tag section is empty, which the strided slice shows. For few elements
        setting this up costs more than it saves.
        """
        items, var, present = f"l{self.depth}", f"o{self.depth}", struct.at(self.version)
        condition = f"n > {_FEW}"
        if self.version in self.schema.flexible:
            size = size_of(codes)
            condition += f" and d[p + {size} : p + n * {size + 1} : {size + 1}].count(0) == n"
            codes = [*codes, "x"]
        with self.out.block(f"if {condition}:"):
            self.out(f"{target} = {items} = [*starmap(_new_{struct.cls}, repeat((), n))]")
            self.out(f"v = {self.formats('r', codes)}(d, p, n)")
            values = [
                f"u{i}" if f.type == "uuid" else f"{var}.{f.attr}" for i, f in enumerate(present)
            ]
            with self.out.block(
                f"for {', '.join([var, *values])} in"
                f" zip({', '.join([items, *('v' for _ in values)])}):"
            ):
                for value, f in zip(values, present, strict=True):
                    if f.type == "uuid":
                        self.out(f"{var}.{f.attr} = Uuid({value})")
                self.defaults(struct, var)
            self.out(f"p += n * {size_of(codes)}")

    # --- tagged fields
    # --------------------------------------------------------------------------------------------

    def tags(self, struct: Struct, var: str) -> None:
        """Read a tag section that is not empty; ``n`` is the first byte of its count."""
        known = struct.tagged_at(self.version)
        foreign = tuple(
            sorted(f.tag for f in struct.fields if f.tag is not None and f not in known)
        )
        if not known:
            tail = f", {foreign}" if foreign else ""
            self.out(f"{var}.unknown_tags, p, b = read_unknown_tags(d, p, n, b{tail})")
            return
        self.out(f"p, b = {self.tag_reader(struct, known, foreign)}(d, p, n, b, {var})")

    def tag_reader(self, struct: Struct, known: list[Field], foreign: tuple[int, ...]) -> str:
        """Make the function that reads a struct's known tags; returns its name."""
        inside = DecodeEmitter(self.schema, self.version, self.formats, self.helpers)
        out = inside.out
        out.level = 1
        out("e = len(d)")
        if any(f.type == "records" for f in known):
            out("m = memoryview(d)")
        out("count, p = (n, p) if n < 128 else more_varint(d, p, n)")
        with out.block("if count > b or count * 2 > e - p:"):
            out("too_many(count, b)")
        out("b -= count")
        out("unknown = []")
        with out.block("for _ in range(count):"):
            out("tag, size, p = read_tag(d, p)")
            out("end = p + size")
            for i, f in enumerate(known):
                with out.block(f"{'if' if i == 0 else 'elif'} tag == {f.tag}:"):
                    inside.tagged_value(f, f"o.{f.attr}")
                    with out.block("if p != end:"):
                        out(f"tag_size({f.tag}, size)")
            if foreign:
                with out.block(f"elif tag in {foreign}:"):
                    out("tag_of_other_version(tag)")
            with out.block("else:"):
                out("unknown.append((tag, d[p:end]))")
                out("p = end")
        with out.block("if unknown:"):
            out("o.unknown_tags = unknown")
        out("return p, b")
        body = out.text()
        signature = "(d: bytes, p: int, n: int, b: int, o: Any) -> tuple[int, int]"
        return self.helpers(f"_tags_{struct.cls}", self.version, signature, body)

    def tagged_value(self, f: Field, target: str) -> None:
        """A value inside a tag. A nullable struct begins with an unsigned varint there: 0 if it is
        null.
        """
        if f.struct is not None and not f.array:
            if self.version in f.nullable:
                self.length(True, "B")
                with self.out.block("if n == 0:"):
                    self.out(f"{target} = None")
                with self.out.block("else:"):
                    self.struct(f.struct, "t")
                    self.out(f"{target} = t")
            else:
                self.struct(f.struct, "t")
                self.out(f"{target} = t")
        else:
            self.field(f, target)
            self.flush()


def _is_numbers(f: Field) -> bool:
    """True for an array that one unpack reads."""
    return f.array and f.struct is None and f.type in FIXED and f.type not in ("uuid", "bool")


def _element(f: Field) -> Field:
    """The field that stands for one element of an array: never null."""
    return replace(f, array=False, nullable=NONE)
