'''Holds the rules of clients, one module for each family. ``kwire.conformance.catalog`` finds them.

A check makes a cluster, puts faults into it, runs the program, and judges what came::

    @FAMILY.rule("leader-moves", source="Errors", section="...", roles=CLIENT, apis=(ApiKey.FETCH,))
    def leader_moves(probe: ClientProbe) -> None:
        """A client that gets NOT_LEADER_OR_FOLLOWER goes on with the new leader."""
        probe.prepare(nodes=2)
        fault = probe.fault("the leader has moved", ApiKey.FETCH, error=6, act=move)
        probe.start()
        seen = probe.happened(fault)
        probe.request_after(seen, ApiKey.FETCH, broker=2)
        probe.works()

* ``apis`` are those that the program has to use; without them the rule is not applicable.
* A request with an ``error`` changes nothing in the cluster; ``act`` changes the answer.
* ``probe.works()`` demands all records, once and in order. ``repeats=True`` is for rules after
  which a member of a group may read a second time.
* A demand that no KIP makes in so many words, or that good clients leave to the application, has
  ``level=Level.SHOULD``. A program may always end with an error where the rule says so.
* Waiting ends with the time of the check; ``probe.during`` watches for a while that is short.
'''
