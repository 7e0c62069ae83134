"""A collector of OpenTelemetry that takes everything by HTTP and keeps nothing."""
import contextlib
import http.server
import threading


class _Taker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collector():
    """Yields its URL. It works in threads of this process, whose time is not counted."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Taker) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1]
        finally:
            server.shutdown()
