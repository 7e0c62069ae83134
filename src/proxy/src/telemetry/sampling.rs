//! Which commands are traced.

use super::{
    TARGET, Trail, parent, spans,
    trail::{Ended, Record},
};
use crate::config::{ParentSource, QueryText, Trace};
use chain::{Command, Error, Reply};
use opentelemetry::{
    Context,
    trace::{SpanContext, TraceContextExt},
};
use opentelemetry_sdk::trace::SdkTracer;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// How commands are traced.
#[derive(Debug)]
pub(crate) struct Tracing {
    ratio: f64,
    follows: bool,
    pub(super) attributes: bool,
    pub(super) comments: bool,
    slow: Option<Duration>,
    pub(super) text: QueryText,
    pub(super) tracer: SdkTracer,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is not traced.
    Never,
    /// It is traced.
    Now,
    /// It is traced if it turns out to be slow, or fails.
    Perhaps,
}

/// A command that is traced, or may be. Tells when it is dropped.
pub(crate) struct Traced {
    tracing: Arc<Tracing>,
    trail: Arc<Trail>,
    parent: Option<SpanContext>,
    /// Where it was decided at once; else the empty span.
    span: Span,
}

impl Tracing {
    pub(super) fn new(trace: &Trace, tracer: SdkTracer) -> Self {
        let from = |source| trace.parents.contains(&source);
        Self {
            ratio: trace.ratio,
            follows: trace.parent,
            attributes: from(ParentSource::Attributes),
            comments: from(ParentSource::Comments),
            slow: (!trace.slow.is_zero()).then_some(trace.slow),
            text: trace.query_text,
            tracer,
        }
    }

    /// Begins to trace a command that has arrived at `started`, if it is to be traced.
    pub(crate) fn begin(self: &Arc<Self>, command: &Command, started: Instant) -> Option<Traced> {
        let parent = parent::of(command, self.attributes, self.comments);
        let decision = self.decide(parent.as_ref(), fastrand::f64);
        let span = match decision {
            Decision::Never => return None,
            Decision::Perhaps => Span::none(),
            Decision::Now => tracing::info_span!(
                target: TARGET,
                parent: None,
                "command",
                otel.kind = "server",
            ),
        };
        if let Some(parent) = &parent {
            // Fails where no subscriber takes spans, which is nothing to tell of.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent.clone()));
        }
        let trail = Arc::new(Trail::new(command, started));
        Some(Traced { tracing: self.clone(), trail, parent, span })
    }

    /// Whether it took so long that it is told of.
    pub(super) fn is_slow(&self, record: &Record) -> bool {
        let over = record.over.unwrap_or(record.began.1);
        self.slow.is_some_and(|slow| record.took(over) > slow)
    }

    pub(super) fn decide(
        &self,
        parent: Option<&SpanContext>,
        random: impl FnOnce() -> f64,
    ) -> Decision {
        let now = match parent {
            Some(parent) if self.follows => parent.is_sampled(),
            _ => self.ratio > 0.0 && random() < self.ratio,
        };
        match (now, self.slow) {
            (true, _) => Decision::Now,
            (false, Some(_)) => Decision::Perhaps,
            (false, None) => Decision::Never,
        }
    }
}

impl Traced {
    /// The command, on whose trail is noted what is done for it.
    pub(crate) fn follow(&self, command: Command) -> Command {
        command.trailing(self.trail.clone())
    }

    /// What is noted of it.
    pub(super) fn trail(&self) -> &Trail {
        &self.trail
    }

    /// What filters' spans and events belong to.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes what has come back.
    pub(crate) fn answered(&self, reply: &Reply) {
        self.trail.note(|record| record.answered(reply));
    }

    /// Notes that the reply has ended: by ERR with this code, or well. `bytes` went to the client.
    pub(crate) fn ended(&self, error: Option<u16>, bytes: u64) {
        self.trail.note(|record| record.ended = Some(Ended::Reply { error, bytes }));
    }

    /// Notes an error of the proxy's own.
    pub(crate) fn failed(&self, error: &Error) {
        let (origin, code) = (error.origin(), error.code());
        self.trail.note(|record| record.ended = Some(Ended::Failed { origin, code }));
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let now = Instant::now();
        let Some(mut record) = self.trail.take() else { return };
        // A span ends where it was left last, which was when the reply began.
        self.span.in_scope(|| ());
        record.over.get_or_insert(now);
        let slow = self.tracing.is_slow(&record);
        if self.span.is_none() && !slow && !record.has_failed() {
            return;
        }
        let live = (!self.span.is_none()).then_some(&self.span);
        spans::tell(&self.tracing, &record, self.parent.as_ref(), live);
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, Tracing};
    use crate::config::Trace;
    use opentelemetry::trace::{
        SpanContext, SpanId, TraceFlags, TraceId, TraceState, TracerProvider,
    };
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use std::time::Duration;

    fn decision(trace: &Trace, sampled: Option<bool>, random: f64) -> Decision {
        let tracer = SdkTracerProvider::builder().build().tracer("test");
        let parent = sampled.map(|sampled| {
            let flags = TraceFlags::default().with_sampled(sampled);
            let (trace, span) = (TraceId::from(1), SpanId::from(1));
            SpanContext::new(trace, span, flags, true, TraceState::default())
        });
        Tracing::new(trace, tracer).decide(parent.as_ref(), || random)
    }

    #[test]
    fn a_client_decides_for_itself_and_a_share_of_the_others_is_traced() {
        let some = Trace { ratio: 0.1, ..Trace::default() };
        assert_eq!(decision(&some, None, 0.09), Decision::Now);
        assert_eq!(decision(&some, None, 0.1), Decision::Never);
        assert_eq!(decision(&some, Some(true), 0.9), Decision::Now);
        assert_eq!(decision(&some, Some(false), 0.0), Decision::Never);
        let own = Trace { parent: false, ..some };
        assert_eq!(decision(&own, Some(true), 0.9), Decision::Never);
        assert_eq!(decision(&own, Some(false), 0.0), Decision::Now);
        assert_eq!(decision(&Trace::default(), None, 0.0), Decision::Never);
    }

    #[test]
    fn where_slow_ones_are_wanted_a_record_is_kept_of_the_others() {
        let slow = Trace { ratio: 0.5, slow: Duration::from_secs(1), ..Trace::default() };
        assert_eq!(decision(&slow, None, 0.6), Decision::Perhaps);
        assert_eq!(decision(&slow, None, 0.4), Decision::Now);
        assert_eq!(decision(&slow, Some(false), 0.4), Decision::Perhaps);
    }
}
