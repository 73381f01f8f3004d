"""``python -m tests.kwire.records.judged``: ask Kafka again, and write judged.jsonl.xz anew. Needs
a JDK and Maven.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path

from tests.kwire.records.judged.cases import Cases
from tools.java import KAFKA_VERSION, class_path

HERE = Path(__file__).parent
COUNT = 3000
SEED = 1


def main() -> None:
    """The same cases every time; the verdicts are those of the Kafka that ``tools.java`` pins."""
    cases = Cases(SEED)
    batches = [cases.one() for _ in range(COUNT)]
    with tempfile.TemporaryDirectory() as out:
        path = os.pathsep.join([*map(str, class_path()), out])
        subprocess.run(["javac", "-cp", path, "-d", out, HERE / "Judge.java"], check=True)
        lines = "".join(batch.hex() + "\n" for batch in batches)
        done = subprocess.run(
            ["java", "-cp", path, "Judge"], input=lines, capture_output=True, text=True, check=True
        )
    verdicts = done.stdout.split("\n")[:-1]
    with lzma.open(HERE / "judged.jsonl.xz", "wt", encoding="utf-8", preset=9) as file:
        for batch, verdict in zip(batches, verdicts, strict=True):
            file.write(
                json.dumps({"kafka": KAFKA_VERSION, "hex": batch.hex(), "verdict": verdict}) + "\n"
            )


if __name__ == "__main__":
    main()
