"""Grades Kafka clients: a program runs against a scripted cluster, which behaves and then does not.

    command = Command(["kcat", "-E", "-b", "{bootstrap}", "-C", "-t", "{topic}"])
    session = open_client(command, timeout_s=30, expects_records=True)
    report = run_rules(session, client_rules(), Options())

``traffic`` holds what the cluster saw, ``state`` and ``answers*`` what a broker answers, ``faults``
what goes wrong with an answer, ``cluster`` the listeners, ``program`` the process, ``probe`` the
tools of a check, and ``rules`` the rules. A rule sees a program only through its connections, its
standard output and its exit status.
"""
