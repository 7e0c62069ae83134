"""processes.Process on a program whose child works 0.3 s and takes 64 MiB, and then waits."""
import os
import sys
import tempfile
import time

from processes import Process

CHILD = """
import time
block = bytes(range(256)) * (64 << 12)
while time.process_time() < 0.3:
    pass
print("worked", flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"

with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "log")
    with Process("program", [sys.executable, "-c", PARENT, CHILD], log) as process:
        while not os.path.getsize(log):
            process.must_live()
            time.sleep(0.01)
        user, system = process.processor()
        assert user + system >= 290000, (user, system)
        assert process.settled_memory() >= 64 * 1024, process.memory()
        pids = process._pids()
        assert len(pids) == 2, pids
        os.kill(pids[1], 15)  # the programs that are measured end their children themselves
    assert process.child.returncode is not None
    try:
        process.must_live()
    except RuntimeError as error:
        assert "worked" in str(error), error
    else:
        raise AssertionError("it lives")
