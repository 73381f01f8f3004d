'''Holds the rules, one module for each family.

To add a family, add one module here and one test module in ``tests/kwire/conformance``. The module
has a ``FAMILY``, which ``kwire.conformance.catalog`` finds by itself::

    """Rules of ListGroups (KIP-518, KIP-848)."""

    FAMILY = Family("list-groups", "ListGroups")

    @FAMILY.rule(
        "states-are-known",
        source="KIP-518",
        section="Public interfaces",
        since="2.6",
        roles=BROKER,
        apis=(ApiKey.LIST_GROUPS,),
    )
    def states_are_known(probe: Probe) -> None:
        """Every group that ListGroups names has a state of Kafka's list."""
        answer = probe.call(ListGroupsRequest(), probe.need(ApiKey.LIST_GROUPS, 4, 5))
        for group in answer.groups:
            probe.expect(group.group_state in STATES, f"group {group.group_id} has state ...")

* The docstring is the rule: one sentence in the present tense that says what a server does.
  ``--explain`` and the HTML report show it.
* ``source`` is where the demand is written: a KIP, a schema, or a class of Kafka. ``section`` is
  the place in it.
* A check returns if the server keeps the rule. ``probe.expect`` and ``probe.fail`` say otherwise
  in one sentence whose subject is the server or its answer. ``probe.deviates`` is for things that
  Kafka itself does against the text; it names Kafka's class.
* ``probe.need`` ends the check as "not offered" where the server lacks every version of use, and
  ``probe.not_applicable`` where the cluster has nothing to look at.
* A check sees the server only through its connections. It waits with ``probe.until``, never with a
  plain sleep, as the time of a probe is limited.
* A check that creates something takes a name of ``probe.session.new_name()``, says so with
  ``changes=Changes.OWN``, and registers the removal with ``probe.session.on_end`` before that, or
  with ``probe.after_rule`` if no other rule uses it. A check that changes anything else has
  ``changes=Changes.CLUSTER``.
* Rules for every API or version are added in a loop with ``FAMILY.add(Rule(...))``, as in
  ``schema``.
* ``tests/conformance_faults/faults.py`` has a table of faults that a proxy puts between a server
  and the rules, each with the rule that finds it. Add a fault for every rule.
'''
