"""Checks whether a Kafka server, or a metadata log on disk, follows the protocol.

    session = open_session(target, timeout_s=10)
    report = run_rules(session, all_rules(), Options())

``rules`` holds the rules, one file a family; ``runner`` runs them; ``output`` prints the report as
text, JSON, JUnit or HTML; ``log`` checks a directory without a server. Nothing else imports this
package but the command ``kwire conform``. It uses nothing of a server but its connections.
"""
