"""Reads the configuration from flags, environment and a properties file, in this precedence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.base.java.text import trim
from gateway.config.checks import check
from gateway.config.config import ENVIRONMENT_PREFIX, Config, ConfigError
from gateway.config.keys import ALIASES, KEYS
from gateway.config.security import LISTENER_KEYS, NODE_KEYS, is_security_key, key_of_variable
from gateway.config.values import read_properties_text


def load_config(
    *,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Put a Config together: flags before environment before file before defaults.

    ``flags`` maps key names to texts, ``environment`` is the process's. Raises ConfigError with
    every problem found.
    """
    problems: list[str] = []
    texts = given_texts(problems, flags=flags, environment=environment, file=file)
    values: dict[str, Any] = {
        "security": {name: trim(text) for name, (_, text) in texts.items() if name not in KEYS}
    }
    for name, (where, text) in texts.items():
        if name not in KEYS:
            continue
        key = KEYS[name]
        try:
            values[key.attribute] = key.parse(trim(text))
        except ValueError as error:
            problems.append(f"{name} ({where}): {error}")
    try:
        config = check(Config(**values))
    except ConfigError as error:
        problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return config


def given_texts(
    problems: list[str],
    *,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> dict[str, tuple[str, str]]:
    """Return, by key, the flag, variable or file that gives it, and its text. Faults are appended
    to ``problems``.
    """
    texts: dict[str, tuple[str, str]] = {}
    if file is not None:
        texts.update(_from_file(file, problems))
    texts.update(_from_environment(environment or {}, problems))
    texts.update(
        {name: (f"--{name.replace('.', '-')}", text) for name, text in (flags or {}).items()}
    )
    return texts


def nearest_key(name: str) -> str | None:
    """The known key that is most similar to ``name``, or None if none is similar."""
    near = difflib.get_close_matches(
        name, [*KEYS, *ALIASES, *LISTENER_KEYS, *NODE_KEYS], n=1, cutoff=0.75
    )
    return near[0] if near else None


def _from_file(file: Path, problems: list[str]) -> dict[str, tuple[str, str]]:
    import javaproperties

    try:
        content = read_properties_text(file, "utf-8")
        pairs = [
            (p.key, p.value)
            for p in javaproperties.parse(content)
            if isinstance(p, javaproperties.KeyValue)
        ]
    except OSError as error:
        problems.append(f"--config {file}: cannot be read: {error.strerror or error}")
        return {}
    except ValueError as error:  # a wrong \u escape, bytes that are not UTF-8
        problems.append(f"--config {file}: cannot be read: {error}")
        return {}
    found: dict[str, tuple[str, str]] = {}
    for name, text in pairs:
        known = ALIASES.get(name, name)
        if known not in KEYS and not is_security_key(known):
            near = nearest_key(name)
            problems.append(
                f"{name} ({file}): unknown key" + (f"; did you mean {near}?" if near else "")
            )
        elif known in found:
            problems.append(f"{known} ({file}): given twice")
        else:
            found[known] = (str(file), text)
    return found


def _from_environment(
    environment: Mapping[str, str], problems: list[str]
) -> dict[str, tuple[str, str]]:
    # Other programs set variables with this prefix, too (Kubernetes sets KWIRE_PORT for a service
    # called kwire), so only a name that looks like a mistyped key is refused.
    by_variable = {key.environment: key.name for key in KEYS.values()}
    by_variable |= {
        ENVIRONMENT_PREFIX + alias.upper().replace(".", "_"): name
        for alias, name in ALIASES.items()
    }
    found: dict[str, tuple[str, str]] = {}
    for variable, text in environment.items():
        if variable in by_variable:
            found[by_variable[variable]] = (variable, text)
        elif key := key_of_variable(variable):
            found[key] = (variable, text)
        elif variable.startswith(ENVIRONMENT_PREFIX):
            near = difflib.get_close_matches(variable, by_variable, n=1, cutoff=0.88)
            if near:
                problems.append(f"{variable}: unknown key; did you mean {near[0]}?")
    return found
