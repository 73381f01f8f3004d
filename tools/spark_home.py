"""Makes Spark start in half the processor time: ``python -m tools.spark_home`` archives the classes
that a driver of the installed PySpark loads.

Spark's home is a directory of links in kwire's cache. In it the workers' PySpark is the installed
package, with its byte code, where PySpark brings a zip file that each worker compiles. Beside it
stands an archive of classes (class data sharing, JEP 350) that Java maps instead of loading them;
without the archive drivers start as before. Classes of ``spark.jars`` have a loader of their own
and are not archived.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kwire.jars.maven import cache_dir, locked
from tools.java import JavaError, java
from tools.java_tools import compiled

#: For a driver's JVM that lives for minutes on few cores: the second compiler would take half of
#: its processor time. Code of the first compiler needs a larger stack.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
#: For jars that Maven or pip has checked: their byte code is not verified a second time. Space for
#: new objects: a collection of them costs by what is alive. The heap is as large as Spark lets it
#: become (1 GiB) and the space for classes larger from the start: both grow by full collections.
_TRUSTED = (
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Xms1g -Xmn300m -XX:MetaspaceSize=256m"
)
#: For queries on few rows: to compile code for each of them costs more than to interpret it.
FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark describes the plan of each query to listeners, which no test reads.
    "spark.sql.ui.explainMode": "simple",
}
_ARCHIVE = "classes.jsa"
_QUIET_FILES = Path(__file__).with_name("QuietFiles.java")
#: Empty files in place of the defaults of MapReduce and YARN, of which nothing runs here: Spark
#: sends all of Hadoop's settings with each stage, and these were two thirds of them.
_FEW_DEFAULTS = Path(__file__).with_name("few_defaults")
#: The jars that most classes are in: Java looks for each class in all 270, one after the other.
_MOST_CLASSES = ("spark-catalyst_*", "spark-sql_*", "scala-library-*", "spark-core_*")
#: Long, because the prefetch of the tests runs it on a processor that other work leaves idle.
_TIMEOUT_S = 900
#: Rows between Spark and Python both ways, files, SQL and a stream.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
scratch, options = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config(map={
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.warehouse.dir": scratch + "/warehouse",
    "spark.driver.extraJavaOptions": options,
}).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.createDataFrame([(one, str(one)) for one in range(9)], ["a", "b"])
rows.write.parquet(scratch + "/rows")
read = spark.read.parquet(scratch + "/rows")
read.join(read.groupBy("b").count(), "b").orderBy("a").toArrow()
read.createOrReplaceTempView("rows")
spark.sql("SELECT b, sum(a) FROM rows GROUP BY b").collect()
stream = spark.readStream.schema(read.schema).parquet(scratch + "/rows")
writer = stream.writeStream.foreachBatch(lambda df, _: df.where("a > 1").collect())
writer = writer.option("checkpointLocation", scratch + "/checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def environment() -> dict[str, str]:
    """The variables of a driver: this Python for its workers, this home, and an address that needs
    no network. Raises JavaError.
    """
    return {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home()),
    }


def driver_options() -> str:
    """JVM options of a driver in this :func:`environment`. Raises JavaError."""
    archive = home() / _ARCHIVE
    if not archive.exists():
        return f"{FAST_START} {_TRUSTED}"
    # An archive that does not fit is not used, and nothing is said of it.
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    return f"{FAST_START} {_TRUSTED} -XX:SharedArchiveFile={archive} {quiet}"


def quiet_files() -> dict[str, str]:
    """Settings of a session that makes many files on this machine, and is the only one that reads
    them by Hadoop (``QuietFiles.java``), without an archive of classes. Raises JavaError.
    """
    jars = home() / "jars"
    quiet = compiled(_QUIET_FILES, tuple(jars.glob("hadoop-client-api-*.jar")))
    first = [one for name in _MOST_CLASSES for one in jars.glob(f"{name}.jar")]
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, (quiet, _FEW_DEFAULTS, *first))),
        "spark.hadoop.fs.file.impl": _QUIET_FILES.stem,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }


def home() -> Path:
    """The home for the installed PySpark and this Java; made if there is none yet. Raises
    JavaError.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaError("PySpark is not installed (the extra 'spark' has it)")
    program, package = Path(java()).resolve(), Path(spec.origin).parent
    jars = sorted(os.listdir(package / "jars"))
    names = [str(program), str(program.stat().st_mtime_ns), str(package), *jars]
    key = hashlib.sha256(repr(names).encode()).hexdigest()[:16]
    target = cache_dir() / "spark" / key
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_name("lock")):
            if not target.is_dir():
                with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                    _link(package, Path(scratch) / "home")
                    (Path(scratch) / "home").rename(target)
    return target


def _link(package: Path, into: Path) -> None:
    # Spark puts python/lib/pyspark.zip on the path of its workers, and Python takes a directory
    # of that name as well.
    (into / "python" / "lib" / "pyspark.zip").mkdir(parents=True)
    (into / "python" / "lib" / "pyspark.zip" / "pyspark").symlink_to(package)
    for path in (package / "python" / "lib").glob("py4j-*.zip"):
        (into / "python" / "lib" / path.name).symlink_to(path)
    for name in ("bin", "jars"):
        (into / name).symlink_to(package / name)


def make_archive() -> Path:
    """The archive of classes, made if there is none yet. Raises JavaError, TimeoutExpired."""
    target = home() / _ARCHIVE
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            new = Path(scratch) / "archive"
            options = f"{FAST_START} -XX:ArchiveClassesAtExit={new}"
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, scratch, options],
                env={**os.environ, **environment()},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode or not new.exists():
                output = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
                raise JavaError(f"Spark ended with {done.returncode}:\n{output}")
            new.replace(target)
    return target


if __name__ == "__main__":
    try:
        print(make_archive())
    except (JavaError, subprocess.TimeoutExpired) as error:
        sys.exit(f"Spark starts as slowly as ever: {error}")
