"""Emits the encoder of one message at one version: pieces handed to ``w`` (a list's append), joined
by the caller.

Runs of fixed fields are packed at once, together with the length that follows them.
``struct.error`` and similar exceptions check types and ranges: the caller turns them into an
EncodeError that names the field. A field that the version lacks must hold its default unless it is
ignorable (Kafka's rule).
"""

from __future__ import annotations

from kwire.codegen.decode import _element
from kwire.codegen.model import Field, Schema, Struct
from kwire.codegen.text import BLOBS, FIXED, Formats, Helpers, Lines, flexible_at, not_default


class EncodeEmitter:
    """Generates the encoder of one message version, ``def NAME(o, w)``. ``helpers`` maps each
    function that the encoder calls to its source.
    """

    def __init__(self, schema: Schema, version: int, formats: Formats, helpers: Helpers) -> None:
        self.schema, self.version, self.formats, self.helpers = schema, version, formats, helpers
        self.out = Lines()
        self.run: list[tuple[str, str]] = []
        self.depth = 0

    def message(self, name: str) -> str:
        """The text of the whole encoder."""
        with self.out.block(
            f"def {name}(o: {self.schema.root.cls}, w: Callable[[Any], None]) -> None:"
        ):
            before = len(self.out.lines)
            self.struct(self.schema.root, "o")
            if len(self.out.lines) == before:
                self.out("pass")
        return self.out.text()

    # --- runs of fixed fields
    # -------------------------------------------------------------------------------------

    def flush(self, *more: tuple[str, str], keep: bool = False) -> None:
        """Pack the run and ``more`` behind it; with ``keep`` the run stays for another branch."""
        run = [*self.run, *more]
        if run:
            codes = [c for c, _ in run]
            values = ", ".join(v for c, v in run if c != "x")
            if codes == ["x"]:
                self.out('w(b"\\0")')
            else:
                self.out(f"w({self.formats('p', codes)}({values}))")
        if not keep:
            self.run = []

    def length(self, value: str, flexible: bool, code: str, *, string: bool = False) -> None:
        """Write the run and a length: ``n`` is assigned the compact form (one more) or the plain
        one.
        """
        if not flexible:
            self.flush((code, value))
            return
        self.out(f"n = {value} + 1")
        with self.out.block("if n < 128:"):
            self.flush(("B", "n"), keep=True)
        with self.out.block("else:"):
            self.flush()
            self.out(f"w({'string_varint' if string else 'varint'}(n))")

    # --- structs and fields
    # ---------------------------------------------------------------------------------------

    def struct(self, struct: Struct, var: str) -> None:
        """Write ``var`` up to the end of its tag section; leaves nothing in the run."""
        self.absent(struct, var)
        for f in struct.at(self.version):
            self.field(f, f"{var}.{f.attr}")
        if self.version not in self.schema.flexible:
            self.flush()
            return
        known = struct.tagged_at(self.version)
        condition = " or ".join(
            [f"{var}.unknown_tags", *(not_default(f, f"{var}.{f.attr}") for f in known)]
        )
        with self.out.block(f"if {condition}:"):
            self.flush(keep=True)
            writer = self.tag_writer(struct, known) if known else None
            self.out(f"w({writer}({var}))" if writer else f"w(unknown_tags({var}.unknown_tags))")
        with self.out.block("else:"):
            self.flush(("x", ""))

    def absent(self, struct: Struct, var: str) -> None:
        """Refuse values that would be lost: fields without a place in this version, unless
        ignorable.
        """
        for f in struct.fields:
            if self.version not in f.versions and not f.ignorable:
                with self.out.block(f"if {not_default(f, f'{var}.{f.attr}')}:"):
                    self.out(f"lost({f.name!r})")
        if self.version not in self.schema.flexible:
            with self.out.block(f"if {var}.unknown_tags:"):
                self.out('lost("unknown_tags")')

    def field(self, f: Field, value: str) -> None:
        if f.array:
            self.array(f, value)
        elif f.struct is not None:
            self.inner(f, value)
        elif f.type == "string" or f.type in BLOBS:
            self.blob(f, value)
        elif f.type == "uuid":
            with self.out.block(f"if len({value}) != 16:"):
                self.out("bad_uuid()")
            self.run.append(("16s", value))
        else:
            self.run.append((FIXED[f.type], value))

    def inner(self, f: Field, value: str) -> None:
        assert f.struct is not None
        self.depth += 1
        var = f"o{self.depth}"
        self.out(f"{var} = {value}")
        if self.version in f.nullable:
            with self.out.block(f"if {var} is None:"):
                self.flush(("b", "-1"), keep=True)
            with self.out.block("else:"):
                self.run.append(("b", "1"))
                self.struct(f.struct, var)
        else:
            self.struct(f.struct, var)
        self.depth -= 1

    def null(self, f: Field, name: str, flexible: bool, code: str) -> bool:
        """Write null where allowed; True if the value must be written inside an ``else`` block."""
        if self.version not in f.nullable:
            return False
        with self.out.block(f"if {name} is None:"):
            self.flush(("x", "") if flexible else (code, "-1"), keep=True)
        self.out("else:")
        self.out.level += 1
        return True

    def blob(self, f: Field, value: str) -> None:
        flexible = flexible_at(self.schema, f, self.version)
        string = f.type == "string"
        code = "h" if string else "i"
        self.out(f"s = {value}")
        nested = self.null(f, "s", flexible, code)
        if string:
            self.out("s = s.encode()")
        elif f.type != "records":
            with self.out.block("if s.__class__ is not bytes:"):
                self.out("s = as_bytes(s)")
        self.length("len(s)", flexible, code, string=string)
        self.out("w(s)")
        if nested:
            self.out.level -= 1

    def array(self, f: Field, value: str) -> None:
        flexible = flexible_at(self.schema, f, self.version)
        self.depth += 1
        items, var = f"l{self.depth}", f"o{self.depth}"
        self.out(f"{items} = {value}")
        nested = self.null(f, items, flexible, "i")
        self.length(f"len({items})", flexible, "i")
        if (
            f.struct is not None
            or f.type == "string"
            or f.type in BLOBS
            or f.type in ("uuid", "bool")
        ):
            with self.out.block(f"for {var} in {items}:"):
                before = len(self.out.lines)
                if f.struct is not None:
                    self.struct(f.struct, var)
                else:
                    self.field(_element(f), var)
                    self.flush()
                if len(self.out.lines) == before:
                    self.out("pass")
        else:
            code = FIXED[f.type]
            self.formats.used[f"_{code}w"] = f'_{code}w = array_packers("{code}")'
            self.out(f"n = len({items})")
            with self.out.block("if n:"):
                self.out(f'w(_{code}w[n](*{items}) if n < 64 else pack_numbers({items}, "{code}"))')
        if nested:
            self.out.level -= 1
        self.depth -= 1

    # --- tagged fields
    # --------------------------------------------------------------------------------------------

    def tag_writer(self, struct: Struct, known: list[Field]) -> str:
        """Make the function that builds a whole tag section; returns its name."""
        inside = EncodeEmitter(self.schema, self.version, self.formats, self.helpers)
        out = inside.out
        out.level = 1
        out("tags: list[tuple[int, bytes]] = []")
        for f in known:
            with out.block(f"if {not_default(f, f'o.{f.attr}')}:"):
                out("v: list[Any] = []")
                out("w = v.append")
                inside.tagged_value(f, f"o.{f.attr}")
                out(f'tags.append(({f.tag}, b"".join(v)))')
        out("return tag_section(tags, o.unknown_tags)")
        return self.helpers(
            f"_write_tags_{struct.cls}", self.version, "(o: Any) -> bytes", out.text()
        )

    def tagged_value(self, f: Field, value: str) -> None:
        """A value inside a tag; a nullable struct starts with an unsigned varint 0 (null) or 1
        there.
        """
        if f.struct is not None and not f.array:
            self.out(f"t = {value}")
            if self.version in f.nullable:
                with self.out.block("if t is None:"):
                    self.flush(("x", ""), keep=True)
                with self.out.block("else:"):
                    self.run.append(("B", "1"))
                    self.struct(f.struct, "t")
            else:
                self.struct(f.struct, "t")
        else:
            self.field(f, value)
            self.flush()
