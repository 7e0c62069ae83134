"""asyncmy as a DB-API driver that blocks: each coroutine is run to its end at once."""
import asyncio
import inspect
import ssl

import asyncmy
import asyncmy.cursors
import asyncmy.errors

LOOP = asyncio.new_event_loop()


def wait(value):
    return LOOP.run_until_complete(value) if inspect.isawaitable(value) else value


class Blocking:
    """Passes everything on, and waits for what is returned."""
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        return (lambda *args, **options: wait(value(*args, **options))) if callable(value) else value


class Connection(Blocking):
    def cursor(self, kind=asyncmy.cursors.Cursor, prepared=False):
        return Prepared(self._inner) if prepared else Blocking(self._inner.cursor(kind))


class Prepared:
    """A cursor whose statements are the server's."""
    def __init__(self, connection):
        self.connection, self.statement, self.result = connection, None, None

    def execute(self, sql, values=None):
        self.close()
        self.statement = wait(self.connection.prepare(sql.replace("%s", "?")))
        self.result = wait(self.statement.execute(values or ()))

    def executemany(self, sql, rows):
        self.statement = wait(self.connection.prepare(sql.replace("%s", "?")))
        for values in rows:
            self.result = wait(self.statement.execute(values))

    rowcount = property(lambda self: self.result.affected_rows)
    lastrowid = property(lambda self: self.result.insert_id)
    description = property(lambda self: self.result.description)

    def fetchall(self):
        return self.result.rows

    def nextset(self):
        return False

    def close(self):
        if self.statement is not None:
            wait(self.statement.close())
            self.statement = None


def connect(**settings):
    return Connection(wait(asyncmy.connect(**settings)))


def context(ca):
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    return context
