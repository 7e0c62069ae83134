"""Processes that this run has started: what they cost, and their end."""
import os
import subprocess
import time

TICK = 1e6 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE") / 1024


class Process:
    """A program in the foreground, with its output in a file; `with` ends it, by its pid."""

    def __init__(self, name, command, log, **options):
        self.name, self.log = name, log
        with open(log, "wb") as output:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def must_live(self):
        """Raises, with the end of the log, when the process is gone."""
        if self.child.poll() is not None:
            with open(self.log, errors="replace") as log:
                raise RuntimeError("%s ended with %s: %s" % (self.name, self.child.returncode, log.read()[-2000:]))

    def processor(self):
        """Microseconds of processor time so far, in user mode and in the kernel, children included."""
        user = system = 0
        for pid in self._pids():
            fields = _stat(pid)
            if fields:
                user += int(fields[11])
                system += int(fields[12])
        return user * TICK, system * TICK

    def memory(self):
        """Resident kB, children included."""
        return sum(int(fields[21]) * PAGE for fields in map(_stat, self._pids()) if fields)

    def settled_memory(self, limit=10):
        """Resident kB once two looks half a second apart agree within 0.2 %, or after `limit` seconds."""
        end, last = time.monotonic() + limit, self.memory()
        while time.monotonic() < end:
            time.sleep(0.5)
            now = self.memory()
            if abs(now - last) <= 0.002 * last:
                return now
            last = now
        return last

    def _pids(self):
        """This process and those below it: some programs work in a child."""
        children = {}
        for entry in os.listdir("/proc"):
            fields = _stat(entry) if entry.isdigit() else None
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
        found, todo = [], [self.child.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            todo += children.get(pid, [])
        return found


def _stat(pid):
    """The fields of /proc/PID/stat from the third on (state, parent, ...): see proc(5)."""
    try:
        with open("/proc/%s/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
