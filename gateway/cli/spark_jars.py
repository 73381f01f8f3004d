"""Implements ``kwire spark jars``: prints the paths of the jars of Spark's Kafka source."""

from __future__ import annotations

import click


@click.command(
    "jars",
    help=(
        "Get the jars of Spark's Kafka source for the installed PySpark, and print their paths with"
        " commas between, as spark.jars and spark-submit --jars take them. Maven (mvn) fetches them"
        " once, into a cache."
    ),
    epilog="Example: spark-submit --jars $(kwire spark jars) job.py",
)
@click.option(
    "--pyspark", help="Version of PySpark to find jars for; the installed one by default."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["delta", "iceberg"]),
    help="The jars of this table format instead.",
)
@click.option("--s3", is_flag=True, help="The jars of Hadoop's client of s3a:// instead.")
def jars(pyspark: str | None, format_: str | None, s3: bool) -> None:
    """Print the paths, and on standard error a sentence that names the jars."""
    from kwire.jars.maven import MavenError
    from kwire.jars.object_stores import s3_jars
    from kwire.jars.spark import spark_jars
    from kwire.jars.table_formats import format_jars

    try:
        if s3:
            found = s3_jars(pyspark)
        else:
            found = format_jars(format_, pyspark) if format_ else spark_jars(pyspark)
    except MavenError as error:
        raise click.ClickException(str(error)) from error
    click.echo(found.which, err=True)
    click.echo(str(found))
