# A client that is traced: python client.py HOST PORT USER PASSWORD COLLECTOR
import sys

import pymysql
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.pymysql import PyMySQLInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

host, port, user, password, collector = sys.argv[1:]
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=collector)))
trace.set_tracer_provider(provider)
PyMySQLInstrumentor().instrument(enable_commenter=True)

connection = pymysql.connect(host=host, port=int(port), user=user, password=password)
with trace.get_tracer("program").start_as_current_span("work"):
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'a-literal'")
        assert cursor.fetchall() == (("a-literal",),)
connection.close()
provider.shutdown()
