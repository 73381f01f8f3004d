"""Makes the content of the page that the management port serves, and of ``kwire report``.

Values in, JSON or bytes out: it knows no HTTP, no event loop and no file of a log. The server calls
it in a thread (``gateway.server.management.page_log``), the command calls it directly.
"""
