"""Holds what a run found: the outcome of every rule, with the frames that were sent and received.

A check ends by returning (pass) or by raising one of the exceptions here.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwire.conformance.rule import Changes, Role, Rule
from kwire.protocol import ApiKey


class Outcome(enum.Enum):
    """The outcome of one rule."""

    PASS = "pass"
    FAIL = "fail"
    #: It needs an answer that another rule, which fails, is about.
    BLOCKED = "blocked"
    #: The bytes of a log cannot be what any server wrote.
    DAMAGED = "damaged"
    #: As FAIL, of a rule that its source only recommends.
    ADVICE = "advice"
    #: Not as the text demands, and Kafka itself does the same.
    DEVIATION = "deviation"
    #: The server does not offer the API or version that the rule is about.
    NOT_OFFERED = "not offered"
    #: The rule is for another role, or needs something that this server or listener does not have.
    NOT_APPLICABLE = "not applicable"
    #: The server did not answer in time.
    TIMEOUT = "timeout"
    #: The check itself could not be carried out.
    ERROR = "error"
    #: It would change the cluster, and ``--destructive`` was not given.
    NOT_TRIED = "not tried"
    #: It fails, and the list of known failures has it.
    ALLOWED = "allowed"
    #: It passes, although the list of known failures has it.
    NO_LONGER_FAILS = "no longer fails"

    @property
    def is_failure(self) -> bool:
        """Whether the exit status of a run with this outcome is 1."""
        return self in _FAILURES


#: Rules that the text about blocked ones names.
_CAUSES_MAX = 3
_FAILURES = (Outcome.FAIL, Outcome.DAMAGED, Outcome.TIMEOUT, Outcome.NO_LONGER_FAILS)
_SHOWN = (
    Outcome.DAMAGED,
    Outcome.FAIL,
    Outcome.TIMEOUT,
    Outcome.NO_LONGER_FAILS,
    Outcome.ERROR,
    Outcome.DEVIATION,
    Outcome.ADVICE,
    Outcome.ALLOWED,
)


class CheckEnd(Exception):
    """Ends a check with an outcome other than PASS. The text says in one sentence why."""

    outcome = Outcome.ERROR


class RuleFailed(CheckEnd):
    """The server does not keep the rule."""

    outcome = Outcome.FAIL


class Unreadable(RuleFailed):
    """The answer to an API at a version cannot be read, which any rule may meet that needs it."""

    def __init__(self, sentence: str, api: ApiKey, version: int) -> None:
        super().__init__(sentence)
        self.answer = (api, version)


class NotOffered(CheckEnd):
    """The server does not offer what the rule is about."""

    outcome = Outcome.NOT_OFFERED


class NotApplicable(CheckEnd):
    """The rule cannot be applied to this server."""

    outcome = Outcome.NOT_APPLICABLE


class ProbeTimeout(CheckEnd):
    """The server did not answer within the time of the probe."""

    outcome = Outcome.TIMEOUT


class KafkaDeviates(CheckEnd):
    """The server does not keep the rule in the way in which Kafka does not keep it.

    ``kafka_class`` is the class of Kafka that does the same.
    """

    outcome = Outcome.DEVIATION

    def __init__(self, sentence: str, kafka_class: str) -> None:
        super().__init__(f"{sentence} (as Kafka's {kafka_class})")
        self.kafka_class = kafka_class


@dataclass
class RoundTrip:
    """A request as it was sent and its answer as it came, both without their size bytes.

    ``received`` is None where nothing came. ``api_key`` and ``version`` are those that the request
    claims, -1 where it is no request at all.
    """

    api_key: int
    version: int
    sent: bytes
    received: bytes | None = None
    note: str = ""


@dataclass
class Result:
    """The outcome of one rule. ``sentence`` says what the server did, "" if it passed."""

    rule: Rule
    outcome: Outcome
    sentence: str = ""
    duration_s: float = 0.0
    round_trips: Sequence[RoundTrip] = ()
    #: Of a client: exit status, ends of standard output and standard error.
    output: Mapping[str, str] = field(default_factory=dict)
    #: The API and version whose answer could not be read.
    unreadable: tuple[ApiKey, int] | None = None
    #: The id of the rule that fails for the same answer, of a blocked rule.
    blocked_by: str = ""


@dataclass
class Report:
    """The results of a run, in the order of the rules.

    ``offered`` maps API keys to (lowest, highest) version as the server's ApiVersions names them.
    """

    target: str
    roles: frozenset[Role]
    offered: Mapping[int, tuple[int, int]]
    results: list[Result]
    duration_s: float = 0.0
    interrupted: bool = False
    #: The command line without rules, for those who repeat one.
    command: str = ""
    #: The end of the command line, behind the rule.
    command_end: str = ""
    #: Sentences about the run as a whole, such as what could not be cleaned up.
    remarks: list[str] = field(default_factory=list)

    def counts(self) -> Counter[Outcome]:
        """Return how many rules have each outcome."""
        return Counter(result.outcome for result in self.results)

    def failures(self) -> list[Result]:
        """Return the results that make the run fail."""
        return [result for result in self.results if result.outcome.is_failure]

    def causes(self) -> Counter[str]:
        """Return how many rules each failed rule blocks, by its id."""
        return Counter(result.blocked_by for result in self.results if result.blocked_by)

    def blocked_text(self) -> str:
        """Return how many causes block how many rules, "" if none is blocked."""
        causes = self.causes()
        if not causes:
            return ""
        apis = {one.unreadable[0] for one in self.results if one.blocked_by and one.unreadable}
        titles = " and ".join(sorted(api.title for api in apis))
        return (
            f"{len(apis)} cause{'s' * (len(apis) > 1)}, block{'s' * (len(apis) == 1)} "
            f"{causes.total()} rule{'s' * (causes.total() > 1)}: answers to {titles} cannot be read"
            f" (see {', '.join(rule for rule, _ in causes.most_common(_CAUSES_MAX))})"
        )

    def to_show(self) -> list[Result]:
        """Return the results that a reader wants to see in full: everything that is not as the
        rules say.
        """
        return [result for result in self.results if result.outcome in _SHOWN]

    def repeat(self, result: Result) -> str:
        """Return the command line that runs the rule of ``result`` again."""
        destructive = " --destructive" if result.rule.changes is Changes.CLUSTER else ""
        return f"{self.command} --rule {result.rule.id}{destructive}{self.command_end}"

    def exit_status(self) -> int:
        """Return 1 if a rule failed, 2 if a check could not be carried out, else 0."""
        if self.failures():
            return 1
        tried = any(r.outcome in (Outcome.PASS, Outcome.DEVIATION) for r in self.results)
        broken = any(r.outcome is Outcome.ERROR for r in self.results)
        return 2 if broken or (self.results and not tried and self.interrupted) else 0
