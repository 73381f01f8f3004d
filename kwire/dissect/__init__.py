"""Works on trees of dissected bytes, for ``kwire dissect`` and the page of the management port."""
