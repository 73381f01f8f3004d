"""``python -m tools.site [DIRECTORY]``: build the site, by default in ``build/docs``.

Every warning is an error: a link that leads nowhere, a page that no table of contents names, a code
block that its language cannot parse. Needs the extra ``docs``.
"""

from __future__ import annotations

import click

from tools.site.build import SITE, SiteError, build


@click.command(epilog="Example: python -m tools.site build/docs")
@click.argument("directory", default=SITE, type=click.Path(file_okay=False))
def main(directory: str) -> None:
    """Build the site of the documentation into DIRECTORY."""
    try:
        click.echo(f"{build(directory)} pages: {directory}/index.html")
    except SiteError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
