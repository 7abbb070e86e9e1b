"""Generated code matches its source: it is unedited and current."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTO = Path("databroker/rpc/databroker.proto")


def test_the_committed_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", str(PROTO)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    for name in ("databroker_pb2.py", "databroker_pb2.pyi"):
        committed = ROOT / PROTO.parent / name
        assert committed.read_text() == (tmp_path / PROTO.parent / name).read_text(), f"{name}: run `make proto`"
