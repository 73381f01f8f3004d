"""No request pays for importing modules: the server has imported them soon after it is ready."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from gateway.server.scheduling.import_warmup import FIRST_USE_MODULES

ROOT = Path(__file__).parents[4]
#: Modules that run in the server and may import inside functions what the list does not name.
IMPORTED_OTHERWISE = {
    "gateway/app/node.py": "before the server is ready",
    "gateway/config/loading.py": "before the server is ready",
    "gateway/server/sources/metadata_source.py": "before the server is ready",
    "gateway/server/workers/worker_settings.py": "before the server is ready: workers start",
    "gateway/base/version.py": "before the server is ready",
    "gateway/security/client_properties.py": "before the server is ready",
    "gateway/security/key_stores.py": "before the server is ready: keys of a listener or client",
    "gateway/server/node_client/tls.py": "before the server is ready: keys of a listener or client",
    "gateway/security/ssl_principal.py": "the keys of a TLS listener have imported cryptography",
    "gateway/handlers/table.py": "before the server is ready: the tables are complete",
    "kwire/metadata_log/read.py": "Python programs follow a server with it, the server does not",
    "kwire/registry.py": "request classes are imported with the handlers",
    "kwire/records/compression.py": "3 to 5 ms for each codec, when a batch has that codec",
}


def imports_in_functions(tree: ast.AST) -> Iterator[str]:
    """Names of modules of this project, or of other packages, that functions in ``tree`` import."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module
                elif isinstance(node, ast.Import):
                    yield from (one.name for one in node.names)


def test_every_module_that_server_code_imports_on_first_use_is_listed() -> None:
    paths = [*ROOT.glob("gateway/**/*.py"), *ROOT.glob("kwire/*.py"), *ROOT.glob("kwire/*/*.py")]
    found = {}
    for path in paths:
        name = str(path.relative_to(ROOT))
        if name in IMPORTED_OTHERWISE or not served(name):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        missing = set(imports_in_functions(tree)) - {*FIRST_USE_MODULES, *sys.stdlib_module_names}
        if missing - {"gateway.handlers.table"}:
            found[name] = missing
    assert found == {}


def served(name: str) -> bool:
    """Whether the server imports the file: tools, the code generator, Spark and conformance
    have their own.
    """
    others = ("gateway/cli/", "kwire/__", "kwire/messages/", "kwire/codegen/", "kwire/spark/")
    return not name.startswith((*others, "kwire/reference/", "kwire/cli/", "kwire/conformance/"))


def test_started_server_has_imported_the_request_class_of_every_handler() -> None:
    program = textwrap.dedent(
        """
        import json, sys, trio
        from gateway.handlers.table import controller_handlers, handlers
        from gateway.server.scheduling.import_warmup import import_first_use_modules
        tables = (*handlers().values(), *controller_handlers().values())
        trio.run(import_first_use_modules, tables)
        before = set(sys.modules)
        for handler in tables:
            for version in {*handler.versions, *handler.old_requests}:
                handler.request_type(version)
        print(json.dumps(sorted(set(sys.modules) - before)))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == []
